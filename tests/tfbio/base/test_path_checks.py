"""Checks of what flags name, before TensorFlow is imported."""

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tfbio import blurb_submission, quickstart, report
from tfbio.base import path_checks
from tfbio.base.errors import UserError

PRETRAINED = {"encoder": {}, "num_train_steps": 10}
FINE_TUNED = {"encoder": {}, "task": "gad"}


def is_own(name, settings):
    return "num_train_steps" in settings and "task" not in settings


def check(folder):
    path_checks.require_own("model_dir", str(folder), "run_pretraining.py", is_own)


def test_a_tpu_on_other_machines_sees_no_local_folder():
    path_checks.require_remote("my-tpu", "model_dir", ["gs://mine/model"])
    for folder in ("out/model", "/out/model", "file:///out/model", "s3://mine/model"):
        with pytest.raises(UserError, match=f"--examples={folder}: the machines of --tpu=my-tpu"):
            path_checks.require_remote("my-tpu", "examples", ["gs://in", folder])


@pytest.mark.parametrize("name", ["bert-base-uncased", "dmis-lab/biobert-v1.1", "work/model"])
def test_a_model_that_is_not_there_is_named(name):
    said = f"--init_checkpoint={name}: there is no such .*`hf download {name} --local-dir=FOLDER`"
    with pytest.raises(UserError, match=said):
        path_checks.require_checkpoint("init_checkpoint", name)


def test_a_model_in_a_folder_below_is_named(tmp_path):
    (tmp_path / "out/model").mkdir(parents=True)
    (tmp_path / "out/model/ckpt-10.index").touch()
    with pytest.raises(UserError, match="--teacher=.*/out: the model is in .*/out/model: give"):
        path_checks.require_checkpoint("teacher", str(tmp_path / "out"))
    path_checks.require_checkpoint("teacher", str(tmp_path / "out/model"))


def test_a_model_is_a_folder_or_the_prefix_of_a_checkpoint(tmp_path):
    (tmp_path / "model.ckpt.index").touch()
    for path in (tmp_path, tmp_path / "model.ckpt", "gs://nobody/asked"):
        path_checks.require_checkpoint("init_checkpoint", str(path))


@pytest.mark.parametrize("name", ["run[v2]", "a[b/c]d", "back\\slash"])
def test_a_path_that_tensorflow_takes_for_a_pattern_is_refused(name, tmp_path):
    """TensorFlow would write a checkpoint there and not find it; other models may lie there."""
    folder, said = tmp_path / name, "takes .* in the path of a checkpoint for a pattern.*: rename"
    with pytest.raises(UserError, match=f"--model_dir=.*{said}"):
        check(folder)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    path_checks.require_checkpoint("init_checkpoint", str(folder))
    (folder / "trial_0").mkdir()
    (folder / "trial_0" / "model.index").touch()
    for path in (folder, folder / "trial_0", folder / "trial_0" / "model"):
        with pytest.raises(UserError, match=f"--init_checkpoint=.*{said}"):
            path_checks.require_checkpoint("init_checkpoint", str(path))


@pytest.mark.parametrize("name", ["a[b", "a]b", "a[]b", "a*b", "a?b", "a{b}"])
def test_other_marks_in_a_path_do_no_harm(name, tmp_path):
    values = tf.Variable(7.0)
    prefix = tf.train.Checkpoint(values=values).write(str(tmp_path / name / "ckpt-1"))
    tf.train.load_checkpoint(prefix)
    check(tmp_path / name / "run")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"config.json": json.dumps(PRETRAINED), "ckpt-10.index": "", "notes.md": ""},
        # Of a run that was killed at once, or of its user.
        {"vocab.txt": "", "config.json.0123.tmp": "", ".model.lock": "", "train.log": ""},
    ],
)
def test_a_folder_that_is_new_empty_or_its_own_is_taken(files, tmp_path):
    check(tmp_path / "new" / "folder")
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    check(tmp_path)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"config.json": json.dumps(FINE_TUNED)}, "config.json"),
        ({"config.json": json.dumps({"model_type": "bert"})}, "config.json"),
        ({"config.json": "{", "vocab.txt": ""}, "config.json"),
        ({"config.json": "[1]"}, "config.json"),
        ({"manifest.json": "{}", "train-00000-of-00001.tfrecord": ""}, "manifest.json"),
        ({"report.md": "", "vocab.txt": ""}, "report.md"),
        ({"sweep.json": "{}"}, "sweep.json"),
        ({"letters.docx": ""}, "letters.docx"),
    ],
)
def test_what_another_command_wrote_is_kept(files, named, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"holds {named}, which is not of a run of run_pretrain"):
        check(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(UserError, match=f"--model_dir={path}: .*file is a file"):
            check(path)


def test_a_folder_is_no_file(tmp_path):
    path_checks.require_output("output", str(tmp_path / "new" / "report.md"), is_folder=False)
    with pytest.raises(UserError, match=f"--output={tmp_path} is a folder, expected a file"):
        path_checks.require_output("output", str(tmp_path), is_folder=False)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_command_of_local_files_takes_no_address(kind, tmp_path, monkeypatch):
    """It would make the folder gs: here, and end without an error."""
    monkeypatch.chdir(tmp_path)
    said = f"--output=gs://mine/out: this command writes local files. Give a {kind} here, and copy"
    with pytest.raises(UserError, match=said):
        path_checks.require_output("output", "gs://mine/out", is_folder=kind == "folder")
    path_checks.require_output("output", "gs://mine/out", kind == "folder", may_be_remote=True)
    check("gs://mine/model")


@pytest.mark.parametrize("command", [quickstart, report, blurb_submission])
def test_the_commands_of_local_files_say_so(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = SimpleNamespace(
        output="gs://mine/out",
        finetuning=["run"],
        baseline="",
        pretraining=[],
        published="",
        seed=0,
    )
    monkeypatch.setattr(command.flags, "FLAGS", given)
    with pytest.raises(UserError, match="--output=gs://mine/out: this command writes local files"):
        command.main(["command"])
    assert not list(tmp_path.iterdir())
