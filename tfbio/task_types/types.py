"""The task types that there are, and the settings of all. A new one is a line in `NAMES`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Sequence
from typing import Any

from tfbio.base.config import BaseSettings, ConfigError
from tfbio.base.messages import shown
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.task_type import TaskType

# A task type has the name of its module, which holds its class.
NAMES = (
    "tagging",
    "classification",
    "regression",
    "multilabel",
    "question_answering",
    "token_multilabel",
)


def _class_of(name: str) -> type[TaskType]:
    """Returns the class of a task type, which is in the module of this name."""
    module = importlib.import_module(f"{__package__}.{name}")
    (task_type,) = (x for x in vars(module).values() if _is_named(x, name))
    return task_type


def _is_named(value: Any, name: str) -> bool:
    is_type = inspect.isclass(value) and issubclass(value, TaskType)
    return is_type and getattr(value, "name", "") == name


TYPES: dict[str, type[TaskType]] = {name: _class_of(name) for name in NAMES}


def make(name: str, labels: Sequence[str], config: CommonSettings) -> TaskType:
    """Makes the task type with a name, one of all types that there are, from the settings of a run.

    Args:
      name: one of `TYPES`.
      labels: all labels, in the order of the model's outputs.
      config: all settings, a `finetuning_config.FinetuningConfig`.

    Returns:
      An instance of the `TaskType`.

    Raises:
      ConfigError: a setting is for another type, or does not go with the labels or the others.
      KeyError: there is no type of this name.
    """
    for other in TYPES:
        if other != name:
            _check_unchanged(getattr(config, other), other, name)
    return TYPES[name].from_settings(labels, config)


def _check_unchanged(settings: BaseSettings, owner: str, name: str) -> None:
    """Raises a ConfigError if a setting of another type than the task's is not at its default.

    Args:
      settings: of the other type.
      owner: the name of that type.
      name: of the task's type.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value != field.default:
            raise ConfigError(
                f"{owner}.{field.name} {shown(value)} is for tasks of {owner}, and this is one of "
                f"{name}: leave it at {shown(field.default)}."
            )
