"""A checkpoint of the original ELECTRA code as a run that continues as that code would."""

import dataclasses
import json
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
from tests.tensorflow1 import copy_recording, make, train
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
    for folder in ("a", "b"):
        pretraining.pretrain(settings, [str(data)], str(tmp_path / folder), cpu)
    ours, theirs = electra.Electra(settings), electra.Electra(settings)
    for folder, model in (("a", ours), ("b", theirs)):
        tree = tf.train.Checkpoint(model=model)
        tree.read(str(tmp_path / folder / "ckpt-6")).expect_partial()
    for one, two in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)

    # And nothing of the original state was lost on the way.
    trainer = Pretrainer(settings, load_fast_tokenizer(FOLDER / "vocab.txt"), cpu)
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), trainer.model, trainer.optimizer)
    manifest = read_manifest(data, "examples")
    trainer.train_dataset = distribution.distribute_dataset(
        cpu,
        lambda _: pretraining_data.training_dataset(str(data), manifest, 4, settings.seed, 4, 20),
    )
    trainer.train(tf.constant(2))
    for one, two in zip(trainer.model.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    # With other weights, or another step, it would not be so.
    assert (ours.variables[0].numpy() != model_at(4).variables[0].numpy()).any()

    # As --init_checkpoint it gives the weights alone: too small a rate moves none.
    folder = str(copy_recording(tmp_path / "electra", 4))
    still = dataclasses.replace(settings, learning_rate=1e-30, num_train_steps=2)
    start = f"{folder}/model.ckpt-4"
    pretraining.pretrain(still, [str(data)], str(tmp_path / "c"), cpu, init_checkpoint=start)
    after = electra.Electra(settings)
    checkpoint_weights.restore_model(str(tmp_path / "c"), after)
    for one, two in zip(after.variables, model_at(4).variables, strict=True):
        np.testing.assert_array_equal(one, two)


def model_at(step):
    model, _ = make()
    tensorflow1_weights.load(str(FOLDER / f"model.ckpt-{step}"), model)
    return model
