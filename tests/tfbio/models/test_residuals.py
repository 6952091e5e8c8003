"""Tests of what a sub-layer adds to its input."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models.randomness import dropout
from tfbio.models.residuals import add_with_dropout

SHAPE = [40, 24]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.01])  # with no draws, of 8 bits, and of 16
@pytest.mark.parametrize(("dtype", "limit"), [(tf.float32, 1e-6), (tf.bfloat16, 2**-6)])
def test_sum_and_gradients_are_those_of_the_plain_operations(dtype, limit, rate):
    product, residual, upstream = (
        tf.cast(tf.random.stateless_normal(SHAPE, [0, i]), dtype) for i in range(3)
    )
    bias = tf.cast(tf.random.stateless_normal(SHAPE[1:], [0, 3]), dtype)
    arguments, seed = [product, bias, residual], tf.constant([1, 2])

    def plain(product, bias, residual):
        return dropout(product + bias, rate, seed) + residual

    def own(product, bias, residual):
        return add_with_dropout(product, bias, residual, rate, seed)

    def computed(function):
        @tf.function(autograph=False)
        def both(*arguments):
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                total = function(*arguments)
            return [total, *tape.gradient(total, arguments, upstream)]

        return [each.numpy().astype("f8") for each in both(*arguments)]

    found, expected = computed(own), computed(plain)
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=limit, atol=limit)
    # The same elements are dropped: their gradients are 0.
    np.testing.assert_array_equal(found[1] == 0, expected[1] == 0)
    assert (found[1] == 0).any() == (rate > 0)


def test_without_a_seed_nothing_is_dropped():
    ones = tf.ones(SHAPE)
    total = add_with_dropout(ones, tf.ones(SHAPE[1:]), ones, 0.5, None)
    np.testing.assert_array_equal(total, 3 * np.ones(SHAPE))


def test_it_adds_in_float32():
    """In bfloat16 256 + 1 is 256, and so would be the sum of the three."""
    large, one = tf.fill(SHAPE, tf.cast(256.0, tf.bfloat16)), tf.ones(SHAPE, tf.bfloat16)
    total = add_with_dropout(large, tf.ones(SHAPE[1:], tf.bfloat16), one, 0.0, None)
    np.testing.assert_array_equal(tf.cast(total, tf.float32), 258 * np.ones(SHAPE))
