"""Tests what settings of speed and bookkeeping do in a pretraining run, and what it says."""

import contextlib
import dataclasses
import io
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.pretraining_runs import eagerly, scalars
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.models import initial_weights, target
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining, pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import checkpointing
from tfbio.training.precision import Precision
from tfbio.weights import checkpoint_weights

RUN = PretrainingRun(
    optimize_for="tpu",
    steps_per_loop=6,
    save_checkpoints_steps=2,
    keep_checkpoint_max=1,
    keep_checkpoints_at=(1, 4),
    eval_every_steps=3,
    num_eval_batches=1,
)


@pytest.fixture(scope="module")
def settings(shallow):
    """Returns the settings of a run of six steps that change no weight."""
    return dataclasses.replace(
        shallow,
        objective="mlm",
        frequency_biases=True,
        num_train_steps=6,
        num_warmup_steps=0,
        learning_rate=1e-30,
        run=RUN,
    )


@pytest.fixture(scope="module")
def finished(settings, examples_folder, cpu, tmp_path_factory):
    """Returns the folder of a run, its pretrainer, the form of its step, and what it said."""
    folder, made = str(tmp_path_factory.mktemp("bookkeeping") / "model"), []

    def make(*arguments):
        made.append(Pretrainer(*arguments))
        return made[0]

    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as said,
        eagerly(),
    ):
        patch.setattr(pretraining, "Pretrainer", make)
        try:
            pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
            for_tpu = target.is_tpu()
        finally:
            target.set_tpu(False)
    return SimpleNamespace(folder=folder, pretrainer=made[0], for_tpu=for_tpu, said=said.getvalue())


def test_checkpoints_are_those_asked_for(finished):
    """Keeps the newest, and two others for good, of which one is due besides."""
    names = sorted(path.name for path in Path(finished.folder).glob("*.index"))
    assert names == ["ckpt-6.index", "kept-1.index", "kept-4.index"]
    steps = [step for step, _ in scalars(finished.folder, "train")["loss"]]
    assert steps == [1, 2, 3, 4, 6]


def test_an_evaluation_has_the_batches_asked_for(finished, settings, examples_folder):
    shards = read_manifest(examples_folder, "examples").shards_of("heldout")
    assert sum(shard.records for shard in shards) >= 2 * settings.train_batch_size
    assert int(finished.pretrainer.eval_batches.numpy()) == 1
    assert [step for step, _ in scalars(finished.folder, "heldout")["loss"]] == [3, 6]


def test_the_step_has_the_form_asked_for(finished):
    assert finished.for_tpu


def test_a_word_that_is_never_masked_has_no_frequency(finished, examples_folder):
    """Starts the biases, and warns of a collapse, by how often the other words occur."""
    manifest = read_manifest(examples_folder, "examples")
    counts = pretraining_data.word_counts(str(examples_folder), manifest)
    tokens = load_fast_tokenizer(examples_folder / "vocab.txt")
    special = [tokens.cls_id, tokens.sep_id, tokens.pad_id]
    assert (counts[special[:2]] > 100).all()
    counts[special] = 0
    shares = (counts + 1) / (counts + 1).sum()
    biases = finished.pretrainer.model.head.output_bias.numpy()
    np.testing.assert_allclose(biases, np.log(shares), rtol=1e-5)
    shares = counts[counts > 0] / counts.sum()
    assert f"that of the frequencies {-(shares * np.log(shares)).sum():.3f})" in finished.said


def test_a_run_that_is_beyond_its_end_has_nothing_to_do(
    finished, settings, examples_folder, cpu, capsys
):
    stopped = dataclasses.replace(settings, run=dataclasses.replace(RUN, stop_at_step=4))
    try:
        pretraining.pretrain(stopped, [str(examples_folder)], finished.folder, cpu)
    finally:
        target.set_tpu(False)
    assert "complete, 6 steps were trained before; nothing to do" in capsys.readouterr().out
    assert tf.train.latest_checkpoint(finished.folder).endswith("ckpt-6")


def test_a_trace_that_a_run_does_not_come_to_the_end_of_is_written(
    settings, examples_folder, cpu, tmp_path
):
    run = PretrainingRun(stop_at_step=2, num_eval_batches=1)
    stopped = dataclasses.replace(settings, run=run)
    with eagerly():
        arguments = stopped, [str(examples_folder)], str(tmp_path), cpu
        pretraining.pretrain(*arguments, profile_steps=(2, 5))
    assert list(tmp_path.glob("logs/plugins/profile/*/*.xplane.pb"))


