"""The two entities of a relation, and the dummies or markers for them in a text.

The forms are those of Gu et al. (2021), section 6.5 and Table 12; the names of the markers, which
they do not show, are ours. A text has dummies for its entities, `@GENE$`, and one dummy for two
that overlap; or markers about them, `[S1] aspirin [E1]` and `[S2] COX-1 [E2]`, of which the first
begins first. A blank belongs to each marker, so that the original text can be had from the marked
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfbio.base import messages
from tfbio.formats.task_examples import Example, LabelledText
from tfbio.formats.task_file_errors import TaskFileError

# Each is a token of its own, whose embedding means nothing at first.
MARKERS = ("[S1]", "[E1]", "[S2]", "[E2]")

_WHO_WRITES_MARKERS = "`--entities=marker` of `tfbio data chemprot` and `ddi` writes markers."
_DUMMY = re.compile(r"@[A-Za-z-]+\$")
_MARKER = re.compile(r"\[S[12]\] ?| ?\[E[12]\]")


def mark(text: str, first: tuple[int, int], second: tuple[int, int]) -> str:
    """Marks the two entities of a relation in its text: `[S1] aspirin [E1]` and `[S2] COX-1 [E2]`.

    Args:
      text: without markers.
      first: the mention that gets [S1] and [E1], as offsets `[start, end)`.
      second: the mention that gets [S2] and [E2], as offsets `[start, end)`; it begins no earlier.

    Returns:
      The text with the four markers, each with a blank between it and its mention.
    """
    # Where one mention ends and the other begins, the end comes first.
    markers = [(second[1], 0, " [E2]"), (first[1], 1, " [E1]")]
    markers += [(first[0], 2, "[S1] "), (second[0], 3, "[S2] ")]
    parts: list[str] = []
    last = 0
    for place, _, marker in sorted(markers):
        parts += text[last:place], marker
        last = place
    return "".join([*parts, text[last:]])


def find(
    example: LabelledText, pooling: str, keep_markers: bool
) -> tuple[str, list[tuple[int, int]]]:
    """Finds the spans of a relation's two entities in its text, and returns both for the model.

    Args:
      example: with dummies, or with markers.
      pooling: "entity_start" for the markers before the entities, else the entities themselves.
      keep_markers: True if the text is to keep its markers.

    Returns:
      A pair: the text, and a list of two spans `(start, end)` in characters of that text, the first
      entity's first. With a single dummy for both entities the two spans are the same.

    Raises:
      TaskFileError: the text lacks the markers or dummies that `pooling` needs.
    """
    text = example.text
    if _is_marked(text):
        if not keep_markers:
            return _without_markers(text)
        s1, e1, s2, e2 = map(text.index, MARKERS)
        length = len(MARKERS[0])
        if pooling == "entity_start":
            return text, [(s1, s1 + length), (s2, s2 + length)]
        return text, [(s1 + length, e1), (s2 + length, e2)]
    dummies = [dummy.span() for dummy in _DUMMY.finditer(text)]
    if keep_markers and pooling != "entity_start" and 1 <= len(dummies) <= 2:
        return text, [dummies[0], dummies[-1]]
    raise TaskFileError(
        f"{_place(example)}: expected {', '.join(MARKERS)} once each for pooling {pooling} and "
        f"entity_markers {str(keep_markers).lower()}"
        f"{', or one or two dummies such as @GENE$' * keep_markers}; {_WHO_WRITES_MARKERS}"
    )


def require_markers(examples: Iterable[LabelledText]) -> None:
    """Checks that each text marks a relation, as a model that was trained on such texts expects.

    Returns nothing.

    Args:
      examples: texts.

    Raises:
      TaskFileError: a text has not all four markers, each once.
    """
    for example in examples:
        if not _is_marked(example.text):
            raise TaskFileError(
                f"{_place(example)}: expected {', '.join(MARKERS)} once each, about the two "
                "entities whose relation is asked for, since the model was trained on such texts; "
                f"{_WHO_WRITES_MARKERS}"
            )


def _is_marked(text: str) -> bool:
    return all(text.count(marker) == 1 for marker in MARKERS)


def _place(example: LabelledText) -> str:
    """Returns where a text stands; of new text from Python or a request, which has no place, it."""
    path, line = example.where
    return f"{path}, line {line}" if path else f"{messages.cut(example.text, 60)!r}"


def _without_markers(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns the text without its markers, and the spans that they were about.

    Args:
      text: with all four markers.

    Returns:
      A pair: the plain text, and a list of the two spans `(start, end)` in its characters, that of
      [S1] first.

    Raises:
      KeyError: a marker is missing.
    """
    plain, places, last = "", {}, 0
    for marker in _MARKER.finditer(text):
        plain += text[last : marker.start()]
        places[marker[0].strip()] = len(plain)
        last = marker.end()
    s1, e1, s2, e2 = (places[name] for name in MARKERS)
    return plain + text[last:], [(s1, e1), (s2, e2)]


def with_dummies(text: str) -> str:
    """Returns a relation's text with `@$` for each entity that has a dummy or markers.

    Two marked entities that overlap become one `@$`.

    Args:
      text: with dummies, with markers, or with neither, which stays as it is.
    """
    if not _is_marked(text):
        return _DUMMY.sub("@$", text)
    text, spans = _without_markers(text)
    (start, end), (second_start, second_end) = spans
    if end > second_start:
        return f"{text[:start]}@${text[max(end, second_end) :]}"
    return f"{text[:start]}@${text[end:second_start]}@${text[second_end:]}"


def are_marked(examples: Iterable[Example]) -> bool:
    """Returns True if some example's text marks a relation: has all four markers, each once.

    A single [S1] may be a reference.
    """
    return any(_is_marked(getattr(example, "text", "")) for example in examples)
