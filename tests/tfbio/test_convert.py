"""The command that converts models: its output folder, its messages and Ctrl-C."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forked
from tests.conftest import ROOT
from tfbio.base.errors import UserError
from tfbio.export import conversion


def test_ctrl_c_leaves_nothing(pretrained, tmp_path, running):
    output = tmp_path / "out"
    output.mkdir()
    command = [sys.executable, "-m", "tfbio.convert", f"--from={pretrained}", f"--to={output}/x"]
    with running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while not (output / "x.unfinished").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
        assert process.returncode == 130
    assert said == "interrupted: nothing is written, and the same command begins anew\n"
    assert not list(output.iterdir())


def test_what_cannot_be_converted_is_named(pretrained, tmp_path):
    def run(*arguments):
        return forked.run([sys.executable, "-m", "tfbio.convert", *arguments], cwd=ROOT)

    done = run(f"--from={pretrained}", f"--to={tmp_path}")
    assert done.returncode == 1 and "is there already: give a new folder" in done.stderr
    done = run(f"--from={tmp_path}", f"--to={tmp_path}/new")
    assert done.returncode == 1 and "holds no config.json" in done.stderr
    (tmp_path / "x.pt").write_bytes(b"PK")
    done = run(f"--from={tmp_path}/x.pt", f"--to={tmp_path}/new", "--format=tfbio")
    assert done.returncode == 1 and "can only become a folder of `transf" in done.stderr
    done = run(f"--from={tmp_path}/x.pt", f"--to={tmp_path}/new")
    assert done.returncode == 1 and "x.pt is damaged, or holds other things than" in done.stderr
    done = run(f"--from={pretrained}", f"--to={tmp_path}/x[1]", "--format=saved_model")
    assert done.returncode == 1 and "x[1]: TensorFlow takes [...] and" in done.stderr
    done = run(f"--from={pretrained}", f"--to={tmp_path}/new", "--co2_grams=0")
    assert done.returncode == 0, done.stderr
    assert "emissions: 0" in (tmp_path / "new" / "README.md").read_text()
    assert json.loads((tmp_path / "new" / "config.json").read_text())["model_type"] == "electra"
    for source in ("new", "x.pt"):
        done = run(f"--from={tmp_path}/{source}", f"--to={tmp_path}/newer", "--license=mit")
        assert done.returncode == 1 and "--license is for the model card of a" in done.stderr
    done = run(f"--from={pretrained}", f"--to={tmp_path}/onnx", "--format=onnx", "--co2_grams=0")
    assert done.returncode == 2 and "--co2_grams goes with --format=hugging_face" in done.stderr
    done = run(
        f"--from={pretrained}", f"--to={tmp_path}/onnx", "--format=onnx", "--precision=bfloat16"
    )
    assert done.returncode == 2, done.stderr
    assert "--precision=bfloat16 goes with --format=saved_model." in done.stderr
    done = run(f"--from={tmp_path}/new", f"--to={tmp_path}/newer", "--format=tfbio")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "newer" / "config.json").read_text())["objective"] == "electra"
    (tmp_path / "newer" / "config.json").write_text('{"encoder": {}, "lower_case": true}')
    with pytest.raises(UserError, match="comment is missing; give the folder of a run"):
        conversion.to_hugging_face(str(tmp_path / "newer"), str(tmp_path / "newest"))


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"scheme": "BIOUL"}, "The pipeline of `transformers` knows the tags B and I alone"),
        ({}, "Only the first token of a word has learnt its tag"),
        ({"label_all_tokens": True}, ""),
    ],
)
def test_what_the_pipeline_of_transformers_misreads_is_said(
    make_trial, tmp_path, settings, warning
):
    trial, _ = make_trial("tagging", ["O", "B-X", "I-X"], {}, **settings)
    command = [sys.executable, "-m", "tfbio.convert", f"--from={trial}", f"--to={tmp_path}/new"]
    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert ("warning" in done.stdout) == bool(warning)
    assert warning in done.stdout


def test_a_trial_is_found_from_inside_and_through_a_sweep(make_trial, tmp_path, monkeypatch):
    """As --from=., and as the folder of a sweep, whose chosen run has it."""
    trial, _ = make_trial("classification", ["no", "yes"], {"pairs": False})
    run = Path(trial).parent
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text(json.dumps({"chosen": "best"}))
    (sweep / "best").symlink_to(run)
    for number, (source, folder) in enumerate(((".", trial), (str(sweep), tmp_path))):
        command = [sys.executable, "-m", "tfbio.convert", f"--from={source}"]
        done = forked.run([*command, f"--to={tmp_path}/{number}"], cwd=folder)
        assert done.returncode == 0, done.stderr
        settings = json.loads((tmp_path / str(number) / "config.json").read_text())
        assert settings["architectures"] == ["ElectraForSequenceClassification"]
