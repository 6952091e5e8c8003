"""Arithmetic on rows of different lengths that stand one after the other in one array."""

from __future__ import annotations

import numpy as np


def ranges(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers `first, first + 1, ...` of several runs, one after the other.

    `values[ranges(firsts, lengths)]` gathers rows of `values` of which row i begins at `firsts[i]`
    and has `lengths[i]` numbers.

    Args:
      firsts: int64 [runs].
      lengths: int64 [runs], how many numbers each run has.

    Returns:
      int64 [sum of lengths].
    """
    ends = np.cumsum(lengths)
    numbers = np.repeat(firsts - (ends - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers
