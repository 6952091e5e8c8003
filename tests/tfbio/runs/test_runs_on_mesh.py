"""Commands with --mesh: killed and continued, on another mesh, on none; fine-tuned; refused."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import forked
from tests.pretraining_runs import scalars, weights
from tfbio.base.manifests import read_manifest

ROOT = Path(__file__).resolve().parents[3]
CORPUS = "tests/data/corpora/bc5cdr_chem/blurb"


def pretraining(pairs_folder, model_dir, *flags):
    """The command of a small run of Megatron's order, without dropout."""
    words = read_manifest(pairs_folder, "examples").settings["vocab_size"]
    settings = {
        "objective": "mlm",
        "sentence_pair_head": "true",
        "sentence_pair_loss": "true",
        "sequence_length": 64,
        "train_batch_size": 8,
        "num_train_steps": 8,
        "num_warmup_steps": 1,
        "learning_rate": 1e-3,
        "encoder.vocab_size": words,
        "encoder.embedding_size": 16,
        "encoder.hidden_size": 16,
        "encoder.num_hidden_layers": 1,
        "encoder.num_attention_heads": 4,
        "encoder.intermediate_size": 32,
        "encoder.max_position_embeddings": 64,
        "encoder.layer_norm_first": "true",
        "encoder.hidden_dropout_prob": 0,
        "encoder.attention_probs_dropout_prob": 0,
        "run.steps_per_loop": 1,
        "run.save_checkpoints_steps": 2,
        "run.keep_checkpoint_max": 9,
        "run.num_eval_batches": 1,
        "run.precision": "float32",
    }
    command = [sys.executable, "run_pretraining.py", f"--examples={pairs_folder}"]
    command += [f"--model_dir={model_dir}", *flags]
    return [*command, *(f"--set={name}={value}" for name, value in settings.items())]


def finish(command):
    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def error_of(command):
    """Returns the line in which a command says what is wrong."""
    done = forked.run(command, cwd=ROOT)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture
