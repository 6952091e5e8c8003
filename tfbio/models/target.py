"""Tells the layers which form of a computation to take: that for CPUs and GPUs, or for TPUs.

A run sets it once at its start, like Keras' policy for precision.
"""

_is_tpu = False


def set_tpu(chosen: bool) -> None:
    """Sets the target, a TPU or not, of all graphs that the process traces from now on.

    Layers then take the form of a computation for that target. Returns nothing.

    Args:
      chosen: True for the forms for a TPU, False for those for CPUs and GPUs, as at first.
    """
    global _is_tpu
    _is_tpu = chosen


def is_tpu() -> bool:
    """Returns True if the target of graphs is a TPU, as `set_tpu` chose; False at first."""
    return _is_tpu
