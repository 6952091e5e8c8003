"""Which settings may change where a trained model reads new text."""

import pytest

from tfbio.base.config import ConfigError
from tfbio.task_types import new_text_settings


def test_how_a_model_computes_and_what_it_reads_may_change():
    given = [f"{name}=1" for name in new_text_settings.SETTINGS]
    new_text_settings.check([*given, "run.predict_train=true", 'run={"pack": false}'])


@pytest.mark.parametrize(
    "name",
    ["learning_rate", "seed", "classification.pooling", "tagging.early_cut", "question_answering"],
)
def test_what_a_trained_model_keeps_may_not(name):
    said = f"^--set: {name} is for training: a trained model keeps it. Give settings of run, seq"
    with pytest.raises(ConfigError, match=said):
        new_text_settings.check(["run.pack=false", f"{name}=1"])
