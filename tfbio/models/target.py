"""Tells the layers which form of a computation to take: that for CPUs and GPUs, or for TPUs.

A run sets it once at its start, like Keras' policy for precision.
"""

_is_tpu = False


def set_tpu(chosen: bool) -> None:
    """Chooses the forms of all graphs that the process traces from now on; returns nothing.

    Args:
      chosen: True for the forms for a TPU, False for those for CPUs and GPUs.
    """
    global _is_tpu
    _is_tpu = chosen


def is_tpu() -> bool:
    """Returns True if the forms for a TPU are chosen."""
    return _is_tpu
