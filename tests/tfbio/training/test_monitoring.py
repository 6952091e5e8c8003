"""The line that a person watches."""

import io

import pytest
import tensorflow as tf

from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs.progress import Progress
from tfbio.training import monitoring


@pytest.fixture
def settings():
    return PretrainingConfig(train_batch_size=32, num_train_steps=50)


@pytest.fixture
def line(settings, monkeypatch):
    """Trains ten steps in four seconds, from step 10: the line, and what is logged."""

    def train(peak):
        clock = iter([100.0, 104.0])
        monkeypatch.setattr(monitoring.time, "time", lambda: next(clock))
        monkeypatch.setattr(monitoring.sys, "stdout", io.StringIO())
        monkeypatch.setattr(monitoring.sys, "stderr", io.StringIO())
        step = tf.Variable(10, dtype=tf.int64)
        progress = Progress(settings, step, frequencies_loss=6.0, peak=peak)
        progress.start()
        step.assign(20)
        output = {"loss": 12.5, "tokens": 36_000.0, "skipped_steps": 0}
        progress.trained(output)
        return progress.stream.getvalue(), output

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


def test_a_count_is_a_line_every_ten_seconds_without_a_terminal(monkeypatch, capsys):
    clock = iter([100.0, 109.9, 111.0, 120.9, 121.0, 150.0])
    monkeypatch.setattr(monitoring.time, "monotonic", lambda: next(clock))
    with monitoring.Count("seed 0", 1200, "steps") as count:
        for done in (0, 0, 10, 21, 1200):
            count.at(done, "loss 0.500" * (done > 0))
        assert count.done == 1200
    assert capsys.readouterr().out == (
        "seed 0 | 0/1,200 steps\n"
        "seed 0 | 21/1,200 steps | loss 0.500 | 1.0 steps/s | 0:19:39 left\n"
        "seed 0 | 1,200/1,200 steps | loss 0.500 | 24.0 steps/s | 0:00:00 left\n"
    )


def test_a_count_is_a_bar_on_a_terminal(monkeypatch, capsys):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(monitoring.sys, "stderr", terminal)
    for total in (3, None):
        with monitoring.Count("prediction", total, "texts") as count:
            for done in range(4):
                count.at(done, "loss 0.5")
    assert "3/3" in terminal.getvalue() and "loss 0.5" in terminal.getvalue()
    assert terminal.getvalue().count("prediction:") == terminal.getvalue().count("/3")
    assert not capsys.readouterr().out
