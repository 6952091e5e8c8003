"""The line that a person watches."""

import pytest
import tensorflow as tf

from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import progress


@pytest.fixture
def settings():
    return PretrainingConfig(train_batch_size=32, num_train_steps=50)


@pytest.fixture
def line(settings, monkeypatch, capsys):
    """Trains ten steps in four seconds, from step 10: the line, and what is logged."""

    def train(peak):
        clock = iter([100.0, 104.0])
        monkeypatch.setattr(progress.time, "time", lambda: next(clock))
        step = tf.Variable(10, dtype=tf.int64)
        shown = progress.Progress(settings, step, frequencies_loss=6.0, peak=peak)
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
