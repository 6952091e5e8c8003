"""The head's layer on [CLS]; test_packing.py and test_fine_tuned.py have more of the model."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel

SHAPE = EncoderConfig(11, 8, 8, 1, 2, 16, 8, 2, 0.0, 0.0)
BATCH = {
    "input_ids": tf.constant([[2, 5, 6], [2, 7, 3]]),
    "segment_ids": tf.zeros([2, 3], tf.int32),
    "document_ids": tf.constant([[1, 1, 1], [2, 2, 0]]),
    "position_ids": tf.constant([[0, 1, 2], [0, 1, 0]]),
    "first": tf.constant([0, 3]),
}


def test_dropout_comes_after_the_pooled_vector():
    """As in run_classifier.py of google-research/bert; not before its dense layer."""
    model = TaskModel(SHAPE, HeadConfig(8, False, 0.5, text_layer="tanh"))
    model.head.kernel.assign(tf.eye(8))
    model.pooler.kernel.assign(tf.random.stateless_normal([8, 8], [1, 2]))
    pooled = model(BATCH).numpy()
    assert 0.1 < np.abs(pooled).max() <= 1  # which a float32 tanh reaches
    dropped = np.stack([model(BATCH, seed=tf.constant([0, n])).numpy() for n in range(20)])
    kept = dropped != 0
    assert 0.3 < kept.mean() < 0.7
    np.testing.assert_allclose(dropped[kept], np.broadcast_to(2 * pooled, kept.shape)[kept], 1e-5)


@pytest.mark.parametrize("text_head", ["tanh", "gelu"])
def test_the_layer_computes_in_float32_where_the_encoder_does_not(text_head):
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = TaskModel(SHAPE, HeadConfig(3, False, 0.1, text_layer=text_head))
        with tf.GradientTape() as tape:
            logits = model(BATCH)
    finally:
        keras.mixed_precision.set_global_policy(before)
    gradients = tape.gradient(logits, model.pooler.trainable_variables)
    for value in (logits, *model.pooler.variables, *gradients):
        assert value.dtype == tf.float32
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)
