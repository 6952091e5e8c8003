"""Tests the pooling of a relation's entities, in both forms of a batch, against numpy."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import entity_pooling

VECTORS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
# Of each text the tokens of the first entity and of the second one.
ENTITIES = [([1, 2, 3], [5]), ([7], [8, 10])]


@pytest.mark.parametrize("over", ["max", "mean"])
def test_entities_are_pooled_alike_in_both_forms(over):
    expected = [
        np.concatenate([getattr(VECTORS[tokens], over)(axis=0) for tokens in both])
        for both in ENTITIES
    ]
    filled = [[[*own, *own[-1:] * (3 - len(own))] for own in both] for both in ENTITIES]
    mean = over == "mean"
    found = entity_pooling.pool(VECTORS, {"entities": tf.constant(filled)}, mean)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # By number; there is room for a third text, which is not there.
    numbers = np.zeros([2, 6, 2], np.int32)
    for text, both in enumerate(ENTITIES, start=1):
        for group, tokens in enumerate(both):
            numbers.reshape(12, 2)[tokens, group] = text
    batch = {"entities_of_tokens": tf.constant(numbers), "real": tf.constant([1.0, 1.0, 0.0])}
    pool = tf.function(entity_pooling.pool, jit_compile=True)
    found = pool(tf.constant(VECTORS), batch, mean)
    np.testing.assert_allclose(found, [*expected, np.zeros(6)], atol=1e-6)
