"""The pooled entities, in both forms of a batch, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import entity_pooling

# The tokens of both entities of each text, whose rows stand end to end. Texts 0 and 1 share tokens
# between their entities, and text 2 is padding.
ENTITIES = (((1, 2, 3), (3,)), ((6,), (5, 6, 8, 9)), ((0,), (0,)))
REAL = np.array([1, 1, 0], np.float32)


@pytest.mark.parametrize("mean", [False, True])
def test_the_entities_are_pooled_over_their_own_tokens(mean):
    vectors = np.random.default_rng(3).normal(size=(10, 4)).astype(np.float32)
    over = np.mean if mean else np.max
    expected = np.array(
        [np.concatenate([over(vectors[list(own)], axis=0) for own in both]) for both in ENTITIES]
    )
    # The last token of an entity fills up what is left.
    places = [[[*own, *[own[-1]] * (4 - len(own))] for own in both] for both in ENTITIES]
    batch = {"entities": tf.constant(places)}
    found = entity_pooling.pool(tf.constant(vectors), batch, mean).numpy()
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-6)

    numbers = np.zeros((1, 10, 2), np.int32)
    for text, both in enumerate(ENTITIES[:2], start=1):
        for side, own in enumerate(both):
            numbers[0, list(own), side] = text
    batch = {"entities_of_tokens": tf.constant(numbers), "real": tf.constant(REAL)}
    found = entity_pooling.pool(tf.constant(vectors), batch, mean).numpy()
    np.testing.assert_allclose(found, expected * REAL[:, np.newaxis], rtol=1e-6)
