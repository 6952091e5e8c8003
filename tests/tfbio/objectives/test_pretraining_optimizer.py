"""The optimizer of a pretraining run has the settings' learning rates."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from tfbio.base.errors import UserError
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_optimizer import make_optimizer


def test_lamb_without_model_garden_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "official.modeling.optimization", None)
    monkeypatch.delitem(sys.modules, "tfbio.training.lamb", raising=False)
    with pytest.raises(UserError, match=r"optimizer = lamb .*pip install 'tfbio\[model-garden\]'"):
        make_optimizer(PretrainingConfig(optimizer="lamb"))


@pytest.mark.parametrize("name", ["linear", "triangular"])
def test_the_schedule_is_the_one_asked_for(name):
    """PubMedBERT's steps: 10 % of 62,500 are the warm-up, and the peak is 6e-4 or a tenth less."""
    settings = PretrainingConfig(
        schedule=name, learning_rate=6e-4, num_train_steps=62_500, num_warmup_steps=6_250
    )
    rate = make_optimizer(settings).learning_rate
    steps = np.array([1, 3_125, 6_250, 34_375, 62_500])
    expected = {
        "linear": 6e-4 * (1 - steps / 62_500) * np.minimum(1, steps / 6_250),
        # Half way up, at the peak, half way down, at the end.
        "triangular": [6e-4 / 6_250, 3e-4, 6e-4, 3e-4, 0.0],
    }
    found = [float(rate(tf.constant(step - 1, tf.int64))) for step in steps]
    np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(("optimizer", "switch"), [("lamb", "lamb"), ("adamw", "adam")])
@pytest.mark.parametrize("corrects", [True, False])
def test_each_optimizer_has_its_own_switch_of_the_bias_correction(optimizer, switch, corrects):
    settings = {"optimizer": optimizer, f"{switch}_bias_correction": corrects}
    made = vars(make_optimizer(PretrainingConfig(**settings)))
    (found,) = (made[name] for name in ("_bias_correction", "bias_correction") if name in made)
    assert found is corrects
