"""Tells the layers which form of a computation to take: that for CPUs and GPUs, or for TPUs.

A run sets it once at its start, like Keras' policy for precision. There is a third form for a mesh
of devices that share one model (`training.mesh`), and a fourth for predictions with oneDNN, with
which TensorFlow computes on x86 CPUs.
"""

import contextlib
import threading
from collections.abc import Iterator

import tensorflow as tf

_is_tpu = _is_mesh = False


class _OfThread(threading.local):
    """Holds what a thread sets for the graphs that it traces, while others may trace theirs."""

    is_onednn_prediction = False


_of_thread = _OfThread()


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


@contextlib.contextmanager
def mesh() -> Iterator[None]:
    """Makes all graphs that are traced in a `with` block graphs for a mesh of devices.

    Layers then take the form that can be divided over devices.

    Yields:
      Nothing.
    """
    global _is_mesh
    before, _is_mesh = _is_mesh, True
    try:
        yield
    finally:
        _is_mesh = before


def is_mesh() -> bool:
    """Returns True if graphs are for a mesh of devices, in a `with` block of `mesh`."""
    return _is_mesh


@contextlib.contextmanager
def onednn_prediction() -> Iterator[None]:
    """Makes all graphs that this thread traces in a `with` block graphs for oneDNN's predictions.

    Layers then take the forms that TensorFlow hands over to oneDNN as one operation. They have no
    gradient of their own, and need a dimension of rows that the graph does not know.

    Yields:
      Nothing.
    """
    before, _of_thread.is_onednn_prediction = _of_thread.is_onednn_prediction, True
    try:
        yield
    finally:
        _of_thread.is_onednn_prediction = before


def is_onednn_prediction() -> bool:
    """Returns True if graphs are for predictions with oneDNN, in a block of `onednn_prediction`.

    Graphs in the form for a TPU never are.
    """
    return _of_thread.is_onednn_prediction and not _is_tpu


def leaves_rows_out() -> bool:
    """Returns True if an encoder's last layer leaves out the tokens whose output is not read.

    False for a TPU, whose layers are one loop, and for a mesh, where a token that is read may be on
    another device.
    """
    return not (_is_tpu or _is_mesh)


def is_cpu() -> bool:
    """Returns True if layers may take a form that is better on CPUs alone.

    False for a TPU, for a mesh, and where TensorFlow has a GPU.
    """
    return not (_is_tpu or _is_mesh or tf.config.list_physical_devices("GPU"))
