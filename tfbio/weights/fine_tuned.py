"""Finds and reads fine-tuned models: trials of `run_finetuning.py` and models of `transformers`.

Each function takes either. `fine_tuned_writer` writes either from what `read` returns.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tfbio.base import messages, path_checks, run_folders
from tfbio.base.config import load
from tfbio.base.errors import UserError
from tfbio.models.task_model import TaskModel
from tfbio.task_types import finetuning_config, finetuning_files, types
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.task_types.inference import make_model
from tfbio.task_types.task_type import TaskType
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    fine_tuned_elsewhere,
    hugging_face_settings,
    hugging_face_weights,
    trials,
)
from tfbio.weights.fine_tuned_elsewhere import FineTunedError


class FineTuned(NamedTuple):
    """A fine-tuned model with its settings, as it was read from a folder.

    Attributes:
      folder: the folder that it was read from, for messages and for its vocabulary.
      model: the `TaskModel`, with its weights.
      settings: its `config.json`, or the equivalent for a model from elsewhere.
      calibration: the number that `TaskType.calibrate` learnt on the development set, such as a
        threshold; None if there is none.
    """

    folder: str
    model: TaskModel
    settings: RunConfig
    calibration: float | None


def is_one(folder: str) -> bool:
    """Returns True if `folder` holds a fine-tuned model: a run, a trial or one of `transformers`.

    Args:
      folder: the folder of a run, of a trial or of a model of `transformers`.

    Raises:
      UserError: the folder holds no model, or its settings cannot be read.
    """
    settings = checkpoint_settings.read_settings(folder)
    return "trained_on" in settings or any(
        each.hugging_face_class == fine_tuned_elsewhere.class_in(folder)
        for each in types.TYPES.values()
    )


def read(folder: str) -> FineTuned:
    """Reads a fine-tuned model with its weights, settings and calibration.

    The model has settings that other programs have, see `TaskType.portable_settings`; its
    predictions are the same.

    Args:
      folder: the folder of a trial, of a run, whose best trial is taken, or of a model of
        `transformers`.

    Returns:
      A `FineTuned`; its `folder` is the one with the weights.

    Raises:
      UserError: the folder holds no fine-tuned model, or its settings or weights cannot be read.
    """
    folder = find_trial(folder)
    settings = read_settings(folder)
    model = _make(settings)
    restore(folder, model)
    return FineTuned(folder, *_by_default(model, settings), read_calibration(folder))


def find_trial(model: str, say: Callable[[str], object] = print) -> str:
    """Finds the folder with the weights of a fine-tuned model: of a run, the best trial.

    Args:
      model: the folder of a trial; of a run, whose best trial on the development set is taken; or
        of a model of `transformers`.
      say: a function that gets a line about the trial that is chosen among several.

    Returns:
      The absolute path of the trial, or of the model of `transformers`.

    Raises:
      UserError: the folder holds no fine-tuned model, or no scores to choose a trial by; or the
        `sweep.json` in it is damaged.
    """
    folder = run_folders.chosen(run_folders.followed(model))
    if trials.has_weights(folder) or hugging_face_settings.is_one(folder):
        return folder
    best, reason = (folder, "") if trials.is_one(folder) else trials.best_trial(folder)
    if not trials.has_weights(best):
        raise UserError(
            f"{best} has no weights, which --keep_weights=best removed: give the run that its "
            "sweep chose, or remove the folder of this trial and run its command again."
        )
    if reason:
        say(f"{best}: {reason}")
    return best


def read_settings(trial: str) -> RunConfig:
    """Reads the settings of a fine-tuned model, a `RunConfig`.

    Args:
      trial: the folder with the weights, the result of `find_trial`.

    Returns:
      The `config.json` of the run, or its equivalent for a model of `transformers`.

    Raises:
      SchemaError: the file is missing, or is not as a fine-tuning run writes it.
      FineTunedError: the model is one of `transformers` that has no task type here, or whose labels
        have no names.
      HuggingFaceError: no `Encoder` can hold the model of `transformers`.
    """
    if hugging_face_settings.is_one(trial):
        return fine_tuned_elsewhere.read_settings(trial)
    return finetuning_config.read_settings(os.path.dirname(run_folders.followed(trial)))


def read_calibration(trial: str) -> float | None:
    """Reads a fine-tuned model's calibration, the number that `TaskType.calibrate` learnt for it.

    The number was learnt on the development set, and is, for example, a threshold.

    Args:
      trial: the folder with the weights, the result of `find_trial`.

    Returns:
      The number, a float, or None if its task type has none or none was computed.

    Raises:
      FineTunedError: the model has no known task type.
      SchemaError: `config.json` or `scores.json` is missing, or is not as a run writes it.
      HuggingFaceError: no `Encoder` can hold the model of `transformers`.
    """
    task_type = type_of(read_settings(trial))
    if hugging_face_settings.is_one(trial):
        return task_type.calibration_in(hugging_face_settings.read_config(trial), trial)
    return finetuning_files.read_trial(trial).calibration.get(task_type.calibration_name)


def restore(trial: str, model: TaskModel) -> None:
    """Restores the weights of a fine-tuned model; returns nothing.

    Args:
      trial: the folder with the weights, the result of `find_trial`.
      model: a `TaskModel` of the same shape, whose variables are assigned.

    Raises:
      UserError: the weights cannot be read, or are of another shape.
    """
    if hugging_face_settings.is_one(trial):
        task_type = type_of(read_settings(trial))
        hugging_face_weights.restore_task_model(trial, model, task_type.hugging_face_head)
        return
    weights = os.path.join(trial, checkpoint_source.TRIAL_WEIGHTS)
    # Relative, so that brackets in the path of the current folder do no harm.
    relative = os.path.relpath(weights)
    path_checks.require_no_pattern(relative, weights)
    try:
        tf.train.Checkpoint(model=model).read(relative).assert_consumed()
    except (tf.errors.OpError, RuntimeError, IndexError, AssertionError, ValueError) as error:
        reason = messages.first_line(error)
        raise UserError(f"the weights {weights} cannot be read: {reason}") from error


def config_for_new_text(settings: RunConfig, overrides: Sequence[str] = ()) -> FinetuningConfig:
    """Returns a fine-tuned model's settings, changed for predicting on new text.

    Args:
      settings: the `config.json` of the model, the result of `read_settings`.
      overrides: "name=value" each, such as "run.eval_batch_size=8".

    Returns:
      A `FinetuningConfig`; the group of the task type is the one of
      `TaskType.settings_for_new_text`, and no setting divides a step of training.

    Raises:
      ConfigError: an override names no setting, or a value is of another type or out of range.
      FineTunedError: the settings have no known task type.
    """
    written = dataclasses.asdict(settings)
    names = [field.name for field in dataclasses.fields(FinetuningConfig)]
    own = json.loads(json.dumps({name: written[name] for name in names}))
    config, task_type = load(FinetuningConfig, "", overrides, own), type_of(settings)
    return dataclasses.replace(
        config,
        # How steps of training are divided must not decide on which devices a model predicts.
        train_batch_size=config.run.eval_batch_size,
        gradient_clip_groups=1,
        run=dataclasses.replace(config.run, gradient_accumulation_steps=1),
        **{task_type.name: task_type.settings_for_new_text(getattr(config, task_type.name))},
    )


def _make(settings: RunConfig) -> TaskModel:
    """Makes a model of these settings, with random weights."""
    config, task_type = config_for_new_text(settings), task_type_of(settings)
    shape = settings.encoder
    # Exports name the dropout that the encoder was pretrained with.
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    config = dataclasses.replace(config, **{name: getattr(shape, name) for name in names})
    return make_model(shape, task_type, config)


def _by_default(model: TaskModel, settings: RunConfig) -> tuple[TaskModel, RunConfig]:
    """Returns an equivalent model with settings that other programs have, and its settings.

    Tagging's segment becomes the first one, the outputs of absent labels are removed, and the scale
    of the score becomes a part of the head; see `TaskType.portable_settings`.
    """
    task_type = task_type_of(settings)
    portable = task_type.portable_settings()
    if portable == task_type.settings:
        return model, settings
    changes = {
        name: value
        for name, value in dataclasses.asdict(portable).items()
        if value != getattr(task_type.settings, name)
    }
    of_type = dataclasses.replace(getattr(settings, task_type.name), **changes)
    settings = dataclasses.replace(settings, **{task_type.name: of_type})
    same = _make(settings)
    for variable, value in zip(same.encoder.variables, model.encoder.variables, strict=True):
        variable.assign(value)
    for layer in ("pooler", "mlp", "lstm"):
        if getattr(same, layer) is not None:
            getattr(same, layer).set_weights(getattr(model, layer).get_weights())
    task_type.copy_head(model, same)
    if same.transitions is not None:
        same.transitions.assign(model.transitions)
    return same, settings


def task_type_of(settings: RunConfig) -> TaskType:
    """Makes the task type of a fine-tuned model, for new text, with the labels of its training.

    Args:
      settings: the `config.json` of the model, the result of `read_settings`.

    Returns:
      A `TaskType`, with the settings of `config_for_new_text`.

    Raises:
      UserError: there is no such type, or its settings or labels cannot be used.
    """
    known = settings.trained_on
    return types.make(known.task_type, known.labels, config_for_new_text(settings))


def type_of(settings: RunConfig) -> type[TaskType]:
    """Looks up the task type's class that a fine-tuned model was trained with.

    Args:
      settings: the `config.json` of the model, the result of `read_settings`.

    Returns:
      The class, one of the values of `types.TYPES`.

    Raises:
      FineTunedError: there is no such type.
    """
    name = settings.trained_on.task_type
    if name in types.TYPES:
        return types.TYPES[name]
    raise FineTunedError(
        f"config.json has the task type {json.dumps(name)}: it must be one of "
        f"{', '.join(types.TYPES)}."
    )
