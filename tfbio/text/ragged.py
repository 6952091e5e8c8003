"""Computes with rows of different lengths that lie one after the other in an array."""

from __future__ import annotations

import numpy as np


def ranges(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the numbers `first, first + 1, ...` of several runs, one after the other.

    `values[ranges(firsts, lengths)]` gathers rows of `values`, of which row i begins at `firsts[i]`
    and has `lengths[i]` elements.

    Args:
      firsts: int64 [runs], the first number of each run.
      lengths: int64 [runs], the count of numbers in each run.

    Returns:
      int64 [sum of lengths].
    """
    ends = np.cumsum(lengths)
    numbers = np.repeat(firsts - (ends - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers
