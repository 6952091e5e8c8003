"""Answers from the scores of tokens, by the rules of BERT's `run_squad.py` (google-research/bert).

A question may have seen its context in several windows; a span of any of them may be the answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfbio.formats.task_examples import Question
from tfbio.task_types import answer_scores


class Rules(NamedTuple):
    """The limits on the spans that may be answers; the defaults are those of `run_squad.py`.

    Attributes:
      n_best: the most answers of a question, and of BERT's head the starts and ends of a window.
      max_tokens: the most tokens of an answer.
      beam_size: 0: the logits are those of BERT's head. Else they are ELECTRA's (see `SpanHead`),
        and so many starts of a window are followed, with so many ends each.
    """

    n_best: int = 20
    max_tokens: int = 30
    beam_size: int = 0


class Answers(NamedTuple):
    """The best answers in a context.

    Attributes:
      texts: parts of the context, strings, all distinct, the best first; none for no answer.
      probabilities: floats, that of each text among these texts, whose sum is 1.
      null_odds: by how much no answer scores higher than the best one, in logits; of ELECTRA's
        head the logit of "no answer".
    """

    texts: tuple[str, ...]
    probabilities: tuple[float, ...]
    null_odds: float

    @property
    def best(self) -> str:
        """The best answer; "" for no answer."""
        return self.texts[0] if self.texts else ""


class Window(NamedTuple):
    """The model's outputs for [CLS] question [SEP] context [SEP], where the context may be a part.

    Attributes:
      logits: float32 [tokens, 2], for the start and the end of the answer; of ELECTRA's head
        [tokens, 2 + beam_size]: for the start, for "no answer", and for the end after each start.
      offsets: int32 [context tokens, 2], the first character of each and the one after its last.
      own: bool [context tokens], True if no other window has more context around the token.
    """

    logits: np.ndarray
    offsets: np.ndarray
    own: np.ndarray


DEFAULT = Rules()


def best_answers(context: str, windows: Sequence[Window], rules: Rules = DEFAULT) -> Answers:
    """Returns the best `Answers` to a question, at most `rules.n_best`.

    They have no texts if no window has a span that `rules` allow.

    Args:
      context: of the question, whole.
      windows: all that show it.
      rules: which spans may be answers, and how many.

    Raises:
      ValueError: there is no window.
    """
    found = [_spans(window, rules) for window in windows]
    scores, starts, ends = (np.concatenate(part) for part in zip(*found, strict=True))
    best: dict[str, float] = {}
    for i in np.argsort(-scores, kind="stable"):
        best.setdefault(_cut(context, starts[i], ends[i]), float(scores[i]))
        if len(best) == rules.n_best:
            break
    if rules.beam_size:
        null_odds = min(float(window.logits[0, 1]) for window in windows)
    elif best:
        null = min(float(window.logits[0].sum()) for window in windows)
        null_odds = null - max(best.values())
    else:
        null_odds = 0.0
    if not best:
        return Answers((), (), null_odds)
    logits = np.array([*best.values()])
    likely = np.exp(logits - logits[0])
    probabilities = (likely / likely.sum()).tolist()
    return Answers(tuple(best), tuple(probabilities), null_odds)


def _spans(window: Window, rules: Rules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, first characters and ends, [spans] each, of the spans that a window allows."""
    logits, offsets, own = window
    first = len(logits) - 1 - len(offsets)  # token of the context; the last one is [SEP]
    # Also of the question and [CLS], which leave fewer for the context.
    if rules.beam_size:
        start, end, scores = _beam(logits, rules.beam_size)
    else:
        best = np.argsort(-logits, axis=0, kind="stable")[: rules.n_best]
        start, end = (places.ravel() for places in np.meshgrid(*best.T, indexing="ij"))
        scores = logits[start, 0] + logits[end, 1]
    start, end = start - first, end - first
    room = np.minimum(start + rules.max_tokens, len(offsets))
    fits = (start >= 0) & (end >= start) & (end < room)
    start, end, scores = start[fits], end[fits], scores[fits]
    owned = own[start]
    return scores[owned], offsets[start[owned], 0], offsets[end[owned], 1]


