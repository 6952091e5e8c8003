"""Divides questions with their contexts into windows, and answers into tokens of them."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfbio.formats.task_examples import Question
from tfbio.task_types.features import Features

# `doc_stride` of `run_squad.py`, in tokens.
STRIDE = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionFeatures(Features):
    """The windows of questions on contexts, with arrays for each that lead back to the context.

    `offsets`: int32 [context tokens, 2], the characters [start, end); `own`: see `answers.Window`.
    """

    offsets: list[np.ndarray]
    own: list[np.ndarray]


def windows(count: int, room: int, stride: int = 0) -> list[tuple[int, int]]:
    """Divides a context into overlapping windows of tokens, for the question_answering task type.

    It returns first and end (exclusive) of each window of the `count` tokens, at least one window.
    A window holds at most `room` tokens, which is 1 or more. Windows begin `stride` tokens apart,
    at most `room`; 0 stands for `STRIDE` (128), or half of `room` if that is less: else short
    windows would not overlap, and none would hold an answer at their border.
    """
    stride = min(stride, room) if stride else min(STRIDE, -(-room // 2))
    firsts = range(0, max(count - room, 0) + stride, stride)
    return [(first, min(first + room, count)) for first in firsts]


def most_context(count: int, spans: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Finds for each token of a question_answering context the window with most context around it.

    That is the smaller number of tokens on either side, and a hundredth of the window's; the first
    of equals (`_check_is_max_context` of `run_squad.py`). For each of `spans`, the windows of the
    `count` tokens, it returns bool [tokens], True for the tokens whose window it is.
    """
    scores = np.full([len(spans), count], -np.inf)
    for row, (first, end) in zip(scores, spans, strict=True):
        before = np.arange(end - first)
        row[first:end] = np.minimum(before, before[::-1]) + 0.01 * (end - first)
    best = scores.argmax(axis=0)
    return [best[first:end] == number for number, (first, end) in enumerate(spans)]


def answer_tokens(question: Question, offsets: np.ndarray) -> tuple[int, int] | None:
    """Turns the characters of a question_answering answer into its first and last token, or None.

    Args:
      question: its first answer whose place is known counts; without one the result is None.
      offsets: int32 [tokens, 2], the characters [start, end) of the context's tokens.
    """
    for text, start in zip(question.answers, question.answer_starts, strict=True):
        inside = (offsets[:, 1] > start) & (offsets[:, 0] < start + len(text))
        if start >= 0 and inside.any():
            places = np.flatnonzero(inside)
            return int(places[0]), int(places[-1])
    return None
