"""Intervals and p-values against the normal distribution and scipy."""

import numpy as np
import pytest
from scipy import stats

from tfbio.task_types import bootstraps


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=400)
    error = values.std() / np.sqrt(400)
    low, high = bootstraps.bootstrap(lambda rows: values[rows].mean(), 400, seed=1, samples=4000)
    assert low == pytest.approx(values.mean() - 1.960 * error, abs=0.08 * error)
    assert high == pytest.approx(values.mean() + 1.960 * error, abs=0.08 * error)


def test_the_interval_covers_the_true_score_as_often_as_it_says():
    generator = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        right = generator.random(200) < 0.8
        low, high = bootstraps.bootstrap(
            lambda rows, right=right: right[rows].mean(), 200, trial, samples=200
        )
        covered += low <= 0.8 <= high
    # 190 +- 3 * 3.1 of 200 at 95 %.
    assert 181 <= covered <= 199


def test_draws_depend_on_the_seed_alone():
    values = np.arange(50.0)

    def interval(seed):
        return bootstraps.bootstrap(lambda rows: values[rows].mean(), 50, seed, samples=50)

    assert interval(1) == interval(1) != interval(2)


def test_the_p_value_of_a_difference_is_that_of_a_paired_t_test():
    generator = np.random.default_rng(0)
    baseline = generator.normal(size=300)
    for gain in (-0.02, 0.0, 0.03, 0.06, 0.1):
        better = baseline + gain + generator.normal(scale=0.6, size=300)
        p = bootstraps.paired_bootstrap(
            lambda rows, better=better: better[rows].mean(),
            lambda rows: baseline[rows].mean(),
            300,
            seed=0,
            samples=4000,
        )
        expected = stats.ttest_rel(better, baseline, alternative="greater").pvalue
        assert p == pytest.approx(expected, abs=0.03)


def test_equal_systems_do_not_differ_and_no_p_value_is_0():
    right = np.arange(100) % 10 < 7

    def score(rows):
        return right[rows].mean()

    assert bootstraps.paired_bootstrap(score, score, 100, seed=0, samples=99) == 1
    p = bootstraps.paired_bootstrap(lambda rows: 1.0, lambda rows: 0.0, 100, seed=0, samples=99)
    assert p == 1 / 100


@pytest.mark.parametrize("size", [1, 3, 8])
def test_few_examples_show_no_more_than_the_sign_test(size):
    """All of them are right in one system and wrong in the other, and so are all draws."""
    p = bootstraps.paired_bootstrap(lambda rows: 1.0, lambda rows: 0.0, size, seed=0)
    assert p == stats.binomtest(size, size, alternative="greater").pvalue
