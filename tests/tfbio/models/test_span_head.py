"""ELECTRA's head for answers against its equations, text by text in float64.

Against the original code's numbers: tests/tfbio/test_authors.py.
"""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import tf_keras as keras

from tfbio.models.span_head import SpanHead
from tfbio.task_types import packing, row_placement
from tfbio.task_types.features import Features
from tfbio.task_types.question_answering import QuestionAnswering

SIZE, BEAM = 6, 3
ELECTRA = QuestionAnswering.Settings(head="electra", beam_size=BEAM)
# Of [CLS] question [SEP] context [SEP].
LENGTHS = [(2, 5), (1, 7), (3, 1), (2, 4)]


@pytest.fixture(scope="module")
def head():
    keras.utils.set_random_seed(0)
    made = SpanHead(SIZE, BEAM)
    rng = np.random.default_rng(0)
    for variable in made.variables:
        variable.assign_add(rng.normal(0, 0.3, variable.shape))
    return made


@pytest.fixture(scope="module")
def batch():
    """A batch of several texts to a row, and the vector of each token."""
    features = Features([], [], np.arange(len(LENGTHS)), per_window={"targets": []})
    rng = np.random.default_rng(1)
    for question, context in LENGTHS:
        segments = [0] * (question + 2) + [1] * (context + 1)
        features.input_ids.append(np.arange(len(segments)))
        features.segment_ids.append(np.array(segments))
        start = question + 2 + int(rng.integers(context))
        features.per_window["targets"].append(np.array([start, start, 0], np.int32))
    features.per_window["targets"][1][:] = 0, 0, 1
    made = packing.fill(features, np.arange(4), row_placement.first_fit(features.lengths, 32), 3, 0)
    vectors = rng.normal(size=[made["input_ids"].size, SIZE]).astype(np.float32)
    return {name: tf.constant(array) for name, array in made.items()}, vectors, features


def scores(head, vectors, segments):
    """Of one text: the scores of starts, of ends for each start [starts, ends], of no answer."""
    vectors = vectors.astype(np.float64)
    layer = {
        name: [x.astype(np.float64) for x in getattr(head, name).get_weights()]
        for name in ("start", "end_hidden", "end", "no_answer_hidden", "no_answer")
    }

    def dense(inputs, name):
        return inputs @ layer[name][0] + layer[name][1]

    def gelu(x):
        return x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2

    masked = np.where(segments == 1, 0.0, -1000.0)
    masked[0] = 0.0
    start = dense(vectors, "start")[:, 0] + masked
    ends = [
        dense(
            gelu(dense(np.hstack([np.tile(one, [len(vectors), 1]), vectors]), "end_hidden")), "end"
        )[:, 0]
        + masked
        for one in vectors
    ]
    mean = scipy.special.softmax(start) @ vectors
    hidden = gelu(dense(np.concatenate([vectors[0], mean]), "no_answer_hidden"))
    return start, np.array(ends), dense(hidden, "no_answer")[0]


def test_training_scores_ends_for_the_true_start(head, batch):
    arrays, vectors, features = batch
    found = head(vectors, arrays, is_training=True)
    losses, weights = QuestionAnswering(settings=ELECTRA).losses(found, arrays)
    assert weights.numpy().tolist() == [1.0] * 4
    for number, first in enumerate(arrays["first"].numpy()):
        target, segments = features.per_window["targets"][number], features.segment_ids[number]
        own = slice(first, first + len(segments))
        start, ends, no_answer = scores(head, vectors[own], segments)
        np.testing.assert_allclose(found.start[own], start, atol=1e-4)
        np.testing.assert_allclose(found.end[own], ends[target[0]], atol=1e-4)
        assert found.no_answer[number].numpy() == pytest.approx(no_answer, abs=1e-5)
        expected = [scipy.special.log_softmax(x) for x in (start, ends[target[0]])]
        sign = 1 if target[2] else -1
        loss = np.log1p(np.exp(-sign * no_answer)) / 2
        loss -= (expected[0][target[0]] + expected[1][target[1]]) / 2
        assert losses[number].numpy() == pytest.approx(loss, abs=1e-5)


def test_prediction_follows_the_best_starts(head, batch):
    arrays, vectors, features = batch
    del (arrays := dict(arrays))["targets"]
    found = head(vectors, arrays, is_training=False).numpy()
    assert found.shape == (vectors.shape[0], 2 + BEAM)
    for number, first in enumerate(arrays["first"].numpy()):
        segments = features.segment_ids[number]
        own = slice(first, first + len(segments))
        start, ends, no_answer = scores(head, vectors[own], segments)
        np.testing.assert_allclose(found[own, 0], start, atol=1e-4)
        np.testing.assert_allclose(found[own, 1], no_answer, atol=1e-5)
        for rank, place in enumerate(np.argsort(-start)[:BEAM]):
            expected = scipy.special.log_softmax(ends[place])
            np.testing.assert_allclose(found[own, 2 + rank], expected, atol=1e-3)


def test_gradients_are_finite_where_a_piece_has_no_token(head, batch):
    """As batches of fixed shapes have such."""
    arrays, vectors, _ = batch
    arrays = {
        **arrays,
        "first": tf.concat([arrays["first"], [0, 0]], axis=0),
        "targets": tf.concat([arrays["targets"], tf.zeros([2, 3], tf.int32)], axis=0),
    }
    with tf.GradientTape() as tape:
        found = head(vectors, arrays, is_training=True)
        losses, _ = QuestionAnswering(settings=ELECTRA).losses(found, arrays)
        loss = tf.reduce_sum(losses[:4])
    for gradient in tape.gradient(loss, head.trainable_variables):
        assert np.isfinite(gradient.numpy()).all()
    assert np.isfinite(head(vectors, arrays, is_training=False).numpy()).all()
