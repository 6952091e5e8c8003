"""The values that a setting takes: bounds of a number, or the choices of a text."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a configuration's setting; `str` of it is such as "at least 0 and below 1".

    Attributes:
      above, at_least: the value must be greater than this, or at least this; None: no such bound.
      below, at_most: the value must be less than this, or at most this; None: no such bound.
      choices: tuple of all possible values, in place of the bounds; empty: the bounds count.
    """

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()

    def allow(self, value: Any) -> bool:
        """Returns True if a value of a setting, of its type, is a choice or within all bounds.

        NaN is within no bound that is set.
        """
        if self.choices:
            return value in self.choices
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    def __str__(self) -> str:
        if self.choices:
            return " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))
        bounds = {
            "above": self.above,
            "at least": self.at_least,
            "below": self.below,
            "at most": self.at_most,
        }
        return " and ".join(f"{word} {x:g}" for word, x in bounds.items() if x is not None)
