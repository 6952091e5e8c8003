"""A document with its passages, which entities are predicted in, whatever its format."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfbio.base.errors import UserError

# Tabs, and the characters that a reader may take for a line's end: PubTator and brat have blanks.
BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")


class FormatError(UserError):
    """The error of a file of annotated documents that is not as its format says.

    It also tells of a text or id that an output's format cannot hold. A command then ends with exit
    code 1, as with any `UserError`.
    """


class Passage(NamedTuple):
    """A passage of an annotated document: the offsets and the kind of a part of its text.

    Attributes:
      start: the offset of its first character in the document's text, counted from 0.
      end: the offset of the character behind its last; a passage is never empty.
      kind: "" if that is not known; of PubMed's and PMC's "title", "abstract", "heading" (the title
        of a section), "paragraph", "caption" or "table" (the cells of a row); of BioC what the file
        says.
    """

    start: int
    end: int
    kind: str


class Entity(NamedTuple):
    """An entity that a text mentions, as all formats of annotated documents have it.

    Attributes:
      type: the type of the entity, such as "Chemical".
      start: the offset of its first character in the text, counted from 0.
      end: the offset of the character behind its last.
      score: the product of the probabilities of its words' tags, each that of the tag which the
        model chose, from 0 to 1; None where it is not known.
    """

    type: str
    start: int
    end: int
    score: float | None = None

    def as_dict(self) -> dict[str, str | int | float]:
        """Returns the entity as a dict of "type", "start", "end" and, if it is known, "score"."""
        return {name: x for name, x in self._asdict().items() if x is not None}


@dataclasses.dataclass(frozen=True)
class Document:
    """The text of an annotated document, which entities are predicted in.

    Attributes:
      id: the document's id.
      text: its whole text.
      passages: its passages in their order, which do not overlap.
    """

    id: str
    text: str
    passages: tuple[Passage, ...]


Annotated = Iterable[tuple[Document, Sequence[Entity]]]


def joined(name: str, parts: Iterable[tuple[int, str, str]]) -> Document:
    """Joins passages into an annotated document's text, whatever their file's format.

    Line feeds fill the text from the end of one passage to the offset of the next.

    Args:
      name: the document's id.
      parts: for each passage the offset of its first character in the document, its kind as in
        `Passage`, and its text; one without text is left out.

    Returns:
      The `Document`, with a `Passage` for each part that has text.

    Raises:
      ValueError: a part begins before the end of the one before.
    """
    texts, passages, end = [], [], 0
    for start, kind, part in parts:
        if start < end:
            raise ValueError(f"that at {start} begins before the end of the one before")
        if part:
            texts += ["\n" * (start - end), part]
            end = start + len(part)
            passages.append(Passage(start, end, kind))
    return Document(name, "".join(texts), tuple(passages))
