"""Places texts of different lengths in the rows of a batch, by three rules."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Places:
    """The placement of windows in rows, as the three rules of this module return it.

    Attributes:
      row: int64 [windows], the row of each, from 0.
      start: int64 [windows], the place of its first token in the row, from 0.
      rows: the number of rows, an int.
      row_length: the tokens of a row, an int.
    """

    row: np.ndarray
    start: np.ndarray
    rows: int
    row_length: int


def first_fit(lengths: Sequence[int] | np.ndarray, row_length: int) -> Places:
    """Places the windows in rows by first-fit decreasing: each in the first row with room for it.

    The longest window comes first. That takes at most 11/9 of the fewest rows, and one more (Yue,
    1991).

    Args:
      lengths: int [windows], the tokens of each.
      row_length: the tokens of a row, as many as the longest window at least.

    Returns:
      `Places`: the row and the first token of each window, int64 [windows] each, and the number of
      rows.
    """
    row, start = np.zeros([len(lengths)], np.int64), np.zeros([len(lengths)], np.int64)
    used: list[int] = []
    for window in np.argsort(-np.asarray(lengths), kind="stable"):
        length = lengths[window]
        number = next((n for n, tokens in enumerate(used) if tokens + length <= row_length), None)
        if number is None:
            number = len(used)
            used.append(0)
        row[window], start[window] = number, used[number]
        used[number] += length
    return Places(row, start, len(used), row_length)


def deal(lengths: Sequence[int], rows: int) -> Places:
    """Places each window in that of a given number of rows which has the fewest tokens so far.

    The longest window comes first. The longest row has at most 4/3 of the tokens of the best
    division (Graham, 1969).

    Args:
      lengths: int [windows], the tokens of each.
      rows: how many there are, at least 1.

    Returns:
      `Places`: the row and the first token of each window, int64 [windows] each; `row_length` is
      that of the longest row.

    Raises:
      IndexError: there are windows, but no rows.
      ValueError: there are neither.
    """
    row, start = np.zeros([len(lengths)], np.int64), np.zeros([len(lengths)], np.int64)
    loads = [(0, number) for number in range(rows)]
    for text in np.argsort(-np.asarray(lengths), kind="stable"):
        load, number = loads[0]
        row[text], start[text] = number, load
        heapq.heapreplace(loads, (load + int(lengths[text]), number))
    return Places(row, start, rows, max(loads)[0])


def best_fit(lengths: np.ndarray, row_length: int, most: int) -> Places:
    """Places the windows in rows by best-fit decreasing: each in the row with least room for it.

    The longest window comes first.

    Args:
      lengths: int64 [windows], the tokens of each, from 1 to `row_length`.
      row_length: the tokens of a row.
      most: the most windows of a row, at least 1.

    Returns:
      `Places`: the row and the first token of each window, int64 [windows] each, and the number of
      rows.
    """
    row, start = np.zeros_like(lengths), np.zeros_like(lengths)
    with_room: list[list[int]] = [[] for _ in range(row_length + 1)]  # the rows, by their room
    counts: list[int] = []
    for text in np.argsort(-lengths, kind="stable"):
        length = lengths[text]
        room = next((room for room in range(length, row_length + 1) if with_room[room]), None)
        if room is None:
            room, number = row_length, len(counts)
            counts.append(0)
        else:
            number = with_room[room].pop()
        row[text], start[text] = number, row_length - room
        counts[number] += 1
        if counts[number] < most:
            with_room[room - length].append(number)
    return Places(row, start, len(counts), row_length)
