"""Packs the text of several documents into each example, so that little is padding.

For `--packing` of `data_prep.examples`.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence

from data_prep.sentences.segments import SINGLE_SEGMENT, Bounds, Piece

_Entry = tuple[int, int, int]


def most_pieces(max_length: int) -> int:
    """Returns the most documents that are packed into an example: 4 into 128 tokens, 16 into 512.

    It is a 32nd of the length, and at least 2.

    Args:
      max_length: the length of an example in tokens, with its special tokens.
    """
    return max(2, max_length // 32)


def smallest_piece(max_length: int) -> int:
    """Returns the fewest tokens that packing cuts off a document, or leaves of it: mostly 16.

    It is 16 from length 128 on, and an eighth of the length below that.

    Args:
      max_length: the length of an example in tokens, with its special tokens.
    """
    return min(16, max_length // 8)


def pack(
    documents: Sequence[Bounds], max_length: int, rng: random.Random, pairs: bool = True
) -> Iterator[list[Piece]]:
    """Packs all text of some documents into examples, several documents to an example.

    A document that is longer than an example is cut at the end of a sentence, where another
    document, or the rest of one, exactly fills the remaining room. Where none does, it is cut
    within a sentence. Short documents and rests are put together, the longest first. So nearly all
    examples waste less than a sixty-fourth.

    A piece is one segment, or with `pairs` in nine of ten two, parted at the end of a sentence near
    the middle, by the odds of ELECTRA's builder. There are no short examples here, and no sentence
    moves before another.

    Args:
      documents: for each document the bounds of its sentences: increasing ints, the places in the
        array of token ids where each sentence begins and where the last one ends.
      max_length: the length of an example in tokens, with its special tokens.
      rng: gives the random draws.
      pairs: True to make two segments of a piece.

    Yields:
      For each example a list of one to `most_pieces(max_length)` pieces, each of another document:
      its spans of places, with label 0.
    """
    pool = _Pool(documents, max_length, rng, pairs)
    limit = most_pieces(max_length)
    while (head := pool.next_head()) is not None:
        pieces, used, room = [], [], max_length
        choice: tuple[int, int] | None = pool.part_of_head(head)
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
    """Keeps the rests of some documents, by the number of places that they take in an example.

    `whole[n]` lists the documents whose rest takes n places with its special tokens, `parts[n]`
    those whose first sentences do, and `long` those whose rest fits into no example. An entry is
    (document, version, end of the text that it takes). A document that gave a piece has another
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
        self.whole: list[list[_Entry]] = [[] for _ in range(max_length + 1)]
        self.parts: list[list[_Entry]] = [[] for _ in range(max_length + 1)]
        self.long: list[_Entry] = []
        for document in reversed(range(len(documents))):
            self.offer(document)

    def offer(self, document: int) -> None:
        """Lists the rest of a document, unless it is empty."""
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
        """Returns a document too long for one example, or the longest; None when all is packed."""
        entry = self._top(self.long) or self._longest(self.max_length)
        return None if entry is None else entry[0]

    def part_of_head(self, document: int) -> tuple[int, int]:
        """Returns the document that an example begins with, and where its piece ends."""
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
        """Returns a document for the room left in an example and where its piece ends, or None."""
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
        """Takes the next piece of a document; returns it and the places that it takes."""
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
        """Returns the places that the text up to `end` takes with its special tokens."""
        bounds, start = self.documents[document], self.starts[document]
        is_single = self.single[document] or bounds[bisect.bisect_right(bounds, start)] >= end
        return end - start + (2 if is_single else 3)

    def _cut(self, document: int, room: int) -> int:
        """Returns where to cut a document, within a sentence if need be, to fill the room."""
        end = min(self.starts[document] + room - 2, self.documents[document][-1] - self.smallest)
        return end if self._places(document, end) <= room else end - 1

    def _exact(self, lists: list[list[_Entry]], room: int) -> _Entry | None:
        """Returns an entry that fills the room except for the tolerance, or None."""
        for places in range(room, max(room - self.tolerance, 3) - 1, -1):
            entry = self._top(lists[places])
            if entry is not None:
                return entry
        return None

    def _longest(self, room: int) -> _Entry | None:
        """Returns the longest rest that fits, or None."""
        for places in range(room, 2, -1):
            entry = self._top(self.whole[places])
            if entry is not None:
                return entry
        return None

    def _top(self, entries: list[_Entry]) -> _Entry | None:
        """Returns the last entry that is up to date, and drops those after it; None if none is."""
        while entries:
            if self.versions[entries[-1][0]] == entries[-1][1]:
                return entries[-1]
            entries.pop()
        return None
