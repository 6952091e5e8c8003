"""Finds the largest value of each segment, such as each window's among the tokens of a batch."""

from __future__ import annotations

import tensorflow as tf

from tfbio.models import target


def segment_max(values: tf.Tensor, segments: tf.Tensor, count: int) -> tf.Tensor:
    """Computes `tf.math.unsorted_segment_max`, also on a mesh of devices.

    DTensor cannot divide that operation. On a mesh each value is compared with each segment.

    Args:
      values: any number type [n, ...], of static rank.
      segments: int32 [n], the segment of each; those below 0 are left out.
      count: the number of segments.

    Returns:
      [count, ...], of the dtype of `values`; its lowest number for a segment without values.
    """
    if not target.is_mesh():
        return tf.math.unsorted_segment_max(values, segments, count)
    # `expand_dims`, since indexing with a new axis ends the process where the values are divided.
    own = tf.expand_dims(segments, 1) == tf.range(count)
    for axis in range(2, values.shape.rank + 1):
        own = tf.expand_dims(own, axis)
    lowest = tf.constant(values.dtype.min, values.dtype)
    return tf.reduce_max(tf.where(own, tf.expand_dims(values, 1), lowest), axis=0)
