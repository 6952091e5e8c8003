"""The models that `compare_families.py` compares: each paper's, at one small size.

A family keeps what its paper chose: objective, masks, optimizer, schedule, dropout, and the form of
its examples. Size, vocabulary, batch, warm-up and the number of tokens are the same for all.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tfbio.base import config
from tfbio.objectives.pretraining_config import PretrainingConfig

HPARAMS = Path(__file__).resolve().parents[1] / "hparams"

_BATCH, _SMALL_BATCH = 16, 8
# What is the same for all, in place of the recipes' own.
COMMON = {
    "encoder.num_hidden_layers": 4,
    "encoder.max_position_embeddings": 128,
    # The recipe of BioM-ALBERT has 0.01, for layers of 4,096.
    "encoder.initializer_range": 0.02,
    "sequence_length": 128,
    "final_sequence_length": 0,
    "train_batch_size": _BATCH,
    "gradient_clip_groups": 1,
    "run.parallel_parts": 2,
    "run.stop_at_step": 0,
    "run.keep_checkpoints_at": [],
    "run.keep_checkpoint_max": 1,
}
# Short runs need a longer warm-up than 1 % of the steps, which ELECTRA and ALBERT have.
WARM_UP = 0.1
# In compare_budgets.py 1e-3 was the best for encoders of this size, of four kinds, and 2e-3 too
# high, after a shorter warm-up.
ADAM_RATES = (5e-4, 1e-3, 2e-3)


def _width(hidden: int, embedding: int, heads: int, intermediate: int) -> dict[str, object]:
    """Returns the settings of a width."""
    return {
        "encoder.hidden_size": hidden,
        "encoder.embedding_size": embedding,
        "encoder.num_attention_heads": heads,
        "encoder.intermediate_size": intermediate,
    }


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models at a small size.

    Attributes:
      title: its name in the table.
      recipe: the file in `hparams/` whose choices it keeps.
      examples: the `--objective` of its examples.
      learning_rates: the three that are tried.
      changes: further settings, by their names.
    """

    title: str
    recipe: str
    examples: str
    learning_rates: tuple[float, float, float]
    changes: dict[str, object] = dataclasses.field(
        default_factory=lambda: _width(256, 256, 4, 1024)
    )

    def settings(
        self, vocab_size: int, steps: int, learning_rate: float, seed: int, small: bool = False
    ) -> dict[str, object]:
        """Returns the settings of a run that differ from the recipe's, by their names.

        Args:
          vocab_size: words of the vocabulary.
          steps: steps of the run.
          learning_rate: the highest learning rate.
          seed: the seed of all that is random.
          small: True for an encoder that learns nothing, to try the commands.
        """
        changes = COMMON | self.changes | (_SMALL if small else {})
        return changes | {
            "encoder.vocab_size": vocab_size,
            "num_train_steps": steps,
            "num_warmup_steps": round(WARM_UP * steps),
            "learning_rate": learning_rate,
            "seed": seed,
            # Only the last held-out loss counts.
            "run.eval_every_steps": steps,
            "run.save_checkpoints_steps": max(1, steps // 20),
        }

    def config(self, settings: dict[str, object]) -> PretrainingConfig:
        """Returns all settings of a run.

        Args:
          settings: those of `settings`.

        Raises:
          ConfigError: they do not go together.
        """
        overrides = [f"{name}={value}" for name, value in settings.items()]
        return config.load(PretrainingConfig, str(HPARAMS / self.recipe), overrides)


_SMALL = _width(32, 32, 1, 64) | {"encoder.num_hidden_layers": 1, "train_batch_size": _SMALL_BATCH}


def batch_size(small: bool) -> int:
    """Returns the examples of a batch, the same for all families.

    Args:
      small: True for the encoders of `Family.settings(small=True)`.
    """
    return _SMALL_BATCH if small else _BATCH


FAMILIES = {
    # The generator has a quarter of the width, as ELECTRA-small's (Clark et al., 2020, Table 6),
    # which is as wide.
    "bioelectra": Family(
        "BioELECTRA",
        "base.json",
        "electra",
        ADAM_RATES,
        _width(256, 256, 4, 1024) | {"generator_hidden_fraction": 0.25},
    ),
    "pubmedbert": Family("PubMedBERT", "pubmedbert.json", "next_sentence", ADAM_RATES),
    "biom_bert": Family("BioM-BERT", "biom_bert_large.json", "electra", ADAM_RATES),
    "biolm": Family(
        "bio-lm",
        "biolm_base.json",
        "full_sentences",
        ADAM_RATES,
        # The first two rows hold no position.
        _width(256, 256, 4, 1024) | {"encoder.max_position_embeddings": 130},
    ),
    "biom_albert": Family(
        "BioM-ALBERT, equal FLOPs",
        "biom_albert.json",
        "sentence_order",
        (2e-3, 4e-3, 8e-3),
        _width(256, 128, 4, 1024),
    ),
    # As many parameters as PubMedBERT's, 5.3 million, and embeddings as large.
    "biom_albert_wide": Family(
        "BioM-ALBERT, equal parameters",
        "biom_albert.json",
        "sentence_order",
        (1e-3, 2e-3, 4e-3),
        _width(512, 256, 8, 1920),
    ),
}

# Fine-tuning is the same for all families: the mean over all tokens, since short pretraining
# teaches the encoder no use of [CLS], and one learning rate for all layers.
FINETUNING = "--set learning_rate=3e-4 --set layerwise_lr_decay=1.0 --set sequence_length=128"
TASKS = {
    "sentence_roles": "--set classification.pooling=mean --set max_train_examples=4000 "
    "--set train_batch_size=32 --set num_train_epochs=5",
    "bc5cdr_chem": "--set train_batch_size=32 --set num_train_epochs=5",
    "ncbi_disease": "--set train_batch_size=32 --set num_train_epochs=5",
    "hoc": "--set multilabel.pooling=mean --set train_batch_size=32 --set num_train_epochs=5",
}
TRIALS = 3  # seeds of fine-tuning for each pretrained encoder
SMALL_FINETUNING = "--set max_train_examples=64 --set max_dev_examples=64 --set num_train_epochs=1"
