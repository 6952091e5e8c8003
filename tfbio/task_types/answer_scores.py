"""The official scores of question answering: SQuAD's and BioASQ's; see `metrics`."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tfbio.task_types.scores import Scores, check_lengths, mean

# BioASQ lets a system give so many answers to a factoid question.
FACTOID_ANSWERS = 5


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """Computes the scores of extractive question answering by SQuAD's official script (v2.0).

    Texts are compared without case, ASCII punctuation, articles and runs of whitespace; the best of
    a question's answers counts. The script of v1.1 differs only in answers of which that leaves
    nothing ("The"): v2.0 ignores them.

    Args:
      answers: the accepted answers to each question; none where it has no answer.
      predicted: the answer to each question; "" for none.

    Returns:
      `Scores` with "f1" of the words and "exact_match", each a mean over the questions, in [0, 1].
      Where some have no answer, also over those that have ("has_answer_f1",
      "has_answer_exact_match") and have not ("no_answer_f1", "no_answer_exact_match"), if any.

    Raises:
      ScoreError: the lengths differ, or there is no question.
    """
    check_lengths(answers, predicted)
    scores = np.array([_answer_scores(*pair) for pair in zip(answers, predicted, strict=True)])
    answerable = np.array([len(options) > 0 for options in answers])
    names, groups = ("f1", "exact_match"), {}
    if not answerable.all():
        groups = {"has_answer_": answerable, "no_answer_": ~answerable}
    return Scores(
        {name: (scores[:, column], mean) for column, name in enumerate(names)},
        {
            prefix + name: float(scores[group, column].mean())
            for prefix, group in groups.items()
            if group.any()
            for column, name in enumerate(names)
        },
    )


def bioasq_factoid_scores(
    synonyms: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
    """Computes the scores of BioASQ's factoid questions as its `EvaluatorTask1b` (version 5) does.

    An answer is right if it equals a synonym but for case: nothing else is normalised.

    Args:
      synonyms: the right answers to each question.
      predicted: the answers to each question, the best first; those after the fifth do not count.

    Returns:
      `Scores` with "mrr", the mean over questions of 1 / rank of the first right answer (0 without
      one), "strict_accuracy", the share with a right first answer, and "lenient_accuracy", the
      share with any right answer (BioMegatron, Table 2, has the three; BioM reports "mrr").

    Raises:
      ScoreError: the lengths differ, or there is no question.
    """
    check_lengths(synonyms, predicted)
    reciprocal_ranks = np.zeros(len(predicted))
    for question, (right, guesses) in enumerate(zip(synonyms, predicted, strict=True)):
        accepted = {answer.lower() for answer in right}
        for rank, guess in enumerate(guesses[:FACTOID_ANSWERS], start=1):
            if guess.lower() in accepted:
                reciprocal_ranks[question] = 1 / rank
                break
    return Scores(
        {
            "mrr": (reciprocal_ranks, mean),
            "strict_accuracy": (reciprocal_ranks == 1, mean),
            "lenient_accuracy": (reciprocal_ranks > 0, mean),
        }
    )


def _normalised(answer: str) -> str:
    """SQuAD's `normalize_answer`; the order of its steps matters ("a." is an article)."""
    text = answer.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _answer_scores(answers: Sequence[str], predicted: str) -> tuple[float, float]:
    """F1 and exact match of one answer against the best of those to be found."""
    options = [text for text in map(_normalised, answers) if text] or [""]
    guess = _normalised(predicted)
    return max(_word_f1(text, guess) for text in options), float(guess in options)


def _word_f1(answer: str, predicted: str) -> float:
    if not answer or not predicted:
        return float(answer == predicted)
    true, found = Counter(answer.split()), Counter(predicted.split())
    return 2 * (true & found).total() / (true.total() + found.total())
