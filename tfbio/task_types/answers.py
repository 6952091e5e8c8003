"""Answers from the scores of tokens, by the rules of BERT's `run_squad.py` (google-research/bert).

A question may have seen its context in several windows; a span of any of them may be the answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfbio.formats.task_examples import Question

# BioASQ lets a system give so many answers to a factoid question.
FACTOID_ANSWERS = 5
# No answer begins or ends with these; as `tf.strings.strip` has them.
_BLANKS = " \t\n\v\f\r"


class Rules(NamedTuple):
    """The limits on the spans that may be answers; the defaults are those of BERT's `run_squad.py`.

    Attributes:
      n_best: the most answers of a question, and of BERT's head the starts and ends of a window.
      max_tokens: the most tokens of an answer.
      beam_size: 0: the logits are those of BERT's head. Else they are ELECTRA's (see `SpanHead`):
        the number of a window's starts that are followed, and of the ends of each.
    """

    n_best: int = 20
    max_tokens: int = 30
    beam_size: int = 0


class Answers(NamedTuple):
    """The best answers to a question in one context, which question answering predicts.

    Attributes:
      texts: the answers, parts of the context, all distinct, the best first; () for no answer.
      probabilities: the probability of each text among these texts; their sum is 1.
      null_odds: the score of no answer less that of the best answer, in logits, 0 without a span;
        of ELECTRA's head the logit of "no answer".
    """

    texts: tuple[str, ...]
    probabilities: tuple[float, ...]
    null_odds: float

    @property
    def best(self) -> str:
        """The text of the best answer; "" for no answer."""
        return self.texts[0] if self.texts else ""


class Window(NamedTuple):
    """The logits from which answers are chosen, of one window [CLS] question [SEP] context [SEP].

    A long context is divided among several windows.

    Attributes:
      logits: float32 [tokens, 2], for the start and the end of the answer; of ELECTRA's head
        [tokens, 2 + beam_size]: for the start, for "no answer", and for the end after each start.
      offsets: int32 [context tokens, 2], the span [start, end) of each in the whole context, in
        characters.
      own: bool [context tokens], True if no other window has more context around the token.
    """

    logits: np.ndarray
    offsets: np.ndarray
    own: np.ndarray


_DEFAULT = Rules()


def best_answers(context: str, windows: Sequence[Window], rules: Rules = _DEFAULT) -> Answers:
    """Chooses the best `Answers` to a question from the logits of its windows' tokens.

    Args:
      context: the whole context of the question, a text.
      windows: all windows of the question.
      rules: the limits on answers.

    Returns:
      At most `rules.n_best` answers, the best first; no texts if no window has a span that `rules`
      allow.

    Raises:
      ValueError: there is no window.
    """
    found = [_spans(window, rules) for window in windows]
    scores, starts, ends = (np.concatenate(part) for part in zip(*found, strict=True))
    best: dict[str, float] = {}
    for i in np.argsort(-scores, kind="stable"):
        if text := _cut(context, starts[i], ends[i]):
            best.setdefault(text, float(scores[i]))
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
    """Returns the text of a span; a token of byte-level BPE may be a blank, or begin with one."""
    # Accents that are characters of their own belong to the letter before; "uncased" drops them.
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end].strip(_BLANKS)


# --- One question on several contexts ------------------------------------------------------------


def merged(
    questions: Sequence[Question], predicted: Sequence[Answers]
) -> dict[str, tuple[str, ...]]:
    """Merges the predicted answers to each BioASQ question over all its contexts.

    The rules are BioBERT's (`transform_n2b_factoid.py` of dmis-lab/bioasq-biobert): the
    probabilities of an answer add up, in capitals or not; one of more than 100 characters, or with
    half of a pair of parentheses, is none.

    Args:
      questions: one for each context, with `question_id`.
      predicted: the `Answers` in each context.

    Returns:
      `question_id` -> answers, texts, the best first, at most `FACTOID_ANSWERS` (5).

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
        best[name] = tuple(ranked[:FACTOID_ANSWERS])
    return best


def _trimmed(text: str) -> str:
    """Without a last comma or full stop, or the parentheses around it."""
    if text.endswith((",", ".", " ")):
        return text[:-1]
    if text.startswith("(") and text.endswith(")") and text.count("(") == text.count(")") == 1:
        return text[1:-1]
    return "" if ("(" in text) != (")" in text) else text
