"""A checkpoint of the original ELECTRA code as a run that continues as that code would."""

import dataclasses
import json
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_prep import examples
from data_prep.running import pipeline
from tests import forked
from tests.conftest import ROOT
from tests.parity import FOLDER, Recording, recorded_config
from tests.pretraining_runs import model_at_start
from tests.tensorflow1 import (
    TINY_BERT,
    bert_with_averages_of_pairs,
    copy_recording,
    make,
    save,
    train,
)
from tfbio.base.manifests import read_manifest
from tfbio.export import conversion
from tfbio.objectives import electra
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining, pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution
from tfbio.weights import (
    checkpoint_weights,
    tensorflow1_weights,
)


def command(source, target, *settings):
    """Runs `tfbio convert --format=tfbio`."""
    arguments = ["--format=tfbio", f"--from={source}", f"--to={target}", *settings]
    return forked.run([sys.executable, "-m", "tfbio.convert", *arguments], cwd=ROOT)


def test_the_settings_that_are_named_keep_the_pair_head(tmp_path):
    def convert(target, *settings):
        done = command(prefix, tmp_path / target, *settings)
        assert done.returncode == 0, done.stderr
        names = tf.train.load_checkpoint(f"{tmp_path}/{target}").get_variable_to_shape_map()
        config = json.loads((tmp_path / target / "config.json").read_text())
        return done.stdout, config, [name for name in names if "sentence_pair_head" in name]

    prefix, _ = bert_with_averages_of_pairs(tmp_path)
    for name in ("vocab.txt", "bert_config.json"):
        shutil.copy(TINY_BERT / name, tmp_path)
    said, config, head = convert("a")
    assert "the optimizer's averages of the classifier of sentence pairs are left out" in said
    assert head and not [name for name in head if ".OPTIMIZER_SLOT" in name]
    named = re.findall("--set [a-z_]+=true", said)
    said, kept, head = convert("b", *(x.replace(" ", "=") for x in named))
    assert "left out" not in said and [name for name in head if ".OPTIMIZER_SLOT" in name]
    assert kept == config | {"sentence_pair_loss": True}
    # What it said goes on: of the settings nothing is missing, only the examples.
    flags = re.findall(r"--hparams=\S+", said)
    script = [sys.executable, "run_pretraining.py", f"--model_dir={tmp_path}/b", *flags]
    done = forked.run([*script, f"--examples={tmp_path}/no"], cwd=ROOT)
    assert f"{tmp_path}/no" in done.stderr and "goes with" not in done.stderr
    said, _, head = convert("c", "--set=sentence_pair_head=false")
    assert "the classifier of sentence pairs, and the optimizer's averages of it" in said
    assert not head


def test_what_is_no_run_to_go_on_is_refused_before_anything_is_written(tmp_path):
    def refused(*settings):
        done = command(tmp_path, tmp_path / "out", *settings)
        assert done.returncode and not (tmp_path / "out").exists()
        return done.stderr

    for name in ("vocab.txt", "bert_config.json"):
        shutil.copy(TINY_BERT / name, tmp_path)
    phases = ("--set=num_train_steps=4", "--set=final_sequence_length=8")
    prefix, theirs = bert_with_averages_of_pairs(tmp_path)
    assert "one of the two phases has none of 4 steps" in refused(*phases)
    without_head = {name: x for name, x in theirs.items() if not name.startswith("cls/")}
    save(prefix, without_head)
    assert "has no head of pretraining, only an encoder" in refused("--set=seed=1")


@pytest.mark.slow
def test_run_pretraining_goes_on_where_the_original_code_was(documents_folder, cpu, tmp_path):
    """`convert`, then `pretrain`; and as if all steps had been ours."""
    made = examples.ExampleSettings(sequence_length=32, held_out_fraction=0.2, shards=1)
    data, runner = tmp_path / "examples", pipeline.Runner(workers=1)
    examples.make_examples(documents_folder, FOLDER / "vocab.txt", data, made, runner=runner)
    run = PretrainingRun(
        save_checkpoints_steps=2, keep_checkpoint_max=9, steps_per_loop=2, num_eval_batches=1
    )
    settings = dataclasses.replace(recorded_config(), run=run)

    # Four steps of ours, on the recorded batches.
    model, optimizer = make()
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-0"), model, optimizer)
    recording = Recording()
    for step in range(4):
        train(model, optimizer, recording, step, step)
    (tmp_path / "ours").mkdir()
    shutil.copy(FOLDER / "vocab.txt", tmp_path / "ours")
    tensorflow1_weights.write(str(tmp_path / "ours" / "model.ckpt-4"), model, optimizer)
    assert (
        conversion.to_tfbio_with_optimizer(str(tmp_path / "ours"), str(tmp_path / "a"), settings)
        == 4
    )

    # Four steps of the original code.
    done = forked.run(
        [
            *(sys.executable, "-m", "tfbio.convert", "--format=tfbio"),
            *(f"--from={FOLDER}/model.ckpt-4", f"--to={tmp_path}/b"),
            f"--hparams={json.dumps(dataclasses.asdict(settings))}",
        ],
        cwd=ROOT,
    )
    assert "goes on at step 4" in done.stdout, done.stderr
    pretraining.pretrain(settings, [str(data)], str(tmp_path / "b"), cpu)
    theirs = electra.Electra(settings)
    tree = tf.train.Checkpoint(model=theirs)
    tree.read(str(tmp_path / "b" / "ckpt-6")).expect_partial()

    # Two steps more, from our state, and from the original one: nothing of it was lost on the way.
    trainer = Pretrainer(settings, load_fast_tokenizer(FOLDER / "vocab.txt"), cpu)
    manifest = read_manifest(data, "examples")

    def train_on():
        assert int(trainer.step) == 4
        trainer.train_dataset = distribution.distribute_dataset(
            cpu,
            lambda _: pretraining_data.training_dataset(
                str(data), manifest, 4, settings.seed, 4, 20
            ),
        )
        trainer.train(tf.constant(2))
        return [variable.numpy() for variable in trainer.model.variables]

    checkpoint_weights.restore_model(str(tmp_path / "a"), trainer.model, trainer.optimizer)
    ours = train_on()
    for one, two in zip(ours, theirs.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), trainer.model, trainer.optimizer)
    for one, two in zip(train_on(), theirs.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    # With other weights, or another step, it would not be so.
    assert (ours[0] != model_at(4).variables[0].numpy()).any()

    # As --init_checkpoint it gives the weights.
    folder = str(copy_recording(tmp_path / "electra", 4))
    after = model_at_start(settings, data, f"{folder}/model.ckpt-4", cpu)
    for one, two in zip(after.variables, model_at(4).variables, strict=True):
        np.testing.assert_array_equal(one, two)


def model_at(step):
    model, _ = make()
    tensorflow1_weights.load(str(FOLDER / f"model.ckpt-{step}"), model)
    return model
