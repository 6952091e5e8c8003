"""Tests that inference works on its batches in order; each type of task tests what it computes."""

import threading
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tfbio.task_types.inference import Inference


def each(strategy, compute, number):
    return [*Inference._each(SimpleNamespace(strategy=strategy), compute, number)]


def test_a_cpu_works_on_two_batches_at_the_same_time():
    both = threading.Barrier(2, timeout=60)

    def compute(number):
        both.wait()  # for the other one
        return 10 * number

    assert each(tf.distribute.OneDeviceStrategy("/cpu:0"), compute, 6) == [0, 10, 20, 30, 40, 50]


class Subclass(tf.distribute.OneDeviceStrategy):
    """Stands for `MeshStrategy`, which is a subclass, too."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
        tf.distribute.get_strategy,
        lambda: Subclass("/cpu:0"),
        lambda: tf.distribute.OneDeviceStrategy("/gpu:0"),
    ],
    ids=["several_devices", "default", "subclass", "gpu"],
)
def test_other_devices_work_on_one_batch_after_the_other(make):
    threads = each(make(), lambda number: threading.current_thread(), 3)
    assert threads == [threading.current_thread()] * 3


def test_the_error_of_a_batch_is_raised():
    def compute(number):
        if number == 1:
            raise ValueError("of the second batch")
        return number

    with pytest.raises(ValueError, match="of the second batch"):
        each(tf.distribute.OneDeviceStrategy("/cpu:0"), compute, 4)
