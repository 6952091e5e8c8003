"""Correlations, worked by hand."""

import warnings

import numpy as np
import pytest
from scipy import stats

from tfbio.task_types import similarity_metrics
from tfbio.task_types.metrics import ScoreError


def test_correlation_scores():
    # Deviations from the means: -2 -1 0 1 2 and -1 -2 0 2 1; the products sum to 8, the squares to
    # 10 and 10: Pearson 8/10. The ranks are the same numbers, so Spearman is as much.
    scores = similarity_metrics.correlation_scores([1, 2, 3, 4, 5], [2.0, 1.0, 3.0, 5.0, 4.0])
    assert scores == pytest.approx({"pearson": 0.8, "spearman": 0.8})
    # One far value changes Pearson, not the ranks.
    scores = similarity_metrics.correlation_scores([1, 2, 3, 4], [1, 2, 3, 1000])
    assert scores["pearson"] < 0.8 and scores["spearman"] == pytest.approx(1)
    assert similarity_metrics.correlation_scores([1, 2], [3, 2])["pearson"] == pytest.approx(-1)


def test_equal_scores_share_their_mean_rank():
    truth, predicted = [1, 1, 2, 3, 4], [1.0, 2.0, 2.0, 2.0, 5.0]
    found = similarity_metrics.correlation_scores(truth, predicted)["spearman"]
    assert found == pytest.approx(stats.spearmanr(truth, predicted).statistic)


@pytest.mark.parametrize("truth, predicted", [([1, 2, 3], [2, 2, 2]), ([1, 1], [1, 2]), ([1], [2])])
def test_an_undefined_correlation_is_0(truth, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = similarity_metrics.correlation_scores(truth, predicted)
    assert scores == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_no_number_is_named(value):
    with pytest.raises(ScoreError, match=f"example 2: the prediction is {value}"):
        similarity_metrics.correlation_scores(
            [1, 2, 3, 4], np.array([1, 2, value, value], np.float32)
        )
    with pytest.raises(ValueError, match="example 0: the true value is"):
        similarity_metrics.correlation_scores([value, 2], [1, 2])


def test_a_correlation_with_what_does_not_vary_is_0():
    scores = similarity_metrics.correlation_scores([0.1, 2.2, 2.2], [1, 2.0, 3.0])
    assert [scores.drawn("pearson", np.array(x)) for x in ([0, 2, 0], [2, 0, 0], [0, 1, 1])] == [
        0
    ] * 3
    assert scores.drawn("pearson", np.array([1, 1, 0])) == pytest.approx(1)
