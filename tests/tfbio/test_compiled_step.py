"""Across rooms: the step compiled for a TPU is the one that trains; JAX runs it on two devices."""

import dataclasses
import functools
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.planning import tpu_program
from tfbio.runs import pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution

ROOT = Path(__file__).parents[2]
# JAX and TensorFlow do not go into one environment: they want other versions of NumPy.
PYTHON = Path(os.environ.get("TFBIO_TPU_PYTHON", ROOT / ".venv-tpu" / "bin" / "python"))
STEPS, LEARNING_RATE = 3, 2e-4
# How far JAX may be from TensorFlow, in shares of the norm of what is compared; the updates are in
# learning rates, and compared beyond what rounding a weight does to them.
LIMITS = {
    "losses": 1e-5,
    "gradients": 1e-5,
    "m": 1e-5,
    "v": 1e-5,
    "weights": 1e-4,
    "updates": 4e-4,
}
OBJECTIVES = {
    "electra": {},
    "electra_accumulated": {"run": PretrainingRun(gradient_accumulation_steps=2)},
    "mlm": {"objective": "mlm"},
    "generator_alone": {"generator_warmup_steps": 100},
}

needs_jax = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"no JAX at {PYTHON}: make tpu-check, or set TFBIO_TPU_PYTHON"
)


@pytest.fixture(scope="module")
def data(examples_folder):
    """Reads the tokenizer and the batches of the first steps."""
    manifest = read_manifest(examples_folder, "examples")
    dataset = pretraining_data.training_dataset(str(examples_folder), manifest, 8, 0, 0, STEPS)
    encoder = load_fast_tokenizer(examples_folder / "vocab.txt")
    return encoder, list(dataset)


