"""The whole pipeline on a slice of the real files, with the commands that a user types."""

import contextlib
import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from scripts import demo
from tests import forked
from tfbio.export import conversion
from tfbio.objectives.masking import MaskedBatch
from tfbio.reporting import curves
from tfbio.text.fast_tokenizer import load_fast_tokenizer

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run of the demo, its exit code, and what it and its commands printed."""
    folder, printed = tmp_path_factory.mktemp("demo") / "small", io.StringIO()

    def run(command):
        done = forked.run([sys.executable, *shlex.split(command)], cwd=ROOT)
        printed.write(done.stdout + done.stderr * bool(done.returncode))
        return done.returncode

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(demo, "run", run)
        patch.setattr(sys, "argv", ["demo.py", "--small", f"--output={folder}"])
        code = demo.main()
    return folder, code, printed.getvalue()


@pytest.mark.slow
def test_runs_to_the_report(finished):
    folder, code, printed = finished
    assert code == 0, printed
    lines = printed.splitlines()
    assert lines[-1] == str(folder / "report" / "report.md")
    typed = [line.partition("] ")[2] for line in lines if "] python " in line]
    assert [command.split()[1] for command in typed] == [
        *["-m"] * 4,
        "run_pretraining.py",
        *["run_finetuning.py"] * 2,
        "-m",
    ]
    assert (folder / "report" / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_reports_figures_are_those_of_the_runs(finished):
    folder, _, _ = finished
    text = (folder / "report" / "report.md").read_text(encoding="utf-8")
    held_out = curves.read(folder / "pretrained" / "logs" / "heldout")
    assert f"{held_out['loss'][-1][1]:.4f}" in text
    for name in ("finetuned", "from_scratch"):
        scores = json.loads((folder / name / "scores.json").read_text())
        assert len(scores["trials"]) == 3, name
        assert f"| {100 * scores['mean']:.2f} | {100 * scores['std']:.2f} |" in text, name
        for trial in scores["trials"]:
            path = folder / name / f"trial_{trial['seed']}" / "test_predictions.tsv"
            rows = [row.split("\t") for row in path.read_text("utf-8").split("\n")[1:-1]]
            right = sum(label == predicted for _, label, predicted, *_ in rows)
            assert trial["test"]["accuracy"] == pytest.approx(right / len(rows)), name


@pytest.mark.slow
def test_a_second_run_reuses_everything(finished):
    folder, _, _ = finished

    def made():
        return {
            path: path.stat().st_mtime_ns
            for pattern in ("*/*.tfrecord", "*/ckpt-*", "*/trial_*/*", "*/*.tsv", "vocab.txt")
            for path in folder.glob(pattern)
        }

    before, said = made(), ""
    assert len(before) > 20
    for command in demo.commands(str(folder), small=True):
        done = forked.run([sys.executable, *shlex.split(command)[1:]], cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    assert made() == before
    assert "nothing to do" in said and said.count("is reused") >= 10


@pytest.mark.slow
def test_transformers_finds_the_same_tokens_replaced(finished):
    """The pretrained discriminator, exported with the command that a user types."""
    import torch
    import transformers

    folder, _, _ = finished
    source, target = folder / "pretrained", folder / "for_transformers"
    command = ["-m", "tfbio.convert", f"--from={source}", f"--to={target}"]
    assert forked.run([sys.executable, *command], cwd=ROOT).returncode == 0
    rows = (folder / "sentence_roles" / "test.tsv").read_text("utf-8").split("\n")[:-1][:100]
    texts = [row.split("\t")[2] for row in rows]

    tokenizer = transformers.AutoTokenizer.from_pretrained(target)
    theirs = transformers.ElectraForPreTraining.from_pretrained(target).eval()
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        expected = torch.sigmoid(theirs(**encoded).logits).numpy()

    _, model = conversion.read_model(str(source))
    encoder = load_fast_tokenizer(source / "vocab.txt", lower_case=True)
    length = expected.shape[1]
    ids = np.full([len(texts), length], encoder.pad_id, np.int32)
    for row, text in zip(ids, texts, strict=True):
        own = [encoder.cls_id, *encoder([text])[0][: length - 2], encoder.sep_id]
        row[: len(own)] = own
    mask = (ids != encoder.pad_id).astype(np.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    zeros = tf.zeros([len(texts), 1], tf.int32)
    nothing = MaskedBatch(inputs["input_ids"], zeros, zeros, tf.zeros([len(texts), 1]))
    seed = tf.constant([0, 0])
    output = model(inputs, nothing, seed, corrupted_ids=inputs["input_ids"])
    found = tf.sigmoid(output.discriminator_logits).numpy()
    shown = mask.astype(bool)
    assert np.ptp(found[shown]) > 1e-4  # the tokens do not all look alike to it
    np.testing.assert_allclose(found[shown], expected[shown], atol=1e-5)
