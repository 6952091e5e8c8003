"""Divides sentences of words into windows of at most so many tokens, for tagging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """Words `first` to `end` of a sentence, of which those from `own` to `own_end` have targets."""

    first: int
    end: int
    own: int
    own_end: int


def windows(counts: Sequence[int], room: int) -> list[Window]:
    """Divides a sentence into windows: one, if it fits; else each repeats a quarter of the last.

    Args:
      counts: the tokens of each word, at least 1 and at most `room`.
      room: tokens that a window holds.
    """
    ends = np.cumsum(counts)  # tokens up to and with each word

    def last_that_fits(first: int) -> int:
        before = ends[first] - counts[first]
        return int(np.searchsorted(ends, before + room, side="right"))

    spans = [(0, last_that_fits(0))]
    while spans[-1][1] < len(counts):
        first, end = spans[-1]
        # Back by a quarter of the room, and on by one word at least.
        back = ends[end - 1] - room // 4
        next_first = max(first + 1, int(np.searchsorted(ends, back, side="right")))
        # At the next word, where that is so long that nothing would be gained.
        while last_that_fits(next_first) <= end:
            next_first += 1
        spans.append((next_first, last_that_fits(next_first)))
    divided, own = [], 0
    for number, (first, end) in enumerate(spans):
        own_end = len(counts)
        if number + 1 < len(spans):
            own_end = (spans[number + 1][0] + end + 1) // 2  # the middle of what both have
        divided.append(Window(first, end, own, own_end))
        own = own_end
    return divided


def kept_by_electra(counts: Sequence[int], length: int) -> int:
    """Counts the words of a sentence that the original ELECTRA code keeps.

    It stops at the first word before which there are so many tokens that they, the number of all
    the sentence's words, [CLS] and [SEP] among them, and 1 are more than `length`
    (finetune/tagging/tagging_tasks.py, `TaggingTask.featurize`). That is a mistake, which cuts much
    too early: to be sure that all words fit, it takes one token for each.

    Args:
      counts: the tokens of each word.
      length: the most tokens of a sentence, with [CLS] and [SEP].
    """
    before = 1 + np.cumsum([0, *counts])  # tokens before each word and [SEP], with [CLS]
    stops = before + len(counts) + 2 + 1 > length
    kept = int(stops.argmax()) if stops[:-1].any() else len(counts)
    # A last word of many tokens might not fit.
    return min(kept, int(np.searchsorted(before[1:] + 1, length, side="right")))
