"""Which strategy the flags give; the TPU itself is replaced at its edge."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.data.ops import multi_device_iterator_ops

from tfbio import distribution
from tfbio.cli import UserError


def test_the_cpu_where_there_is_nothing_else():
    strategy = distribution.make_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert strategy.num_replicas_in_sync == 1


def test_mirrored_takes_all_logical_devices():
    strategy = distribution.make_strategy(strategy="mirrored")
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 2


def test_an_unknown_strategy_is_named():
    with pytest.raises(UserError, match="--strategy=mirored: expected one of auto, one_device"):
        distribution.make_strategy(strategy="mirored")


@pytest.mark.parametrize(
    ("strategy", "devices"), [("auto", 0), ("one_device", 2), ("multi_worker", 2)]
)
def test_devices_that_do_not_go_with_the_strategy_are_refused(strategy, devices):
    with pytest.raises(UserError, match=f"--cpu_devices={devices}: expected 1, or more with"):
        distribution.make_strategy(strategy=strategy, cpu_devices=devices)


def test_a_tpu_is_resolved_connected_and_initialised_in_this_order(monkeypatch):
    calls = []
    monkeypatch.setattr(
        tf.distribute.cluster_resolver,
        "TPUClusterResolver",
        lambda name: calls.append(("resolve", name)) or "resolver",
    )
    for module, name in (
        (tf.config, "experimental_connect_to_cluster"),
        (tf.tpu.experimental, "initialize_tpu_system"),
        (tf.distribute, "TPUStrategy"),
    ):
        monkeypatch.setattr(
            module, name, lambda resolver, name=name: calls.append((name, resolver))
        )
    distribution.make_strategy(tpu="my-tpu")
    assert calls == [
        ("resolve", "my-tpu"),
        ("experimental_connect_to_cluster", "resolver"),
        ("initialize_tpu_system", "resolver"),
        ("TPUStrategy", "resolver"),
    ]


def test_a_tpu_that_is_not_there_is_named(monkeypatch):
    def refuse(name):
        raise ValueError("Please provide a TPU Name to connect to.\nMore.")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", refuse)
    with pytest.raises(UserError, match=r"--tpu=none: no such TPU .*\(Please provide a TPU Name"):
        distribution.make_strategy(tpu="none")


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "{}",
        '"host1:2222"',
        '{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 3}}',
    ],
)
def test_a_wrong_tf_config_is_named(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="the variable TF_CONFIG must name all workers"):
        distribution.make_strategy(strategy="multi_worker")


def test_each_replica_on_a_cpu_has_its_rows_in_order(cpu, two_devices, monkeypatch):
    """Without TensorFlow's iterator for devices, whose end can be long to wait for."""
    monkeypatch.delattr(multi_device_iterator_ops, "OwnedMultiDeviceIterator")
    batches = np.arange(24, dtype=np.int32).reshape(3, 4, 2)
    dataset = tf.data.Dataset.from_tensor_slices({"ids": batches})
    assert distribution.distribute_dataset(cpu, dataset) is dataset
    distributed = distribution.distribute_dataset(two_devices, dataset)
    found = [two_devices.experimental_local_results(batch["ids"]) for batch in distributed]
    assert [rows.shape for rows in found[0]] == [(2, 2), (2, 2)]
    np.testing.assert_array_equal(tf.reshape(found, batches.shape), batches)


@pytest.mark.parametrize(
    ("precision", "policy"), [("auto", "float32"), ("bfloat16", "mixed_bfloat16")]
)
def test_precision(precision, policy):
    try:
        strategy = distribution.make_strategy()
        assert distribution.set_precision(precision, strategy) in policy
        assert keras.mixed_precision.global_policy().name == policy
    finally:
        keras.mixed_precision.set_global_policy("float32")
