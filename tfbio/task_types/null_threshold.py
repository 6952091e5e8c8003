"""Learns above which null odds a question has no answer, as in SQuAD 2.0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfbio.formats.task_examples import Question
from tfbio.task_types import answer_metrics
from tfbio.task_types.answers import Answers


def null_threshold(
    questions: Sequence[Question], predicted: Sequence[Answers], figure: str = "f1"
) -> float | None:
    """Computes the null threshold of SQuAD 2.0, the null odds above which a question has no answer.

    It is the one with the best score on these questions. The rule is that of `find_best_thresh` in
    SQuAD's official `evaluate-v2.0.py`; but where no answer at all is best, the threshold is below
    all odds (there 0, as for probabilities).

    Args:
      questions: the questions of the development set.
      predicted: the `Answers` to each.
      figure: the score, "f1" or "exact_match" of `answer_metrics.squad_scores`.

    Returns:
      The threshold, in logits; None where an answer is always given: every question has one, or
      they are BioASQ's.

    Raises:
      ValueError: the lengths differ.
      KeyError: there is no such figure.
    """
    if all(question.answers or question.question_id for question in questions):
        return None
    odds = np.array([answers.null_odds for answers in predicted])
    # What an answer adds over none.
    gains = np.array(
        [
            answer_metrics.squad_scores([question.answers], [answers.best])[figure]
            - (not question.answers)
            for question, answers in zip(questions, predicted, strict=True)
        ]
    )
    order = np.argsort(odds, kind="stable")
    totals = np.cumsum(gains[order])
    if totals.max() <= 0:
        return float(np.nextafter(odds.min(), -np.inf))
    return float(odds[order[totals.argmax()]])


def with_threshold(predicted: Sequence[Answers], threshold: float | None) -> list[Answers]:
    """Applies the null threshold: removes the texts of answers whose `null_odds` are above it.

    Args:
      predicted: the `Answers` to each question.
      threshold: in logits; None to change nothing.

    Returns:
      The answers; those above the threshold have () as texts and probabilities.
    """
    return [
        answers
        if threshold is None or answers.null_odds <= threshold
        else answers._replace(texts=(), probabilities=())
        for answers in predicted
    ]
