"""Adds the biases of layers to rows, with a gradient that loses nothing in bfloat16."""

from collections.abc import Callable

import tensorflow as tf

from tfbio.models import target


def add_bias(rows: tf.Tensor, bias: tf.Tensor, apart: bool = False) -> tf.Tensor:
    """Adds a bias to rows, on CPUs and GPUs as the operation that TensorFlow fuses into a product.

    The gradient of that operation adds up bfloat16 rows in bfloat16 on a CPU; this one does not.

    Args:
      rows: any float dtype, [rows, size].
      bias: the same dtype, [size].
      apart: True to keep it out of the product that it follows, which in bfloat16 is faster in
        training: oneDNN multiplies with AMX only where there is no bias.

    Returns:
      [rows, size], the same dtype.
    """
    if target.is_tpu() or target.is_mesh():
        return rows + bias

    @tf.custom_gradient
    def add(rows: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return upstream, sum_of_rows(upstream)

        if not apart:
            return tf.nn.bias_add(rows, bias), gradient
        # Of another shape than the product's, it is not fused into it.
        total = tf.nn.bias_add(tf.expand_dims(rows, 0), bias)
        return tf.reshape(total, rows.shape), gradient

    return add(rows, bias)


def sum_of_rows(rows: tf.Tensor) -> tf.Tensor:
    """Sums rows up: any float dtype, [rows, size] -> [size], the same dtype."""
    if target.is_cpu() and rows.dtype != tf.bfloat16:
        # It is faster, but sums bfloat16 up in bfloat16, where a sum of ones ends at 256.
        return tf.raw_ops.BiasAddGrad(out_backprop=rows)
    return tf.reduce_sum(rows, axis=0)
