"""Reads the teacher of a distillation, which `run_pretraining.py --teacher` names.

`runs.pretraining` calls it before a run begins or continues. The teacher's weights are in no
checkpoint of the run: each start reads them again from their folder.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfbio.base.errors import UserError
from tfbio.models.initial_weights import restored_weights
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.weights import checkpoint_settings, checkpoint_weights, hugging_face_settings
from tfbio.weights.checkpoint_source import Source, run_of, source_of


def with_sizes(config: PretrainingConfig, folder: str) -> PretrainingConfig:
    """Fills in the sizes of a run's teacher, and checks that it can teach the run's student.

    `run_pretraining.py --dry_run --teacher` calls it, too.

    Args:
      config: all settings.
      folder: a run's `--model_dir`, or a checkpoint or model from elsewhere; "": no teacher.

    Returns:
      The settings, with `distillation.teacher_hidden_size` and the other sizes.

    Raises:
      ConfigError: a loss of distillation is on and there is no teacher, or the reverse, or the
        settings ask for a teacher of another size.
      UserError: the folder holds no masked language model, or one with another number of tokens or
        for shorter texts, or its settings cannot be read.
    """
    config.distillation.check_flag(folder)
    if not folder:
        return config
    _require_masked_language_model(folder)
    shape = checkpoint_settings.read_encoder_config(folder)
    if shape.vocab_size != config.encoder.vocab_size:
        raise UserError(
            f"--teacher={folder} scores {shape.vocab_size} tokens, and the student "
            f"{config.encoder.vocab_size}: both must have the same vocabulary, so give another "
            f"teacher, or --set encoder.vocab_size={shape.vocab_size} with examples of its "
            "vocabulary."
        )
    # Those of the whole run, which run.stop_at_step may end before its last phase.
    longest = max(config.sequence_length, config.final_sequence_length)
    if longest > shape.max_sequence_length:
        raise UserError(
            f"--teacher={folder} takes at most {shape.max_sequence_length} tokens, and the run has "
            f"examples of {longest}: give a teacher for longer texts, or --set sequence_length="
            f"{shape.max_sequence_length} with examples of that length."
        )
    sizes = config.distillation.with_sizes_of(shape, folder)
    return dataclasses.replace(config, distillation=sizes)


def load(
    folder: str, vocab_sha256: str, lower_case: bool, strategy: tf.distribute.Strategy
) -> MaskedLanguageModel | None:
    """Loads the teacher of a run.

    Args:
      folder: see `with_sizes`, which has checked it; "": no teacher.
      vocab_sha256: the hash of the vocabulary that the examples were made with.
      lower_case: True if the text of the examples is in lower case.
      strategy: where to compute.

    Returns:
      The masked language model; None without a teacher.

    Raises:
      UserError: the teacher has another vocabulary, or read cased text and the examples are
        uncased, or the reverse; or its weights are missing or damaged.
    """
    if not folder:
        return None
    if _vocab_sha256_of(folder) != vocab_sha256:
        raise UserError(
            f"--teacher={folder} was trained with another vocabulary than that of the examples: "
            "make examples with the one in that folder, or give another teacher."
        )
    told = checkpoint_settings.read_settings(folder)["lower_case"]
    if told != lower_case and not _has_byte_bpe(folder):
        case, remedy = ("in lower case", "") if told else ("with its capital letters", "no")
        raise UserError(
            f"--teacher={folder} was trained on text {case}, and the examples were not made so: "
            f"make them with --{remedy}lower_case, or give another teacher."
        )
    shape = checkpoint_settings.read_encoder_config(folder)
    config = PretrainingConfig(
        objective="mlm", encoder=shape, sequence_length=shape.max_sequence_length
    )
    with strategy.scope(), restored_weights():
        model = MaskedLanguageModel(config)
    checkpoint_weights.restore_model(folder, model)
    return model


def _require_masked_language_model(folder: str) -> None:
    """Raises UserError if a model has no head that scores words."""
    if source_of(folder) is Source.HUGGING_FACE:
        settings = hugging_face_settings.read_pretraining_settings(folder)
    else:
        settings = checkpoint_settings.read_settings(folder)
    if settings.get("objective") != "mlm":
        held = "a fine-tuned model" if "trained_on" in settings else "no masked language model"
        raise UserError(
            f"--teacher={folder} holds {held}: give the folder of a run with objective = mlm, or a "
            "BERT, RoBERTa or ALBERT with its head that scores words."
        )


def _has_byte_bpe(folder: str) -> bool:
    """Returns True if a teacher's vocabulary is byte-level BPE, which keeps capital letters."""
    return "vocab.json" in vocabularies.contents(vocabularies.find_vocabulary(run_of(folder)))


def _vocab_sha256_of(folder: str) -> str:
    """Returns the hash of a teacher's vocabulary."""
    if source_of(folder) is Source.RUN:
        return checkpoint_settings.read_settings(folder)["vocab_sha256"]
    return vocabularies.sha256_of(vocabularies.find_vocabulary(run_of(folder)))