def at_step_4(undisturbed, tmp_path):
    """Makes what a run on 2x2 devices leaves that is killed when step 4 is saved."""
    folder = tmp_path / "continued"
    shutil.copytree(undisturbed, folder)
    for path in folder.glob("ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > 4:
            path.unlink()
    shutil.rmtree(folder / "logs")
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-4"\n')
    return folder


@pytest.fixture(scope="module")
def undisturbed(pairs_folder, tmp_path_factory):
    """The folder of a run on 2x2 devices."""
    folder = tmp_path_factory.mktemp("mesh") / "undisturbed"
    said = finish(pretraining(pairs_folder, folder, "--mesh=2x2"))
    assert "on a mesh of 2x2 devices in float32" in said
    return folder


@pytest.mark.slow
def test_a_killed_run_continues_with_the_same_bits(at_step_4, undisturbed, pairs_folder):
    assert "continuing at step 4:" in finish(pretraining(pairs_folder, at_step_4, "--mesh=2x2"))
    one, other = weights(str(undisturbed)), weights(str(at_step_4))
    assert one.keys() == other.keys() and len(one) > 50
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("flags", [["--mesh=1x2"], []], ids=["two_devices", "no_mesh"])
def test_a_checkpoint_continues_elsewhere(flags, at_step_4, undisturbed, pairs_folder):
    finish(pretraining(pairs_folder, at_step_4, *flags))
    expected = dict(scalars(str(undisturbed), "train")["loss"])
    found = dict(scalars(str(at_step_4), "train")["loss"])
    assert sorted(found) == [5, 6, 7, 8]
    for step, loss in found.items():
        assert loss == pytest.approx(expected[step], abs=1e-6), step


def test_a_mesh_starts_with_the_weights_of_another_run(undisturbed, pairs_folder, tmp_path):
    """Compares weights that a rate so small does not move."""
    folder = tmp_path / "model"
    command = pretraining(pairs_folder, folder, "--mesh=1x2", f"--init_checkpoint={undisturbed}")
    finish([*command, "--set=learning_rate=1e-30", "--set=num_train_steps=2"])
    expected, found = weights(str(undisturbed)), weights(str(folder))
    compared = [x for x in expected if x.startswith("model/") and "OPTIMIZER_SLOT" not in x]
    assert len(compared) > 20
    for name in compared:
        np.testing.assert_array_equal(found[name], expected[name], name)


def finetuning(init_checkpoint, output_dir, *flags):
    """The command of a trial on a real corpus."""
    settings = {
        "max_train_examples": 48,
        "max_dev_examples": 24,
        "max_test_examples": 24,
        "sequence_length": 48,
        "num_train_epochs": 8,
        "train_batch_size": 8,
        "learning_rate": 3e-3,
        "hidden_dropout_prob": 0,
        "attention_probs_dropout_prob": 0,
        "layerwise_lr_decay": 1,
        "run.eval_batch_size": 8,
        "run.precision": "float32",
    }
    command = [sys.executable, "run_finetuning.py", "--task=bc5cdr_chem", f"--data_dir={CORPUS}"]
    command += [f"--init_checkpoint={init_checkpoint}", f"--output_dir={output_dir}", "--seeds=1"]
    return [*command, *flags, *(f"--set={name}={value}" for name, value in settings.items())]


@pytest.fixture(scope="module")
def fine_tuned(pretrained, tmp_path_factory):
    """The folders of the same trial on a mesh and on none."""
    folder = tmp_path_factory.mktemp("fine_tuned")
    for name, flags in (("mesh", ["--mesh=2x2"]), ("whole", [])):
        finish(finetuning(pretrained, folder / name, *flags))
    return folder


@pytest.mark.slow
def test_a_trial_predicts_what_the_undivided_one_does(fine_tuned):
    mesh, whole = fine_tuned / "mesh" / "trial_0", fine_tuned / "whole" / "trial_0"
    for split in ("dev", "test"):
        name = f"{split}_predictions.tsv"
        predicted = (whole / name).read_text()
        assert (mesh / name).read_text() == predicted, split
        assert "\tB" in predicted, "nothing was found"
    one, other = (tf.train.load_checkpoint(str(each / "model")) for each in (mesh, whole))
    for name in one.get_variable_to_shape_map():
        if "OBJECT_GRAPH" not in name and "save_counter" not in name:
            np.testing.assert_allclose(one.get_tensor(name), other.get_tensor(name), atol=1e-4)


def test_new_text_gets_the_same_entities(fine_tuned, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Cisplatin and carboplatin caused nausea. Aspirin did not.\n")
    outputs = []
    for name, flags in (("mesh", ["--mesh=1x2"]), ("whole", [])):
        output = tmp_path / f"{name}.jsonl"
        command = [sys.executable, "run_finetuning.py", "--mode=predict", f"--input={text}"]
        command += [f"--model={fine_tuned / 'whole'}", f"--output={output}", *flags]
        finish(command)
        (line,) = output.read_text().splitlines()
        outputs.append(json.loads(line))
    # The products of two devices round otherwise.
    scores = [[each.pop("score") for each in output["entities"]] for output in outputs]
    assert scores[0] and outputs[0] == outputs[1]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--mesh=1x3"], "num_attention_heads 4 does not divide by the 3 devices of --mesh"),
        (["--mesh=3x1"], "train_batch_size 8 does not divide by the 3 parts of --mesh=3x1"),
        (["--mesh=2x2", "--strategy=mirrored"], "--strategy does not go with --mesh=2x2"),
        (["--mesh=1x2", "--set=run.jit_compile=true"], "does not compute run.jit_compile=true"),
    ],
)
def test_pretraining_that_no_mesh_does_is_refused(flags, words, pairs_folder, tmp_path):
    folder = tmp_path / "model"
    assert words in error_of(pretraining(pairs_folder, folder, *flags))
    assert not folder.exists() or not os.listdir(folder)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--mesh=1x3"], "num_attention_heads 4 does not divide by the 3 devices of --mesh"),
        (["--mesh=1x2", "--set=tagging.head=lstm"], "does not compute a head of the form lstm"),
        (
            ["--mesh=1x2", "--set=run.gradient_accumulation_steps=2"],
            "run.gradient_accumulation_steps = 2 does not go with --mesh=1x2",
        ),
        (["--mesh=1x2", "--set=run.fixed_shapes=always"], "run.fixed_shapes = always does not"),
        (["--mesh=1x2", "--set=run.optimize_for=tpu"], "run.optimize_for = tpu does not go with"),
    ],
)
def test_fine_tuning_that_no_mesh_does_is_refused(flags, words, pretrained, tmp_path):
    assert words in error_of(finetuning(pretrained, tmp_path / "out", *flags))
