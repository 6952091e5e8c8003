"""Adds what a sub-layer of an encoder makes to its input, in training on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfbio.models.biases import sum_of_rows
from tfbio.models.compiled import compiled
from tfbio.models.randomness import dropout_draws


def add_with_dropout(
    product: tf.Tensor, bias: tf.Tensor, residual: tf.Tensor, rate: float, seed: tf.Tensor | None
) -> tf.Tensor:
    """Adds a bias to a product, drops elements out, and adds the residual, in one compiled loop.

    It computes in float32, also of bfloat16. The masks are those of `randomness.dropout`.

    Args:
      product, residual: any float dtype, [rows, size], of static shape.
      bias: the same dtype, [size].
      rate: the share that dropout zeroes, in [0, 1).
      seed: int32 [2], keys the dropout; None for none.

    Returns:
      [rows, size], the same dtype.
    """
    draws, least, scale = dropout_draws(product.shape, product.dtype, rate, seed)

    @tf.custom_gradient
    def total(
        product: tf.Tensor, bias: tf.Tensor, residual: tf.Tensor
    ) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            kept = upstream if draws is None else _scale_kept(upstream, draws, least, scale)
            return kept, sum_of_rows(kept), upstream

        return _total(product, bias, residual, draws, least, scale), gradient

    return total(product, bias, residual)


@compiled
def _total(
    product: tf.Tensor,
    bias: tf.Tensor,
    residual: tf.Tensor,
    draws: tf.Tensor | None,
    least: int,
    scale: float,
) -> tf.Tensor:
    added = tf.cast(product, tf.float32) + tf.cast(bias, tf.float32)
    if draws is not None:
        added = _kept(added, draws, least, scale)
    return tf.cast(added + tf.cast(residual, tf.float32), product.dtype)


@compiled
def _scale_kept(upstream: tf.Tensor, draws: tf.Tensor, least: int, scale: float) -> tf.Tensor:
    return tf.cast(_kept(tf.cast(upstream, tf.float32), draws, least, scale), upstream.dtype)


def _kept(values: tf.Tensor, draws: tf.Tensor, least: int, scale: float) -> tf.Tensor:
    """Scales the values whose draws are at least so large, and zeroes the others."""
    return tf.where(draws >= tf.constant(least, draws.dtype), values * scale, 0.0)
