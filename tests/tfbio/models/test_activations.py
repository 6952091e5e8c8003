"""Tests of the activation functions."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import activations, compiled, target

# All can be told in bfloat16.
INPUTS = tf.cast(tf.random.stateless_normal([50, 24], [0, 1]) * 3.0, tf.bfloat16)
UPSTREAM = tf.cast(tf.random.stateless_normal([50, 24], [0, 2]), tf.bfloat16)


def computed(function, dtype):
    """Returns a function's values and gradients in float64, computed in a dtype."""

    @tf.function(autograph=False)
    def both():
        inputs = tf.cast(INPUTS, dtype)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
        return outputs, tape.gradient(outputs, inputs, tf.cast(UPSTREAM, dtype))

    with tf.device("/cpu:0"):
        found = both()
    assert all(each.dtype == dtype and each.shape == INPUTS.shape for each in found)
    return [tf.cast(each, tf.float64).numpy() for each in found]


def exact(name):
    """Returns the function in float64; the constants of TensorFlow's own are of float32."""

    def of_tanh(x):
        return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))

    def of_erf(x):
        return 0.5 * x * tf.math.erfc(-x * math.sqrt(0.5))

    return of_tanh if name == "gelu_new" else of_erf


@pytest.mark.parametrize("in_training", [False, True])
@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_values_and_gradients_equal_tensorflows(name, in_training):
    """The closed form against what TensorFlow derives."""
    own = functools.partial(activations.ACTIVATIONS[name], in_training=in_training)
    tensorflows = functools.partial(tf.nn.gelu, approximate=name == "gelu_new")
    for dtype, peer, limit in (
        (tf.float32, tensorflows, 1e-5),
        (tf.float64, exact(name), 1e-13),
    ):
        for mine, expected in zip(computed(own, dtype), computed(peer, dtype), strict=True):
            np.testing.assert_allclose(mine, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_a_bias_is_added_first(name, dtype, is_compiled, monkeypatch):
    monkeypatch.setattr(target, "is_cpu", lambda: True)
    monkeypatch.setattr(compiled, "is_for", lambda dtype: is_compiled)
    own = activations.ACTIVATIONS[name]
    inputs, bias = tf.cast(INPUTS, dtype), tf.cast(INPUTS[0], dtype)
    with tf.device("/cpu:0"), tf.GradientTape(persistent=True) as tape:
        tape.watch([inputs, bias])
        found = own(inputs, bias, in_training=True)
        expected = own(inputs + bias, in_training=True)
    limit = 1e-6 if dtype == tf.float32 else 2**-5
    ours, plain = (tape.gradient(each, [inputs, bias]) for each in (found, expected))
    for mine, other in zip([found, *ours], [expected, *plain], strict=True):
        assert mine.dtype == dtype and mine.shape == other.shape
        mine, other = (tf.cast(x, tf.float32).numpy() for x in (mine, other))
        np.testing.assert_allclose(mine, other, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_training_in_bfloat16_on_a_cpu_rounds_each_result_once(name, monkeypatch):
    """The plain form rounds the result of each operation."""
    monkeypatch.setattr(target, "is_cpu", lambda: True)
    own = activations.ACTIVATIONS[name]
    expected = computed(exact(name), tf.float64)

    def errors(in_training):
        found = computed(functools.partial(own, in_training=in_training), tf.bfloat16)
        return [
            np.max(np.abs(mine - right) / np.abs(right).clip(2**-7))
            for mine, right in zip(found, expected, strict=True)
        ]

    # Half a unit in the last place: 2^-8. The gradient is the product of a rounded derivative.
    (values, gradients), (plain_values, plain_gradients) = errors(True), errors(False)
    assert values <= 2**-8 < plain_values
    assert gradients <= 2**-7 < plain_gradients


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_other_devices_compute_as_before(name, monkeypatch):
    """Their compiler, or their passes over memory, decide otherwise."""
    own = functools.partial(activations.ACTIVATIONS[name], in_training=True)
    plain = computed(activations.ACTIVATIONS[name], tf.bfloat16)
    monkeypatch.setattr(target, "is_cpu", lambda: True)
    special = computed(own, tf.bfloat16)
    monkeypatch.setattr(target, "is_cpu", lambda: False)
    same = computed(own, tf.bfloat16)
    assert all(np.array_equal(one, other) for one, other in zip(plain, same, strict=True))
    assert not all(np.array_equal(one, other) for one, other in zip(plain, special, strict=True))
