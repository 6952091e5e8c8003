"""Places texts of different lengths in the rows of batches, by three rules."""

from __future__ import annotations

import bisect
import dataclasses
import heapq
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Places:
    """The placement of windows in rows, as the rules of this module return it.

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
    row, start, row_lengths = _best_fit(lengths, [row_length], most)
    return Places(row, start, len(row_lengths), row_length)


def batches_of_short_rows(
    lengths: np.ndarray, tokens: int, unit: int
) -> list[tuple[np.ndarray, Places]]:
    """Divides windows among batches whose rows are short, by best-fit decreasing.

    Attention computes all pairs of a row's tokens, so short windows lie in short rows, but for
    those that fill up rows of longer ones. Row lengths are multiples of `unit`; those whose windows
    would not fill a batch are left out, so there is one row length if one batch holds all windows.

    Args:
      lengths: int64 [windows], the tokens of each, at least one window.
      tokens: the most that a batch has, about.
      unit: see above.

    Returns:
      For each batch, those of the longest rows first: the numbers of its windows, int64 [n], and
      their `Places`.
    """
    chosen = _row_lengths(lengths, tokens, unit)
    row, start, found = _best_fit(lengths, chosen, len(lengths))
    of_row = np.array(found)
    batches = []
    for row_length in reversed(chosen):
        rows = np.flatnonzero(of_row == row_length)
        in_rows = int(lengths[of_row[row] == row_length].sum())
        count = min(len(rows), -(-in_rows // tokens))  # 0 if longer rows had room for all
        for own in np.array_split(rows, count) if count else ():
            windows = np.flatnonzero(np.isin(row, own))
            number = np.searchsorted(own, row[windows])
            batches.append((windows, Places(number, start[windows], len(own), row_length)))
    return batches


def _row_lengths(lengths: np.ndarray, tokens: int, unit: int) -> list[int]:
    """Chooses the row lengths, the shortest first; the last one holds the longest window."""
    needed = -(-lengths // unit) * unit
    chosen, waiting = [], 0
    for row_length in np.unique(needed):
        waiting += int(lengths[needed == row_length].sum())
        if waiting >= tokens or row_length == needed.max():
            chosen.append(int(row_length))
            waiting = 0
    return chosen


def _best_fit(
    lengths: np.ndarray, row_lengths: Sequence[int], most: int
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Places the windows by best-fit decreasing in rows of several lengths, the shortest first.

    A window that no row has room for begins one of the shortest that hold it.

    Returns:
      The row and the first token of each window, int64 [windows] each, and the length of each row.
    """
    row, start = np.zeros_like(lengths), np.zeros_like(lengths)
    with_room: list[list[int]] = [[] for _ in range(row_lengths[-1] + 1)]  # the rows, by their room
    counts: list[int] = []
    length_of: list[int] = []
    for text in np.argsort(-lengths, kind="stable"):
        length = int(lengths[text])
        room = next((room for room in range(length, len(with_room)) if with_room[room]), None)
        if room is None:
            room = row_lengths[bisect.bisect_left(row_lengths, length)]
            number = len(counts)
            counts.append(0)
            length_of.append(room)
        else:
            number = with_room[room].pop()
        row[text], start[text] = number, length_of[number] - room
        counts[number] += 1
        if counts[number] < most:
            with_room[room - length].append(number)
    return row, start, length_of
