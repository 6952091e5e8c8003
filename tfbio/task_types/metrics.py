"""The figures of a run, which can be given again for any draw of the examples.

`Scores` keeps what was counted of each example, so that a draw of `bootstraps` costs only a sum:

    scores = entity_metrics.entity_scores(truth, predicted)
    scores.drawn("f1", times)  # how often each example was drawn
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from tfbio.base.errors import UserError

RIGHT, PREDICTED, TRUE = range(3)


class ScoreError(UserError):
    """The `UserError` of all metrics for truth or predictions that cannot be scored."""


# From what was counted of each unit, float64 [n, ...], and how often each was drawn, float64 [n].
Figure = Callable[[np.ndarray, np.ndarray], float]


class Scores(dict[str, float]):
    """The metrics of a test set, name -> float, with the counts of each example to draw them anew.

    The first figure sums the task up. A draw is of examples; of documents or questions, where the
    score is over these.

    Args:
      drawable: name -> what was counted of each unit, float64 or int64 [n, ...], and the figure as
        a function of it, (units [n, ...], times [n]) -> float. All have the same units.
      others: further figures, which no draw has.

    Attributes:
      size: the number of units, n.
      drawable: the names of the figures that can be drawn, a frozenset.
    """

    def __init__(
        self,
        drawable: Mapping[str, tuple[np.ndarray, Figure]],
        others: Mapping[str, float] | None = None,
    ):
        super().__init__()
        self._parts = {name: (np.asarray(x, float), own) for name, (x, own) in drawable.items()}
        self.drawable = frozenset(self._parts)
        self.size = len(next(iter(self._parts.values()))[0])
        self.update({name: self.drawn(name, np.ones(self.size)) for name in self._parts})
        self.update(others or {})

    def drawn(self, name: str, times: np.ndarray) -> float:
        """Computes one of the metrics, a float, for a draw from what was counted of each unit.

        Args:
          name: one of `drawable`.
          times: float64 [size], how often each unit is in the draw.

        Raises:
          KeyError: the figure cannot be drawn.
        """
        units, figure = self._parts[name]
        return figure(units, times)


def count(
    truth: Sequence[Set[tuple]], predicted: Sequence[Set[tuple]], types: Sequence[str]
) -> np.ndarray:
    """Counts for all metrics how many items of each example and type are right, predicted and true.

    Args:
      truth: N sets of items, such as entities or labels: tuples whose first value is the type.
      predicted: N sets of items.
      types: the names of T types.

    Returns:
      int64 [N, T, 3]: how many items are right, predicted and true.

    Raises:
      ScoreError: an item is of none of the types, the lengths differ, or there is no example.
    """
    check_lengths(truth, predicted)
    column = {name: index for index, name in enumerate(types)}
    counts = np.zeros((len(truth), len(types), 3), np.int64)
    for example, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        for count, items in ((RIGHT, true & found), (PREDICTED, found), (TRUE, true)):
            for item in items:
                if item[0] not in column:
                    raise ScoreError(
                        f"example {example}: unknown label {item[0]!r}; the labels are "
                        f"{', '.join(types)}."
                    )
                counts[example, column[item[0]], count] += 1
    return counts


def mean(units: np.ndarray, times: np.ndarray) -> float:
    """Computes metrics that are the mean of a value of each unit, such as accuracy; for any draw.

    Args:
      units: float64 [n], the value of each unit.
      times: float64 [n], how often each unit is in the draw.

    Returns:
      The mean over the units in the draw, a float.
    """
    return float(times @ units / times.sum())


def of_examples(
    score: Callable[..., Scores],
    examples: Sequence,
    predicted: Sequence,
    field: str = "label",
    **settings: Any,
) -> Scores:
    """Computes the metrics of examples, as `Task.score` does, from what they are and predictions.

    Args:
      score: the function that computes them, (truth, predicted) -> `Scores`.
      examples: the examples.
      predicted: the prediction for each.
      field: the name of the examples' attribute that is the truth.
      settings: further arguments for `score`.

    Returns:
      The `Scores` of `score`.

    Raises:
      ScoreError: see `score`.
    """
    return score([getattr(example, field) for example in examples], predicted, **settings)


def check_lengths(truth: Sequence, predicted: Sequence) -> None:
    """Checks for all metrics that there is an example, and a prediction for each; returns nothing.

    Raises:
      ScoreError: the lengths of `truth` and `predicted` differ, or both are 0.
    """
    if len(truth) != len(predicted):
        raise ScoreError(f"there are {len(truth)} examples and {len(predicted)} predictions.")
    if len(truth) == 0:
        raise ScoreError("there is no example to score.")


def micro(counts: np.ndarray) -> dict[str, tuple[np.ndarray, Figure]]:
    """Returns the micro-averaged metrics F1, precision and recall, in the form that `Scores` takes.

    Args:
      counts: int64 [N, T, 3], as `count` returns them.

    Returns:
      "f1", "precision" and "recall" -> the counts over all types, int64 [N, 3], and a function from
      these, float64, and the times [N] of a draw to the figure, a float in [0, 1].
    """
    counts = counts.sum(axis=1)
    return {
        "f1": (counts, lambda units, times: float(f1(times @ units))),
        "precision": (counts, lambda units, times: float(precision_and_recall(times @ units)[0])),
        "recall": (counts, lambda units, times: float(precision_and_recall(times @ units)[1])),
    }


def macro_f1(units: np.ndarray, times: np.ndarray) -> float:
    """Computes the metric macro F1, the mean over types of their F1, for any draw of the units.

    Args:
      units: float64 or int64 [N, T, 3], as `count` returns them.
      times: float64 [N], how often each unit is in the draw.

    Returns:
      A float in [0, 1]; 0 without a type.
    """
    of_types = f1(np.tensordot(times, units, 1))
    return float(of_types.mean()) if len(of_types) else 0.0


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divides element by element, float64; the quotient is 0 where the denominator is."""
    return np.where(denominator == 0, 0.0, numerator / np.maximum(denominator, 1))


