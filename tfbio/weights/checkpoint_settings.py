"""Reads the settings of the model in a checkpoint, and compares them with those that are wanted.

The settings of a run of tfbio are in its `config.json`. `hugging_face_settings` and
`tensorflow1_settings` read those of models from elsewhere in the same form.
"""

import dataclasses
import glob
import os

from tfbio.base import schema, storage
from tfbio.base.config import ConfigError, build
from tfbio.models import encoder_cost
from tfbio.models.encoder_config import TRAINING_ONLY, EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.task_types import finetuning_settings
from tfbio.text import vocabularies
from tfbio.weights import hugging_face_settings, tensorflow1_settings, weight_files
from tfbio.weights.checkpoint_files import (
    CheckpointError,
    Source,
    find_newest,
    newest_weights,
    run_of,
    source_of,
)
from tfbio.weights.hugging_face_settings import GENERATOR

# The modules that read the settings of models from elsewhere.
_READERS = {
    Source.HUGGING_FACE: hugging_face_settings,
    Source.TENSORFLOW1: tensorflow1_settings,
}
# The settings that decide for what a run's weights can be used. The others are of its training.
MODEL_SETTINGS = (
    "objective",
    "encoder",
    "generator",
    "untied_generator",
    "untied_generator_embeddings",
    "uniform_generator",
    "lower_case",
)


def read_settings(folder: str) -> dict:
    """Reads the settings of the model whose checkpoints are in `folder`.

    Args:
      folder: a run's `--model_dir`, a trial, a model of `transformers` or a checkpoint; see
        `run_of`.

    Returns:
      Name of a setting -> value, as JSON has it: `encoder`, a dict of the fields of
      `EncoderConfig`, `lower_case`, and more. A run's has all keys of `PretrainingSettings` or
      `FinetuningSettings`; a model of `transformers` also `family`; a checkpoint of TensorFlow 1
      also `family` and, with a head of pretraining, `objective`, `sequence_length` and other
      settings of `PretrainingConfig`.

    Raises:
      CheckpointError: there is no `config.json`, or no run wrote it.
      SchemaError: it cannot be read, or is not as a run writes it.
      HuggingFaceError: the model of `transformers` is one that no `Encoder` can hold.
      TensorFlow1Error: the checkpoint is no BERT, ELECTRA or ALBERT that an `Encoder` can hold.
      TokenizerError: a model from elsewhere has no vocabulary that can be used.
    """
    if source_of(folder) is not Source.RUN:
        return _READERS[source_of(folder)].read_settings(folder)
    path = storage.at(run_of(folder), "config.json")
    if not path.is_file():
        raise CheckpointError(
            f"{folder} holds no config.json: give the --model_dir of a run_pretraining.py run (to "
            "fine-tune, also a trial_SEED of run_finetuning.py), or a BERT, ELECTRA, RoBERTa or "
            "ALBERT of Hugging Face's or of TensorFlow 1's."
        )
    remedy = "give the folder of a run of this version of tfbio, with the file as the run wrote it"
    content = schema.read_object(path, remedy)
    if "encoder" not in content:
        raise CheckpointError(
            f"{path} names no encoder, as a run of run_pretraining.py does, and no model_type, as "
            "a model of Hugging Face's: give the folder of one of both."
        )
    if "trained_on" in content:
        return dataclasses.asdict(finetuning_settings.parse(content, path, remedy))
    return dataclasses.asdict(schema.parse(PretrainingSettings, content, path, remedy))


def read_encoder_config(folder: str, with_weights: bool = True) -> EncoderConfig:
    """Reads the shape of the encoder whose checkpoints are in `folder`, as an `EncoderConfig`.

    Args:
      folder: a folder or checkpoint that `checkpoint_weights.restore_encoder` takes.
      with_weights: True to check that the weights exist, see `require_weights`.

    Raises:
      CheckpointError: there is no `config.json` of a run, a setting is out of range, or the weights
        are missing or too small for the shape.
      UserError: another error of `read_settings`, such as SchemaError or HuggingFaceError.
    """
    path = storage.at(run_of(folder), "config.json")
    try:
        shape = build(EncoderConfig, read_settings(folder)["encoder"], path)
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    if with_weights:
        require_weights(folder, shape)
    return shape