@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_memory_that_runs_out_is_told_with_the_setting_that_helps(
    method, settings, examples_folder, cpu, tmp_path, monkeypatch
):
    def fail(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    run = PretrainingRun(gradient_accumulation_steps=2, num_eval_batches=1)
    short = dataclasses.replace(settings, num_train_steps=1, run=run)
    monkeypatch.setattr(Pretrainer, method, fail)
    with eagerly(), pytest.raises(UserError, match="^memory ran out: give ") as raised:
        pretraining.pretrain(short, [str(examples_folder)], str(tmp_path), cpu)
    message = str(raised.value)
    assert "--set run.gradient_accumulation_steps=N with N above 2, " in message
    assert "--dry_run" in message and len(message) <= 300


def test_a_start_that_ended_before_its_first_checkpoint_leaves_no_curves(
    settings, examples_folder, cpu, tmp_path, monkeypatch
):
    folder = str(tmp_path)
    short = dataclasses.replace(settings, num_train_steps=2, run=PretrainingRun(num_eval_batches=1))
    with eagerly():
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(checkpointing.Checkpointer, "save", lambda _: 1 / 0)
            pretraining.pretrain(short, [str(examples_folder)], folder, cpu)
        assert len(scalars(folder, "train")["loss"]) == 1
        pretraining.pretrain(short, [str(examples_folder)], folder, cpu)
    for part in ("train", "heldout"):
        assert len(scalars(folder, part)["loss"]) == 1, part


@pytest.mark.parametrize("steps", [0, 1])
def test_a_run_waits_for_its_initial_weights(
    steps, settings, examples_folder, cpu, tmp_path, monkeypatch
):
    """Checks a run of a step, which changes next to nothing, and one that is told to end."""

    class Late(initial_weights.Drawing):
        def __init__(self):
            super().__init__()
            self.waiting = []

        def draw(self, *weight):
            self.waiting.append(weight)

        def finish(self):
            while self.waiting:
                super().draw(*self.waiting.pop(0))
            super().finish()

    def told_to_end(trainer, *_):
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr(initial_weights, "Drawing", Late)
    if not steps:
        monkeypatch.setattr(pretraining, "_train", told_to_end)
    run = PretrainingRun(num_eval_batches=1, stop_at_step=steps)
    settings = dataclasses.replace(settings, run=run)
    with eagerly(), contextlib.nullcontext() if steps else pytest.raises(SystemExit):
        pretraining.pretrain(settings, [str(examples_folder)], str(tmp_path / "model"), cpu)
    tokenizer = load_fast_tokenizer(examples_folder / "vocab.txt")
    drawn_at_once = Pretrainer(settings, tokenizer, cpu).model.encoder
    saved = Pretrainer(dataclasses.replace(settings, seed=settings.seed + 1), tokenizer, cpu)
    checkpoint_weights.restore_encoder(str(tmp_path / "model"), saved.model.encoder)
    moved = False
    for one, other in zip(drawn_at_once.variables, saved.model.encoder.variables, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-20, err_msg=one.name)
        moved |= not np.array_equal(other, one)
    # Of weights that are zeros, all gradients in the encoder are 0.
    assert moved == bool(steps)


@pytest.mark.parametrize(
    ("weight", "precision", "warns"),
    [(10.0, "bfloat16", True), (10.0, "float32", False), (0.0, "bfloat16", False)],
)
def test_bfloat16_rounds_adversarial_noise_away_and_the_run_says_so(
    monkeypatch, weight, precision, warns
):
    monkeypatch.setattr(pretraining.layers, "count_parameters", lambda layer: 1)
    lines = []
    config = dataclasses.replace(
        PretrainingConfig(), objective="mlm", adversarial=AdversarialSettings(weight=weight)
    )
    strategy = tf.distribute.get_strategy()
    pretrainer = SimpleNamespace(
        config=config, strategy=strategy, model=SimpleNamespace(encoder=None)
    )
    pretraining._say_what_begins(lines.append, pretrainer, 0, Precision(precision, ""), None)
    assert any("--set run.precision=float32" in line for line in lines) == warns
