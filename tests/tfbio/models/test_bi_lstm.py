"""The Bi-LSTM: PyTorch's with the same weights, text by text."""

import numpy as np
import pytest
import tensorflow as tf
import torch

from tfbio.models.bi_lstm import BiLSTM

SIZE = 6
DOCUMENTS = np.array([[1, 1, 1, 1, 2, 2, 3, 0], [4, 4, 4, 4, 4, 4, 4, 4]], np.int32)


def of_torch(layer):
    """torch.nn.LSTM has the gates in the order i, f, g, o, as Keras has, and two biases."""
    lstm = torch.nn.LSTM(SIZE, SIZE // 2, batch_first=True, bidirectional=True)
    for cell, suffix in ((layer.forward, "l0"), (layer.backward, "l0_reverse")):
        kernel, recurrent, bias = (torch.tensor(x.numpy()) for x in cell.weights)
        with torch.no_grad():
            getattr(lstm, f"weight_ih_{suffix}").copy_(kernel.T)
            getattr(lstm, f"weight_hh_{suffix}").copy_(recurrent.T)
            getattr(lstm, f"bias_ih_{suffix}").copy_(bias)
            getattr(lstm, f"bias_hh_{suffix}").zero_()
    return lstm


@pytest.mark.parametrize("jit_compile", [False, True])
def test_outputs_and_gradients_are_torchs(jit_compile):
    tf.random.set_seed(0)
    layer = BiLSTM(SIZE)
    vectors = np.random.default_rng(0).normal(size=(*DOCUMENTS.shape, SIZE)).astype(np.float32)
    assert len(layer.trainable_variables) == len(layer.variables) == 6

    @tf.function(jit_compile=jit_compile)
    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, tf.constant(DOCUMENTS))
            # Padding is read as a text of its own, which nothing sees.
            loss = tf.reduce_sum(tf.square(outputs) * (DOCUMENTS > 0)[..., None])
        return outputs, tape.gradient(loss, [inputs, *layer.trainable_variables])

    outputs, (gradient, *gradients) = run(tf.constant(vectors))
    lstm, total = of_torch(layer), 0
    for number in range(1, 5):
        here = np.equal(DOCUMENTS, number)
        alone = torch.tensor(vectors[here][None], requires_grad=True)
        expected, _ = lstm(alone)
        total = total + expected.square().sum()
        np.testing.assert_allclose(outputs[here], expected[0].detach(), atol=1e-6)
        (own,) = torch.autograd.grad(expected.square().sum(), alone, retain_graph=True)
        np.testing.assert_allclose(gradient[here], own[0], atol=1e-5)
    total.backward()
    kinds = ("weight_ih", "weight_hh", "bias_ih")
    names = [f"{kind}_{end}" for end in ("l0", "l0_reverse") for kind in kinds]
    for name, own in zip(names, gradients, strict=True):
        np.testing.assert_allclose(np.transpose(own), getattr(lstm, name).grad, atol=1e-5)


def test_the_last_states_are_torchs():
    """The `h_n` of torch.nn.LSTM, of both directions, for texts in any place of the rows."""
    tf.random.set_seed(1)
    layer = BiLSTM(SIZE)
    vectors = np.random.default_rng(1).normal(size=(*DOCUMENTS.shape, SIZE)).astype(np.float32)
    # The first tokens; there is room for a fifth text, which is not there.
    first = tf.constant([0, 4, 6, 8, 0])
    outputs = tf.reshape(layer(tf.constant(vectors), tf.constant(DOCUMENTS)), [-1, SIZE])
    found = tf.function(layer.last_states, jit_compile=True)(outputs, tf.constant(DOCUMENTS), first)
    assert found.shape == (5, SIZE) and np.isfinite(found).all()
    lstm = of_torch(layer)
    for number in range(4):
        here = np.equal(DOCUMENTS, number + 1)
        _, (states, _) = lstm(torch.tensor(vectors[here][None]))
        np.testing.assert_allclose(found[number], states.detach().numpy().ravel(), atol=1e-6)
