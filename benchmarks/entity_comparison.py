"""Compares the entities that two ways find in the same texts, and lists ties; see `every_way`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfbio.base.errors import UserError

# The largest difference of scores; logits that are closer are a tie.
CLOSE = 1e-4
# Logits that are closer may change places in bfloat16.
NEAR = 1.0


class Entity(NamedTuple):
    """An entity in a text: its characters [start, end), its label and its score."""

    start: int
    end: int
    label: str
    score: float


class Sentence(NamedTuple):
    """A sentence: the number of its text, its first character there, and its characters."""

    text_number: int
    start: int
    text: str


class Tie(NamedTuple):
    """A word whose two highest logits are close, or near.

    Attributes:
      text_number: the number of its text.
      start: the first character of the word before it, in the text.
      end: the character behind the word after it: the tag of a word decides where the entities of
        its neighbours end and begin.
      word: its characters.
      tags: the two tags, the better one first.
      apart: the difference of their logits.
    """

    text_number: int
    start: int
    end: int
    word: str
    tags: tuple[str, str]
    apart: float


# For each text its entities, in their order.
Found = list[list[Entity]]


@dataclasses.dataclass(frozen=True)
class Compared:
    """Says how the entities of one way differ from those of `tfbio.load`.

    Attributes:
      way: its name.
      entities: how many it finds.
      differing: the numbers of the texts with other offsets or labels.
      unexplained: those of them that differ elsewhere than at ties.
      score: the largest difference of the scores of entities that both find.
      seconds: of CPU.
    """

    way: str
    entities: int
    differing: list[int]
    unexplained: list[int]
    score: float
    seconds: float


def near_ties(
    sentence: Sentence, spans: Sequence[tuple[int, int]], logits: np.ndarray, labels: dict
) -> Iterator[Tie]:
    """Yields the words of a sentence whose two highest logits are closer than `NEAR`.

    Args:
      sentence: the sentence.
      spans: its words' characters [start, end), counted from its start.
      logits: float [words, labels].
      labels: the number of a label, in digits -> the label.
    """
    order = np.argsort(-logits, axis=-1)[:, :2]
    best = np.take_along_axis(logits, order, axis=-1)
    apart = best[:, 0] - best[:, 1]
    for number in np.flatnonzero(apart < NEAR):
        start, end = spans[number]
        first, last = spans[max(number - 1, 0)][0], spans[min(number + 1, len(spans) - 1)][1]
        yield Tie(
            sentence.text_number,
            sentence.start + first,
            sentence.start + last,
            sentence.text[start:end],
            tuple(labels[str(label)] for label in order[number]),
            float(apart[number]),
        )


def compare(
    way: str, found: Found, expected: Found, ties: Sequence[Tie], seconds: float
) -> Compared:
    """Compares the entities of one way with those of `tfbio.load`.

    Args:
      way: its name.
      found: its entities.
      expected: those of `tfbio.load`.
      ties: where entities may differ.
      seconds: of CPU that it took.
    """
    differing, unexplained, scores = [], [], [0.0]
    for number, (own, theirs) in enumerate(zip(found, expected, strict=True)):
        own_scores, their_scores = ({x[:3]: x.score for x in side} for side in (own, theirs))
        common = own_scores.keys() & their_scores.keys()
        scores += [abs(own_scores[x] - their_scores[x]) for x in common]
        if [x[:3] for x in own] == [x[:3] for x in theirs]:
            continue
        differing.append(number)
        near = [x for x in ties if x.text_number == number]
        others = own_scores.keys() ^ their_scores.keys()
        # Without others, the order differs, or an entity comes twice.
        if not others or not all(_at_tie(x[0], x[1], near) for x in others):
            unexplained.append(number)
    entities = sum(map(len, found))
    # NaN is no small difference; `max` may pass over it.
    score = float(np.max(scores))
    return Compared(way, entities, differing, unexplained, score, seconds)


def _at_tie(start: int, end: int, ties: Sequence[Tie]) -> bool:
    """Returns True if an entity has a word that is a tie, or stands beside one."""
    return any(start < tie.end and tie.start < end for tie in ties)


def table(compared: Sequence[Compared]) -> Iterator[str]:
    """Yields the lines of the table of ways."""
    yield (
        "| way | entities | abstracts that differ | of these, only at ties "
        "| largest difference of a score | CPU seconds |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for x in compared:
        at_ties = len(x.differing) - len(x.unexplained)
        yield (
            f"| {x.way} | {x.entities:,} | {len(x.differing)} | {at_ties} | {x.score:.1e} "
            f"| {x.seconds:.0f} |"
        )


def table_of_ties(ties: Sequence[Tie], ids: Sequence[str]) -> Iterator[str]:
    """Yields the lines of the table of ties, or a sentence if there are none."""
    if not ties:
        yield f"No word's two highest logits are closer than {CLOSE:.0e}."
        return
    yield "| PMID | word | tags | logits apart |"
    yield "|---|---|---|--:|"
    for tie in ties:
        word = tie.word.replace("|", "\\|")
        yield f"| {ids[tie.text_number]} | {word} | {' or '.join(tie.tags)} | {tie.apart:.1e} |"


def table_of_others(
    found: Found, expected: Found, near: Sequence[Tie], texts: Sequence[str], ids: Sequence[str]
) -> Iterator[str]:
    """Yields the lines of the table of the entities that only one of two ways finds.

    Args:
      found: the entities of a way in bfloat16.
      expected: those of the same way in float32.
      near: the words with near logits in float32.
      texts: the texts.
      ids: of the texts.
    """
    rows = [*_others(found, expected, near, texts, ids)]
    if not rows:
        yield "Both precisions find the same entities."
        return
    yield "| PMID | entity | only in | logits of its words, or of those beside it, apart |"
    yield "|---|---|---|--:|"
    yield from rows


def _others(
    found: Found, expected: Found, near: Sequence[Tie], texts: Sequence[str], ids: Sequence[str]
) -> Iterator[str]:
    """Yields the rows of `table_of_others`."""
    for number, (own, theirs) in enumerate(zip(found, expected, strict=True)):
        sides = [{x[:3] for x in side} for side in (own, theirs)]
        for start, end, label in sorted(sides[0] ^ sides[1]):
            precision = "bfloat16" if (start, end, label) in sides[0] else "float32"
            words = [x for x in near if x.text_number == number and _at_tie(start, end, [x])]
            apart = f"{min(x.apart for x in words):.1e}" if words else f"more than {NEAR}"
            entity = texts[number][start:end].replace("|", "\\|")
            yield f"| {ids[number]} | {entity} ({label}) | {precision} | {apart} |"


def check(
    compared: Sequence[Compared], found: Mapping[str, Found], expected: Found, ids: Sequence[str]
) -> None:
    """Checks that nothing differs but at ties.

    Args:
      compared: all ways.
      found: for each its entities.
      expected: those of `tfbio.load`.
      ids: of the texts, for the message.

    Raises:
      UserError: something does; names the first.
    """
    for own in compared:
        if own.unexplained:
            number = own.unexplained[0]
            sides = [{x[:3] for x in side[number]} for side in (found[own.way], expected)]
            raise UserError(
                f"{own.way}: {len(own.unexplained)} abstracts differ elsewhere than at ties; "
                f"{ids[number]} has only there {sorted(sides[0] - sides[1])}, and only by "
                f"tfbio.load {sorted(sides[1] - sides[0])}."
            )
        if not own.score <= CLOSE:
            raise UserError(f"{own.way}: a score differs by {own.score:.1e}, more than {CLOSE}.")
