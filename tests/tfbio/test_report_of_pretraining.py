"""The report on a run of pretraining alone. (The rest: see test_report.py.)"""

import subprocess
import sys

import pytest
import tensorflow as tf

from tests.tfbio.test_report import ROOT
from tfbio import report


@pytest.fixture
def model_dir(tmp_path):
    """A run with two figures, in training and on the held-out articles."""
    for split, loss in (("train", 8.5), ("heldout", 8.25)):
        with tf.summary.create_file_writer(str(tmp_path / "model/logs" / split)).as_default():
            tf.summary.scalar("loss", loss, step=2)
    return str(tmp_path / "model")


def test_its_curves_and_their_last_values(model_dir, tmp_path):
    path = report.write_report([], str(tmp_path / "report"), pretraining=model_dir)
    assert path == tmp_path / "report" / "report.md"
    assert {file.name for file in path.parent.iterdir()} == {
        *("report.md", "report.html", "pretraining.png", "pretraining.pdf"),
    }
    text = path.read_text("utf-8")
    assert "| loss | 8.5000 | 8.2500 |" in text and "](pretraining.png)" in text
    assert text.count("## ") == 1
    assert "<h2>Pretraining</h2>" in path.with_suffix(".html").read_text("utf-8")


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "--finetuning and --pretraining are missing: give the runs"),
        (["--pretraining=model", "--baseline=x"], "--baseline goes with --finetuning"),
        (["--pretraining=model", "--published=biom"], "--published goes with --finetuning"),
        (["--pretraining=model"], "holds no TensorBoard scalars"),
    ],
)
def test_what_is_missing_is_named(flags, words, tmp_path, fails_in_one_sentence):
    done = subprocess.run(
        [sys.executable, "-m", "tfbio.report", *flags, f"--output={tmp_path}/report"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert words in fails_in_one_sentence(done)
    assert done.returncode == (1 if words.startswith("holds") else 2)
    assert not (tmp_path / "report").exists()
