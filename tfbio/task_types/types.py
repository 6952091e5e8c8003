"""The task types that there are. A new one is a line in `_ALL`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tfbio.base.config import ConfigError
from tfbio.task_types.classification import Classification
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.multilabel import MultiLabel
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.regression import Regression
from tfbio.task_types.tagging import Tagging
from tfbio.task_types.task_type import TaskType

_ALL = (Tagging, Classification, Regression, MultiLabel, QuestionAnswering)
TYPES: dict[str, type[TaskType]] = {each.name: each for each in _ALL}
# The settings that belong to some type.
SETTINGS = tuple(dict.fromkeys(setting for each in _ALL for setting in each.settings))


def make(name: str, labels: Sequence[str], config: FinetuningConfig) -> TaskType:
    """Makes the type of a task.

    Args:
      name: one of `TYPES`.
      labels: all labels, in the order of the model's outputs.
      config: all settings.

    Raises:
      ConfigError: a setting is for another type, or does not go with the labels.
    """
    for setting in SETTINGS:
        value, default = getattr(config, setting), getattr(FinetuningConfig, setting)
        if value != default and setting not in TYPES[name].settings:
            owner = next(each.name for each in _ALL if setting in each.settings)
            raise ConfigError(
                f"{setting} {json.dumps(value)} is for tasks of {owner}, and this is one of "
                f"{name}: leave it at {json.dumps(default)}."
            )
    return TYPES[name].from_settings(labels, config)
