"""Reads what `config.json` says of a model that was fine-tuned elsewhere, by `transformers`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tfbio.base import config, json_files
from tfbio.base.errors import UserError
from tfbio.task_types import types
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import hugging_face_tokenizer
from tfbio.weights import checkpoint_settings, hugging_face_settings, weight_names

# What the `config.json` of a converted model says of `TrainedOn` for tfbio alone: name -> values.
KEPT: dict[str, tuple[str | bool, ...]] = {
    "words": ("symbols", "punctuation", "blanks"),
    "pairs": (True, False),
}


class FineTunedError(UserError):
    """An error for a fine-tuned model of no known task type, or that another format cannot hold."""


def class_in(folder: str) -> str:
    """Returns the class of a model of `transformers` without its family's name.

    Args:
      folder: the path of the model.

    Returns:
      Such as "ForTokenClassification"; "" if the folder does not tell.
    """
    return re.sub(r"^.*?(?=For[A-Z])", "", hugging_face_tokenizer.read_architecture(folder))


def read_settings(folder: str) -> RunConfig:
    """Reads the settings of a fine-tuned model of `transformers`, in the form of a run's.

    Args:
      folder: the path of the model.

    Returns:
      What the `config.json` of an equivalent run of `run_finetuning.py` says.

    Raises:
      FineTunedError: no task type has such models, the labels have no names, or a value that tfbio
        keeps in `config.json` cannot be used.
      HuggingFaceError: no `Encoder` can hold the model.
    """
    content = hugging_face_settings.read_config(folder)
    pretrained = checkpoint_settings.read_settings(folder)
    shape, family = checkpoint_settings.read_encoder_config(folder), pretrained["family"]
    labels = _labels(folder, content)
    task_type = _type_in(folder, content, labels)
    known, implied = task_type.read_hugging_face(folder, labels)
    known |= _kept(folder, content, known)
    implied |= _kept_settings(folder, content, task_type)
    implied |= task_type.settings_of_family(weight_names.TEXT_HEADS[family].text_head)
    of_type: dict[str, Any] = {task_type.name: task_type.Settings(**implied)}
    settings = FinetuningConfig(
        comment=f"{content['architectures'][0]}, fine-tuned elsewhere",
        sequence_length=int(
            min(shape.max_sequence_length, hugging_face_tokenizer.read_max_length(folder))
        ),
        hidden_dropout_prob=shape.hidden_dropout_prob,
        attention_probs_dropout_prob=shape.attention_probs_dropout_prob,
        num_trials=1,
        **of_type,
    )
    return json_files.extended(
        RunConfig,
        settings,
        init_checkpoint=folder,
        encoder=shape,
        lower_case=pretrained["lower_case"],
        family=family,
        trained_on=TrainedOn(task_type=task_type.name, new_text=task_type.new_text, **known),
    )


def _kept(folder: str, content: dict, known: dict[str, Any]) -> dict[str, Any]:
    """Returns what `config.json` has of `KEPT`, where the task type asks for it.

    Raises:
      FineTunedError: it is none of the values that can be.
    """
    kept = {name: content[name] for name in KEPT if name in known and name in content}
    for name, value in kept.items():
        if value not in KEPT[name]:
            options = " or ".join(map(json.dumps, KEPT[name]))
            raise FineTunedError(
                f"{folder}/config.json has {name} = {json.dumps(value)}: expected {options}."
            )
    return kept


def _kept_settings(
    folder: str, content: dict[str, Any], task_type: type[TaskType]
) -> dict[str, Any]:
    """Returns what `config.json` has of `TaskType.kept_settings`.

    Raises:
      FineTunedError: a value is of another type or out of range.
    """
    kept = {name: content[name] for name in task_type.kept_settings if name in content}
    try:
        read = config.load(FinetuningConfig, json.dumps({task_type.name: kept}))
    except config.ConfigError as error:
        wrong = str(error).removeprefix("--hparams: ")
        raise FineTunedError(f"{folder}/config.json: {wrong}") from error
    return {name: getattr(getattr(read, task_type.name), name) for name in kept}


def _type_in(folder: str, content: dict, labels: Sequence[str]) -> type[TaskType]:
    """Returns the task type of a model of `transformers`, by its class and its `config.json`.

    Raises:
      FineTunedError: no type has such models.
    """
    called = class_in(folder)
    of_class = [each for each in types.TYPES.values() if each.hugging_face_class == called]
    if not of_class:
        classes = dict.fromkeys(f"...{x.hugging_face_class}" for x in types.TYPES.values())
        wanted = " or ".join(classes)
        raise FineTunedError(f"{folder} holds no fine-tuned model: give one of a class {wanted}.")
    # Those that have a problem_type first: the others take any.
    of_class.sort(key=lambda each: not each.problem_type)
    fitting = (each for each in of_class if each.fits_hugging_face(content, labels))
    if task_type := next(fitting, None):
        return task_type
    raise FineTunedError(
        f"{folder}/config.json has problem_type = {content.get('problem_type')}: only "
        f"{', '.join(each.problem_type for each in of_class)} can be used."
    )


def _labels(folder: str, content: dict) -> list[str]:
    """Returns the labels in the `config.json` of `transformers`, in the order of the outputs.

    Raises:
      FineTunedError: an output has no name.
    """
    # `transformers` saves no names if they are the two default ones.
    names = content.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if isinstance(names, dict):
        found = (names.get(str(number)) for number in range(len(names)))
        labels = [label for label in found if isinstance(label, str)]
        if len(labels) == len(names):
            return labels
    raise FineTunedError(
        f"{folder}/config.json has id2label = {json.dumps(names)}: it must give each output, by "
        'its number from 0, the name of its label, such as {"0": "no", "1": "yes"}.'
    )
