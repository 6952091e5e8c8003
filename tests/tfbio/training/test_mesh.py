"""Tensors and variables on a mesh of this process's two devices."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.experimental import dtensor

from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.training import mesh


@pytest.fixture(scope="module")
def divided_model():
    """One model on two devices."""
    return mesh.Mesh(MeshShape(1, 2))


@pytest.fixture(scope="module")
def divided_batch():
    """Two devices that have half of the examples each."""
    return mesh.Mesh(MeshShape(2, 1))


def parts(value):
    return [part.numpy().tolist() for part in dtensor.unpack(value)]


def test_a_batch_is_divided_by_its_rows(divided_batch):
    rows = np.arange(8).reshape(4, 2)
    placed = divided_batch.put_rows(rows)
    assert parts(placed) == [rows[:2].tolist(), rows[2:].tolist()]
    assert divided_batch.gather(placed).tolist() == rows.tolist()


def test_three_rows_are_whole_on_both(divided_batch):
    rows = np.arange(3)
    assert parts(divided_batch.put_rows(rows)) == [[0, 1, 2]] * 2


def test_a_variable_is_divided_by_its_name(divided_model):
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    with divided_model.scope():
        kernel = tf.Variable(values, name="attention/query_key_value/kernel")
        other = tf.Variable(values, name="pooler/kernel")
    assert tf.Variable(values).shape == [2, 6]  # outside
    # Of each of query, key and value the first half, and the second.
    first, second = parts(kernel.read_value())
    assert first == values.reshape(2, 3, 2)[..., :1].tolist()
    assert second == values.reshape(2, 3, 2)[..., 1:].tolist()
    assert parts(other.read_value()) == [values.tolist()] * 2
    own = tf.Variable(tf.zeros([2, 6]))
    divided_model.collect(kernel, own)
    assert own.numpy().tolist() == values.tolist()


def test_averages_are_divided_over_the_examples_devices_too(divided_batch):
    with divided_batch.scope():
        weight = tf.Variable(tf.zeros([3, 4]), name="pooler/kernel")
        average = tf.Variable(tf.zeros([3, 4]), name="pooler/kernel/m")
    assert [part.shape for part in dtensor.unpack(weight.read_value())] == [[3, 4], [3, 4]]
    assert [part.shape for part in dtensor.unpack(average.read_value())] == [[3, 2], [3, 2]]


@pytest.mark.parametrize(
    ("name", "filled"),
    [
        ("word_embeddings", 0.0),
        ("word_embeddings/v", 0.0),
        ("generator_predictions/output_bias", -1e9),
        ("generator_predictions/output_bias/m", 0.0),
    ],
)
def test_words_are_padded_and_cut_off_again(name, filled, divided_model):
    with divided_model.scope():
        variable = tf.Variable(tf.zeros([4]), name=name)
    divided_model.assign(variable, tf.constant([1.0, 2.0, 3.0]))
    assert divided_model.gather(variable).tolist() == [1.0, 2.0, 3.0, filled]
    own = tf.Variable(tf.zeros([3]))
    divided_model.collect(variable, own)
    assert own.numpy().tolist() == [1.0, 2.0, 3.0]


def test_scores_of_words_and_their_gradient_are_divided(divided_model):
    with divided_model.scope():
        table = tf.Variable(tf.ones([6, 2]), name="word_embeddings")
        bias = tf.Variable(tf.zeros([6]), name="generator_predictions/output_bias")
    rows = divided_model.put(tf.ones([4, 2]))
    ids = divided_model.put(tf.constant([[0, 5], [1, 2]]))

    @tf.function
    def loss():
        with tf.GradientTape() as tape:
            scores = tf.nn.bias_add(tf.matmul(rows, table, transpose_b=True), bias)
            scores = tf.reshape(scores, [2, 2, 6])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, scores)
        return scores, losses, tape.gradient(losses, table.handle)

    scores, losses, gradient = loss()
    assert [part.shape for part in dtensor.unpack(scores)] == [[2, 2, 3]] * 2
    assert [part.shape for part in dtensor.unpack(gradient)] == [[3, 2]] * 2
    np.testing.assert_allclose(divided_model.gather(losses), np.full([2, 2], np.log(6)), rtol=1e-6)


def test_what_does_not_divide_is_an_error(divided_model):
    with divided_model.scope(), pytest.raises(ValueError, match=r"word_embeddings: axis 0"):
        tf.Variable(tf.zeros([3, 2]), name="word_embeddings")


def test_more_devices_than_there_are_is_an_error():
    with pytest.raises(UsageError, match="--mesh=2x2 needs 4 devices, and there are 2 CPUs"):
        mesh.MeshStrategy(MeshShape(2, 2))


def test_gpus_are_counted_before_tensorflow_starts(monkeypatch):
    """`initialize_accelerator_system` refuses to set up DTensor after that."""

    def physical(device_type):
        return [tf.config.PhysicalDevice(f"gpu:{i}", "GPU") for i in range(2)]

    def logical(device_type):
        raise AssertionError("this starts TensorFlow")

    monkeypatch.setattr(tf.config, "list_physical_devices", physical)
    monkeypatch.setattr(tf.config, "list_logical_devices", logical)
    with pytest.raises(UsageError, match="--mesh=2x2 needs 4 devices, and there are 2 GPUs"):
        mesh.MeshStrategy(MeshShape(2, 2))
    begun = []
    monkeypatch.setattr(mesh.dtensor, "initialize_accelerator_system", begun.append)
    monkeypatch.setattr(mesh, "Mesh", lambda shape, device_type: (shape, device_type))
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", lambda options: None)
    monkeypatch.setattr(tf.distribute.OneDeviceStrategy, "__init__", lambda self, device: None)
    assert mesh.MeshStrategy(MeshShape(1, 2)).mesh == (MeshShape(1, 2), "GPU")
    assert begun == ["GPU"]
