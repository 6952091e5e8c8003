"""Chooses the precision that a run computes in: float32, or bfloat16 where a device has it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from tfbio.base.errors import UserError
from tfbio.base.lazy import tensorflow as tf
from tfbio.training import cpu_bfloat16
from tfbio.training.devices import HAVE_BFLOAT16

# Encoders with smaller layers compute in float32 on a CPU: the products are a small part of their
# steps, and bfloat16 gains little (docs/benchmarks.md, "bfloat16 on CPUs").
SMALLEST_HIDDEN_SIZE = 256


class Precision(NamedTuple):
    """The precision that a run computes in, and the reason.

    As text it is both, "bfloat16, which this CPU multiplies faster".

    Attributes:
      name: "float32" or "bfloat16".
      reason: the end of a sentence that begins "in NAME".
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return self.name + self.reason


def set_precision(
    precision: str, strategy: tf.distribute.Strategy, hidden_size: int, begun_in: str = ""
) -> Precision:
    """Sets the precision that a run's Keras layers compute in, float32 or bfloat16.

    Weights, losses and optimizer slots stay float32. All workers of a strategy must call it
    together. With "auto" the result on a CPU or a GPU does not change when a run continues, as
    `begun_in` counts more than a new measurement; but a GPU without bfloat16 computes in float32.
    All workers take bfloat16, or none.

    Args:
      precision: "float32", "bfloat16", or "auto" for bfloat16 on a TPU, on a GPU that has it
        (NVIDIA's since Ampere, compute capability 8.0), and on a CPU that has it (AVX512-BF16,
        AMX), multiplies it faster, and computes an encoder of at least `SMALLEST_HIDDEN_SIZE`;
        float32 elsewhere.
      strategy: where the run computes.
      hidden_size: `hidden_size` of the encoder.
      begun_in: the precision that a run which continues has computed in, "float32" or "bfloat16";
        "": the run is new, or nothing depends on it.

    Returns:
      The precision with its reason.

    Raises:
      UserError: the run would compute in bfloat16 on a CPU where oneDNN is told not to use
        AVX-512, which would end the process.
      KeyError: `precision` is none of the three.
    """
    import tf_keras as keras

    chosen = _chosen(precision, strategy, hidden_size, begun_in)
    if chosen.name == "bfloat16":
        _require_products(strategy)
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[chosen.name]
    keras.mixed_precision.set_global_policy(policy)
    return chosen


def _chosen(
    precision: str, strategy: tf.distribute.Strategy, hidden_size: int, begun_in: str
) -> Precision:
    """Returns the precision without setting it; see `set_precision`."""
    on_tpu, on_gpu = _devices(strategy)
    if precision != "auto":
        hint = "" if precision == "float32" or on_tpu or on_gpu else _against_bfloat16()
        return Precision(precision, f" (run.precision{hint})")
    if on_tpu:
        return Precision("bfloat16", ", which a TPU multiplies in")
    if on_gpu and not _all_workers(strategy, _gpus_have_bfloat16()):
        began = ", in which the run began" if begun_in == "bfloat16" else ""
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        without = "not every worker's GPU has" if several else "this GPU has no"
        return Precision("float32", f", as {without} bfloat16{began}")
    if on_gpu:
        chosen = Precision("bfloat16", ", which this GPU multiplies faster")
    else:
        chosen = _on_cpu(strategy, hidden_size)
    if begun_in in ("", chosen.name):
        return chosen
    return Precision(
        begun_in,
        f", in which the run began (a new one would compute here in {chosen})",
    )


def _devices(strategy: tf.distribute.Strategy) -> tuple[bool, bool]:
    """Returns whether a strategy computes on a TPU, and whether on a GPU."""
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    return on_tpu, not on_tpu and bool(tf.config.list_physical_devices("GPU"))


def _require_products(strategy: tf.distribute.Strategy) -> None:
    """Raises a UserError if bfloat16 products would end the process; all workers must call it."""
    if any(_devices(strategy)):
        return
    if not _all_workers(strategy, not cpu_bfloat16.ends_process()):
        raise UserError(
            "TensorFlow cannot multiply bfloat16 on this CPU, as the environment variable "
            "ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) keeps oneDNN from AVX-512: unset it, or give "
            "--set run.precision=float32."
        )


def _against_bfloat16() -> str:
    """Returns what speaks against bfloat16 on this CPU, "" if nothing does."""
    if cpu_bfloat16.has_instructions():
        return ""
    also = " and more exact" if cpu_bfloat16.cuts_off_products() else ""
    return f"; float32 is faster{also} on this CPU"


def _on_cpu(strategy: tf.distribute.Strategy, hidden_size: int) -> Precision:
    """Returns the precision that is faster on the CPUs of all workers."""
    if hidden_size < SMALLEST_HIDDEN_SIZE:
        return Precision(
            "float32", f", as bfloat16 gains little below a hidden_size of {SMALLEST_HIDDEN_SIZE}"
        )
    has_instructions = cpu_bfloat16.has_instructions()
    if _all_workers(strategy, has_instructions and cpu_bfloat16.is_faster()):
        return Precision("bfloat16", ", which this CPU multiplies faster")
    if not has_instructions:
        return Precision("float32", ", as this CPU has no bfloat16")
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return Precision("float32", ", as not every worker's CPU multiplies bfloat16 faster")
    return Precision("float32", ", as this CPU multiplies bfloat16 no faster")


@contextlib.contextmanager
def own_policy() -> Iterator[None]:
    """Keeps the precision that is set in a `with` block from Keras layers made after it.

    Yields:
      None, once. Afterwards Keras' global policy is as before.
    """
    import tf_keras as keras

    before = keras.mixed_precision.global_policy()
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def _all_workers(strategy: tf.distribute.Strategy, is_true: bool) -> bool:
    """Returns True if a condition holds for all workers, each of which asks."""
    from tfbio.training import distribution  # needs TensorFlow at once, and `precision_on` does not

    return distribution.of_all_workers(strategy, [is_true]) == [(True,)]


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
