"""Pretraining and evaluation under the real `TPUStrategy`, without a TPU: see `emulated_tpu`."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests import emulated_tpu
from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution, precision

OBJECTIVES = {
    "electra": {},
    "electra_accumulated": {"run": PretrainingRun(gradient_accumulation_steps=4)},
    "mlm_of_ngrams": {
        "objective": "mlm",
        "mask_unit": "ngram",
        "adam_bias_correction": True,
        "decay_all": True,
        "max_gradient_norm": 0.0,
    },
    "generator_alone": {"generator_warmup_steps": 4},
    "clipped_in_groups": {"gradient_clip_groups": 16},
    "sentence_pairs": {
        "objective": "mlm",
        "sentence_pair_head": True,
        "sentence_pair_loss": True,
        "adversarial": AdversarialSettings(weight=10.0),
    },
}
# Which input of the operation `ResourceApplyAdam` is the gradient.
GRADIENT = 9
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)


@pytest.fixture
def folder(objective, request):
    """Returns the examples of an objective."""
    pairs = objective == "sentence_pairs"
    return request.getfixturevalue("pairs_folder" if pairs else "examples_folder")


class Run:
    """The data of a run, and what makes its trainer, for one of the objectives."""

    def __init__(self, objective, folder, batch_size):
        manifest = read_manifest(folder, "examples")
        encoder = EncoderConfig(
            vocab_size=manifest.settings["vocab_size"],
            embedding_size=16,
            hidden_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.settings = PretrainingConfig(
            encoder=encoder,
            generator_hidden_fraction=0.5,
            sequence_length=64,
            train_batch_size=batch_size,
            num_train_steps=8,
            num_warmup_steps=1,
            learning_rate=1e-3,
            **OBJECTIVES[objective],
        )
        self.encoder = load_fast_tokenizer(folder / "vocab.txt")
        data = (str(folder), manifest, batch_size)
        self.training_data = pretraining_data.training_dataset(*data, 0, 0, 8)
        self.held_out_data = pretraining_data.held_out_dataset(*data).take(2)

    def trainer(self, strategy):
        distribution.optimize_for("auto", strategy)
        return Pretrainer(self.settings, self.encoder, strategy)


@pytest.fixture(autouse=True)
def forms_and_precision():
    """Undoes what a test chooses for a TPU."""
    yield
    distribution.optimize_for("cpu", None)
    keras.mixed_precision.set_global_policy("float32")


def assert_fit_for_a_tpu(traced, rows):
    """Every operation of a core has an XLA kernel, and a shape that is known before it runs."""
    operations = emulated_tpu.replica_operations(traced.graph)
    assert not {op.type for op in operations if emulated_tpu.NOT_FOR_A_TPU.search(op.type)}
    # The inputs of a loop's condition that it does not use have no shape.
    outputs = [output for op in operations if op.type != "Placeholder" for output in op.outputs]
    assert not [
        output
        for output in outputs
        if output.dtype != tf.variant and not output.shape.is_fully_defined()
    ]
    program = emulated_tpu.lower(traced, *rows)
    assert "func.func @main" in program and "tensor<?" not in program


def sum_before(tensor):
    """Finds the sum over cores that a tensor is made of, element by element."""
    seen, waiting = set(), [tensor]
    while waiting:
        value = waiting.pop()
        if value.op.type == "CrossReplicaSum":
            return value
        inputs = value.op.inputs
        if value.op.type == "IdentityN":
            inputs = [inputs[value.value_index]]
        new = [given for given in inputs if given.shape == tensor.shape and given.name not in seen]
        waiting += new
        seen |= {given.name for given in new}
    raise AssertionError(f"{tensor} is not summed over the cores")


@each_objective
def test_eight_cores_train_and_evaluate_with_what_a_tpu_has(objective, folder):
    cores, run = 8, Run(objective, folder, batch_size=32)
    strategy = emulated_tpu.make_strategy(cores)
    assert precision.set_precision("auto", strategy, 8).name == "bfloat16"
    trainer = run.trainer(strategy)
    batch = next(iter(run.training_data))
    rows = emulated_tpu.rows_of_cores(strategy, run.training_data)
    for name, values in batch.items():
        assert not [own for own in rows if own[name].shape != [32 // cores, *values.shape[1:]]]
        np.testing.assert_array_equal(tf.concat([own[name] for own in rows], 0), values)

    alone = trainer.generator_alone
    traced = emulated_tpu.trace(
        strategy, lambda batch: trainer.replica_train_step(batch, alone), *rows
    )
    assert_fit_for_a_tpu(traced, rows)
    inputs = [op for op in traced.graph.get_operations() if op.type == "TPUReplicatedInput"]
    shapes = [op.inputs[0].shape for op in inputs if op.inputs[0].dtype == tf.int32]
    assert not [op for op in inputs if len(op.inputs) != cores]
    for shape in ([32 // cores, 64], [32 // cores]):
        assert shapes.count(shape) == sum(
            values.shape.rank == len(shape) for values in batch.values()
        )

    updates = [op for op in traced.graph.get_operations() if op.type == "ResourceApplyAdam"]
    gradients = [op.inputs[GRADIENT] for op in updates]
    learning = learning_variables(trainer)
    assert sorted(str(g.shape) for g in gradients) == sorted(str(v.shape) for v in learning)
    sums = {sum_before(gradient).name for gradient in gradients}
    assert len(sums) == len(learning)

    traced = emulated_tpu.trace(strategy, trainer.replica_eval_step, *rows)
    assert_fit_for_a_tpu(traced, rows)


def learning_variables(trainer):
    model = trainer.model
    alone = trainer.config.generator_warmup_steps > 0
    return model.generator_variables if alone else model.trainable_variables


def variables_of(trainer):
    return [*trainer.model.variables, *trainer.optimizer.variables()]


def trained_and_evaluated(trainer):
    """Returns what is logged of loops of two steps and of one, and of all held-out batches."""
    logged = [trainer.train(tf.constant(steps)) for steps in (2, 1)]
    logged.append(trainer.evaluate())
    return [{name: value.numpy() for name, value in each.items()} for each in logged]


@each_objective
def test_two_cores_train_and_evaluate_as_one_device_does(objective, folder, cpu):
    run = Run(objective, folder, batch_size=16)
    one = run.trainer(cpu)
    one.train_dataset, one.eval_dataset = run.training_data, run.held_out_data
    before = [variable.numpy() for variable in variables_of(one)]
    expected = trained_and_evaluated(one)
    after = [variable.numpy() for variable in variables_of(one)]
    moved = [(old != new).any() for old, new in zip(before, after, strict=True)]
    assert sum(moved) == 1 + 3 * len(learning_variables(one))  # the steps; weights, both moments

    cores = 2
    strategy = emulated_tpu.make_strategy(cores)
    several = run.trainer(strategy)
    several.train_dataset, several.eval_dataset = (
        emulated_tpu.distribute_dataset(strategy, data)
        for data in (run.training_data, run.held_out_data)
    )
    # The loop of steps is one graph; that of evaluation is Python's.
    alone = several.generator_alone
    several.loops[alone] = emulated_tpu.emulate(several.make_loop(alone), cores)
    several.eval_step = emulated_tpu.emulate(several.eval_step, cores)

    logged = trained_and_evaluated(several)
    for found, wanted in zip(logged, expected, strict=True):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6, err_msg=name)
    for variable, value in zip(variables_of(several), after, strict=True):
        copies = variable.values
        assert len(copies) == cores, value
        np.testing.assert_allclose(copies[0], value, rtol=0, atol=1e-6, err_msg=variable.name)
        np.testing.assert_array_equal(*copies, err_msg=variable.name)


@pytest.mark.parametrize(
    "step",
    [
        lambda batch: tf.py_function(lambda ids: ids, [batch["input_ids"]], tf.int32),
        lambda batch: tf.print(batch["input_ids"]),
        lambda batch: tf.strings.as_string(batch["input_ids"]),
        lambda batch: tf.where(batch["input_ids"]),
        lambda batch: tf.summary.scalar("first", batch["input_ids"][0], step=0),
    ],
)
def test_what_no_core_can_do_is_found(step, tmp_path):
    strategy = emulated_tpu.make_strategy(2)
    rows = [{"input_ids": tf.constant([1, 1, 2])}] * 2
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        traced = emulated_tpu.trace(strategy, step, *rows)
    with pytest.raises(AssertionError):
        assert_fit_for_a_tpu(traced, rows)


def test_what_has_no_kernel_is_not_lowered():
    strategy = emulated_tpu.make_strategy(2)
    rows = [{"input_ids": tf.constant([1, 1, 2])}] * 2
    traced = emulated_tpu.trace(
        strategy, lambda batch: tf.strings.as_string(batch["input_ids"]), *rows
    )
    with pytest.raises(ValueError, match="unsupported operations"):
        emulated_tpu.lower(traced, *rows)