def make_trainer(data, objective, strategy, **changes):
    """Makes a trainer that goes on at the highest learning rate, without dropout."""
    encoder, _ = data
    shape = EncoderConfig(
        vocab_size=encoder.vocab_size,
        embedding_size=16,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    settings = PretrainingConfig(
        encoder=shape,
        generator_hidden_fraction=0.5,
        sequence_length=64,
        train_batch_size=8,
        num_train_steps=1_000_000,
        num_warmup_steps=0,
        learning_rate=LEARNING_RATE,
        **OBJECTIVES[objective],
    )
    settings = dataclasses.replace(settings, **changes)
    return Pretrainer(settings, encoder, strategy)


def variables_of(trainer):
    """Names the variables in which a run of a step can be compared with another."""
    named = {"steps": trainer.step}
    for number, variable in enumerate(trainer.model.trainable_variables):
        name = f"{number} {variable.name}"
        named[name] = variable
        for slot in ("m", "v"):
            named[f"{slot} of {name}"] = trainer.optimizer.get_slot(variable, slot)
    for metric in trainer.logged:
        named |= {f"{metric.name} {number}": v for number, v in enumerate(metric.variables)}
    named |= {name: getattr(trainer, name) for name in ("skipped_steps", "last_skipped_step")}
    return named


def values_of(trainer):
    return {name: np.array(variable) for name, variable in variables_of(trainer).items()}


def logged_of(trainer, values):
    """Computes metrics from values: those of two cores count twice what they take twice."""
    variables = variables_of(trainer)
    metrics = [variable for metric in trainer.logged for variable in metric.variables]
    for name, variable in variables.items():
        if any(variable is own for own in metrics):
            variable.assign(values[name])
    return {metric.name: metric.result().numpy() for metric in trainer.logged}


def next_step(trainer):
    alone = trainer.generator_alone
    return lambda batch: trainer.replica_train_step(batch, alone)


def tensorflow_steps(trainer, batches):
    """Returns the values of all variables before the first step, and after each."""
    step = tf.function(next_step(trainer))
    values = [values_of(trainer)]
    for batch in batches:
        step(batch)
        values.append(values_of(trainer))
    return values


def lower(trainer, rows):
    """Returns a core's step as StableHLO, and the variables that are arguments and results."""
    cores = trainer.strategy.num_replicas_in_sync
    distribution.optimize_for("auto", trainer.strategy)
    traced = tpu_program.trace(trainer.strategy, next_step(trainer), *[rows] * cores)
    text = tpu_program.lower(traced, rows, cores)
    distribution.optimize_for("cpu", None)
    names = {id(v.values[0].handle): name for name, v in variables_of(trainer).items()}
    arguments = [names[id(handle)] for handle, _ in traced.graph.captures]
    # What is updated takes the place of an argument; the rows come first.
    places = re.findall(r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>", text)
    assert [int(result) for _, result in places] == list(range(len(places)))
    return text, arguments, [int(parameter) - len(rows) for parameter, _ in places]


def run_stablehlo(text, given, folder):
    """Runs `tests/run_stablehlo.py`."""
    (folder / "program.mlir").write_text(text)
    np.savez(folder / "arguments.npz", **given)
    files = [str(folder / name) for name in ("program.mlir", "arguments.npz", "results.npz")]
    script = str(ROOT / "tests" / "run_stablehlo.py")
    subprocess.run([str(PYTHON), script, *files], check=True, timeout=300)
    return np.load(folder / "results.npz")


def jax_steps(trainer, batches, folder):
    """As `tensorflow_steps`, by JAX from the step as StableHLO."""
    cores = trainer.strategy.num_replicas_in_sync
    rows = {name: values[: len(values) // cores] for name, values in batches[0].items()}
    text, arguments, results = lower(trainer, rows)
    names = sorted(batches[0])
    values = [values_of(trainer)]
    rows = {f"rows_{i}": [batch[name] for batch in batches] for i, name in enumerate(names)}
    variables = {f"variable_{len(rows) + i}": values[0][name] for i, name in enumerate(arguments)}
    result_of = [len(rows) + argument for argument in results]
    given = {**rows, **variables, "result_of": result_of, "replicas": cores}
    found = run_stablehlo(text, given, folder)
    for step in range(len(batches)):
        outputs = [found[f"step_{step}_result_{number}"] for number in range(len(results))]
        new = zip((arguments[argument] for argument in results), outputs, strict=True)
        values.append(values[-1] | dict(new))
    return values


def differences(one, other, trainer):
    """Returns how far two runs are from each other at most, for each of `LIMITS`.

    Args:
      one, other: see `tensorflow_steps`.
      trainer: of one device.
    """
    far = dict.fromkeys(LIMITS, 0.0)
    beta_1, rate = trainer.config.adam_beta_1, LEARNING_RATE

    def note(kind, mine, theirs):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        distance = np.linalg.norm(mine.astype(np.float64) - theirs)
        far[kind] = max(far[kind], distance / max(np.linalg.norm(mine), 1e-30))

    for step in range(1, len(one)):
        pairs = [(run[step - 1], run[step]) for run in (one, other)]
        losses = [logged_of(trainer, run[step]) for run in (one, other)]
        for name, value in losses[0].items():
            note("losses", value, losses[1][name])
        for name in ("steps", "skipped_steps", "last_skipped_step"):
            assert one[step][name] == other[step][name]
        for name, value in one[step].items():
            if name.startswith(("m of", "v of")):
                note(name[0], value, other[step][name])
            elif f"m of {name}" in one[step]:
                m = f"m of {name}"
                gradients = [new[m].astype(np.float64) - beta_1 * old[m] for old, new in pairs]
                note("gradients", *gradients)
                note("weights", value, other[step][name])
                updates = [(new[name].astype(np.float64) - old[name]) / rate for old, new in pairs]
                # Those of tiny gradients are made of rounding.
                known = np.abs(gradients[0]) > 1e-2 * np.abs(gradients[0]).max()
                rounding = 2 * np.spacing(np.abs(value)) / rate
                apart = np.abs(updates[0] - updates[1]) - rounding
                far["updates"] = max(far["updates"], apart[known].max(initial=0.0))
    return far


@pytest.fixture(scope="module")
def compiled(data, tmp_path_factory):
    """Runs an objective on two cores by JAX; each is compiled once."""

    def run(objective):
        strategy = tpu_program.make_strategy(2, one_copy=True)
        trainer = make_trainer(data, objective, strategy)
        return jax_steps(trainer, data[1], tmp_path_factory.mktemp(objective))

    return functools.cache(run)


@needs_jax
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_jax_trains_with_the_compiled_step_as_tensorflow_does(objective, compiled, data, cpu):
    by_jax = compiled(objective)
    one = make_trainer(data, objective, cpu)
    far = differences(tensorflow_steps(one, data[1]), by_jax, one)
    assert all(far[kind] <= limit for kind, limit in LIMITS.items()), far
    learning = one.model.trainable_variables
    if OBJECTIVES[objective].get("generator_warmup_steps"):
        learning = one.model.generator_variables
    names = {id(variable): name for name, variable in variables_of(one).items()}
    own = {names[id(variable)] for variable in learning}
    wanted = own | {f"{slot} of {name}" for slot in "mv" for name in own}
    moved = {name for name, value in by_jax[0].items() if (value != by_jax[STEPS][name]).any()}
    trained = {name for name in moved if name[0].isdigit() or name.startswith(("m of", "v of"))}
    assert trained == wanted


@needs_jax
@pytest.mark.parametrize(
    "changes",
    [{"weight_decay_rate": 0.0}, {"adam_beta_2": 0.998}, {"learning_rate": 1.01 * LEARNING_RATE}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_step_is_noticed(changes, compiled, data, cpu):
    by_jax = compiled("mlm")
    other = make_trainer(data, "mlm", cpu, **changes)
    far = differences(tensorflow_steps(other, data[1]), by_jax, other)
    assert any(far[kind] > 5 * limit for kind, limit in LIMITS.items()), far


def test_a_program_has_one_text(data):
    """So results are found again, whatever was traced before."""
    strategy = tpu_program.make_strategy(2, one_copy=True)
    rows = {name: values[:4] for name, values in data[1][0].items()}
    parts = {"run": PretrainingRun(gradient_accumulation_steps=2)}
    made = [make_trainer(data, "mlm", strategy, **changes) for changes in ({}, parts, {})]
    one, other, again = (lower(trainer, rows)[0] for trainer in made)
    assert one == again != other


@needs_jax
def test_replicas_share_their_sums(tmp_path):
    """The script that runs programs divides the rows, and makes replicas add up."""
    program = """
    func.func @main(%rows: tensor<2xf32>, %total: tensor<2xf32>) -> tensor<2xf32> {
      %sums = "stablehlo.all_reduce"(%rows) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %sum = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %sum : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
      %new = stablehlo.add %sums, %total : tensor<2xf32>
      return %new : tensor<2xf32>
    }
    """
    rows = np.arange(12, dtype=np.float32).reshape([3, 4])
    total = np.zeros([2], np.float32)
    given = {"rows_0": rows, "variable_1": total, "result_of": [1], "replicas": 2}
    found = run_stablehlo(program, given, tmp_path)
    sums = np.cumsum(rows[:, :2] + rows[:, 2:], axis=0)
    np.testing.assert_array_equal([found[f"step_{step}_result_0"] for step in range(3)], sums)
