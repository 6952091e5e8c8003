"""The JSON file of a pretraining run, `config.json`, as a dataclass; see `base.json_files`.

`runs.pretraining` and `export.conversion` write it; `weights.checkpoint_settings` reads it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tfbio.base.config import require
from tfbio.models.encoder_config import FAMILIES
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.pretraining_config import PretrainingConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings(PretrainingConfig):
    """The file `config.json` of a pretraining run: its settings, and facts about its checkpoints.

    It has the fields of `PretrainingConfig`, and these, which one needs to use the checkpoints.

    Attributes:
      lower_case: True if the examples are of text in lower case.
      vocab_sha256: the SHA-256 of the vocabulary, 64 hexadecimal digits.
      init_checkpoint: the folder or checkpoint that the run started from, or that a model from
        elsewhere was converted from; None for random weights.
      teacher: the folder or checkpoint of the teacher of a distillation; None without one.
      teacher_sha256: a hash of the teacher's weights, 64 hexadecimal digits; "" without one.
      data: for each phase, by its sequence length as text such as "128", or for a later corpus such
        as "128 from step 264000", the counts of its examples by their names,
        `documents_sha256`, a hash of the documents that they are made of, and `examples_sha256`, of
        the examples; for the model card, and for a run that continues. Empty for a converted model.
      chosen_precision: what the run computes in, "float32" or "bfloat16", as `run.precision` or, if
        that is "auto", the device had it that the run began on; "" for a converted model.
      family: the family of `transformers` that a converted model came in as, one of
        `encoder_config.FAMILIES`; "" for one that was made here.

    Raises:
      ConfigError: a setting is out of its range, two do not go together, or `family` is not known.
    """

    added = {
        "adversarial": AdversarialSettings(),
        "distillation": DistillationConfig(),
        "sentence_pair_loss": False,
        "corpus_switch_steps": (),
        "schedule": "linear",
        "adam_bias_correction": False,
        "lamb_bias_correction": True,
        "decay_all": False,
        "teacher": None,
        "teacher_sha256": "",
        "chosen_precision": "float32",  # on a CPU
    }

    lower_case: bool
    vocab_sha256: str
    init_checkpoint: str | None = None
    teacher: str | None = None
    teacher_sha256: str = ""
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    chosen_precision: str = ""
    family: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.family in ("", *FAMILIES),
            f'family must be "" or one of {", ".join(FAMILIES)}, not {self.family!r}',
        )
