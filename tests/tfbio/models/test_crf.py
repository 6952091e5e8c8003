"""CRFs: against all sequences of tags, one by one."""

import itertools

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbio.models import crf
from tfbio.models.head_config import NO_TARGET

TAGS = 3


@pytest.fixture(scope="module")
def rows():
    """Two rows of several texts, some tokens without targets, and padding."""
    rng = np.random.default_rng(0)
    documents = np.array([[1, 1, 1, 1, 1, 2, 2, 2, 3, 0], [4, 4, 4, 4, 4, 4, 4, 5, 0, 0]], np.int32)
    targets = rng.integers(0, TAGS, documents.shape).astype(np.int32)
    targets[documents == 0] = NO_TARGET
    targets[0, [0, 2, 5]] = targets[1, [0, 1, 4, 6, 7]] = NO_TARGET  # text 5 has no word at all
    emissions = rng.normal(0, 2, (*documents.shape, TAGS)).astype(np.float32)
    transitions = rng.normal(0, 2, (TAGS, TAGS)).astype(np.float32)
    return emissions, transitions, targets, documents


def chains(rows):
    """Row, and the places of the words, of every text."""
    _, _, targets, documents = rows
    for row in range(2):
        for number in np.unique(documents[row][documents[row] > 0]):
            words = (documents[row] == number) & (targets[row] != NO_TARGET)
            if words.any():
                yield row, np.flatnonzero(words)


def score(emissions, transitions, tags):
    pairs = itertools.pairwise(tags)
    return sum(emissions[i, tag] for i, tag in enumerate(tags)) + sum(transitions[p] for p in pairs)


def likelihood(rows):
    """The negative log-likelihood of each row, and the best tags, from the definition."""
    emissions, transitions, targets, _ = rows
    losses, best = np.zeros(2), np.zeros_like(targets)
    for row, words in chains(rows):
        own = emissions[row, words]
        sequences = [*itertools.product(range(TAGS), repeat=len(words))]
        scores = [score(own, transitions, tags) for tags in sequences]
        losses[row] += scipy.special.logsumexp(scores)
        losses[row] -= score(own, transitions, targets[row, words])
        best[row, words] = sequences[np.argmax(scores)]
    return losses, best


@pytest.mark.parametrize("jit_compile", [False, True])
def test_all_sequences_one_by_one(rows, jit_compile):
    expected, best = likelihood(rows)
    losses = tf.function(crf.losses, jit_compile=jit_compile)(*map(tf.constant, rows))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    found = tf.function(crf.decode, jit_compile=jit_compile)(*map(tf.constant, rows)).numpy()
    np.testing.assert_array_equal(found, best)
    # The transitions matter here: word by word, other tags would be best.
    words = rows[2] != NO_TARGET
    assert (np.argmax(rows[0], axis=-1) != best)[words].any()


def test_the_probability_of_a_tag_is_that_of_all_sequences_with_it(rows):
    emissions, transitions, targets, _ = rows
    expected = np.zeros_like(emissions)
    for row, words in chains(rows):
        sequences = [*itertools.product(range(TAGS), repeat=len(words))]
        scores = [score(emissions[row, words], transitions, tags) for tags in sequences]
        for tags, share in zip(sequences, scipy.special.softmax(scores), strict=True):
            expected[row, words, tags] += share
    found = crf.marginals(*map(tf.constant, rows)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (expected.sum(axis=-1) > 0).any()


def test_gradients_are_those_of_the_definition(rows):
    """By finite differences of all sequences, in float64."""
    emissions, transitions, targets, documents = rows
    exact = [emissions.astype(np.float64), transitions.astype(np.float64), targets, documents]
    inputs = [tf.constant(emissions), tf.constant(transitions)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(crf.losses(*inputs, tf.constant(targets), tf.constant(documents)))
    for gradient, values in zip(tape.gradient(loss, inputs), exact, strict=False):
        for place in np.ndindex(values.shape):
            before = values[place]
            ends = []
            for step in (1e-4, -1e-4):
                values[place] = before + step
                ends.append(likelihood(exact)[0].sum())
            values[place] = before
            assert float(gradient[place]) == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-4)


def test_without_transitions_it_is_cross_entropy_of_every_word(rows):
    emissions, transitions, targets, documents = rows
    losses = crf.losses(emissions, tf.zeros_like(transitions), targets, documents)
    words = targets != NO_TARGET
    each = -scipy.special.log_softmax(emissions, axis=-1)[words][
        np.arange(words.sum()), targets[words]
    ]
    assert float(tf.reduce_sum(losses)) == pytest.approx(each.sum(), rel=1e-5)
