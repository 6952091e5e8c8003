"""Tests what the folder of a pretraining run records: its precision and its examples."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from data_prep import examples
from data_prep.running import pipeline
from tests.pretraining_runs import weights
from tfbio.base.errors import UserError
from tfbio.runs import pretraining, pretraining_data, pretraining_folder
from tfbio.training.precision import Precision

pytestmark = pytest.mark.usefixtures("pretraining_traced_once")


@pytest.fixture(autouse=True)
def policy_afterwards():
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


def write(settings, data, folder, is_new=False):
    """Checks and writes the folder of a run, as `pretrain` does."""
    vocabulary = pretraining_folder.require_same_run(settings, data, str(folder), is_new)
    pretraining_folder.prepare(settings, vocabulary, str(folder), is_new)


def test_a_run_continues_in_its_precision_with_the_same_bits(
    shallow, examples_folder, cpu, tmp_path, capsys
):
    """The second run stops after half of its steps, and continues without the setting."""
    run = dataclasses.replace(
        shallow.run, precision="bfloat16", save_checkpoints_steps=2, eval_every_steps=4
    )
    whole = dataclasses.replace(shallow, num_train_steps=4, num_warmup_steps=1, run=run)
    half = dataclasses.replace(whole, run=dataclasses.replace(run, stop_at_step=2))
    auto = dataclasses.replace(whole, run=dataclasses.replace(run, precision="auto"))
    folders = {name: str(tmp_path / name) for name in ("whole", "in_parts")}
    pretraining.pretrain(whole, [str(examples_folder)], folders["whole"], cpu)
    assert "in bfloat16 (run.precision" in capsys.readouterr().out
    pretraining.pretrain(half, [str(examples_folder)], folders["in_parts"], cpu)
    pretraining.pretrain(auto, [str(examples_folder)], folders["in_parts"], cpu)
    said = capsys.readouterr().out
    assert "in bfloat16, in which the run began (a new one would compute here in float32, " in said
    for step in (2, 4):
        expected, found = (
            tf.train.load_checkpoint(f"{folder}/ckpt-{step}") for folder in folders.values()
        )
        for name in weights(folders["whole"]):
            np.testing.assert_array_equal(
                found.get_tensor(name), expected.get_tensor(name), err_msg=f"{name} at {step}"
            )
    assert pretraining_folder.precision_of(folders["in_parts"]) == "bfloat16"


def test_a_run_does_not_go_on_with_examples_that_were_made_anew(
    shallow, documents_folder, vocab_file, examples_folder, tmp_path
):
    """Other ones of the same documents, whose counts may be the same, or a part of them."""
    anew = tmp_path / "anew"
    settings = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.2, shards=4, seed=1)
    runner = pipeline.Runner(workers=1)
    examples.make_examples(documents_folder, vocab_file, anew, settings, runner=runner)
    moved = shutil.copytree(examples_folder, tmp_path / "moved")

    def prepare(folder, is_new=False, comment=""):
        data = pretraining_data.find_examples([str(folder)], [64], shallow.encoder.vocab_size)
        config = dataclasses.replace(shallow, comment=comment)
        settings = pretraining_folder.settings_of(config, data, "")
        write(settings, data, tmp_path / "run", is_new)

    prepare(examples_folder, is_new=True)
    # What a killed process left half written goes; and a comment may be another one.
    (tmp_path / "run" / "ckpt-2_temp").mkdir()
    prepare(moved, comment="As before.")
    assert not (tmp_path / "run" / "ckpt-2_temp").exists()
    with pytest.raises(UserError, match="began with other examples: their .* or another --model"):
        prepare(anew)
    config = tmp_path / "run" / "config.json"
    before = json.loads(config.read_text())
    # An older version recorded the counts alone.
    del before["data"]["64"]["examples_sha256"]
    config.write_text(json.dumps(before))
    prepare(moved)
    before["data"]["64"]["train_examples"] += 1
    config.write_text(json.dumps(before))
    with pytest.raises(UserError, match=r"their train_examples was \d+, and is \d+ now"):
        prepare(moved)


def test_a_new_run_refuses_the_kept_checkpoints_of_another(shallow, examples_folder, tmp_path):
    """One whose others were removed left them. It takes the one it starts from, and its own."""
    data = pretraining_data.find_examples([str(examples_folder)], [64], shallow.encoder.vocab_size)
    folder = tmp_path / "run"
    folder.mkdir()
    tf.train.Checkpoint().write(str(folder / "kept-10"))

    def begin(init_checkpoint, is_new):
        settings = pretraining_folder.settings_of(shallow, data, init_checkpoint)
        write(settings, data, folder, is_new)

    for init_checkpoint in ("", "out/general"):
        with pytest.raises(UserError, match="kept-10.index is of another run, whose other"):
            begin(init_checkpoint, True)
    begin(str(folder / "kept-10"), True)
    begin(str(folder / "kept-10"), False)
    assert (folder / "kept-10.index").exists()


def test_a_run_that_was_killed_at_its_first_kept_checkpoint_begins_anew(
    shallow, examples_folder, tmp_path
):
    """It had written the one that is kept for good, and not yet the other."""
    data = pretraining_data.find_examples([str(examples_folder)], [64], shallow.encoder.vocab_size)
    run = dataclasses.replace(shallow.run, save_checkpoints_steps=4, keep_checkpoints_at=[4])
    shallow = dataclasses.replace(shallow, run=run)
    folder = tmp_path / "run"
    write(pretraining_folder.settings_of(shallow, data, ""), data, folder, True)
    tf.train.Checkpoint().write(str(folder / "kept-4"))
    write(pretraining_folder.settings_of(shallow, data, ""), data, folder, True)
    other = dataclasses.replace(shallow, learning_rate=0.5)
    with pytest.raises(UserError, match="kept-4.index is of another run, whose other"):
        write(pretraining_folder.settings_of(other, data, ""), data, folder, True)
    # A later one is of a run that had saved others.
    tf.train.Checkpoint().write(str(folder / "kept-8"))
    with pytest.raises(UserError, match="kept-8.index is of another run, whose other"):
        write(pretraining_folder.settings_of(shallow, data, ""), data, folder, True)


def test_a_vocabulary_that_is_not_that_of_the_examples_is_refused(
    shallow, examples_folder, tmp_path
):
    """As one that was copied in part: its masks and its words would be others."""
    folder = shutil.copytree(examples_folder, tmp_path / "examples")
    data = pretraining_data.find_examples([str(folder)], [64], shallow.encoder.vocab_size)
    settings = pretraining_folder.settings_of(shallow, data, "")
    write(settings, data, tmp_path / "run", True)
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(text[: len(text) // 2])
    for is_new in (True, False):
        with pytest.raises(UserError, match=r"vocab\.txt is not the vocabulary with which the ex"):
            write(settings, data, tmp_path / "run", is_new)


def test_a_setting_in_a_group_that_differs_is_named(shallow, examples_folder, tmp_path):
    """Not the whole group, which is cut in the middle where it is printed."""
    data = pretraining_data.find_examples([str(examples_folder)], [64], shallow.encoder.vocab_size)
    write(pretraining_folder.settings_of(shallow, data, ""), data, tmp_path, True)
    encoder = dataclasses.replace(shallow.encoder, hidden_dropout_prob=0.25)
    other = dataclasses.replace(shallow, encoder=encoder)
    words = r"run with encoder.hidden_dropout_prob = 0.1, these settings say 0.25: give another"
    with pytest.raises(UserError, match=words):
        write(pretraining_folder.settings_of(other, data, ""), data, tmp_path)


def recorded(folder):
    """Returns the content of a run's `config.json`."""
    return json.loads(Path(folder, "config.json").read_text())