def _beam(logits: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, ends and scores, [starts * ends] each, in tokens of the window.

    A score is the logarithm of the probability of both
    (`finetune/qa/qa_metrics.py:SpanBasedQAScorer` of google-research/electra).
    """
    start_logits = logits[:, 0]
    starts = np.argsort(-start_logits, kind="stable")[:size]
    of_ends = logits[:, 2 : 2 + len(starts)]
    ends = np.argsort(-of_ends, axis=0, kind="stable")[:size].T  # [starts, ends]
    highest = start_logits.max()
    normalizer = highest + np.log(np.exp(start_logits - highest).sum())
    scores = (start_logits[starts] - normalizer)[:, np.newaxis]
    scores = scores + np.take_along_axis(of_ends.T, ends, axis=1)
    return np.repeat(starts, ends.shape[1]), ends.ravel(), scores.ravel()


def _cut(context: str, start: int, end: int) -> str:
    # Accents that are characters of their own belong to the letter before; "uncased" drops them.
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]


# --- No answer -----------------------------------------------------------------------------------


def null_threshold(
    questions: Sequence[Question], predicted: Sequence[Answers], figure: str = "f1"
) -> float | None:
    """Computes the null odds above which to give no answer, by the best score on these questions.

    The rule of `find_best_thresh` in SQuAD's official `evaluate-v2.0.py`; but where no answer at
    all is best, the threshold is below all odds (there 0, as for probabilities).

    Args:
      questions: of the development set.
      predicted: for each.
      figure: the score, of `answer_scores.squad_scores`.

    Returns:
      The threshold, in logits; None where an answer is always given: every question has one, or
      they are BioASQ's.
    """
    if all(question.answers or question.question_id for question in questions):
        return None
    odds = np.array([answers.null_odds for answers in predicted])
    # What an answer adds over none.
    gains = np.array(
        [
            answer_scores.squad_scores([question.answers], [answers.best])[figure]
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
    """Returns the answers, without texts where their `null_odds` are above the threshold.

    Args:
      predicted: the answers to each question.
      threshold: in logits; None to change nothing.
    """
    return [
        answers
        if threshold is None or answers.null_odds <= threshold
        else answers._replace(texts=(), probabilities=())
        for answers in predicted
    ]


# --- One question on several contexts ------------------------------------------------------------


def merged(
    questions: Sequence[Question], predicted: Sequence[Answers]
) -> dict[str, tuple[str, ...]]:
    """Merges the answers to each question in all its contexts.

    By the rules of BioBERT (`transform_n2b_factoid.py` of dmis-lab/bioasq-biobert): the
    probabilities of an answer add up, in capitals or not; one of more than 100 characters, or with
    half of a pair of parentheses, is none.

    Args:
      questions: one for each context.
      predicted: for each.

    Returns:
      `question_id` -> answers, the best first, at most `answer_scores.FACTOID_ANSWERS` (5).

    Raises:
      ValueError: the lengths differ.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for question, answers in zip(questions, predicted, strict=True):
        own = found.setdefault(question.question_id, [])
        own += zip(answers.probabilities, map(_trimmed, answers.texts), strict=True)
    best = {}
    for name, own in found.items():
        # As it is written where it is most probable.
        texts: dict[str, str] = {}
        totals: dict[str, float] = {}
        for probability, text in sorted(own, key=lambda pair: -pair[0]):
            if 0 < len(text) <= 100:
                text = texts.setdefault(text.lower(), text)
                totals[text] = totals.get(text, 0.0) + probability
        ranked = sorted(totals, key=totals.__getitem__, reverse=True)
        best[name] = tuple(ranked[: answer_scores.FACTOID_ANSWERS])
    return best


def _trimmed(text: str) -> str:
    """Without a last comma or full stop, or the parentheses around it."""
    if text.endswith((",", ".", " ")):
        return text[:-1]
    if text.startswith("(") and text.endswith(")") and text.count("(") == text.count(")") == 1:
        return text[1:-1]
    return "" if ("(" in text) != (")" in text) else text