def require_weights(folder: str, shape: EncoderConfig) -> None:
    """Checks that the files of weights are large enough for an encoder, before it is built.

    So a `config.json` cannot make tfbio take more memory than the files beside it have bytes.
    Returns nothing.

    Args:
      folder: a folder or checkpoint that `checkpoint_weights.restore_encoder` takes.
      shape: the encoder's shape.

    Raises:
      CheckpointError: there are no weights, or too few.
      WeightFileError: a file of weights of `transformers` is missing, damaged or unsafe.
    """
    source = source_of(folder)
    if source is Source.HUGGING_FACE:
        paths = {tensor.path for tensor in weight_files.open_all(folder).values()}
    else:
        paths = storage.find(f"{glob.escape(newest_weights(folder))}.data-*")
    # No number takes less than float16's 2 bytes.
    if 2 * encoder_cost.encoder_parameters(shape) > sum(map(storage.size, paths)):
        if source is Source.RUN:
            find_newest(folder, repair=False)  # names a damaged checkpoint, and the remedy
        raise CheckpointError(
            f"{storage.at(run_of(folder), 'config.json')} describes a larger encoder than the "
            "weights beside it can be of: one of both is not complete, or of another model; get "
            "them again."
        )


def family_of(settings: dict) -> str:
    """Returns the family of `transformers` that an encoder belongs to, its `model_type`.

    A model from elsewhere keeps its family. Of the encoders that were made here, an ELECTRA is of
    that family. A masked language model is of the only family that can hold it, or else of BERT's.

    Args:
      settings: the result of `read_settings`.

    Returns:
      "albert", "bert", "electra" or "roberta".
    """
    encoder = settings["encoder"]
    if settings.get("family"):
        return settings["family"]
    if encoder["share_layers"]:
        return "albert"
    if encoder["position_offset"]:
        return "roberta"
    is_bert = settings.get("objective") == "mlm"
    return "bert" if is_bert and encoder["embedding_size"] == encoder["hidden_size"] else "electra"


def pretraining_config(settings: dict, folder: str = "") -> PretrainingConfig:
    """Returns the `PretrainingConfig` in the settings of a pretraining run.

    Settings that it does not have are left out; those that are missing have their defaults.

    Args:
      settings: the result of `read_settings`.
      folder: the folder of their `config.json`, for the message.

    Raises:
      CheckpointError: a setting is out of range.
    """
    known = PretrainingConfig.__dataclass_fields__
    values = {name: value for name, value in settings.items() if name in known}
    try:
        return build(PretrainingConfig, values, os.path.join(folder, "config.json"))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error


def require_same_model(folder: str, settings: dict) -> None:
    """Checks that the weights in `folder` can be those of the model that settings describe.

    Returns nothing. The vocabulary and `MODEL_SETTINGS` must be the same; a model without a
    generator passes if `generator_warmup_steps` is above 0.

    Args:
      folder: a run's `--model_dir`, or a model from elsewhere.
      settings: the settings of a new run, as it writes them to `config.json`.

    Raises:
      CheckpointError: the folder holds another model or vocabulary, or no model.
      UserError: the model's settings or its vocabulary cannot be read, see `read_settings`.
    """
    if source_of(folder) is not Source.RUN:
        before = _like_a_run(folder, settings)
    else:
        before = read_settings(folder)
        wanted = pretraining_config(settings)
        if wanted.has_generator and not pretraining_config(before, folder).has_generator:
            _require_warmup(folder, wanted)
            # Only these settings count, as for a discriminator from elsewhere.
            own = ("encoder", "lower_case", "vocab_sha256")
            before = settings | {name: before[name] for name in own}
    if before["vocab_sha256"] != settings["vocab_sha256"]:
        raise CheckpointError(
            f"{folder} was trained with another vocabulary than that of the examples: make "
            "examples with the one in that folder."
        )
    had, wanted = _of_model(before), _of_model(settings)
    for name in MODEL_SETTINGS:
        if had[name] != wanted[name]:
            raise CheckpointError(
                f"{folder} holds another model than the settings ask for: its {name} is "
                f"{had[name]}, not {wanted[name]}."
            )


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
    """Returns `MODEL_SETTINGS`, by their names."""
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
    reader = _READERS[source]
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
        **{name: own[name] for name in MODEL_SETTINGS if "untied_" in name and name in own},
        "encoder": dataclasses.asdict(read_encoder_config(folder)),
        "lower_case": lower_case,
        "vocab_sha256": vocabularies.sha256_of(vocabulary),
    }


def _shape(encoder: EncoderConfig) -> dict:
    """Returns the settings that tell one encoder from another."""
    values = dataclasses.asdict(encoder)
    return {name: value for name, value in values.items() if name not in TRAINING_ONLY}
