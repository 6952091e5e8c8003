"""The statistics of a comparison's scores, for its report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# How many standard errors of their difference two means must be apart.
STANDARD_ERRORS = 2.0


def rank(loss: float) -> tuple[bool, float]:
    """Returns what losses are sorted by, the best first: one that is not finite is the last."""
    return not math.isfinite(loss), loss


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and its standard error, which is NaN for one value.

    Args:
      values: one for each seed, at least one.
    """
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, statistics.stdev(values) / math.sqrt(len(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the mean, by Student's t; NaN for one value.

    Args:
      values: one for each seed.
    """
    from scipy import stats

    mean, error = mean_and_error(values)
    half = error * stats.t.ppf(0.975, len(values) - 1) if len(values) > 1 else math.nan
    return mean - half, mean + half


def standard_errors_apart(values: Sequence[float], others: Sequence[float]) -> float:
    """Returns the difference of two means over the standard error of that difference.

    Args:
      values: one for each seed.
      others: those that they are compared with.

    Returns:
      A float; NaN if one has fewer than two values. If neither varies it is infinite, or NaN where
      the means are the same.
    """
    (mean, error), (other, other_error) = mean_and_error(values), mean_and_error(others)
    deviation = math.hypot(error, other_error)
    if math.isnan(deviation) or (deviation == 0 and mean == other):
        return math.nan
    return (mean - other) / deviation if deviation else math.copysign(math.inf, mean - other)


def of(records: Sequence[dict], stage: str, **key: object) -> list[dict]:
    """Returns the records of a stage that have these values.

    Args:
      records: the lines of scores.jsonl.
      stage: a stage of the comparison.
      **key: further values.
    """
    return [x for x in records if x["stage"] == stage and key.items() <= x.items()]


def tasks(records: Sequence[dict]) -> list[str]:
    """Returns the tasks that have a score, in the order of their first one.

    Args:
      records: the lines of scores.jsonl.
    """
    return list(dict.fromkeys(record["task"] for record in of(records, "finetuning")))


def in_percent(found: Sequence[dict]) -> list[float]:
    """Returns the scores in percent: the mean of each seed of pretraining.

    Of one seed of pretraining, and of random weights, those of each seed of fine-tuning.

    Args:
      found: the records of fine-tuning, one for each seed of pretraining.
    """
    of_seeds = [[100 * score for score in record["scores"]] for record in found]
    if len(of_seeds) == 1:
        return of_seeds[0]
    return [statistics.fmean(scores) for scores in of_seeds]
