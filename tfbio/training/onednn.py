"""Lets predictions take the forms that oneDNN has, with which TensorFlow computes on x86 CPUs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable

import tensorflow as tf
import tf_keras as keras
from tensorflow.python.util import _pywrap_util_port

from tfbio.models import target
from tfbio.training import cpu_bfloat16, distribution


def form_of_prediction(
    strategy: tf.distribute.Strategy,
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Chooses the form of predictions: on a CPU with oneDNN, LayerNorm is one operation of it.

    Args:
      strategy: where the prediction computes; other than one CPU, its graphs stay as they are.

    Returns:
      A function that returns a context to trace graphs of predictions in, for layers of the compute
      dtype that Keras' policy has now.
    """
    dtype = keras.mixed_precision.global_policy().compute_dtype
    has_layer_norm = dtype == "float32" or (dtype == "bfloat16" and _has_bfloat16())
    if distribution.is_one_device(strategy, "CPU") and _has_onednn() and has_layer_norm:
        return target.onednn_prediction
    return contextlib.nullcontext


def _has_onednn() -> bool:
    """Returns True on x86, unless TensorFlow is without it or told so (TF_ENABLE_ONEDNN_OPTS)."""
    on_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return on_x86 and _pywrap_util_port.IsMklEnabled()


def _has_bfloat16() -> bool:
    """Returns True if oneDNN computes LayerNorm in bfloat16: that takes AVX-512."""
    return not cpu_bfloat16.cuts_off_products() and cpu_bfloat16.may_use_avx512()
