"""Which form of a computation to choose: the one that suits a CPU or GPU, or a TPU's.

Set once at the start of a run, as Keras' policy for precision is.
"""

_is_tpu = False


def set_tpu(chosen: bool) -> None:
    """Chooses the forms for a TPU in what is traced from now on, or the others."""
    global _is_tpu
    _is_tpu = chosen


def is_tpu() -> bool:
    """Returns True if the forms for a TPU are chosen."""
    return _is_tpu
