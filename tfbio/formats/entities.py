"""An entity of a text, as all formats of annotated documents have it."""

from __future__ import annotations

from typing import NamedTuple


class Entity(NamedTuple):
    """A mention: its type, its first character in a text, and the one behind its last.

    `score` is the product of the probabilities of its words' tags, each that of the tag which the
    model chose; None where it is not known.
    """

    type: str
    start: int
    end: int
    score: float | None = None

    def as_dict(self) -> dict[str, str | int | float]:
        """Returns the fields by name, without the score if it is not known."""
        return {name: x for name, x in self._asdict().items() if x is not None}