def test_a_device_that_cannot_compute_in_a_runs_precision_does_not_change_it(
    shallow, examples_folder, cpu, tmp_path, monkeypatch
):
    """Such as a GPU without bfloat16. A setting does change it."""
    folder = str(tmp_path / "model")
    asked = []

    def go(stop, precision, name):
        def set_precision(*arguments):
            asked.append(arguments[-1])
            return Precision(name, "")

        monkeypatch.setattr(pretraining, "set_precision", set_precision)
        run = dataclasses.replace(shallow.run, precision=precision, stop_at_step=stop)
        settings = dataclasses.replace(shallow, run=run, objective="mlm")
        pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
        return recorded(folder)["chosen_precision"]

    assert go(1, "auto", "bfloat16") == "bfloat16"
    assert go(2, "auto", "float32") == "bfloat16"
    assert go(3, "float32", "float32") == "float32"
    assert go(4, "auto", "float32") == "float32"
    assert asked == ["", "bfloat16", "bfloat16", "float32"]


def test_what_later_phases_were_trained_on_stays_recorded(shallow, examples_folder, tmp_path):
    """A command with an earlier `run.stop_at_step` reads the first phase alone."""
    (only,) = pretraining_data.find_examples(
        [str(examples_folder)], [64], shallow.encoder.vocab_size
    )
    phases = {"sequence_length": 32, "final_sequence_length": 64, "final_phase_fraction": 0.5}
    whole = dataclasses.replace(shallow, **phases)
    run = dataclasses.replace(shallow.run, stop_at_step=1)
    stopped = dataclasses.replace(whole, run=run)
    folder = tmp_path / "run"
    write(pretraining_folder.settings_of(whole, [only, only], ""), [only, only], folder, True)
    before = recorded(folder)["data"]
    assert list(before) == ["32", "64"]
    write(pretraining_folder.settings_of(stopped, [only], ""), [only], folder)
    assert recorded(folder)["data"] == before


