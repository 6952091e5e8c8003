"""Computes with rows of different lengths that lie one after the other in an array."""

from __future__ import annotations

import numpy as np


def ranges(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Computes the indices of ragged rows: `first, first + 1, ...` of one row after the other.

    `values[ranges(firsts, lengths)]` gathers rows of `values`, of which row i begins at `firsts[i]`
    and has `lengths[i]` elements.

    Args:
      firsts: int64 [rows], the first index of each row.
      lengths: int64 [rows], the number of elements in each row.

    Returns:
      int64 [sum of lengths].
    """
    ends = np.cumsum(lengths)
    numbers = np.repeat(firsts - (ends - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers
