"""Divides the sentences of documents into examples, for each pretraining objective.

The functions work on the places of sentences in one array of token ids, never on the ids: a
document is the list of its bounds, `[0, 17, 45]` for two sentences of 17 and 28 tokens, and an
example takes a list of spans, `[(0, 17)]`. So the cost is per sentence, not per token.

| objective      | an example                                   | as in                     |
|----------------|----------------------------------------------|---------------------------|
| electra        | one or two segments of one document          | google-research/electra   |
| next_sentence  | two segments, at even odds of two documents  | google-research/bert      |
| sentence_order | two segments in a row, at even odds swapped  | ALBERT (Lan et al., 3.1)  |
| full_sentences | whole sentences in a row, across documents   | RoBERTa (Liu et al., 4.2) |
| any packed     | pieces of several documents, each for itself | `packing.pack`            |

All draws come from `rng.random()`, whose sequence Python promises not to change.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Bounds = Sequence[int]  # strictly increasing: where each sentence begins, and where the last ends
Span = tuple[int, int]

# Special tokens are spans too: of the last two places of the array of ids, counted from its end.
CLS: Span = (-2, -1)
SEP: Span = (-1, 0)

# The odds of the original, google-research/electra's build_pretraining_dataset.py.
SINGLE_SEGMENT = 0.1
_SHORT = 0.05
# google-research/bert's and google-research/albert's create_pretraining_data.py: short_seq_prob.
_SHORT_PAIR = 0.1


class Piece(NamedTuple):
    """The part of one document in a pretraining example, as spans of one segment or of two.

    Attributes:
      first: the spans of the first segment, `(start, end)` each, in the array of token ids.
      second: the spans of the second segment; empty where there is one segment only.
      label: 1 where the second segment is another document's (next_sentence) or the segments are
        swapped (sentence_order); else 0.
    """

    first: list[Span]
    second: list[Span]
    label: int = 0


def electra(bounds: Bounds, max_length: int, rng: random.Random) -> Iterator[Piece]:
    """Divides a document's sentences into segments of examples, as ELECTRA's ExampleBuilder does.

    Sentences are gathered until they reach a target length, which is `max_length`, or in one
    example of twenty a random length. They are then divided into two segments, or put into one in
    one example of ten.

    One thing differs: the original draws a target length after each example and carries the last
    one over to the next document; here the first is drawn anew, from the same odds, so that a
    document's examples depend on nothing but the document and `rng`.

    Args:
      bounds: increasing ints, the places in the array of token ids where each sentence of the
        document begins, and where the last one ends.
      max_length: the length of an example in tokens, with its special tokens.
      rng: gives the random draws.

    Yields:
      A `Piece` for each example: spans of its one or two segments, and label 0.
    """

    def target() -> int:
        if rng.random() < _SHORT:
            return 5 + int(rng.random() * (max_length - 4))
        return max_length

    first, target_length = 0, target()
    for last in range(1, len(bounds)):
        if bounds[last] - bounds[first] >= target_length:
            yield _two_segments(bounds[first : last + 1], max_length, target_length, rng)
            first, target_length = last, target()
    if first < len(bounds) - 1:
        yield _two_segments(bounds[first:], max_length, target_length, rng)


def _two_segments(bounds: Bounds, max_length: int, target_length: int, rng: random.Random) -> Piece:
    """Divides sentences into two segments, and cuts them to fit."""
    first_target = math.inf if rng.random() < SINGLE_SEGMENT else (target_length - 3) // 2
    first: list[Span] = []
    second: list[Span] = []
    length = 0  # of the first segment
    start = bounds[0]
    for end in bounds[1:]:
        # To the first segment while it stays below its target, and in any case if it is empty; the
        # sentence that would take it past its target goes there at even odds.
        fits = not first or length + end - start < first_target
        if not fits and not second and length < first_target:
            fits = rng.random() < 0.5
        if fits:
            length += end - start
        segment = first if fits else second
        if segment and segment[-1][1] == start:
            segment[-1] = (segment[-1][0], end)
        else:
            segment.append((start, end))
        start = end
    other_length = bounds[-1] - bounds[0] - length
    _cut(first, length - (max_length - 2))
    length = min(length, max_length - 2)
    _cut(second, other_length - (max_length - length - 3))
    return Piece(first, second)


def _cut(spans: list[Span], excess: int) -> None:
    """Takes `excess` tokens off the end of some spans, if it is positive."""
    while excess > 0 and spans:
        start, end = spans.pop()
        if end - start > excess:
            spans.append((start, end - excess))
        excess -= end - start


def next_sentence(
    documents: Sequence[Bounds], index: int, max_length: int, rng: random.Random
) -> Iterator[Piece]:
    """Divides a document into pairs of segments, as BERT's create_pretraining_data.py does.

    The label is 1 where the second segment comes from another document. One draw differs from the
    original, which takes the other document from the whole corpus: here it is one of `documents`.
    Where there is no other document, the second segment is the true one, and a single sentence is
    cut in two.

    Args:
      documents: for each document from which second segments are taken its bounds: increasing ints,
        the places in the array of token ids where each sentence begins and where the last one ends.
      index: the place in `documents` of the document to build the examples of.
      max_length: the length of an example in tokens, with its special tokens.
      rng: gives the random draws.

    Yields:
      A `Piece` for each example: one span for each of its two segments, and label 0 or 1.
    """
    bounds, others = documents[index], len(documents) - 1
    room = max_length - 3
    target_length = _pair_target(room, rng)
    first = 0
    while first < len(bounds) - 1:
        last, middle = _gather(bounds, first, target_length, rng)
        start, label = bounds[first], 0
        segments: tuple[Span, Span] | None
        if others and (last - first == 1 or rng.random() < 0.5):
            label = 1
            other = documents[(index + 1 + _below(others, rng)) % len(documents)]
            begin = _below(len(other) - 1, rng)
            wanted = other[begin] + target_length - (bounds[middle] - start)
            stop = min(bisect.bisect_left(other, wanted, begin + 1), len(other) - 1)
            # The true second segment begins the next example.
            segments = (start, bounds[middle]), (other[begin], other[stop])
            last = middle
        else:
            segments = _true_pair(bounds, first, middle, last)
        if segments is not None:
            yield _truncated(*segments, room, rng, label)
        first = last


def sentence_order(bounds: Bounds, max_length: int, rng: random.Random) -> Iterator[Piece]:
    """Divides a document into pairs of segments in a row, at even odds swapped (label 1).

    It follows ALBERT's create_pretraining_data.py, except that this code gives a sentence that is
    left alone a second segment from another document, which its paper (section 3.1) argues against;
    here it is cut in two.

    Args:
      bounds: increasing ints, the places in the array of token ids where each sentence of the
        document begins, and where the last one ends.
      max_length: the length of an example in tokens, with its special tokens.
      rng: gives the random draws.

    Yields:
      A `Piece` for each example: one span for each of its two segments, and label 0 or 1.
    """
    room = max_length - 3
    target_length = _pair_target(room, rng)
    first = 0
    while first < len(bounds) - 1:
        last, middle = _gather(bounds, first, target_length, rng)
        segments = _true_pair(bounds, first, middle, last)
        if segments is not None:
            label = int(rng.random() < 0.5)
            yield _truncated(*(segments[::-1] if label else segments), room, rng, label)
        first = last


def _pair_target(room: int, rng: random.Random) -> int:
    """Draws BERT's and ALBERT's target length, once for a document."""
    return 2 + _below(room - 1, rng) if rng.random() < _SHORT_PAIR else room


def _gather(bounds: Bounds, first: int, target_length: int, rng: random.Random) -> tuple[int, int]:
    """Gathers sentences until they reach a target length, and draws where to part them.

    Returns:
      The sentence after the last one, and the first one of the second segment.
    """
    last, count = first + 1, len(bounds) - 1
    while last < count and bounds[last] - bounds[first] < target_length:
        last += 1
    return last, first + 1 + (_below(last - first - 1, rng) if last - first > 1 else 0)


def _below(count: int, rng: random.Random) -> int:
    """Draws one of 0 to `count - 1`."""
    return int(rng.random() * count)


def _true_pair(bounds: Bounds, first: int, middle: int, last: int) -> tuple[Span, Span] | None:
    """Returns two segments in a row, or None where there is only one token."""
    start, end = bounds[first], bounds[last]
    half = bounds[middle] if middle < last else (start + end) // 2
    return ((start, half), (half, end)) if half > start else None


def _truncated(first: Span, second: Span, room: int, rng: random.Random, label: int) -> Piece:
    """Takes tokens off the ends of the longer segment until both fit: BERT's truncate_seq_pair."""
    (a, b), (c, d) = first, second
    for _ in range(b - a + d - c - room):
        if b - a > d - c:
            if rng.random() < 0.5:
                a += 1
            else:
                b -= 1
        elif rng.random() < 0.5:
            c += 1
        else:
            d -= 1
    return Piece([(a, b)], [(c, d)], label)


def full_sentences(documents: Sequence[Bounds], max_length: int) -> Iterator[Piece]:
    """Divides documents into single segments of whole sentences in a row, as RoBERTa's examples.

    This is the objective full_sentences. A sentence that would not fit begins the next example; one
    that fits into none is cut. A segment has a separator where a document ends.

    Args:
      documents: for each document the bounds of its sentences: increasing ints, the places in the
        array of token ids where each begins and where the last one ends. The documents are taken in
        order, though they need not stand in order in the ids.
      max_length: the length of an example in tokens, with its special tokens.

    Yields:
      A `Piece` for each example: the spans of its only segment, with the span `SEP` between
      documents, and label 0.
    """
    spans: list[Span] = []
    room = limit = max_length - 2
    for bounds in documents:
        separator = bool(spans)
        start = bounds[0]
        for end in bounds[1:]:
            if separator + end - start > room:
                if spans:
                    yield Piece(spans, [])
                spans, room, separator = [], limit, False
                while end - start > limit:
                    yield Piece([(start, start + limit)], [])
                    start += limit
            if separator:
                spans.append(SEP)
            if spans and spans[-1][1] == start and not separator:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
            room -= separator + end - start
            start, separator = end, False
    if spans:
        yield Piece(spans, [])
