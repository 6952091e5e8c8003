"""Computes self-attention between its projections, in few passes over the scores."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from tfbio.models.randomness import dropout_mask


def attend(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    dropout_prob: float,
    seed: tf.Tensor | None,
) -> tf.Tensor:
    """Computes scaled dot-product attention (Vaswani et al., 2017, section 3.2.1), with dropout.

    The gradient is in closed form. With the weights P = softmax(scores), the dropout's mask M, its
    scale c and D = M * P, the output is O = c D V, and T = D * (c dO V^T) is dP * P: all that the
    derivative of softmax needs, dS = T - P * rowsum(T). So the mask is not needed again.

    Args:
      query, key, value: any float dtype, [batch, heads, length, head_size], of static shape if
        there is dropout.
      bias: the same dtype, [batch, 1, 1 or length, length], added to the scores; not
        differentiated.
      dropout_prob: the share of the weights that dropout zeroes, in [0, 1).
      seed: int32 [2], keys the dropout; None for none.

    Returns:
      [batch, heads, length, head_size], in the dtype of the three.
    """
    scaling = 1.0 / math.sqrt(query.shape[-1])

    @tf.custom_gradient
    def context(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        scaled = query * scaling
        weights = tf.nn.softmax(tf.matmul(scaled, key, transpose_b=True) + bias)
        mask, scale = dropout_mask(weights.shape, weights.dtype, dropout_prob, seed)
        kept = weights if mask is None else weights * mask
        output = tf.matmul(kept, value)
        output = output if mask is None else output * scale

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            upstream = upstream if mask is None else upstream * scale
            of_value = tf.matmul(kept, upstream, transpose_a=True)
            weighted = kept * tf.matmul(upstream, value, transpose_b=True)
            sums = tf.reduce_sum(weighted, axis=-1, keepdims=True)
            of_scores = weighted - weights * sums
            of_query = tf.matmul(of_scores, key) * scaling
            return of_query, tf.matmul(of_scores, scaled, transpose_a=True), of_value

        return output, gradient

    return context(query, key, value)
