"""The settings of knowledge distillation, with which a student learns from a teacher."""

from __future__ import annotations

import dataclasses

from tfbio.base.config import BaseSettings, require, setting
from tfbio.models.encoder_config import EncoderConfig

# The positions that a loss of distillation counts.
_POSITIONS = ("masked", "all")
# The sizes of a teacher that a cost depends on, by their names in `EncoderConfig`.
_SIZES = ("embedding_size", "hidden_size", "num_hidden_layers", "intermediate_size")


@dataclasses.dataclass(frozen=True)
class DistillationConfig(BaseSettings):
    """The settings of knowledge distillation: the weights of the losses, and the teacher's sizes.

    The losses are those of bio-lm (Lewis et al., 2020, section 7.1), which follows DistilBERT (Sanh
    et al., 2019, section 3).

    Attributes:
      group: "distillation.", the start of the names of the settings.
      mlm_weight, kl_weight, cosine_weight: the weights of the three losses; 0: there is none.
      temperature: the number that both models' logits are divided by.
      kl_positions, cosine_positions: "masked" or "all", the positions that the two losses count.
      teacher_embedding_size, teacher_hidden_size, teacher_num_hidden_layers,
        teacher_intermediate_size: the teacher's sizes; 0: those of the model in `--teacher`.

    Raises:
      ConfigError: a value is out of its range, or `mlm_weight` is set without a teacher.
    """

    group = "distillation."

    mlm_weight: float = setting(1.0, "Weight of the loss on masked tokens. bio-lm: 5.")
    kl_weight: float = setting(
        0.0,
        "Weight of the Kullback-Leibler divergence of the student's words from the teacher's. "
        "bio-lm: 2. 0: there is none.",
    )
    cosine_weight: float = setting(
        0.0,
        "Weight of the cosine loss between the last hidden states of the two. The student's go "
        "through a learnt linear map if the teacher's have another size. bio-lm, distill + align: "
        "1. 0: there is none.",
    )
    temperature: float = setting(
        2.0,
        "Both models' logits are divided by this, and the divergence is multiplied by its square "
        "(Hinton et al., 2015, section 2).",
        above=0,
    )
    kl_positions: str = setting(
        "masked",
        "The positions whose divergence counts. masked: the masked ones; all: all but padding, "
        "which DistilBERT's code does by default.",
        choices=_POSITIONS,
    )
    cosine_positions: str = setting(
        "all",
        "The positions whose cosine loss counts. all: all but padding, as in DistilBERT's code; "
        "masked: the masked ones.",
        choices=_POSITIONS,
    )
    teacher_embedding_size: int = setting(
        0,
        "The teacher's size of embeddings. A run reads it from --teacher, and refuses another one "
        "than is set here. 0: any; for --dry_run without --teacher the student's.",
    )
    teacher_hidden_size: int = setting(
        0, "The teacher's hidden size; read or checked as teacher_embedding_size is. 0: any."
    )
    teacher_num_hidden_layers: int = setting(
        0, "The teacher's number of layers; read or checked as teacher_embedding_size is. 0: any."
    )
    teacher_intermediate_size: int = setting(
        0, "The size of the teacher's feed-forward layers; as teacher_embedding_size. 0: any."
    )

    @property
    def has_teacher(self) -> bool:
        """True if a loss of distillation is on, so that there must be a teacher."""
        return self.kl_weight > 0 or self.cosine_weight > 0

    def check_together(self) -> None:
        """Checks that the weights of distillation go together, and returns nothing.

        Raises:
          ConfigError: `mlm_weight` is set without a teacher.
        """
        require(
            self.has_teacher or self.mlm_weight == 1.0,
            "distillation.mlm_weight goes with distillation.kl_weight or "
            "distillation.cosine_weight above 0",
        )

    def check_student(self, objective: str, sentence_pair_loss: bool, adversarial: bool) -> None:
        """Checks that a student with these settings can learn by distillation; returns nothing.

        Args:
          objective: the student's objective, "electra" or "mlm".
          sentence_pair_loss: True if the student learns sentence pairs, too.
          adversarial: True if it learns adversarially, too.

        Raises:
          ConfigError: it cannot.
        """
        require(
            not self.has_teacher
            or (objective == "mlm" and not sentence_pair_loss and not adversarial),
            "distillation goes with objective = mlm and without sentence_pair_loss and "
            "adversarial.weight: its student is a masked language model",
        )

    def check_flag(self, teacher: str) -> None:
        """Checks that `--teacher` and the weights of distillation go together; returns nothing.

        Args:
          teacher: the value of the flag, the folder of the teacher; "" without one.

        Raises:
          ConfigError: a loss of distillation is on and there is no teacher, or the reverse.
        """
        require(
            bool(teacher) or not self.has_teacher,
            "--teacher is missing: the settings have a loss of distillation, which needs the "
            "folder of a masked language model.",
        )
        require(
            not teacher or self.has_teacher,
            f"--teacher={teacher} goes with a loss of distillation: give --set "
            "distillation.kl_weight=2 or --set distillation.cosine_weight=1, or leave it out.",
        )

    def teacher(self, student: EncoderConfig) -> EncoderConfig:
        """Makes an encoder config of a distillation's teacher, which has its costs.

        Args:
          student: the settings of the student's encoder, which fill in sizes that are 0.

        Returns:
          An `EncoderConfig` with the teacher's sizes, a single head of attention, and all else the
          student's; no cost of a forward pass depends on the heads.
        """
        given = {name: getattr(self, f"teacher_{name}") for name in _SIZES}
        sizes = {name: size for name, size in given.items() if size}
        return dataclasses.replace(student, num_attention_heads=1, **sizes)

    def with_sizes_of(self, teacher: EncoderConfig, folder: str) -> DistillationConfig:
        """Fills in the sizes of a distillation's teacher, which the settings may leave open.

        Args:
          teacher: the settings of the teacher's encoder.
          folder: where they are from, for the message.

        Returns:
          These settings with all of the teacher's sizes.

        Raises:
          ConfigError: the settings ask for another size.
        """
        sizes = {f"teacher_{name}": getattr(teacher, name) for name in _SIZES}
        for name, size in sizes.items():
            require(
                getattr(self, name) in (0, size),
                f"distillation.{name} is {getattr(self, name)}, but that of --teacher={folder} is "
                f"{size}: give another teacher, or --set distillation.{name}=0, which takes any.",
            )
        return dataclasses.replace(self, **sizes)
