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
    """Truth or predictions that cannot be scored."""


# From what was counted of each unit, float64 [n, ...], and how often each was drawn, float64 [n].
Figure = Callable[[np.ndarray, np.ndarray], float]


class Scores(dict[str, float]):
    """Figures by name, the first sums up; some of them again for any draw of what was scored.

    What is drawn are examples; documents or questions, where the score is over these.

    Args:
      drawable: name -> what was counted of each unit, float64 or int64 [n, ...], and the figure as
        a function of it. All have the same units.
      others: further figures.

    Attributes:
      size: units there are.
      drawable: the names of the figures that can be drawn.
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
        """A figure of a draw, of which float64 [size] says how often each unit is in it."""
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
      ScoreError: an item is of none of the types, or the lengths differ.
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
    """The mean of a value of each unit, [N]."""
    return float(times @ units / times.sum())


def check_lengths(truth: Sequence, predicted: Sequence) -> None:
    if len(truth) != len(predicted):
        raise ScoreError(f"there are {len(truth)} examples and {len(predicted)} predictions.")
    if len(truth) == 0:
        raise ScoreError("there is no example to score.")
