"""Compiles chains of operations on a CPU, so that each reads and writes memory once."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from tfbio.models import target

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Makes a function that XLA compiles where `is_for` says so, and that is plain elsewhere.

    It is for chains of element-wise operations, each of which TensorFlow would write to memory for
    the next one to read. XLA makes one loop of them.

    Args:
      function: takes and returns tensors, the first of which decides; other arguments must be
        hashable. It must not read variables.

    Returns:
      A function of the same arguments and results. It has no gradient of its own in either form:
      call it in a `tf.custom_gradient`.

    Example:

    >>> @compiled
    ... def squared_sum(one, other):
    ...     return tf.square(one + other)
    >>> print(squared_sum(tf.constant([1.0, 2.0]), tf.constant([1.0, 1.0])))
    tf.Tensor([4. 9.], shape=(2,), dtype=float32)
    """
    by_xla = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(first: tf.Tensor, *others: Any) -> Any:
        return (by_xla if is_for(first.dtype) else function)(first, *others)

    return call  # type: ignore[return-value]


def is_for(dtype: tf.DType) -> bool:
    """Returns True if chains of operations in a dtype are compiled: on one CPU device of Linux.

    Several devices that each wait for the other's compilation do not end (TensorFlow 2.20), and
    float64 is for judging the rounding of single operations.
    """
    one_device = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return target.is_cpu() and one_device and dtype.size <= 4 and sys.platform == "linux"
