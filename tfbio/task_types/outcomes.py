"""Says of each true and each predicted label, or mention, in which way it is right or wrong.

`reporting` counts the outcomes of a run for its confusion matrices and its errors.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

# A mention's kinds are those of MUC-5 (Chinchor and Sundheim, 1993): correct, partial, incorrect,
# missing and spurious; a mention that is only partly right has one for each mistake.
RIGHT, BOUNDARIES, LABEL, BOTH, MISSED, SPURIOUS = KINDS = (
    *("right", "wrong boundaries", "wrong label", "wrong label and boundaries"),
    *("missed", "spurious"),
)
# An entity: its type, its first word and its last one.
Mention = tuple[str, int, int]


class Outcome(NamedTuple):
    """The outcome for one label of an example, or for one mention in it.

    Attributes:
      true: the true label; "" where none is true (a spurious one).
      predicted: the predicted label; "" where none is predicted (a missed one).
      kind: one of `KINDS`.
      length: how many words the true mention has, and a spurious one the predicted; 0 of texts.
    """

    true: str
    predicted: str
    kind: str
    length: int = 0

    @property
    def is_right(self) -> bool:
        """True if the outcome is a right one."""
        return self.kind == RIGHT


class LabelOutcomes:
    """The part of a task type that compares its predictions with the truth, label by label."""

    @classmethod
    def outcomes(
        cls, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> collections.Counter[Outcome]:
        """Counts the outcomes of the task type's predictions; none where it has no labels.

        Args:
          examples: with their true labels.
          predicted: the prediction for each.
          entity_type: the type of entities whose tags name none.
        """
        return collections.Counter()


def of_labels(
    truth: Sequence[str | float | Sequence[str]], predicted: Sequence[str | Sequence[str]]
) -> collections.Counter[Outcome]:
    """Counts the outcomes for labels of texts: one label for each text, or any number.

    Args:
      truth, predicted: for each text its label, a str, or its labels. Of several, one that is both
        true and predicted is right, and the others are missed or spurious. Scores have none.
    """
    counts: collections.Counter[Outcome] = collections.Counter()
    for true, found in zip(truth, predicted, strict=True):
        if isinstance(true, str):
            counts[Outcome(true, str(found), RIGHT if true == found else LABEL)] += 1
        elif not isinstance(true, float):
            counts.update(Outcome(x, x, RIGHT) for x in set(true) & set(found))
            counts.update(Outcome(x, "", MISSED) for x in set(true) - set(found))
            counts.update(Outcome("", x, SPURIOUS) for x in set(found) - set(true))
    return counts


def of_mentions(
    truth: Sequence[Set[Mention]], predicted: Sequence[Set[Mention]], entity_type: str
) -> collections.Counter[Outcome]:
    """Counts the outcomes for the mentions of sentences.

    Each true mention has at most one predicted one, which has at most one true one: that of the
    same words and type, else one of the same words, else of the same type, else any that shares a
    word with it. Of several the one that shares the most words counts, then the first.

    Args:
      truth, predicted: the mentions of each sentence.
      entity_type: the name of the type "_".
    """
    counts: collections.Counter[Outcome] = collections.Counter()
    for true, found in zip(truth, predicted, strict=True):
        for kind, one, other in _aligned(true, found):
            _, start, end = one or other or ("", 0, 0)
            labels = (_type_of(one, entity_type), _type_of(other, entity_type))
            counts[Outcome(*labels, kind, end - start + 1)] += 1
    return counts


def _type_of(mention: Mention | None, entity_type: str) -> str:
    """Returns the type of a mention, "" for none; `entity_type` where its tags name none."""
    if mention is None:
        return ""
    return entity_type if mention[0] == "_" else mention[0]


def _aligned(
    truth: Set[Mention], predicted: Set[Mention]
) -> list[tuple[str, Mention | None, Mention | None]]:
    """Returns (kind, true mention, predicted mention) of a sentence, see `of_mentions`."""
    right = truth & predicted
    pairs: list[tuple[str, Mention | None, Mention | None]] = [(RIGHT, x, x) for x in right]
    missed, spurious = ([x for x in of if x not in right] for of in (truth, predicted))
    fits: tuple[tuple[str, Callable[[Mention, Mention], bool]], ...] = (
        (LABEL, lambda one, other: one[1:] == other[1:]),
        (BOUNDARIES, lambda one, other: one[0] == other[0]),
        (BOTH, lambda one, other: True),
    )
    for kind, fit in fits:
        candidates = [
            (-_shared(one, other), one[1:], other[1:], one, other)
            for one in missed
            for other in spurious
            if _shared(one, other) > 0 and fit(one, other)
        ]
        for *_, one, other in sorted(candidates):
            if one in missed and other in spurious:
                pairs.append((kind, one, other))
                missed.remove(one)
                spurious.remove(other)
    pairs += [(MISSED, one, None) for one in missed]
    return pairs + [(SPURIOUS, None, other) for other in spurious]


def _shared(one: Mention, other: Mention) -> int:
    """Returns how many words two mentions share; 0 or less for none."""
    return min(one[2], other[2]) - max(one[1], other[1]) + 1
