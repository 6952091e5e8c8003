"""Chooses the precision that a run computes in: float32, or bfloat16 where a device has it."""

from __future__ import annotations

from tfbio.base.lazy import tensorflow as tf
from tfbio.training.devices import HAVE_BFLOAT16


def set_precision(precision: str, strategy: tf.distribute.Strategy) -> str:
    """Sets the precision that a run's Keras layers compute in, float32 or bfloat16.

    Weights, losses and optimizer slots stay float32.

    Args:
      precision: "float32", "bfloat16", or "auto" for bfloat16 on a TPU and on a GPU that has it
        (NVIDIA's since Ampere, compute capability 8.0), and float32 elsewhere.
      strategy: where the run computes.

    Returns:
      The chosen precision, "float32" or "bfloat16".

    Raises:
      KeyError: `precision` is none of the three.
    """
    import tf_keras as keras

    if precision == "auto":
        on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        precision = "bfloat16" if on_tpu or _gpus_have_bfloat16() else "float32"
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[precision]
    keras.mixed_precision.set_global_policy(policy)
    return precision


def precision_on(precision: str, name: str) -> str:
    """Returns the precision that a run would have on a device given by its name.

    Args:
      precision: "float32", "bfloat16" or "auto".
      name: one of `devices.DEVICES`, such as "tpu-v3-8".

    Returns:
      "bfloat16" or "float32"; for the setting "auto" bfloat16 on devices that multiply it as such.
    """
    if precision != "auto":
        return precision
    return "bfloat16" if name.startswith(HAVE_BFLOAT16) else "float32"


def _gpus_have_bfloat16() -> bool:
    """Returns True if there are GPUs, and all multiply bfloat16 numbers as such."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return bool(gpus) and all(each.get("compute_capability", (0,)) >= (8, 0) for each in details)
