"""Scores of sentence similarity: Pearson's and Spearman's correlation."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from tfbio.task_types.metrics import ScoreError, Scores, check_lengths, of_examples


def _pearson(units: np.ndarray, times: np.ndarray) -> float:
    """Pearson's correlation of pairs, [N, 2]; 0 where one side does not vary."""
    units = units[times > 0]
    times = times[times > 0]
    if (np.ptp(units, axis=0) == 0).any():
        return 0.0
    x, y = (units - times @ units / times.sum()).T
    # Each side by itself: a product of two tiny variances would be 0.
    norm = np.sqrt(times @ (x * x)) * np.sqrt(times @ (y * y))
    return float(np.clip((times * x) @ y / norm, -1, 1))


def correlation_scores(truth: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Computes metrics of numeric labels, the similarity of sentences (BIOSSES, ClinicalSTS).

    Where all predictions, or all true values, are the same, a correlation is undefined. It is then
    given as 0: such a model tells nothing, and the mean over seeds stays a number.

    Args:
      truth, predicted: a number for each example.

    Returns:
      `Scores` "pearson" and "spearman", the correlations, in [-1, 1].

    Raises:
      ScoreError: a value is NaN or infinite (the first is named), lengths differ, or no example.
    """
    from scipy import stats

    check_lengths(truth, predicted)
    for name, values in (("true value", truth), ("prediction", predicted)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ScoreError(f"example {bad[0]}: the {name} is {values[bad[0]]}, no finite number.")
    pairs = np.column_stack([truth, predicted])
    # Spearman's is Pearson's of the ranks; no draw has those of the whole.
    ranks = stats.rankdata(pairs, axis=0)
    return Scores(
        {"pearson": (pairs, _pearson)}, {"spearman": _pearson(ranks, np.ones(len(ranks)))}
    )


# `Task.score` of the similarity of sentences.
score_similarity = partial(of_examples, correlation_scores)
