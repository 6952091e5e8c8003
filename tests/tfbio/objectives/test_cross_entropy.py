"""The cross entropy of words and its gradient are those that numpy computes in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.objectives.cross_entropy import cross_entropy, most_likely


def reference(ids, logits):
    """Returns losses and their derivatives, float64 [B, N] and [B, N, V]."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=-1, keepdims=True)
    own = np.take_along_axis(shifted, ids[..., None], axis=-1)
    one_hot = ids[..., None] == np.arange(logits.shape[-1])
    return (np.log(sums) - own)[..., 0], exponentials / sums - one_hot


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_losses_and_gradients_are_numpys(scale):
    """The logits are equal, usual, or such that the words' probabilities are 0 in float32."""
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=[3, 5, 301])).astype(np.float32)
    ids, weights = rng.integers(0, 301, [3, 5]), rng.random([3, 5])
    expected, derivatives = reference(ids, logits)

    @tf.function
    def compute(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = cross_entropy(tf.constant(ids, tf.int32), logits)
            total = tf.reduce_sum(losses * tf.constant(weights, tf.float32))
        return losses, tape.gradient(total, logits)

    losses, gradient = compute(tf.constant(logits))
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, derivatives * weights[..., None], rtol=1e-5, atol=1e-7)


def test_the_first_of_equal_words_is_the_most_likely():
    logits = tf.constant([[[1.0, 3.0, 3.0], [2.0, 2.0, -1.0]]])
    np.testing.assert_array_equal(most_likely(logits), [[1, 0]])
