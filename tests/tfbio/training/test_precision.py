"""Which precision a run computes in, by its settings and its devices."""

import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.training import distribution
from tfbio.training.precision import set_precision


@pytest.mark.parametrize(
    ("precision", "policy"), [("auto", "float32"), ("bfloat16", "mixed_bfloat16")]
)
def test_precision(precision, policy):
    try:
        strategy = distribution.make_strategy()
        assert set_precision(precision, strategy) in policy
        assert keras.mixed_precision.global_policy().name == policy
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [([(8, 0), (9, 0)], "bfloat16"), ([(8, 0), (7, 0)], "float32"), ([], "float32")],
)
def test_gpus_that_have_bfloat16_take_it(capabilities, expected, cpu, monkeypatch):
    gpus = [f"gpu:{number}" for number in range(len(capabilities))]
    details = dict(zip(gpus, capabilities, strict=True))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": details[gpu]},
    )
    before = keras.mixed_precision.global_policy()
    try:
        assert set_precision("auto", cpu) == expected
    finally:
        keras.mixed_precision.set_global_policy(before)
