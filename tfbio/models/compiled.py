"""Compiles chains of operations on a CPU, so that each reads and writes memory once."""

import functools
import os
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
        if not is_for(first.dtype):
            return function(first, *others)
        _compile_quietly()
        return by_xla(first, *others)

    return call  # type: ignore[return-value]


def is_for(dtype: tf.DType) -> bool:
    """Returns True if chains of operations in a dtype are compiled: on one CPU device of Linux.

    Several devices that each wait for the other's compilation do not end (TensorFlow 2.20), and
    float64 is for judging the rounding of single operations.
    """
    one_device = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return target.is_cpu() and one_device and dtype.size <= 4 and sys.platform == "linux"


@functools.cache
def _compile_quietly() -> None:
    """Compiles a function once, while nobody reads stderr.

    XLA tells of a process' first compilation there, whatever TF_CPP_MIN_LOG_LEVEL is (TensorFlow
    2.20).
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") == "0":
        return
    try:
        stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # it is closed
        return
    try:
        os.dup2(nowhere, 2)
        with tf.init_scope(), tf.device("CPU:0"):
            tf.function(tf.negative, jit_compile=True)(tf.constant(1.0))
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
