"""Computes a task's logits where each row of a batch has one text, as in an ONNX model.

`TaskModel.call` takes rows of several texts. Its operations on segments are not used here: tf2onnx
1.17 writes others for them without a word, in which the negative numbers of padding are the last
text's.
"""

from __future__ import annotations

import tensorflow as tf

from tfbio.models.task_model import TaskModel


def compute(model: TaskModel, ids: tf.Tensor, mask: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
    """Computes a task's logits of one text a row, to rounding those of `TaskModel.call`.

    Args:
      model: a model without a `SpanHead`, without a CRF and without pooling by entities.
      ids: int32 [batch, tokens], padding after the tokens of each text.
      mask: int32 [batch, tokens], 1 for tokens and 0 for padding.
      segments: int32 [batch, tokens].

    Returns:
      float32 [batch, tokens, outputs] for tokens, those of padding mean nothing; else [batch,
      outputs].
    """
    hidden = model.encoder(ids, mask, segments)
    batch, length = tf.unstack(tf.shape(mask))
    if model.lstm is not None:
        documents = mask * tf.range(1, batch + 1)[:, tf.newaxis]
        hidden = model.lstm(hidden, documents)
    if model.of_tokens:
        logits = model.head_logits(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        return tf.reshape(logits, [batch, length, logits.shape[-1]])
    return model.head_logits(_pool(model, hidden, mask))


def _pool(model: TaskModel, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Turns the vectors of tokens, [batch, tokens, size], into those of texts, [batch, size]."""
    if model.head_config.pooling == "mean":
        weights = tf.cast(mask, hidden.dtype)[:, :, tf.newaxis]
        return tf.reduce_sum(hidden * weights, axis=1) / tf.reduce_sum(weights, axis=1)
    if model.lstm is None:
        return hidden[:, 0]
    half = hidden.shape[-1] // 2
    last = tf.reduce_sum(mask, axis=1) - 1
    forward = tf.gather(hidden[:, :, :half], last, batch_dims=1)
    return tf.concat([forward, hidden[:, 0, half:]], axis=1)