def test_a_run_that_is_complete_writes_nothing(shallow, examples_folder, cpu, tmp_path):
    folder = tmp_path / "model"
    run = dataclasses.replace(shallow.run, stop_at_step=2)
    settings = dataclasses.replace(shallow, run=run, objective="mlm")
    pretraining.pretrain(settings, [str(examples_folder)], str(folder), cpu)
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    earlier = dataclasses.replace(run, stop_at_step=1, keep_checkpoint_max=1)
    settings = dataclasses.replace(settings, run=earlier)
    pretraining.pretrain(settings, [str(examples_folder)], str(folder), cpu)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times


def test_a_run_of_an_older_version_was_in_float32(shallow, pretrained, tmp_path):
    shutil.copytree(pretrained, tmp_path / "older")
    path = Path(tmp_path, "older", "config.json")
    content = json.loads(path.read_text())
    assert content.pop("chosen_precision") == "float32"
    path.write_text(json.dumps(content))
    assert pretraining_folder.precision_of(str(tmp_path / "older")) == "float32"
    assert pretraining_folder.precision_of(str(tmp_path / "none")) == ""


def test_of_a_checkpoint_that_is_gone_the_one_before_it_is_saved(tmp_path):
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 3)
    for step in (2, 4):
        manager.save(step)
    assert pretraining_folder.what_is_saved(str(tmp_path)).startswith("step 4 is saved")
    (tmp_path / "ckpt-4.index").unlink()
    assert pretraining_folder.what_is_saved(str(tmp_path)).startswith("step 2 is saved")


def test_what_a_run_began_with_may_lie_elsewhere(shallow, examples_folder, tmp_path):
    """Its weights are no longer read; but a run that began with none, or with some, stays so."""
    data = pretraining_data.find_examples([str(examples_folder)], [64], shallow.encoder.vocab_size)

    def prepare(init_checkpoint, is_new=False):
        settings = pretraining_folder.settings_of(shallow, data, init_checkpoint)
        write(settings, data, tmp_path / "run", is_new)

    prepare("out/general", is_new=True)
    prepare("/data/out/general/")
    with pytest.raises(UserError, match="holds a run with init_checkpoint = /data/out/general/, "):
        prepare("")
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(UserError, match="run has checkpoints and no config.json: put it back"):
        prepare("out/general")
