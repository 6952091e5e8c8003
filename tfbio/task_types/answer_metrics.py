"""The official scores of question answering: SQuAD's and BioASQ's; see `metrics`."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tfbio.formats.task_examples import Question
from tfbio.task_types import answers
from tfbio.task_types.answers import FACTOID_ANSWERS
from tfbio.task_types.metrics import Scores, check_lengths, mean


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """Computes SQuAD's answer metrics, F1 and exact match, as its official script (v2.0) does.

    Texts are compared without case, ASCII punctuation, articles and runs of whitespace; the best of
    a question's answers counts. The script of v1.1 differs only in answers of which that leaves
    nothing ("The"): v2.0 ignores them.

    Args:
      answers: the accepted answers to each question, texts; none where it has no answer.
      predicted: the answer to each question, a text; "" for none.

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
    """Computes the answer metrics of BioASQ's factoid questions as its `EvaluatorTask1b` does.

    The rules are those of its version 5. An answer is right if it equals a synonym but for case:
    nothing else is normalised.

    Args:
      synonyms: the right answers to each question, texts.
      predicted: the answers to each question, the best first; those after the fifth do not count.

    Returns:
      `Scores`, each in [0, 1]: "mrr", the mean over questions of 1 / rank of the first right answer
      (0 without one), "strict_accuracy", the share with a right first answer, and
      "lenient_accuracy", the share with any right answer (BioMegatron, Table 2, has the three; BioM
      reports "mrr").

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


def score_answers(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    """Computes SQuAD's answer metrics of the best predicted answers, as `Task.score` of its tasks.

    Args:
      questions: the questions, each with its accepted answers.
      predicted: the `Answers` to each question.

    Returns:
      `Scores` "f1" and "exact_match" in [0, 1], as `squad_scores` defines them; where some
      questions have no answer, also "has_answer_..." and "no_answer_..." of both.

    Raises:
      ScoreError: the lengths differ, or there is no question.
    """
    return squad_scores([x.answers for x in questions], [x.best for x in predicted])


def score_factoids(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    """Computes BioASQ's answer metrics, of answers merged over each question's contexts.

    It is `Task.score` of BioASQ's factoid questions.

    Args:
      questions: one for each context, with `question_id`.
      predicted: the `Answers` in each context.

    Returns:
      `Scores` "mrr", "strict_accuracy" and "lenient_accuracy" in [0, 1], over the questions, as
      `bioasq_factoid_scores` defines them.

    Raises:
      ScoreError: there is no question.
      ValueError: the lengths differ.
    """
    gold = {question.question_id: question.answers for question in questions}
    best = answers.merged(questions, predicted)
    return bioasq_factoid_scores([gold[name] for name in best], list(best.values()))
