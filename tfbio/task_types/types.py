"""The task types that there are, and the settings of all. A new one is a line in `TYPES`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfbio.base.config import BaseSettings, ConfigError
from tfbio.base.messages import shown
from tfbio.task_types.classification import Classification
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.multilabel import MultiLabel
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.regression import Regression
from tfbio.task_types.tagging import Tagging
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.token_multilabel import TokenMultilabel

TYPES: dict[str, type[TaskType]] = {
    task_type.name: task_type
    for task_type in (
        Tagging,
        Classification,
        Regression,
        MultiLabel,
        QuestionAnswering,
        TokenMultilabel,
    )
}


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
