"""Tests what each kind of labels of texts is learnt from, and what is predicted."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbio.task_types import classification, multilabel, regression


def test_losses_and_predictions_of_each_kind():
    logits = np.array([[2.0, -1.0, 0.5], [0.1, 3.0, -2.0]], np.float32)

    task_type = classification.Classification(("x", "y", "z"))
    losses, weights = task_type.losses(tf.constant(logits), {"targets": tf.constant([2, 1])})
    expected = -np.log(scipy.special.softmax(logits, axis=1)[[0, 1], [2, 1]])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert weights.numpy().tolist() == [1, 1]
    outputs = task_type.outputs(tf.constant(logits), {}).numpy()
    assert task_type.predictions(outputs, None, None) == ["x", "y"]

    task_type = regression.Regression()
    losses, _ = task_type.losses(tf.constant(logits[:, :1]), {"targets": tf.constant([1.5, 0.0])})
    np.testing.assert_allclose(losses, [0.25, 0.01], rtol=1e-5)
    outputs = task_type.outputs(tf.constant(logits[:, :1]), {}).numpy()
    assert task_type.predictions(outputs, None, None) == pytest.approx([2.0, 0.1])

    task_type = multilabel.MultiLabel(("x", "y", "z"))
    truth = np.array([[1, 0, 1], [0, 0, 1]], np.float32)
    losses, _ = task_type.losses(tf.constant(logits), {"targets": tf.constant(truth)})
    p = scipy.special.expit(logits)
    expected = -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).sum(axis=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    outputs = task_type.outputs(tf.constant(logits), {}).numpy()
    assert task_type.predictions(outputs, None, None) == [("x", "z"), ("x", "y")]
