"""Gradients put together piece by piece are those of the whole loss."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import Recording, recorded_config
from tfbio.objectives import output_weight_gradients
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"untied_generator": False},
        {"untied_generator_embeddings": True},
        {"uniform_generator": True},
        {"generator_weight": 0.5, "discriminator_weight": 7.0},
        {"objective": "mlm"},
    ],
    ids=str,
)
def test_a_models_gradients_are_those_of_its_loss(settings):
    """They have dropout; those for a part of the variables are computed operation by operation."""
    config = recorded_config()
    drops = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = dataclasses.replace(
        config, encoder=dataclasses.replace(config.encoder, **drops), **settings
    )
    model = (MaskedLanguageModel if config.objective == "mlm" else Electra)(config)
    recording = Recording()
    given = recording.batch, recording.masked(0), tf.constant([3, 4])
    with tf.GradientTape() as tape:
        expected = model(*given, training=True)
    variables = model.trainable_variables
    of_tape = tape.gradient(expected.loss, variables)

    traced = tf.function(model.gradients)
    for chosen, gradients in (
        (slice(None), traced),
        (slice(1, None, 2), model.gradients),
        (slice(0, None, 2), model.gradients),
    ):
        output, computed = gradients(variables[chosen], *given)
        for name in expected._fields:
            if getattr(expected, name) is None:  # of sentence pairs
                assert getattr(output, name) is None, name
                continue
            np.testing.assert_allclose(
                getattr(output, name), getattr(expected, name), rtol=1e-5, atol=1e-6, err_msg=name
            )
        for variable, one, other in zip(variables[chosen], computed, of_tape[chosen], strict=True):
            assert (one is None) == (other is None), variable.name
            if one is not None:
                other = tf.convert_to_tensor(other)
                atol = 1e-6 * np.abs(other).max()
                one = tf.convert_to_tensor(one)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=atol, err_msg=variable.name)


def test_rows_are_added_to_a_table():
    table = np.random.default_rng(0).normal(size=[5, 2]).astype(np.float32)
    rows = tf.IndexedSlices(tf.constant([[1.0, 2], [3, 4], [5, 6]]), tf.constant([3, 0, 3]), [5, 2])
    dense = np.array([[3, 4], [0, 0], [0, 0], [6, 8], [0, 0]], np.float32)
    for one, other, expected in (
        (table, rows, table + dense),
        (rows, table, table + dense),
        (rows, rows, 2 * dense),
        (table, table, 2 * table),
        (None, table, table),
        (rows, None, dense),
    ):
        one, other = (tf.constant(x) if x is table else x for x in (one, other))
        np.testing.assert_allclose(
            tf.convert_to_tensor(output_weight_gradients.add(one, other)), expected
        )
    assert output_weight_gradients.add(None, None) is None


def test_a_constant_gradient_is_the_same_at_every_step():
    """TensorFlow makes a constant of zeros; an addition in place would change it for good."""
    rows = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([3, 0, 3]), [5, 2])

    @tf.function
    def step(values):
        slices = tf.IndexedSlices(values, rows.indices, rows.dense_shape)
        return output_weight_gradients.add(tf.zeros([5, 2]), slices)

    for _ in range(2):
        np.testing.assert_array_equal(step(rows.values)[:, 0], [1, 0, 0, 2, 0])
