"""Fine-tuning and prediction by the real `TPUStrategy` for eight cores, and by XLA."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import emulated_tpu
from tests.task_types import BY_TYPE, SETTINGS, with_fixed_shapes
from tfbio.task_types import fixed_shapes, steps_per_call

CORES = 8
BATCH = 24


@pytest.fixture(scope="module")
def tpu():
    """Eight cores, whose steps are traced and not run: one copy of each variable is enough."""
    return emulated_tpu.make_strategy(CORES, one_copy=True)


@pytest.fixture(scope="module")
def small_tpu():
    return emulated_tpu.on_one_device(emulated_tpu.make_strategy(2))


@pytest.fixture
def make(make_finetuner):
    """Makes a Finetuner with fixed shapes, and its windows."""

    def make(name, strategy, **changes):
        changes = {"train_batch_size": BATCH, **changes}
        settings = dataclasses.replace(with_fixed_shapes(SETTINGS), **changes)
        return make_finetuner(name, strategy, settings)

    return make


def training_packer(made, features):
    """Returns what makes training batches, and the examples of one."""
    chosen = np.arange(BATCH) % len(features.lengths)
    return made._fixed_packer(features, chosen[np.newaxis]), chosen


def training_rows(made, features):
    """Returns what each replica gets of a training batch."""
    packer, chosen = training_packer(made, features)
    return rows_of(packer, packer.train_batch(chosen))


def rows_of(packer, batch):
    length = packer.shapes[batch.shape].row_length
    arrays = {
        name: array[:, :, :length] if name in packer.token_arrays else array
        for name, array in batch.arrays.items()
    }
    return [
        {name: tf.constant(array[replica]) for name, array in arrays.items()}
        for replica in range(packer.replicas)
    ]


def prediction_packer(made, features):
    replicas = made.strategy.num_replicas_in_sync
    return fixed_shapes.prediction_packer(features, made.config, replicas, made.pad_id)


def prediction_rows(made, features):
    """Returns what each replica gets of a batch to predict."""
    packer = prediction_packer(made, features)
    return rows_of(packer, next(packer.predict_batches()))


def train_step(made):
    def step(batch):
        return made._replica_train_step(batch, tf.constant(0))

    return step


def predict_step(made):
    def step(batch):
        return made._replica_outputs(batch, with_probabilities=made.task_type.has_probabilities)

    return step


def check_operations(traced):
    """No operation that a TPU does not have, nor a shape that it does not know; the counts."""
    operations = emulated_tpu.replica_operations(traced.graph)
    counts = collections.Counter(op.type for op in operations)
    assert sum(counts.values()) > 100
    assert not [name for name in counts if emulated_tpu.NOT_FOR_A_TPU.search(name)]
    for op in operations:
        for output in op.outputs:
            # Lists of what loops keep have none, nor what a loop's condition does not look at.
            if output.dtype not in (tf.variant, tf.resource) and "__redundant" not in op.name:
                assert output.shape.is_fully_defined(), op
    return counts


def check_training_operations(traced, made):
    counts = check_operations(traced)
    # The gradient of every variable, and the number of targets.
    assert counts["CrossReplicaSum"] == len(made.model.trainable_variables) + 1
    assert counts["ResourceApplyAdam"] == len(made.model.trainable_variables)


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_step_in_bfloat16_is_what_eight_cores_can_do(name, make, tpu, bfloat16):
    made, features = make(name, tpu, hidden_dropout_prob=0.1)
    rows = training_rows(made, features)
    assert len(rows) == CORES
    whole = training_packer(made, features)[0].shapes[0].rows
    assert {row["input_ids"].shape[0] for row in rows} == {whole // CORES}
    check_training_operations(emulated_tpu.trace(tpu, train_step(made), *rows), made)
    traced = emulated_tpu.trace(tpu, predict_step(made), *prediction_rows(made, features))
    assert check_operations(traced)["CrossReplicaSum"] == 0


def test_a_call_holds_a_step_for_each_shape_and_a_loop_of_the_host(make, tpu, cpu):
    made, features = make("tagging", tpu, run=SETTINGS.run)
    assert made.fixed_shapes
    assert not make("tagging", cpu, run=SETTINGS.run)[0].fixed_shapes
    packer, chosen = training_packer(made, features)
    assert len(packer.shapes) == 3
    (call,) = steps_per_call.calls([packer.train_batch(chosen)], [1], 50)
    numbers, scalar = tf.zeros([50], tf.int32), tf.constant(1)
    traced = made._train_steps.get_concrete_function(
        call.arrays, numbers, scalar, scalar, packer.shapes, packer.token_arrays
    )
    assert counts_of_all(traced)["TPUReplicateMetadata"] == 3
    packer = prediction_packer(made, features)
    (call,) = steps_per_call.calls([next(packer.predict_batches())], [1], 8)
    traced = made._predict_batches.get_concrete_function(
        call.arrays, scalar, packer.shapes[0], packer.token_arrays
    )
    assert counts_of_all(traced)["TPUReplicateMetadata"] == 1


def counts_of_all(traced):
    """Counts the operations of each kind in the graph and all of its functions."""
    library = traced.graph.as_graph_def().library.function
    nodes = [node for function in library for node in function.node_def]
    counts = collections.Counter(node.op for node in nodes)
    assert counts["CrossReplicaSum"] or counts["TensorListSetItem"]
    assert not [name for name in counts if emulated_tpu.NOT_FOR_A_TPU.search(name)]
    return counts


@pytest.mark.parametrize("name", BY_TYPE)
def test_cores_under_xla_do_what_one_device_does(name, make, small_tpu, cpu):
    """Each operation has a kernel of XLA's, and the numbers are those of TensorFlow."""
    one, features = make(name, cpu)
    many, _ = make(name, small_tpu)
    (row,) = training_rows(one, features)
    rows = training_rows(many, features)
    one.initialize(3, "")
    many.initialize(3, "")
    traced = emulated_tpu.trace(small_tpu, train_step(many), *rows)
    check_training_operations(traced, many)
    step = emulated_tpu.compiled(traced, 2)
    # Two: at the first the weights have the values that layers begin with, such as 0 and 1.
    expected = [float(train_step(one)(row)) for _ in range(2)]
    assert expected[0] != expected[1]
    losses = [sum(map(float, step(*rows))) for _ in range(2)]
    assert losses == pytest.approx(expected, abs=1e-6, rel=1e-6)
    for ours, theirs in zip(
        [*one.model.trainable_variables, *one.optimizer.variables()],
        [*many.model.trainable_variables, *many.optimizer.variables()],
        strict=True,
    ):
        # The logits of starts and of ends have one bias each, which changes no probability: what it
        # learns is rounding alone, -3e-7 and 7e-7 on a CPU with AMX.
        atol = 3e-6 if ours.name == "bias:0" and ours.shape == [1] else 1e-6
        for copy in small_tpu.experimental_local_results(theirs):
            np.testing.assert_allclose(copy.numpy(), ours.numpy(), atol=atol, err_msg=ours.name)

    # And what they predict then, of all texts.
    outputs = one.predict(features)
    packer = prediction_packer(many, features)
    traced = emulated_tpu.trace(small_tpu, predict_step(many), *prediction_rows(many, features))
    predict = emulated_tpu.compiled(traced, 2)
    for batch in packer.predict_batches():
        found = predict(*rows_of(packer, batch))
        for window, replica, first, number in zip(
            batch.texts, batch.replica, batch.first, batch.number, strict=True
        ):
            output = found[replica].numpy()
            if many.task_type.of_tokens:
                output = output[first : first + packer.lengths[window]]
                output = output[:, 0] if many.task_type.has_probabilities else output
            else:
                output = output[number]
            np.testing.assert_allclose(output, outputs[window], atol=1e-4)
