"""The settings that may change when a trained model reads new text; all others are the model's."""

from __future__ import annotations

from collections.abc import Sequence

from tfbio.base.config import require

# Those that `--mode=predict --help` describes. All others of `run` are allowed, too.
SETTINGS = [
    "run.precision",
    "run.optimize_for",
    "run.eval_batch_size",
    "run.pack",
    "run.fixed_shapes",
    "sequence_length",
    "question_answering.beam_size",
    "question_answering.doc_stride",
    "question_answering.max_query_length",
    "question_answering.n_best_size",
    "question_answering.max_answer_length",
]


def check(overrides: Sequence[str]) -> None:
    """Checks that settings may change when a model reads new text, and returns nothing.

    Another pooling, for example, fits the weights and would give the answers of another network.

    Args:
      overrides: "name=value" each.

    Raises:
      ConfigError: one may not.
    """
    names = [text.partition("=")[0] for text in overrides]
    more = ", ".join(name for name in SETTINGS if not name.startswith("run."))
    for name in names:
        require(
            name.partition(".")[0] == "run" or name in SETTINGS,
            f"--set: {name} is for training: a trained model keeps it. Give settings of run, "
            f"{more}.",
        )
