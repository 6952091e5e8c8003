"""How sure a score is: intervals and tests by drawing the examples again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

# The share of draws beyond each end of an interval, which holds 95 % of them.
_TAIL = 0.025


def bootstrap(
    score: Callable[[np.ndarray], float],
    size: int,
    seed: int,
    samples: int = 1000,
) -> tuple[float, float]:
    """Computes the bootstrap interval of a score (Efron and Tibshirani 1993, chapter 13).

    Its ends are percentiles of the scores of draws, of which it holds 95 %.

    Args:
      score: the indices of examples, int64 [size], drawn with replacement -> their score, a float.
      size: the number of examples.
      seed: the seed of the draws.
      samples: the number of draws.

    Returns:
      The lower and the upper end of the interval, two floats.
    """
    scores = [score(rows) for rows in _resamples(size, seed, samples)]
    low, high = np.quantile(scores, [_TAIL, 1 - _TAIL])
    return float(low), float(high)


def paired_bootstrap(
    score: Callable[[np.ndarray], float],
    baseline: Callable[[np.ndarray], float],
    size: int,
    seed: int,
    samples: int = 10_000,
) -> float:
    """Computes the p-value of the difference of two systems' scores by a paired bootstrap.

    It is the probability of so large a difference if none is real. In the test of Berg-Kirkpatrick
    et al. (2012, Figure 1) both systems are scored on the same draws of examples. Their differences
    lie around the observed one, not around 0, so those count that are at least twice as large. It
    is one-sided (score > baseline), and never 0: the observed one counts as one more draw (Davison
    and Hinkley 1997, section 4.2). It is at least 0.5^size, the odds that all examples differ in
    one direction by chance (the sign test), since draws of a few examples say less than they seem.

    Args:
      score: the indices of examples, int64 [size], drawn with replacement -> their score, a float.
      baseline: the same of the system it is compared with.
      size: the number of examples.
      seed: the seed of the draws.
      samples: the number of draws.

    Returns:
      The p-value, a float in (0, 1].
    """
    found = score(np.arange(size)) - baseline(np.arange(size))
    differences = [score(rows) - baseline(rows) for rows in _resamples(size, seed, samples)]
    # Equal differences must count although they are sums of rounded numbers.
    extreme = np.count_nonzero(np.array(differences) >= 2 * found - 1e-12)
    return max(float((extreme + 1) / (samples + 1)), 0.5**size)


def _resamples(size: int, seed: int, samples: int) -> Iterator[np.ndarray]:
    """Draws of `size` indices with replacement, int64 [size] each; of one seed always the same."""
    generator = np.random.default_rng(seed)
    return (generator.integers(size, size=size) for _ in range(samples))
