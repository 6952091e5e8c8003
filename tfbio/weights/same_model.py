"""Checks that a new run may start from the weights in a folder: that its model is the same."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from tfbio.models.encoder_config import TRAINING_ONLY, EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights.checkpoint_settings import (
    READERS,
    pretraining_config,
    read_encoder_config,
    read_settings,
    require_weights,
)
from tfbio.weights.checkpoint_source import Source, run_of, source_of
from tfbio.weights.hugging_face_settings import GENERATOR

# The settings that decide for what a run's weights can be used. The others are of its training.
_MODEL_SETTINGS = (
    "objective",
    "encoder",
    "generator",
    "untied_generator",
    "untied_generator_embeddings",
    "uniform_generator",
    "lower_case",
)


def require_same_model(folder: str, settings: dict) -> None:
    """Checks that a new pretraining run has the same model as the weights that it starts from.

    Returns nothing. The vocabulary, `lower_case`, the objective, the encoder's and the generator's
    shapes and the settings `untied_*` and `uniform_generator` must be the same. A model without a
    generator passes if `generator_warmup_steps` is above 0. A run without a sentence-pair head does
    not pass if the new one has it.

    Args:
      folder: a run's `--model_dir`, or the folder or checkpoint of a model from elsewhere.
      settings: the settings of a new run, name -> value, as it writes them to `config.json`.

    Raises:
      CheckpointError: the folder holds another model or vocabulary, a fine-tuned model, or none.
      UserError: the model's settings or its vocabulary cannot be read, see
        `checkpoint_settings.read_settings`.
    """
    if source_of(folder) is not Source.RUN:
        before = _like_a_run(folder, settings)
    else:
        before = read_settings(folder)
        if "trained_on" in before:
            raise CheckpointError(
                f"{folder} holds a fine-tuned model, which has no head to pretrain with: start "
                "from the pretrained model that it was made from."
            )
        wanted = pretraining_config(settings)
        had = pretraining_config(before, folder)
        if wanted.sentence_pair_head and not had.sentence_pair_head:
            raise CheckpointError(
                f"{folder} holds no classifier of sentence pairs: start from a run with --set "
                "sentence_pair_head=true, or from a BERT or ALBERT that has one."
            )
        if wanted.has_generator and not had.has_generator:
            _require_warmup(folder, wanted)
            # Only these settings count, as for a discriminator from elsewhere.
            counted = ("encoder", "lower_case", "vocab_sha256")
            before = settings | {name: before[name] for name in counted}
    if before["vocab_sha256"] != settings["vocab_sha256"]:
        raise CheckpointError(
            f"{folder} was trained with another vocabulary than that of the examples: make "
            "examples with the one in that folder."
        )
    own, asked = _of_model(before), _of_model(settings)
    for name in _MODEL_SETTINGS:
        if own[name] != asked[name]:
            raise CheckpointError(
                f"{folder} holds another model than the settings ask for: its {name} "
                f"{_difference(name, own[name], asked[name])}."
            )


def _difference(name: str, had: Any, wanted: Any) -> str:
    """Returns how a setting of a model, or each of a group, differs from what is wanted."""
    if name == "lower_case":
        return f"is {had}, not {wanted}: make examples with --{'' if had else 'no'}lower_case"
    if not isinstance(had, dict) or not isinstance(wanted, dict):
        return f"is {had}, not {wanted}"
    each = [f"{key}={json.dumps(value)}" for key, value in had.items() if value != wanted[key]]
    remedy = f": give each as --set {name}.NAME=VALUE" if name == "encoder" else ""
    return f"has {', '.join(each)}{remedy}"


def _require_warmup(folder: str, wanted: PretrainingConfig, remedy: str = "") -> None:
    """Raises a `CheckpointError` unless a new generator first learns alone.

    Args:
      folder: a model without a generator.
      wanted: the configuration of the new run.
      remedy: another way, for the message.
    """
    if not wanted.generator_warmup_steps:
        raise CheckpointError(
            f"{folder} holds no generator: {remedy}give --set generator_warmup_steps=N, and a new "
            "one first learns alone."
        )


def _of_model(settings: dict) -> dict:
    """Returns `_MODEL_SETTINGS`, by their names."""
    config = pretraining_config(settings)
    values = {**dataclasses.asdict(config), "lower_case": settings["lower_case"]}
    # Its shape, not its fraction of the encoder: 1/3 is written in many ways.
    values["generator"] = _shape(config.generator) if config.has_generator else None
    return {**values, "encoder": _shape(config.encoder)}


def _like_a_run(folder: str, settings: dict) -> dict:
    """Returns the settings of a run that could have made a model from elsewhere.

    Args:
      folder: the model.
      settings: the settings of the new run, which fill in what the model does not tell.

    Raises:
      CheckpointError: the model lacks the generator that is wanted, or has another one.
    """
    source = source_of(folder)
    reader = READERS[source]
    wanted = pretraining_config(settings)
    if wanted.has_generator:
        generator = reader.read_generator(folder)
        if generator is None:
            remedy = f"put one into it, in the folder {GENERATOR}, or "
            _require_warmup(folder, wanted, remedy if source is Source.HUGGING_FACE else "")
        elif _shape(generator) != _shape(wanted.generator):
            raise CheckpointError(
                f"{folder} holds another generator than the settings ask for, which is "
                f"{_shape(wanted.generator)}, not {_shape(generator)}."
            )
        elif source is Source.HUGGING_FACE:
            require_weights(os.path.join(folder, GENERATOR), generator)
    vocabulary = vocabularies.find_vocabulary(run_of(folder))
    own = reader.read_settings(folder)
    lower_case = own["lower_case"]
    if "vocab.json" in vocabularies.contents(vocabulary):
        lower_case = settings["lower_case"]  # byte-level BPE ignores it
    return {
        **settings,
        # Checkpoints of TensorFlow 1 tell these.
        **{name: own[name] for name in _MODEL_SETTINGS if "untied_" in name and name in own},
        "encoder": dataclasses.asdict(read_encoder_config(folder)),
        "lower_case": lower_case,
        "vocab_sha256": vocabularies.sha256_of(vocabulary),
    }


def _shape(encoder: EncoderConfig) -> dict:
    """Returns the settings that tell one encoder from another."""
    values = dataclasses.asdict(encoder)
    return {name: value for name, value in values.items() if name not in TRAINING_ONLY}
