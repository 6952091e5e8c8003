"""Tests the hidden layers of an MLP against PyTorch's."""

import numpy as np
import tensorflow as tf
import tf_keras as keras
import torch

from tfbio.models import randomness
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.models.mlp import MLP
from tfbio.models.task_model import TaskModel

SHAPE = EncoderConfig(11, 8, 8, 1, 2, 16, 8, 2, 0.0, 0.0)
BATCH = {
    "input_ids": tf.constant([[2, 5, 6], [2, 7, 3]]),
    "segment_ids": tf.zeros([2, 3], tf.int32),
    "document_ids": tf.constant([[1, 1, 1], [2, 2, 0]]),
    "position_ids": tf.constant([[0, 1, 2], [0, 1, 0]]),
    "first": tf.constant([0, 3]),
}


def test_outputs_and_gradients_are_torchs():
    made, vectors = MLP(6, 2, 4, 0.5), tf.random.stateless_normal([5, 6], [0, 1])
    layers = []
    for own in made.hidden:
        layer = torch.nn.Linear(*own.kernel.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(own.kernel.numpy().T))
            layer.bias.copy_(torch.tensor(own.bias.numpy()))
        layers += [layer, torch.nn.ReLU()]
    theirs = torch.nn.Sequential(*layers)
    with tf.GradientTape() as tape:
        outputs = made(vectors, 0.3, None)
        loss = tf.reduce_sum(outputs**2)
    gradients = tape.gradient(loss, made.trainable_variables)
    expected = theirs(torch.tensor(vectors.numpy()))
    expected.square().sum().backward()
    assert 0 < np.count_nonzero(outputs) < outputs.numpy().size
    np.testing.assert_allclose(outputs, expected.detach(), atol=1e-6)
    for own, other in zip(gradients, theirs.parameters(), strict=True):
        np.testing.assert_allclose(own, other.grad.numpy().T, atol=1e-5)


def test_tokens_go_through_it_as_through_torchs():
    model = TaskModel(SHAPE, HeadConfig(3, True, 0.5, token_layer="mlp", mlp_layers=2, mlp_size=5))
    made = [*model.mlp.hidden, model.head]
    for own in made:
        own.bias.assign(tf.random.stateless_normal(own.bias.shape, [2, 3]))
    document_ids = BATCH["document_ids"]
    vectors = model.encoder(
        BATCH["input_ids"],
        tf.cast(document_ids > 0, tf.int32),
        BATCH["segment_ids"],
        document_ids,
        BATCH["position_ids"],
    )
    hidden = torch.tensor(vectors.numpy().reshape(6, 8))
    for number, own in enumerate(made):
        hidden = torch.relu(hidden) if number else hidden
        kernel, bias = (torch.tensor(x.numpy()) for x in (own.kernel, own.bias))
        hidden = torch.nn.functional.linear(hidden, kernel.T, bias)
    np.testing.assert_allclose(model(BATCH), hidden, atol=1e-6)
    # Dropout is in the head, and the encoder of this shape has none.
    assert np.abs(model(BATCH, seed=tf.constant([0, 1])) - hidden.numpy()).max() > 1e-4


def test_dropout_is_between_the_layers_and_keyed_by_the_seed():
    made, vectors = MLP(6, 2, 400, 0.5), tf.ones([1, 6])
    made.hidden[0].kernel.assign(tf.ones([6, 400]))
    made.hidden[1].kernel.assign(tf.eye(400))
    found = [made(vectors, 0.25, tf.constant([0, n])).numpy() for n in (1, 1, 2)]
    assert 0.2 < np.mean(found[0] == 0) < 0.3
    np.testing.assert_allclose(found[0][found[0] > 0], 6 / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    assert (made(vectors, 0.25, None).numpy() == 6).all()


def test_each_dropout_drops_others():
    """Those of an MLP, and that of a head with the same seed, which takes its output."""
    seed, vectors, zeros = tf.constant([0, 1]), tf.ones([1, 400]), []
    for layers in (2, 3):
        made = MLP(400, layers, 400, 0.5)
        for layer in made.hidden:
            layer.kernel.assign(tf.eye(400))
        zeros.append(made(vectors, 0.25, seed).numpy()[0] == 0)
    zeros.append(randomness.dropout(vectors, 0.25, seed).numpy()[0] == 0)
    first, both, of_head = zeros
    assert (first <= both).all() and first.sum() < both.sum()
    # Independent ones have a quarter of it in common.
    second = both[~first]
    assert 0.15 < second.mean() < 0.35 and 0.15 < of_head[first].mean() < 0.35


def test_it_computes_in_float32_where_the_encoder_does_not():
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        head = HeadConfig(3, False, 0.1, text_layer="mlp", mlp_layers=2, mlp_size=5)
        model = TaskModel(SHAPE, head)
        logits = model(BATCH, seed=tf.constant([0, 1]))
    finally:
        keras.mixed_precision.set_global_policy(before)
    assert logits.dtype == tf.float32 and logits.shape == (2, 3)
    shapes = [tuple(x.shape) for x in (*model.mlp.variables, model.head.kernel)]
    assert shapes == [(8, 5), (5,), (5, 5), (5,), (5, 3)]
    assert not [x for x in model.mlp.variables if x.dtype != tf.float32]
