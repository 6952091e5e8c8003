"""The one label for everything that scores highest, which a model must exceed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tfbio.task_types.metrics import Scores

# Labels that are tried.
_MOST = 10


def best_label(labels: Sequence[str], score: Callable[[str], Scores]) -> str:
    """Returns the best trivial answer: the one label that scores highest for all of the dev set.

    Of the 10 most frequent labels, it is the one with the highest first figure. So it is the most
    frequent one or, where one label says that there is no relation, the most frequent of the
    others: "1" for GAD, which makes every text positive.

    Args:
      labels: those of the development examples.
      score: label -> the scores of this answer to every development example.

    Raises:
      ValueError: there is no label.
    """
    often = (label for label, _ in Counter(labels).most_common(_MOST))
    return max(often, key=lambda label: next(iter(score(label).values())))
