"""The score of one answer to everything, which a model must exceed to have learnt something."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from tfbio.formats.task_examples import Example
from tfbio.task_types import answers
from tfbio.task_types.scores import Scores

# Labels that are tried.
MOST = 10


def one_answer(
    kind: str,
    score: Callable[[Sequence, Sequence], Scores],
    dev: Sequence[Example],
    test: Sequence[Example],
) -> tuple[str, Scores]:
    """Scores one answer to all test examples.

    It is O for words, no answer for questions that are answered in spans, and the same score for
    pairs of texts, whose correlation counts as 0. Of labels it is the one that scores highest on
    the development set: the most frequent or, where one label says that there is no relation, the
    most frequent of the others. So it is "1" for every text of GAD, which is all positive.

    Args:
      kind: see `Task.kind`.
      score: see `Task.score`.
      dev: development examples.
      test: test examples.

    Returns:
      Which answer it is, such as "yes for every text", and its scores.
    """
    if kind == "tagging":
        return "O for every word", score(test, [("O",) * len(example.words) for example in test])
    if kind == "spans":
        return "no answer", score(test, [answers.Answers((), (), 0.0)] * len(test))
    if kind == "regression":
        mean = statistics.fmean(example.label for example in dev)
        return "the same score for every pair", score(test, [mean] * len(test))
    several = kind == "multilabel"
    labels = Counter(x for example in dev for x in (example.label if several else [example.label]))
    if not labels:  # no text has one
        return "no label", score(test, [()] * len(test))

    def headline(label: str) -> float:
        found = score(dev, [(label,) if several else label] * len(dev))
        return next(iter(found.values()))

    best = max((label for label, _ in labels.most_common(MOST)), key=headline)
    return f"{best} for every text", score(test, [(best,) if several else best] * len(test))
