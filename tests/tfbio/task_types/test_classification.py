"""Tests what each kind of labels of texts is learnt from, and what is predicted."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import classification, multilabel, regression
from tfbio.text import tokenization


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


@pytest.mark.parametrize("pair", ["", "it was found that the drug is of use in the group of all"])
def test_an_entity_that_is_cut_off_is_at_the_end_of_its_own_text(pair, vocab_file):
    """Not at a token of the second text, which moves up when the first one is cut."""
    tokenizer = tokenization.load_tokenizer(vocab_file)
    task_type = classification.Classification(
        ("no", "yes"), classification.Classification.Settings(pooling="mention")
    )
    text = " ".join(["the"] * 30)
    example = LabelledText("1", f"[S1] of [E1] {text} [S2] in [E2]", "yes", pair)
    features = task_type.features([example], tokenizer, 24)
    (ids,), (entities,) = features.input_ids, features.positions["entities"]
    first, second = (ids[tokens].tolist() for tokens in entities)
    assert second[0] == tokenizer.sep_id and set(second) == {tokenizer.sep_id}
    assert entities[1][0] < len(ids) - 1 if pair else entities[1][0] == len(ids) - 1
    assert tokenizer.sep_id not in first
