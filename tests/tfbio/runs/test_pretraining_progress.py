"""The line that a person watches, and the warnings of a collapse."""

import dataclasses
import io
import re
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import pretraining_progress
from tfbio.runs.pretraining_progress import Progress


@pytest.fixture
def settings():
    return PretrainingConfig(train_batch_size=32, num_train_steps=50, num_warmup_steps=2)


def at(seconds):
    """Returns a module `time` whose clock, which nobody sets, shows these seconds one by one."""
    return SimpleNamespace(monotonic=lambda: next(seconds))


@pytest.fixture
def line(settings, monkeypatch, capsys):
    """Trains ten steps in four seconds, from step 10: the line, and what is logged."""

    def train(peak):
        clock = iter([100.0, 104.0])
        monkeypatch.setattr(pretraining_progress, "time", at(clock))
        step = tf.Variable(10, dtype=tf.int64)
        shown = pretraining_progress.Progress(settings, step, frequencies_loss=6.0, peak=peak)
        shown.start()
        step.assign(20)
        output = {"loss": 12.5, "tokens": 36_000.0, "skipped_steps": 0}
        shown.trained(output)
        return capsys.readouterr().out, output

    return train


def test_progress_shows_speed_share_of_peak_and_what_is_left(settings, line):
    done = 10 * 32 * objective_cost.example_flops(settings, 128)
    text, output = line(peak=done)  # in one second what was done in four
    assert text == (
        "step 20/50 | loss 12.500 | 80.0 examples/s | 9,000 tokens/s | 25 % of peak | "
        "0:00:12 left\n"
    )
    assert output["share_of_peak"] == pytest.approx(0.25)
    assert output["examples_per_second"] == 80.0 and output["tokens_per_second"] == 9000.0


def test_a_peak_that_is_not_known_is_left_out(line):
    text, output = line(peak=None)
    assert "peak" not in text and "tokens/s | 0:00:12 left" in text
    assert "share_of_peak" not in output


def test_what_is_left_counts_how_much_longer_the_steps_of_the_last_phase_take(monkeypatch, capsys):
    settings = PretrainingConfig(
        sequence_length=128,
        final_sequence_length=512,
        final_phase_fraction=0.1,
        num_train_steps=100,
        num_warmup_steps=2,
    )
    monkeypatch.setattr(pretraining_progress, "time", at(iter([100.0, 140.0])))
    step = tf.Variable(0, dtype=tf.int64)
    progress = Progress(settings, step, frequencies_loss=6.0)
    progress.start()
    step.assign(80)
    progress.trained({"loss": 2.5, "tokens": 36_000.0, "skipped_steps": 0})
    short, long = (objective_cost.example_flops(settings, length) for length in (128, 512))
    seconds = 5 + 5 * long / short  # half a second each until step 90
    assert 25 < seconds < 60
    assert f"| 0:00:{seconds:02.0f} left" in capsys.readouterr().out


def test_a_share_above_the_whole_peak_is_left_out(settings, line):
    # The peak was measured while the machine had other work.
    done = 10 * 32 * objective_cost.example_flops(settings, 128)
    assert "| 100 % of peak |" in line(peak=done / 4)[0]
    text, output = line(peak=done / 16)
    assert "peak" not in text and "tokens/s | 0:00:12 left" in text
    assert "share_of_peak" not in output


def test_a_collapse_is_named(settings, capsys):
    progress = Progress(settings, tf.Variable(5, dtype=tf.int64), frequencies_loss=6.0)
    progress.start()
    good = {"loss": 30.0, "generator_loss": 4.0, "discriminator_auc": 0.8}
    for output, words in (
        (good, ()),
        (good | {"generator_loss": 6.1}, ("the generator knows no more than how often",)),
        (good | {"generator_loss": float("nan")}, ("the generator knows no more",)),
        (good | {"discriminator_auc": 0.5}, ("the discriminator cannot tell",)),
        ({"loss": 6.5, "accuracy": 0.1}, ("the model knows no more than",)),
        ({"loss": 5.5, "accuracy": 0.1}, ()),
        # That of sentence pairs is left out.
        ({"loss": 6.5, "mlm_loss": 5.8, "accuracy": 0.1}, ()),
        ({"loss": 6.9, "mlm_loss": 6.2, "accuracy": 0.1}, ("the model knows no more than",)),
    ):
        progress.evaluated(output)
        out = capsys.readouterr().out
        assert out.count("warning") == len(words) and all(word in out for word in words)
    settings = dataclasses.replace(settings, uniform_generator=True)
    progress = Progress(settings, progress.global_step, frequencies_loss=6.0)
    progress.start()
    progress.evaluated(good | {"generator_loss": 6.1})
    progress.global_step.assign(2)  # while it warms up, nothing is said
    progress.evaluated(good | {"discriminator_auc": 0.5})
    settings = dataclasses.replace(settings, uniform_generator=False, generator_warmup_steps=4)
    progress = Progress(settings, tf.Variable(6, dtype=tf.int64), frequencies_loss=6.0)
    progress.start()
    progress.evaluated(good | {"discriminator_auc": 0.5})
    assert "warning" not in capsys.readouterr().out


def test_speed_is_that_of_a_loop_and_what_is_left_that_of_the_run(settings, monkeypatch, capsys):
    """Ten steps in four seconds, six of an evaluation, and twenty steps in two."""
    clock = iter([100.0, 104.0, 110.0, 112.0])
    monkeypatch.setattr(pretraining_progress, "time", at(clock))
    flops = 32 * objective_cost.example_flops(settings, 128)
    step = tf.Variable(10, dtype=tf.int64)
    progress = Progress(settings, step, frequencies_loss=6.0, peak=40 * flops)
    progress.start()
    figures = {"loss": 2.5, "tokens": 36_000.0, "skipped_steps": 0}
    step.assign(20)
    progress.trained(dict(figures))
    progress.evaluated({"loss": 2.5})
    step.assign(40)
    progress.trained(dict(figures))
    assert capsys.readouterr().out.splitlines()[-1] == (
        "step 40/50 | loss 2.500 | 320.0 examples/s | 18,000 tokens/s | 25 % of peak | 0:00:04 left"
    )


def test_a_terminal_has_a_bar_from_the_step_on_at_which_the_run_continues(
    settings, monkeypatch, capsys
):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(pretraining_progress.sys, "stderr", terminal)
    step = tf.Variable(10, dtype=tf.int64)
    progress = Progress(settings, step, frequencies_loss=6.0)
    progress.start()
    step.assign(20)
    progress.trained({"loss": 2.5, "tokens": 36_000.0, "skipped_steps": 0})
    progress.close()
    assert "20/50" in terminal.getvalue() and "loss 2.500" in terminal.getvalue()
    assert re.search(r"\| \d+:\d\d:\d\d left\]", terminal.getvalue())
    assert "step 20" not in capsys.readouterr().out
