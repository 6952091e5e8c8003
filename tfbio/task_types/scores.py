"""The figures of a run, which can be given again for any draw of the examples.

`Scores` keeps what was counted of each example, so that a draw of `bootstraps` costs only a sum:

    scores = metrics.entity_scores(truth, predicted)
    scores.drawn("f1", times)  # how often each example was drawn
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import numpy as np

from tfbio.base.cli import UserError

RIGHT, PREDICTED, TRUE = range(3)


class ScoreError(UserError):
    """The `UserError` for truth or predictions that cannot be scored."""


# From what was counted of each unit, float64 [n, ...], and how often each was drawn, float64 [n].
Figure = Callable[[np.ndarray, np.ndarray], float]


class Scores(dict[str, float]):
    """Figures by name (a dict of floats), the first sums up; some can be given again for any draw.

    What is drawn are examples; documents or questions, where the score is over these.

    Args:
      drawable: name -> what was counted of each unit, float64 or int64 [n, ...], and the figure as
        a function of it, (units [n, ...], times [n]) -> float. All have the same units.
      others: further figures.

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
        """Computes a figure, a float, of a draw of the units.

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
    """Counts the items of each example and type.

    Args:
      truth: N sets of items, each a tuple whose first value is its type.
      predicted: N sets of items.
      types: T names.

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
    """Computes the mean of a value of each unit over a draw, a float.

    Args:
      units: float64 [n], the value of each unit.
      times: float64 [n], how often each unit is in the draw.
    """
    return float(times @ units / times.sum())


def check_lengths(truth: Sequence, predicted: Sequence) -> None:
    """Checks that there is an example, and a prediction for each; returns nothing.

    Raises:
      ScoreError: the lengths of `truth` and `predicted` differ, or both are 0.
    """
    if len(truth) != len(predicted):
        raise ScoreError(f"there are {len(truth)} examples and {len(predicted)} predictions.")
    if len(truth) == 0:
        raise ScoreError("there is no example to score.")
