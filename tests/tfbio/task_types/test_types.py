"""The task types that there are, and settings that are of another one."""

import pytest

from tfbio.base.config import ConfigError, load
from tfbio.task_types import types
from tfbio.task_types.finetuning_config import FinetuningConfig


@pytest.mark.parametrize("name", types.TYPES)
def test_the_group_of_a_task_type_has_its_name(name):
    task_type = types.TYPES[name]
    assert task_type.Settings.group == f"{name}." and task_type.name == name
    assert getattr(FinetuningConfig(), name) == task_type.Settings()


@pytest.mark.parametrize(
    "change, task_type, words",
    [
        ("tagging.scheme=IO", "classification", 'tagging.scheme "IO" is for tasks of tagging, '),
        ("multilabel.text_head=tanh", "tagging", 'multilabel.text_head "tanh" is for tasks of'),
        ("regression.scale=2", "multilabel", "regression.scale 2.0 is for tasks of regression"),
    ],
)
def test_settings_of_another_task_type_are_refused(change, task_type, words):
    settings = load(FinetuningConfig, "", [change])
    with pytest.raises(ConfigError, match=f"{words}.*this is one of {task_type}: leave it at"):
        types.make(task_type, ["O", "B", "I"], settings)
