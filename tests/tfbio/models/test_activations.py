"""Tests of the activation functions."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import activations


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_values_and_gradients_equal_tensorflows(name):
    """The closed form against what TensorFlow derives."""
    inputs = tf.random.stateless_normal([50, 24], [0, 1]) * 3.0
    upstream = tf.random.stateless_normal([50, 24], [0, 2])
    peer = functools.partial(tf.nn.gelu, approximate=name == "gelu_new")
    results = []
    for function in (activations.ACTIVATIONS[name], peer):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(inputs)
        results.append([output, tape.gradient(output, inputs, upstream)])
    for mine, expected in zip(*results, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)
