"""Tests that inference works on its batches in order; each type of task tests what it computes."""

import contextlib
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.pretraining_runs import eagerly
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models import target
from tfbio.runs.predictor import Predictor
from tfbio.task_types import packing
from tfbio.task_types.inference import Inference
from tfbio.training import onednn


def each(strategy, compute, number):
    return [*Inference._each(SimpleNamespace(strategy=strategy), compute, number)]


def test_a_cpu_works_on_two_batches_at_the_same_time():
    both = threading.Barrier(2, timeout=60)

    def compute(number):
        both.wait()  # for the other one
        return 10 * number

    assert each(tf.distribute.OneDeviceStrategy("/cpu:0"), compute, 6) == [0, 10, 20, 30, 40, 50]


def test_other_devices_work_on_one_batch_after_the_other():
    own = threading.current_thread()
    for strategy in (tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/gpu:0")):
        assert each(strategy, lambda number: threading.current_thread(), 3) == [own] * 3


def test_graphs_that_know_their_rows_are_not_in_onednns_form(make_trial, cpu, monkeypatch):
    monkeypatch.setattr(onednn, "form_of_prediction", lambda strategy: target.onednn_prediction)
    trial, settings = make_trial("tagging", ["O", "B", "I"], {})

    def form(choice):
        overrides = [f"run.fixed_shapes={choice}", "run.precision=float32"]
        return Predictor(trial, settings, cpu, overrides).inference._form

    assert form("auto") is target.onednn_prediction
    assert form("always") is contextlib.nullcontext


@pytest.fixture
def words():
    """A sentence as a tagger's input."""
    return [TaggedSentence("1", ("the", "cells"), ("O", "O"))]


def predicted(predictor, sentences):
    features = predictor.task_type.features(sentences, predictor.tokenizer, 48)
    return predictor.inference.predict(features, with_probabilities=True)


@pytest.mark.skipif(not onednn._has_onednn(), reason="TensorFlow computes without oneDNN here")
def test_the_graph_of_one_cpu_is_in_onednns_form(make_trial, cpu, words):
    trial, settings = make_trial("tagging", ["O", "B", "I"], {})
    predictor = Predictor(trial, settings, cpu, ["run.precision=float32"])
    predicted(predictor, words)
    (graph,) = predictor.inference._predict_step._list_all_concrete_functions()
    assert "FusedBatchNormV3" in {each.type for each in graph.graph.get_operations()}


def test_a_graph_in_the_form_for_a_tpu_knows_its_shapes(make_trial, cpu, words):
    trial, settings = make_trial("tagging", ["O", "B", "I"], {})
    overrides = ["run.precision=float32"]
    expected = predicted(Predictor(trial, settings, cpu, overrides), words)
    try:
        found = predicted(
            Predictor(trial, settings, cpu, [*overrides, "run.optimize_for=tpu"]), words
        )
    finally:
        target.set_tpu(False)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)


@pytest.mark.parametrize("size", [1, 3])
def test_predictions_in_short_rows_are_those_of_padded_windows(make_trial, cpu, size, monkeypatch):
    monkeypatch.setattr(packing, "_SHORT_ROW_UNIT", 16)
    trial, settings = make_trial("tagging", ["O", "B", "I"], {})
    word = ("cells", "the")
    sentences = [
        TaggedSentence(str(n), tuple(word[k % 2] for k in range(n)), ("O",) * n)
        for n in (3, 40, 7, 20, 5, 44, 11, 2, 30)
    ]
    overrides = ["run.precision=float32", f"run.eval_batch_size={size}"]
    made = Predictor(trial, settings, cpu, overrides)
    shapes = []
    features = made.task_type.features(sentences, made.tokenizer, 96)
    made.inference._distribute, plain = (
        lambda parts: (shapes.append(parts[0].arrays["input_ids"].shape), plain(parts))[1],
        made.inference._distribute,
    )
    found = made.inference.predict(features, with_probabilities=True)
    assert len({row_length for _, row_length in shapes}) > 1
    assert made.inference._predict_step.experimental_get_tracing_count() == 1
    padded = Predictor(trial, settings, cpu, [*overrides, "run.pack=false"])
    expected = padded.inference.predict(features, with_probabilities=True)
    assert len(found) == len(expected) == len(features.lengths)
    for own, other, length in zip(found, expected, features.lengths, strict=True):
        assert own.shape == (length, 2)
        np.testing.assert_allclose(own, other, rtol=1e-4)


def test_eager_predictions_trace_no_graph(make_trial, cpu, words):
    trial, settings = make_trial("tagging", ["O", "B", "I"], {})
    predictor = Predictor(trial, settings, cpu, ["run.precision=float32"])
    with eagerly():
        found = predicted(predictor, words)
    assert predictor.inference._predict_step.experimental_get_tracing_count() == 0
    np.testing.assert_allclose(found[0], predicted(predictor, words)[0], rtol=1e-4)


def test_the_error_of_a_batch_is_raised():
    def compute(number):
        if number == 1:
            raise ValueError("of the second batch")
        return number

    with pytest.raises(ValueError, match="of the second batch"):
        each(tf.distribute.OneDeviceStrategy("/cpu:0"), compute, 4)
