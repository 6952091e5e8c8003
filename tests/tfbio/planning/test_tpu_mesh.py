"""The program of a step that is divided over a mesh, against the one that is not."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import tpu_mesh
from tfbio.training import distribution

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("TFBIO_TPU_PYTHON", ROOT / ".venv-tpu" / "bin" / "python"))
# JAX runs no program of several replicas in several partitions each. The TPU's compiler takes such
# ones (tests/test_tpu_check.py).
DATA, MODEL, WORDS, LENGTH, EXAMPLES = 1, 4, 96, 16, 4

SETTINGS = PretrainingConfig(
    objective="mlm",
    encoder=EncoderConfig(
        vocab_size=WORDS,
        embedding_size=24,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        layer_norm_first=True,
    ),
    sentence_pair_head=True,
    sentence_pair_loss=True,
    sequence_length=LENGTH,
    train_batch_size=DATA * EXAMPLES,
    num_train_steps=10,
    num_warmup_steps=0,
    learning_rate=1e-2,
)


@pytest.fixture(scope="module")
def programs():
    """Returns the program of a row as one device has it and as a mesh has it, and the variables."""
    strategy, made = tpu_mesh.make_strategy(DATA)
    tokens = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * WORDS)
    distribution.optimize_for("tpu", strategy)
    rows = {
        name: tf.ones([EXAMPLES, LENGTH], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label": tf.ones([EXAMPLES], tf.int32)}
    try:
        step = Pretrainer(SETTINGS, tokens, strategy).replica_train_step
        text = tpu_mesh.stablehlo(strategy, made, step, rows, MODEL)
    finally:
        distribution.optimize_for("cpu", None)
    shapes = {variable.name.split(":")[0]: variable.shape for variable in made}
    return re.sub(r' \{mhlo\.sharding = "[^"]*"\}', "", text), text, shapes


def arguments_of(text):
    """Returns the shape, element and division of each argument of a program."""
    (main,) = re.findall(r"(?m)^  func\.func @main\((.*) -> ", text)
    found = re.findall(r'%arg\d+: tensor<([\dx]*?)x?([a-z]\d+)> \{mhlo\.sharding = "(.*?)"\}', main)
    return [([int(n) for n in shape.split("x") if n], kind, how) for shape, kind, how in found]


def test_weights_and_their_averages_are_divided(programs):
    """Counts six arrays of twelve of each layer, and of the rest the words and their biases."""
    _, text, shapes = programs
    arguments = arguments_of(text)
    divided = [(shape, how) for shape, _, how in arguments if how != "{replicated}"]
    # A weight, and two averages of it.
    assert len(divided) == 3 * (2 * 6 + 2)
    assert ([24, 3, 24], "{devices=[1,1,4]<=[4]}") in divided  # columns of query, key and value
    assert ([3, 24], "{devices=[1,4]<=[4]}") in divided
    assert ([24, 24], "{devices=[4,1]<=[4]}") in divided  # rows of attention's output
    assert ([24, 32], "{devices=[1,4]<=[4]}") in divided
    assert ([32, 24], "{devices=[4,1]<=[4]}") in divided
    assert ([WORDS, 24], "{devices=[4,1]<=[4]}") in divided
    assert ([24, 3, 24], "{replicated}") not in [(shape, how) for shape, _, how in arguments]
    assert shapes["attention/query_key_value/kernel"] == (24, 3, 24)
    # Each result is divided as the argument that it takes the place of.
    (results,) = re.findall(r"(?m)^  func\.func @main\(.* -> \((.*)\) \{$", text)
    assert results.count("devices=") == len(divided)


def test_an_axis_that_does_not_divide():
    text = "  func.func @main(%arg0: tensor<5x4xf32>) -> (tensor<5x4xf32>) {\n"
    with pytest.raises(ValueError, match=r"word_embeddings: axis 0 of \[5, 4\]"):
        tpu_mesh.divide(text, ["word_embeddings"], 2)
    with pytest.raises(ValueError, match="1 arguments, and 2 names"):
        tpu_mesh.divide(text, ["word_embeddings", ""], 5)


def run(text, given, folder):
    """Runs `tests/run_stablehlo.py`."""
    folder.mkdir()
    (folder / "program.mlir").write_text(text)
    np.savez(folder / "arguments.npz", **given)
    files = [str(folder / name) for name in ("program.mlir", "arguments.npz", "results.npz")]
    script = str(ROOT / "tests" / "run_stablehlo.py")
    subprocess.run([str(PYTHON), script, *files], check=True, timeout=300)
    return np.load(folder / "results.npz")


@pytest.mark.skipif(not PYTHON.exists(), reason=f"no JAX at {PYTHON}: make tpu-check")
def test_the_divided_step_is_the_undivided_one(programs, tmp_path):
    """JAX runs both on CPUs, with dropout and clipping on: on a mesh of 1 x 4, and on one device.

    `tests/tfbio/test_compiled_step.py` holds the undivided one to TensorFlow's.
    """
    whole, text, _ = programs
    random, given = np.random.default_rng(0), {"replicas": DATA}
    ids = random.integers(5, WORDS, [1, DATA * EXAMPLES, LENGTH])
    rows = [ids, np.ones_like(ids), random.integers(0, 2, [1, DATA * EXAMPLES]), ids % 2]
    for number, values in enumerate(rows):  # input_ids, input_mask, label, segment_ids
        given[f"rows_{number}"] = values.astype(np.int32)
    axes = {}
    for number, (shape, kind, how) in enumerate(arguments_of(text)):
        if number >= len(rows):
            values = np.abs(random.normal(0, 0.1, shape)) if kind == "f32" else np.zeros(shape)
            given[f"variable_{number}"] = values.astype({"f32": "f4", "i64": "i8"}[kind])
        if tiles := re.search(r"devices=\[([\d,]+)\]", how):
            axes[f"axis_{number}"] = [int(n) for n in tiles[1].split(",")].index(MODEL)
    places = re.findall(r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>", text)
    given["result_of"] = [int(parameter) for parameter, _ in places]
    one = run(whole, given, tmp_path / "whole")
    other = run(text, given | axes | {"partitions": MODEL}, tmp_path / "divided")
    assert len(one) == len(places) > 100
    changed = 0
    for number, variable in enumerate(given["result_of"]):
        name, before = f"step_0_result_{number}", given[f"variable_{variable}"]
        changed += not np.array_equal(one[name], before)
        np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=1e-6)
    assert changed > 100
