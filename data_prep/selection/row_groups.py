"""Groups rows of numbers as Beam passes them on: a number, and its rows as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def grouped(rows: np.ndarray, by: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Groups rows of numbers for Beam, so that it passes on one group of rows and not every row.

    Args:
      rows: [rows] of any dtype, mostly a structured one.
      by: int [rows], the number of the group of each row, such as that of its unit or partition.

    Yields:
      Pairs of a group's number, an int, in ascending order, and its rows as bytes, in the order in
      which they were given.
    """
    order = np.argsort(by, kind="stable")
    rows = rows[order]
    numbers, starts, counts = np.unique(by[order], return_index=True, return_counts=True)
    for number, start, count in zip(numbers, starts, counts, strict=True):
        yield int(number), rows[start : start + count].tobytes()
