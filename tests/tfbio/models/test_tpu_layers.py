"""The form of the step for a TPU against the form for CPUs: the same losses and gradients."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import load_fast_tokenizer

SHAPE = EncoderConfig(
    vocab_size=60,
    embedding_size=32,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
SHAPES = {
    "bert": SHAPE,
    "albert": dataclasses.replace(
        SHAPE, embedding_size=8, share_layers=True, hidden_act="gelu_new"
    ),
    "roberta": dataclasses.replace(
        SHAPE, type_vocab_size=1, position_offset=2, max_position_embeddings=18
    ),
    "megatron-bert": dataclasses.replace(SHAPE, layer_norm_first=True),
}


def batch_of(shape, rows=4, length=16):
    random = np.random.default_rng(0)
    mask = (np.arange(length) < random.integers(8, length + 1, [rows, 1])).astype(np.int32)
    document = np.where(np.arange(length) < 5, 1, 2) * mask
    return {
        "input_ids": tf.constant(random.integers(5, shape.vocab_size, [rows, length]), tf.int32),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(document // 2 * (shape.type_vocab_size - 1), tf.int32),
        "document_ids": tf.constant(document, tf.int32),
        "position_ids": tf.constant(np.tile(np.arange(length), [rows, 1]), tf.int32),
    }


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_loop_has_the_layers_outputs_and_gradients(name, compiled, for_tpu):
    shape = SHAPES[name]
    made, batch = encoder.Encoder(shape), batch_of(shape)
    upstream = tf.random.stateless_normal([4, 16, shape.hidden_size], [1, 2])

    def run():
        with tf.GradientTape() as tape:
            output = made(**batch, seed=tf.constant([3, 4]))
            loss = tf.reduce_sum(output * upstream)
        return output, [tf.convert_to_tensor(g) for g in tape.gradient(loss, made.variables)]

    expected, gradients = run()
    for_tpu()
    found, of_loop = tf.function(run, jit_compile=compiled)()
    np.testing.assert_allclose(found, expected, atol=2e-6)
    for variable, one, other in zip(made.variables, of_loop, gradients, strict=True):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
        assert error < 1e-5, (variable.name, error)


def graphs_of(made, batch):
    """The graph of an encoder's gradients, and those of one time through each of its loops."""

    @tf.function
    def run():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(made(**batch, seed=tf.constant([3, 4])))
        return tape.gradient(loss, made.variables)

    graph = run.get_concrete_function().graph
    return graph, [
        graph._get_function(op.get_attr("body").name).graph
        for op in graph.get_operations()
        if op.type in ("While", "StatelessWhile")
    ]


def test_layers_that_share_their_weights_have_them_once(for_tpu):
    """A copy of the weights for each layer, and of their gradients, was 10 GB of ALBERT-xxlarge."""
    shape = SHAPES["albert"]
    made = encoder.Encoder(shape)
    for_tpu()
    graph, bodies = graphs_of(made, batch_of(shape))
    (layer,) = made.transformer_layers
    stacked = [shape.num_hidden_layers, *layer.query_key_value.kernel.shape]
    operations = [op for each in (graph, *bodies) for op in each.get_operations()]
    assert len(bodies) == 2 and layer.query_key_value.kernel.shape == [32, 96]
    assert not [op for op in operations for output in op.outputs if output.shape == stacked]


@pytest.mark.parametrize("name", ["bert", "megatron-bert"])
def test_the_loop_multiplies_nothing_large_again(name, for_tpu):
    """Counts two products in the backward pass for each of the forward's, and the scores anew."""
    for_tpu()
    _, bodies = graphs_of(encoder.Encoder(SHAPES[name]), batch_of(SHAPE))
    forward, backward = (
        [op for op in live_operations(body) if op.type in ("MatMul", "Einsum")] for body in bodies
    )
    # Query, key, value, scores, context, output, and the two of the feed-forward network.
    assert len(forward) == 8
    assert len(backward) == 2 * 8 + 1
    # The layer's input, these but for the scores, and for each LayerNorm its moments. Where it
    # comes first, the last product is the next layer's input.
    kept = [op for op in bodies[0].get_operations() if op.type == "TensorListSetItem"]
    assert len(kept) == 1 + 7 + 2 - (name == "megatron-bert")


def live_operations(graph):
    """Finds what a graph's outputs need: XLA drops the rest."""
    live, found = [output.op for output in graph.outputs], set()
    while live:
        op = live.pop()
        if op not in found:
            found.add(op)
            live += [value.op for value in op.inputs]
    return found


def test_the_layers_dropout_is_the_same_forward_and_backward(for_tpu):
    """By a finite difference: with another mask in the backward pass it would be far off."""
    for_tpu()
    shape = dataclasses.replace(SHAPE, hidden_dropout_prob=0.4, attention_probs_dropout_prob=0.4)
    made, batch = encoder.Encoder(shape), batch_of(shape)
    weights = tf.random.stateless_normal([4, 16, shape.hidden_size], [5, 6])

    @tf.function
    def loss():
        return tf.reduce_sum(made(**batch, seed=tf.constant([7, 8])) * weights)

    kernel = made.transformer_layers[0].query_key_value.kernel
    with tf.GradientTape() as tape:
        value = loss()
    gradient = tape.gradient(value, kernel)
    # Along the gradient itself: along a random direction, the two losses can differ by no more
    # than their rounding.
    direction = gradient * 0.1 / tf.norm(gradient)
    start = tf.identity(kernel)
    kernel.assign(start + direction)
    above = loss()
    kernel.assign(start - direction)
    below = loss()
    expected = float(tf.reduce_sum(gradient * direction))
    assert float(above - below) / 2 == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize(
    ("objective", "name"), [("electra", "bert"), ("mlm", "bert"), ("electra", "megatron-bert")]
)
def test_a_step_for_a_tpu_has_the_losses_of_one_for_a_cpu(
    objective, name, vocab_file, cpu, for_tpu
):
    tokens = load_fast_tokenizer(vocab_file)
    settings = PretrainingConfig(
        objective=objective,
        encoder=dataclasses.replace(SHAPES[name], vocab_size=tokens.vocab_size),
        generator_hidden_fraction=0.5,
        sequence_length=16,
        train_batch_size=4,
    )
    trainer = Pretrainer(settings, tokens, cpu)
    batch = batch_of(settings.encoder)

    def step():
        masked = trainer.mask(batch, tf.constant([1, 2]), None)
        variables = trainer.model.trainable_variables
        output, gradients = trainer.model.gradients(variables, batch, masked, tf.constant([3, 4]))
        return output.loss, tf.linalg.global_norm(gradients)

    def losses():
        return map(float, tf.function(lambda: cpu.run(step))())

    expected, norm = losses()
    for_tpu()
    found, found_norm = losses()
    assert found == pytest.approx(expected, rel=1e-5)
    assert found_norm == pytest.approx(norm, rel=1e-4)
