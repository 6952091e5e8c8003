"""How the sentences of documents become examples, for each pretraining objective.

Works on where sentences stand in one array of token ids, never on the ids: a document is the list
of its bounds, `[0, 17, 45]` being two sentences of 17 and 28 tokens, and what an example takes of
it is a list of spans, `[(0, 17)]`. So the cost is per sentence, not per token.

| objective      | an example                                   | as in                     |
|----------------|----------------------------------------------|---------------------------|
| electra        | one or two segments of one document          | google-research/electra   |
| next_sentence  | two segments, at even odds of two documents  | google-research/bert      |
| sentence_order | two segments in a row, at even odds swapped  | ALBERT (Lan et al., 3.1)  |
| full_sentences | whole sentences in a row, across documents   | RoBERTa (Liu et al., 4.2) |
| any packed     | pieces of several documents, each for itself | `pack`                    |

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
Entry = tuple[int, int, int]

# Special tokens are spans too: of the last two places of the array of ids, counted from its end.
CLS: Span = (-2, -1)
SEP: Span = (-1, 0)

# The odds of the original, google-research/electra's build_pretraining_dataset.py.
SINGLE_SEGMENT = 0.1
SHORT = 0.05
# google-research/bert's and google-research/albert's create_pretraining_data.py: short_seq_prob.
SHORT_PAIR = 0.1


class Piece(NamedTuple):
    """What an example holds of one document: spans of one segment, or of two."""

    first: list[Span]
    second: list[Span]  # empty: there is one segment only
    label: int = 0


def electra(bounds: Bounds, max_length: int, rng: random.Random) -> Iterator[Piece]:
    """Builds the examples of one document, as ELECTRA's ExampleBuilder does.

    Sentences are gathered until they reach a target length, which is `max_length`, or in one
    example of twenty a random length, then shared out to two segments, or one in one of ten.

    One thing differs: the original draws a target length after each example and carries the last
    one over to the next document; here the first is drawn anew, from the same odds, so that a
    document's examples depend on nothing but the document and `rng`.

    Args:
      bounds: of the document's sentences.
      max_length: length of an example with its special tokens.
      rng: where the random draws come from.
    """

    def target() -> int:
        if rng.random() < SHORT:
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
    """Shares sentences out to two segments, and cuts them to fit."""
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
    """Takes so many tokens off the end of some spans, if the number is positive."""
    while excess > 0 and spans:
        start, end = spans.pop()
        if end - start > excess:
            spans.append((start, end - excess))
        excess -= end - start


def next_sentence(
    documents: Sequence[Bounds], index: int, max_length: int, rng: random.Random
) -> Iterator[Piece]:
    """Builds the examples of one document, as BERT's create_pretraining_data.py does.

    The label is 1 where the second segment comes from another document. Of the original's draws
    one cannot be kept: it takes the other document from the whole corpus, we from `documents`.
    Where there is no other document, the second segment is the true one, and a single sentence
    is cut in two.

    Args:
      documents: the bounds of the documents from which second segments are taken.
      index: which of them to build the examples of.
      max_length: length of an example with its special tokens.
      rng: where the random draws come from.
    """
    bounds, others = documents[index], len(documents) - 1
    room = max_length - 3
    target_length = _pair_target(room, rng)
    first = 0
    while first < len(bounds) - 1:
        last, middle = _gather(bounds, first, target_length, rng)
        start, label = bounds[first], 0
        if others and (last - first == 1 or rng.random() < 0.5):
            label = 1
            other = documents[(index + 1 + _below(others, rng)) % len(documents)]
            begin = _below(len(other) - 1, rng)
            wanted = other[begin] + target_length - (bounds[middle] - start)
            stop = min(bisect.bisect_left(other, wanted, begin + 1), len(other) - 1)
            # What the second segment would have been begins the next example.
            segments = (start, bounds[middle]), (other[begin], other[stop])
            last = middle
        else:
            segments = _true_pair(bounds, first, middle, last)
        if segments is not None:
            yield _truncated(*segments, room, rng, label)
        first = last


def sentence_order(bounds: Bounds, max_length: int, rng: random.Random) -> Iterator[Piece]:
    """Builds the examples of one document: segments in a row, at even odds swapped (label 1).

    As ALBERT's create_pretraining_data.py, but for one thing: that code gives a sentence that is
    left alone a second segment from another document, which its paper (section 3.1) argues
    against; here it is cut in two.

    Args:
      bounds: of the document's sentences.
      max_length: length of an example with its special tokens.
      rng: where the random draws come from.
    """
    room = max_length - 3
    target_length = _pair_target(room, rng)
    first = 0
    while first < len(bounds) - 1:
        last, middle = _gather(bounds, first, target_length, rng)
        segments = _true_pair(bounds, first, middle, last)
        if segments is not None:
            label = int(rng.random() < 0.5)
            yield _truncated(*(reversed(segments) if label else segments), room, rng, label)
        first = last


def _pair_target(room: int, rng: random.Random) -> int:
    """BERT's and ALBERT's target length, drawn once for a document."""
    return 2 + _below(room - 1, rng) if rng.random() < SHORT_PAIR else room


def _gather(bounds: Bounds, first: int, target_length: int, rng: random.Random) -> tuple[int, int]:
    """The sentence after those that together reach a target length, and where they are parted."""
    last, count = first + 1, len(bounds) - 1
    while last < count and bounds[last] - bounds[first] < target_length:
        last += 1
    return last, first + 1 + (_below(last - first - 1, rng) if last - first > 1 else 0)


def _below(count: int, rng: random.Random) -> int:
    """One of 0 to `count - 1`."""
    return int(rng.random() * count)


def _true_pair(bounds: Bounds, first: int, middle: int, last: int) -> tuple[Span, Span] | None:
    """Two segments in a row, or None where there is but one token."""
    start, end = bounds[first], bounds[last]
    half = bounds[middle] if middle < last else (start + end) // 2
    return ((start, half), (half, end)) if half > start else None


def _truncated(first: Span, second: Span, room: int, rng: random.Random, label: int) -> Piece:
    """BERT's truncate_seq_pair: a token off the longer segment, from either end, until both fit."""
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
    """Builds examples of whole sentences in a row, with a separator where a document ends.

    A sentence that would not fit begins the next example; one that fits into none is cut.

    Args:
      documents: bounds of the documents, in order; they need not stand in order in the ids.
      max_length: length of an example with its special tokens.
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


# --- Packing -----------------------------------------------------------------------------------


def most_pieces(max_length: int) -> int:
    """How many documents one packed example may hold: 4 of 128 tokens, 16 of 512."""
    return max(2, max_length // 32)


def smallest_piece(max_length: int) -> int:
    """No document is cut into a piece of fewer tokens, nor leaves one: 16 from length 128 on."""
    return min(16, max_length // 8)


def pack(
    documents: Sequence[Bounds], max_length: int, rng: random.Random, pairs: bool = True
) -> Iterator[list[Piece]]:
    """Packs all text of some documents into examples, several documents to an example.

    A document that is longer than an example is cut at the end of a sentence, where another
    document, or the rest of one, exactly fills what is left; where none does, it is cut within a
    sentence. Short documents and rests are put together, the longest first. So nearly all examples
    waste less than a sixty-fourth.

    A piece is one segment, or with `pairs` in nine of ten two, parted at the end of a sentence
    near the middle, by the odds of ELECTRA's builder. There are no short examples here, and no
    sentence moves before another.

    Args:
      documents: bounds of each.
      max_length: length of an example with its special tokens.
      rng: where the random draws come from.
      pairs: whether pieces have two segments.

    Yields:
      The pieces of one example; no two are of one document.
    """
    pool = _Pool(documents, max_length, rng, pairs)
    limit = most_pieces(max_length)
    while (head := pool.next_head()) is not None:
        pieces, used, room = [], [], max_length
        choice = pool.part_of_head(head)
        while choice is not None:
            piece, places = pool.take(*choice)
            pieces.append(piece)
            used.append(choice[0])
            room -= places
            choice = pool.filler(room) if len(pieces) < limit else None
        yield pieces
        # Only now, so that no example holds two pieces of one document.
        for document in used:
            pool.offer(document)


class _Pool:
    """What is left of some documents, to be found by how many places it takes in an example.

    `whole[n]` lists the documents whose rest takes n places with its special tokens, `parts[n]`
    those of which the first sentences do, and `long` those whose rest fits into no example. An
    entry is (document, version, end of what it takes); a document that gave a piece has another
    version, and its old entries are dropped when they are met.
    """

    def __init__(
        self, documents: Sequence[Bounds], max_length: int, rng: random.Random, pairs: bool
    ):
        self.documents, self.max_length, self.rng, self.pairs = documents, max_length, rng, pairs
        self.tolerance = max_length // 64
        self.smallest = smallest_piece(max_length)
        self.starts = [bounds[0] for bounds in documents]
        self.versions = [0] * len(documents)
        self.single = [True] * len(documents)
        self.whole: list[list[Entry]] = [[] for _ in range(max_length + 1)]
        self.parts: list[list[Entry]] = [[] for _ in range(max_length + 1)]
        self.long: list[Entry] = []
        for document in reversed(range(len(documents))):
            self.offer(document)

    def offer(self, document: int) -> None:
        """Lists what is left of a document, if anything."""
        bounds, start, version = (
            self.documents[document],
            self.starts[document],
            self.versions[document],
        )
        last = bounds[-1]
        if start == last:
            return
        self.single[document] = not self.pairs or self.rng.random() < SINGLE_SEGMENT
        special = 2
        for index in range(bisect.bisect_right(bounds, start), len(bounds)):
            end = bounds[index]
            places = end - start + special
            if places > self.max_length:
                self.long.append((document, version, last))
                return
            if end == last:
                self.whole[places].append((document, version, end))
            elif min(end - start, last - end) >= self.smallest:
                self.parts[places].append((document, version, end))
            special = 2 if self.single[document] else 3  # one sentence is one segment

    def next_head(self) -> int | None:
        """A document too long for one example, or else the longest; None when all is packed."""
        entry = self._top(self.long) or self._longest(self.max_length)
        return None if entry is None else entry[0]

    def part_of_head(self, document: int) -> tuple[int, int]:
        """What to take of the document that an example begins with: it, and where to end."""
        bounds, start = self.documents[document], self.starts[document]
        last = bounds[-1]
        self.versions[document] += 1  # it cannot fill up its own example
        first = bisect.bisect_right(bounds, start)
        if self._places(document, last) <= self.max_length:
            return document, last
        index = bisect.bisect_right(bounds, start + self.max_length - 2) - 1
        ends = bounds[first : index + 1][::-1]
        for lists in (self.whole, self.parts):
            for end in ends:
                room = self.max_length - self._places(document, end)
                if room < 0 or min(end - start, last - end) < self.smallest:
                    continue
                if room <= self.tolerance or self._exact(lists, room):
                    return document, end
        return document, self._cut(document, self.max_length)

    def filler(self, room: int) -> tuple[int, int] | None:
        """What goes into the room left in an example, or None."""
        if room <= self.tolerance:
            return None
        entry = (
            self._exact(self.whole, room)
            or self._exact(self.parts, room)
            or self._longest(room - self.smallest - 3)
        )
        if entry is not None:
            return entry[0], entry[2]
        if room >= self.smallest + 3:
            for places in range(min(self.max_length, room + self.smallest), self.max_length + 1):
                entry = self._top(self.whole[places])
                if entry is not None:
                    return entry[0], self._cut(entry[0], room)
            entry = self._top(self.long)
            if entry is not None:
                return entry[0], self._cut(entry[0], room)
        entry = self._longest(room)
        return None if entry is None else (entry[0], entry[2])

    def take(self, document: int, end: int) -> tuple[Piece, int]:
        """The next piece of a document, and how many places it takes."""
        bounds, start = self.documents[document], self.starts[document]
        places = self._places(document, end)
        self.versions[document] += 1
        self.starts[document] = end
        if places == end - start + 2:
            return Piece([(start, end)], []), places
        # The sentence that the middle falls into goes to either side, as long as both have one.
        index = bisect.bisect_left(bounds, (start + end) // 2)
        before, after = bounds[index - 1], bounds[index]
        if before <= start or (after < end and self.rng.random() < 0.5):
            before = after
        return Piece([(start, before)], [(before, end)]), places

    def _places(self, document: int, end: int) -> int:
        """What the text up to `end` takes with its special tokens."""
        bounds, start = self.documents[document], self.starts[document]
        is_single = self.single[document] or bounds[bisect.bisect_right(bounds, start)] >= end
        return end - start + (2 if is_single else 3)

    def _cut(self, document: int, room: int) -> int:
        """Where to cut a document, within a sentence if need be, to fill the room."""
        end = min(self.starts[document] + room - 2, self.documents[document][-1] - self.smallest)
        return end if self._places(document, end) <= room else end - 1

    def _exact(self, lists: list[list[Entry]], room: int) -> Entry | None:
        """What fills the room but for the tolerance."""
        for places in range(room, max(room - self.tolerance, 3) - 1, -1):
            entry = self._top(lists[places])
            if entry is not None:
                return entry
        return None

    def _longest(self, room: int) -> Entry | None:
        """The longest rest that fits."""
        for places in range(room, 2, -1):
            entry = self._top(self.whole[places])
            if entry is not None:
                return entry
        return None

    def _top(self, entries: list[Entry]) -> Entry | None:
        """The last entry that still holds; those after it are dropped."""
        while entries:
            if self.versions[entries[-1][0]] == entries[-1][1]:
                return entries[-1]
            entries.pop()
        return None
