"""Curves, as TensorBoard reads them."""

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from tfbio.training.summaries import Summaries


def test_figures_are_read_by_step(tmp_path):
    with Summaries(str(tmp_path)) as curves:
        curves.write(10, {"loss": 2.5, "accuracy": 0.5})
        curves.write(20, {"loss": 1.5})
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    found = {
        name: [(x.step, tf.make_ndarray(x.tensor_proto).item()) for x in events.Tensors(name)]
        for name in ("loss", "accuracy")
    }
    assert found == {"loss": [(10, 2.5), (20, 1.5)], "accuracy": [(10, 0.5)]}


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Summaries("") as curves:
        curves.write(1, {"loss": 1.0})
    assert not list(tmp_path.iterdir())


def test_an_error_closes_the_file_of_events(tmp_path, monkeypatch):
    closed = []
    with pytest.raises(KeyError), Summaries(str(tmp_path)) as curves:
        monkeypatch.setattr(curves._writer, "close", lambda: closed.append(True))
        raise KeyError
    assert closed
