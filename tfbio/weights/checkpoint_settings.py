"""Reads the settings of the model in a checkpoint, and checks that its weights are as many.

The settings of a run of tfbio are in its `config.json`. `hugging_face_settings` and
`tensorflow1_settings` read those of models from elsewhere in the same form.
"""

import dataclasses
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from tfbio.base import file_paths, json_files, storage
from tfbio.base.config import ConfigError, build
from tfbio.models import encoder_cost
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.task_types import finetuning_config
from tfbio.training.checkpointing import CheckpointError, find_newest
from tfbio.weights import hugging_face_settings, tensorflow1_settings, weight_files
from tfbio.weights.checkpoint_source import Source, newest_weights, run_of, source_of

# The modules that read the settings of models from elsewhere.
READERS = {
    Source.HUGGING_FACE: hugging_face_settings,
    Source.TENSORFLOW1: tensorflow1_settings,
}


def read_settings(folder: str) -> dict:
    """Reads the settings of a checkpoint's model, whichever program wrote the checkpoint.

    Args:
      folder: a run's `--model_dir`, a trial of a fine-tuning run, the folder of a model of
        `transformers`, or the prefix or folder of a checkpoint; see `run_of`.

    Returns:
      Name of a setting -> value, as JSON has it: `encoder`, a dict of the fields of
      `EncoderConfig`, `lower_case`, True if text is lower-cased, and more. A run's has all keys of
      `PretrainingSettings` or `finetuning_config.RunConfig`; a model of `transformers` also
      `family`, such as "bert"; a checkpoint of TensorFlow 1 also `family` and, with a head of
      pretraining, `objective`, `sequence_length` and other settings of `PretrainingConfig`.

    Raises:
      CheckpointError: there is no `config.json`, or no run wrote it.
      SchemaError: it cannot be read, or is not as a run writes it.
      HuggingFaceError: the model of `transformers` is one that no `Encoder` can hold.
      TensorFlow1Error: the checkpoint cannot be read, or is no BERT, ELECTRA or ALBERT that an
        `Encoder` can hold.
      TokenizerError: a model from elsewhere has no vocabulary that can be used.
    """
    if (source := source_of(folder)) is not Source.RUN:
        return READERS[source].read_settings(folder)
    path = file_paths.at(run_of(folder), "config.json")
    if not path.is_file():
        raise CheckpointError(
            f"{folder} holds no config.json: give the --model_dir of a run_pretraining.py run (to "
            "fine-tune, also a trial_SEED of run_finetuning.py), or a BERT, ELECTRA, RoBERTa or "
            "ALBERT of Hugging Face's or of TensorFlow 1's."
        )
    remedy = "give the folder of a run of this version of tfbio, with the file as the run wrote it"
    content = json_files.read_object(path, remedy)
    if "encoder" not in content:
        _refuse_without_model_type(path, content)
        raise CheckpointError(
            f"{path} names no encoder, as a run of run_pretraining.py does, and no model_type, as "
            "a model of Hugging Face's: give the folder of one of both."
        )
    if "trained_on" in content:
        return dataclasses.asdict(finetuning_config.parse(content, path, remedy))
    return dataclasses.asdict(json_files.parse(PretrainingSettings, content, path, remedy))


def _refuse_without_model_type(path: Path, content: dict) -> None:
    """Refuses the `config.json` of an old model of `transformers` that does not say its family.

    Raises:
      CheckpointError: it is one, with the weights beside it.
    """
    if "hidden_size" in content and any((path.parent / x).is_file() for x in weight_files.NAMES):
        raise CheckpointError(
            f"{path} has no model_type, which tells the family of the model: add "
            '"model_type": "bert" (or "roberta", "electra", "albert") to this file.'
        )


def read_encoder_config(folder: str, with_weights: bool = True) -> EncoderConfig:
    """Reads the settings of a checkpoint's encoder, its shape, as an `EncoderConfig`.

    Args:
      folder: a folder or checkpoint that `checkpoint_weights.restore_encoder` takes.
      with_weights: True to check that the weights exist, see `require_weights`.

    Raises:
      CheckpointError: there is no `config.json` of a run, a setting is out of range, or the weights
        are missing or too small for the shape.
      UserError: another error of `read_settings` or `require_weights`, such as SchemaError,
        HuggingFaceError or WeightFileError.
    """
    path = file_paths.at(run_of(folder), "config.json")
    try:
        shape = build(EncoderConfig, read_settings(folder)["encoder"], path)
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    if with_weights:
        require_weights(folder, shape)
    return shape


def require_weights(folder: str, shape: EncoderConfig) -> None:
    """Checks that a checkpoint's weights are as many as its settings ask for; returns nothing.

    So a `config.json` cannot make tfbio take more memory for an encoder, before it is built, than
    the files beside it have bytes.

    Args:
      folder: a folder or checkpoint that `checkpoint_weights.restore_encoder` takes.
      shape: the encoder's shape, which the settings describe.

    Raises:
      CheckpointError: there are no weights, or files of fewer than 2 bytes for each parameter.
      WeightFileError: a file of weights of `transformers` is missing, damaged or unsafe.
      TensorFlow1Error: a checkpoint of TensorFlow 1 cannot be read.
    """
    source = source_of(folder)
    if source is Source.HUGGING_FACE:
        paths: Iterable[str | Path] = {
            tensor.path for tensor in weight_files.open_all(folder).values()
        }
    else:
        paths = storage.find(f"{glob.escape(newest_weights(folder))}.data-*")
    # No number takes less than float16's 2 bytes.
    if 2 * encoder_cost.encoder_parameters(shape) > sum(map(storage.size, paths)):
        if source is Source.RUN:
            find_newest(folder, repair=False)  # names a damaged checkpoint, and the remedy
        raise CheckpointError(
            f"{file_paths.at(run_of(folder), 'config.json')} describes a larger encoder than the "
            "weights beside it can be of: one of both is not complete, or of another model; get "
            "them again."
        )


def pretraining_config(settings: dict, folder: str = "") -> PretrainingConfig:
    """Makes a `PretrainingConfig` of a checkpoint's settings, as `read_settings` returns them.

    Settings that it does not have are left out; those that are missing have their defaults.

    Args:
      settings: the result of `read_settings`, name -> value.
      folder: the folder of their `config.json`, for the message.

    Raises:
      CheckpointError: a setting is of another type or out of range, or two do not go together.
    """
    known = PretrainingConfig.__dataclass_fields__
    values = {name: value for name, value in settings.items() if name in known}
    try:
        return build(PretrainingConfig, values, os.path.join(folder, "config.json"))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
