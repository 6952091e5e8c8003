"""Attention and its gradients are those that numpy and TensorFlow derive in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models.attention import attend
from tfbio.models.randomness import dropout_mask

SEED = tf.constant([5, -6])
SHAPE = [2, 3, 16, 8]  # batch, heads, length, head_size


def inputs():
    """Returns query, key, value, upstream, and the bias of packed documents, float64."""
    rng = np.random.default_rng(0)
    documents = np.sort(rng.integers(0, 3, [2, 16]))
    same = documents[:, None, :, None] == documents[:, None, None, :]
    return [rng.normal(size=SHAPE) for _ in range(4)], -1e4 * (1.0 - same)


def reference(query, key, value, bias, factor):
    """Computes attention as the paper writes it, with a factor for each weight."""
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(SHAPE[-1]) + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights * factor @ value


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize(
    "dtype, tolerance", [(tf.float32, 1e-5), (tf.float64, 1e-12), (tf.bfloat16, 2e-2)]
)
def test_outputs_and_gradients_are_those_of_the_formula(rate, dtype, tolerance):
    given, bias = inputs()
    *given, bias = (tf.cast(tf.constant(values), dtype) for values in (*given, bias))
    seed = SEED if rate else None
    mask, scale = dropout_mask(tf.TensorShape([2, 3, 16, 16]), dtype, rate, seed)
    factor = np.ones([]) if mask is None else tf.cast(mask, tf.float64).numpy() * scale

    @tf.function
    def compute(query, key, value, upstream):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            output = attend(query, key, value, bias, rate, seed)
        return output, *tape.gradient(output, [query, key, value], upstream)

    computed = compute(*given)
    *exact, upstream = (tf.cast(values, tf.float64) for values in given)
    exact_bias = tf.cast(bias, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(exact)
        scores = tf.matmul(exact[0] / np.sqrt(SHAPE[-1]), exact[1], transpose_b=True)
        derived = tf.matmul(tf.nn.softmax(scores + exact_bias) * factor, exact[2])
    expected = derived, *tape.gradient(derived, exact, upstream)
    by_hand = reference(*(values.numpy() for values in exact), exact_bias.numpy(), factor)
    np.testing.assert_allclose(derived, by_hand, rtol=1e-12, atol=1e-12)
    for one, other in zip(computed, expected, strict=True):
        assert one.dtype == dtype
        difference = tf.cast(one, tf.float64) - other
        assert tf.norm(difference) <= tolerance * tf.norm(other)
