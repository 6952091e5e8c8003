"""An entity of a text, as all formats of annotated documents have it."""

from __future__ import annotations

from typing import NamedTuple


class Entity(NamedTuple):
    """A mention of an entity in a text.

    Attributes:
      type: the type of the entity, such as "Chemical".
      start: the offset of its first character in the text.
      end: the offset of the character behind its last.
      score: the product of the probabilities of its words' tags, each that of the tag which the
        model chose, from 0 to 1; None where it is not known.
    """

    type: str
    start: int
    end: int
    score: float | None = None

    def as_dict(self) -> dict[str, str | int | float]:
        """Returns a dict with the keys "type", "start", "end" and, if it is known, "score"."""
        return {name: x for name, x in self._asdict().items() if x is not None}
