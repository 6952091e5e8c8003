"""The FLOP/s of devices: those that are known by their names, and those that are measured."""

import itertools

import pytest
import tensorflow as tf

from tfbio.base.device_flags import MeshShape
from tfbio.training import devices
from tfbio.training.mesh import MeshStrategy


@pytest.fixture
def used(monkeypatch):
    """Has each reading of the clock 0.1 s after the last; gives the list of products to come."""
    clock = itertools.count(0, 0.1)
    monkeypatch.setattr(devices.time, "perf_counter", lambda: next(clock))
    matmul, products = tf.matmul, []

    def noted(*args):
        products.append(matmul(*args))
        return products[-1]

    monkeypatch.setattr(tf, "matmul", noted)
    return products


@pytest.mark.parametrize(
    ("operations", "expected"),
    [(0, ["CPU:0", "CPU:1"]), (2, ["CPU:0", "CPU:1"]), (4, ["CPU:0", "CPU:1"] * 2)],
)
def test_the_measured_peak_is_that_of_all_cores_together(monkeypatch, used, operations, expected):
    """As many products as there may be operations, and all take together what the clock says.

    With `run.parallel_parts` an operation has one core.
    """
    threading = tf.config.threading
    monkeypatch.setattr(threading, "get_inter_op_parallelism_threads", lambda: operations)
    assert devices.measured_peak() == pytest.approx(len(expected) * 2 * 1024**3 / 0.1)
    assert [product.device[-5:] for product in used] == expected


class Tpu(tf.distribute.TPUStrategy):
    def __init__(self):
        """Without a TPU."""


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("v3-8", 492e12),
        ("v3-512", 256 * 123e12),
        ("v5litepod-8", 8 * 197e12),
        ("v9-8", None),
    ],
)
def test_a_tpu_is_known_by_its_type(variable, expected, monkeypatch):
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", variable)
    assert devices.peak(Tpu(), "bfloat16") == expected


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("NVIDIA A100-SXM4-40GB", "bfloat16", 312e12),
        ("NVIDIA A100-SXM4-40GB", "float32", 156e12),
        ("Tesla V100-SXM2-16GB", "float32", 15.7e12),
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989e12),
        ("NVIDIA GeForce RTX 4090", "float32", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, precision, expected, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {"device_name": name}
    )
    assert devices.peak(tf.distribute.get_strategy(), precision) == expected


def test_all_gpus_count(two_devices, monkeypatch):
    """Those of a mesh, too, which is a single replica."""
    strategies = two_devices, MeshStrategy(MeshShape(1, 2))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu", "gpu"])
    details = {"device_name": "NVIDIA A100-SXM4-40GB"}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    for strategy in strategies:
        assert devices.peak(strategy, "bfloat16") == 2 * 312e12


class Workers(tf.distribute.MultiWorkerMirroredStrategy):
    def __init__(self):
        """Without other machines."""


def test_the_cpus_of_other_machines_are_not_known():
    assert devices.peak(Workers(), "float32") is None


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cpu_is_measured_in_the_precision_of_the_run(precision, cpu, used, monkeypatch):
    # Measured anew, and not kept: the clock is none.
    monkeypatch.setattr(devices, "_peak_of_cpus", devices._peak_of_cpus.__wrapped__)
    assert devices.peak(cpu, precision) > 0
    assert {product.dtype for product in used} == {tf.as_dtype(precision)}