def precision_and_recall(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the metrics precision and recall, float64 [...] each, in [0, 1].

    They are 0 where nothing is predicted, or nothing true.

    Args:
      counts: [..., 3], how many are right, predicted and true.
    """
    right = counts[..., RIGHT]
    return _ratio(right, counts[..., PREDICTED]), _ratio(right, counts[..., TRUE])


def f1(counts: np.ndarray) -> np.ndarray:
    """Computes the metric F1, 2 right / (predicted + true): that is 2PR / (P + R).

    The result is float64 [...] in [0, 1], 0 where nothing is predicted or true.

    Args:
      counts: [..., 3], how many are right, predicted and true.
    """
    return _ratio(2 * counts[..., RIGHT], counts[..., PREDICTED] + counts[..., TRUE])


def f1_of_means(counts: np.ndarray) -> float:
    """Computes the metric F of the mean precision and the mean recall, a float in [0, 1].

    Args:
      counts: [M, 3], how many are right, predicted and true; the figure is 0 where M is 0.
    """
    if not counts.any():
        return 0.0
    precision, recall = (values.mean() for values in precision_and_recall(counts))
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def by_type(counts: np.ndarray, types: Sequence[str]) -> dict[str, float]:
    """Returns the metrics "f1_TYPE", "precision_TYPE" and "recall_TYPE" of each type.

    Args:
      counts: int64 [T, 3], how many items of each type are right, predicted and true, in all
        examples.
      types: the names of T types.

    Returns:
      Name -> float in [0, 1], the three of one type after those of another.
    """
    values = (f1(counts), *precision_and_recall(counts))
    return {
        f"{metric}_{name}": float(value)
        for name, *of_type in zip(types, *values, strict=True)
        for metric, value in zip(("f1", "precision", "recall"), of_type, strict=True)
    }
