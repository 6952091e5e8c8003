"""Fine-tuning and prediction by the real `TPUStrategy` for eight cores, and by XLA."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import emulated_tpu
from tests.task_types import BY_TYPE, SETTINGS, make_finetuner, with_fixed_shapes

CORES = 8


@pytest.fixture(scope="module")
def tpu():
    return emulated_tpu.make_strategy(CORES)


@pytest.fixture
def make(pretrained, roles_folder):
    """Makes a Finetuner with the pretrained encoder, and its pieces."""

    def make(name, strategy, **changes):
        settings = with_fixed_shapes(dataclasses.replace(SETTINGS, **changes))
        made, pieces = make_finetuner(name, strategy, pretrained, roles_folder, settings)
        made.initialize(3, pretrained)
        return made, pieces

    return make


def training_rows(made, pieces):
    """What each replica gets of a training batch."""
    chosen = np.arange(8)
    packer = made._training_packer(pieces, chosen[np.newaxis])
    return rows_of(packer, packer.train_batch(chosen))


def rows_of(packer, batch):
    length = packer.shapes[batch.shape].row_length
    arrays = {
        name: array[..., :length] if name in packer.of_tokens else array
        for name, array in batch.arrays.items()
    }
    return [
        {name: tf.constant(array[replica]) for name, array in arrays.items()}
        for replica in range(packer.replicas)
    ]


def prediction_rows(made, pieces):
    """What each replica gets of a batch to predict."""
    packer = made._prediction_packer(pieces)
    return rows_of(packer, next(packer.predict_batches()))


def train_step(made):
    def step(batch):
        return made._replica_train_step(batch, tf.constant(0))

    return step


def predict_step(made):
    def step(batch):
        return made._replica_outputs(batch, with_probabilities=made.has_probabilities)

    return step


def check_operations(traced):
    """No operation that a TPU does not have, nor a shape that it does not know; the counts."""
    operations = emulated_tpu.replica_operations(traced.graph)
    counts = collections.Counter(op.type for op in operations)
    assert sum(counts.values()) > 100
    assert not [name for name in counts if emulated_tpu.NOT_FOR_A_TPU.search(name)]
    for op in operations:
        for output in op.outputs:
            # Lists of what loops keep have none.
            if output.dtype not in (tf.variant, tf.resource):
                assert output.shape.is_fully_defined(), op
    return counts


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_step_is_what_eight_cores_can_do(name, make, tpu):
    made, pieces = make(name, tpu, hidden_dropout_prob=0.1)
    rows = training_rows(made, pieces)
    assert len(rows) == CORES
    whole = made._training_packer(pieces, np.arange(8)[np.newaxis]).shapes[0].rows
    assert {row["input_ids"].shape[0] for row in rows} == {whole // CORES}
    traced = emulated_tpu.trace(tpu, train_step(made), *rows)
    counts = check_operations(traced)
    # The gradient of every variable, and the number of targets.
    assert counts["CrossReplicaSum"] == len(made.model.trainable_variables) + 1
    assert counts["ResourceApplyAdam"] == len(made.model.trainable_variables)
    traced = emulated_tpu.trace(tpu, predict_step(made), *prediction_rows(made, pieces))
    assert check_operations(traced)["CrossReplicaSum"] == 0


@pytest.mark.parametrize("name", BY_TYPE)
def test_eight_cores_do_what_one_device_does(name, make, tpu, cpu):
    one, pieces = make(name, cpu)
    many, _ = make(name, tpu)
    (row,) = training_rows(one, pieces)
    expected = float(tf.function(train_step(one))(row))
    rows = training_rows(many, pieces)
    traced = emulated_tpu.trace(tpu, train_step(many), *rows)
    losses = emulated_tpu.execute(traced, CORES, *rows)
    assert sum(map(float, losses)) == pytest.approx(expected, abs=1e-6, rel=1e-6)
    for ours, theirs in zip(
        [*one.model.trainable_variables, *one.optimizer.variables()],
        [*many.model.trainable_variables, *many.optimizer.variables()],
        strict=True,
    ):
        for copy in tpu.experimental_local_results(theirs):
            np.testing.assert_allclose(copy.numpy(), ours.numpy(), atol=1e-6, err_msg=ours.name)

    # And what they predict then, of all texts.
    expected = one.predict(pieces)
    packer = many._prediction_packer(pieces)
    traced = None
    for batch in packer.predict_batches():
        rows = rows_of(packer, batch)
        traced = traced or emulated_tpu.trace(tpu, predict_step(many), *rows)
        found = emulated_tpu.execute(traced, CORES, *rows)
        for piece, replica, first, number in zip(
            batch.texts, batch.replica, batch.first, batch.number, strict=True
        ):
            output = found[replica].numpy()
            if many.kind.of_tokens:
                output = output[first : first + packer.lengths[piece]]
                output = output[:, 0] if many.has_probabilities else output
            else:
                output = output[number]
            np.testing.assert_allclose(output, expected[piece], atol=1e-4)


@pytest.mark.parametrize("name", BY_TYPE)
def test_steps_compile_under_xla(name, make, cpu):
    """Each operation has a kernel of XLA's, and the numbers are those of TensorFlow's."""
    made, pieces = make(name, cpu)
    (row,) = training_rows(made, pieces)
    (new,) = prediction_rows(made, pieces)
    expected = tf.function(predict_step(made))(new)
    found = tf.function(predict_step(made), jit_compile=True)(new)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    losses = []
    start = [variable.numpy() for variable in (*made.model.variables, *made.optimizer.variables())]
    for jit_compile in (False, True):
        for variable, value in zip(
            (*made.model.variables, *made.optimizer.variables()), start, strict=True
        ):
            variable.assign(value)
        step = tf.function(train_step(made), jit_compile=jit_compile)
        losses.append([float(step(row)) for _ in range(2)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert losses[0][0] != losses[0][1]
