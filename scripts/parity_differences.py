"""Keeps the largest difference of each quantity that is compared with a recording."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Difference(NamedTuple):
    """The largest difference of a quantity, its limit, and the place of the difference."""

    quantity: str
    value: float
    limit: float
    where: str

    @property
    def is_small(self) -> bool:
        """Returns True if the difference is within its limit; NaN is not."""
        return bool(self.value <= self.limit)


class Largest:
    """Keeps the largest difference of each quantity."""

    def __init__(self) -> None:
        self.differences: dict[str, Difference] = {}

    def add(self, quantity: str, value: float, limit: float, where: str) -> None:
        """Keeps a difference if it is the largest of its quantity so far."""
        before = self.differences.get(quantity)
        # NaN counts as larger than every number.
        if before is None or not value <= before.value and not np.isnan(before.value):
            self.differences[quantity] = Difference(quantity, float(value), limit, where)


def relative(value: float, expected: float) -> float:
    """Returns the difference of two numbers, divided by the expected one."""
    return float(abs(value - expected) / max(abs(expected), 1e-30))
