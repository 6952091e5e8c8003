"""Turns the mentions of a note, given by character offsets, into tags of its words.

A note becomes a line `-DOCSTART- (NAME)`, a blank line, a line for each word with its tag (O,
B-TYPE, I-TYPE), and a blank line after each sentence. Mentions that do not fit:

- a mention that begins or ends within a word has the whole word;
- a mention that goes over the end of a sentence joins the two;
- the later one of two mentions that overlap has the words of both (BLUE's create_clefe_bert.py,
  bio-lm's preprocess_i2b2_2012_ner.py);
- each part of a mention in parts, or that a later one has divided, is an entity. BLUE goes on with
  I after the gap, which is scored as the same by the rule of `conlleval`, unless a mention of the
  same type ends right before;
- a mention without a word has no tag.

`say` prints how many there are of each; mentions that are left without a word are lines of
`left_out.jsonl`: NOTE.START-END, and the reason.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tfbio.base import messages

# A run of letters and digits, or one other character that is no blank.
WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
_LINE_END = re.compile(r"\n")

MENTIONS = "mentions"
CUT = "begin or end within a word: the whole word is tagged"
JOINED = "go over the end of a sentence: the two are joined"
OVERLAPPED = "share words with a later one, which has them"
IN_PARTS = "are in parts: each part is an entity of its own"
WORDLESS = "hold no word: they are not tagged"


class Mention(NamedTuple):
    """A mention in a clinical note, by its offsets, before `tagged` makes tags of it.

    Attributes:
      kind: its type, such as "problem"; "" if the corpus has only one.
      parts: for each part of the mention its character range `(start, end)` in the note, two int.
    """

    kind: str
    parts: tuple[tuple[int, int], ...]


def tagged(
    name: str,
    text: str,
    mentions: Sequence[Mention],
    counts: Counter[str],
    left: list[tuple[str, str, str]],
    sentence_end: re.Pattern[str] = _LINE_END,
    word: re.Pattern[str] = WORD,
) -> list[tuple[str, ...]]:
    """Turns the mentions of a clinical note, given by offsets, into tags of the note's words.

    Args:
      name: the name of the note.
      text: the text of the note.
      mentions: the mentions, in the order of the release.
      counts: changed in place: the numbers of mentions, by "mentions", and of those that do not
        fit, by the sentences that `say` prints, are added.
      left: a list that gets `(NAME.START-END, NAME, "no_word" or "overwritten")` for each mention
        that has no word.
      sentence_end: a pattern that matches between sentences.
      word: a pattern that matches a word.

    Returns:
      The lines of the note as a list of tuples of str: `("-DOCSTART- (NAME)",)`, `("",)` for a
      blank line, and `(word, tag)`, where the tag is O, B-TYPE or I-TYPE (B or I without a type).
    """
    words = [match.span() for match in word.finditer(text)]
    starts, ends = [start for start, _ in words], [end for _, end in words]
    firsts = {bisect_left(starts, match.end()) for match in sentence_end.finditer(text)} - {0}
    tags, owner = ["O"] * len(words), [-1] * len(words)
    places = []
    for number, mention in enumerate(mentions):
        spans = [
            (bisect_right(ends, start), bisect_left(starts, end)) for start, end in mention.parts
        ]
        own = sorted({place for first, end in spans for place in range(first, end)})
        inner = {place for first, end in spans for place in range(first + 1, end)}
        counts[MENTIONS] += 1
        counts[WORDLESS] += not own
        counts[JOINED] += not firsts.isdisjoint(inner)
        counts[IN_PARTS] += any(b - a > 1 for a, b in zip(own, own[1:], strict=False))
        counts[CUT] += any(
            first < last and (starts[first] < start or ends[last - 1] > end)
            for (start, end), (first, last) in zip(mention.parts, spans, strict=True)
        )
        firsts -= inner
        for place in own:
            tags[place] = f"{'B' if place == own[0] else 'I'}-{mention.kind}".rstrip("-")
            owner[place] = number
        places.append(own)
    counts[OVERLAPPED] += sum(
        any(owner[place] != number for place in own) for number, own in enumerate(places)
    )
    for number, (mention, own) in enumerate(zip(mentions, places, strict=True)):
        if all(owner[place] != number for place in own):
            id_ = f"{name}.{mention.parts[0][0]}-{mention.parts[-1][1]}"
            left.append((id_, name, "overwritten" if own else "no_word"))
    rows: list[tuple[str, ...]] = [(f"-DOCSTART- ({name})",), ("",)]
    before = -1  # the mention that has the word before
    for place, (start, end) in enumerate(words):
        if place in firsts:
            rows.append(("",))
            before = -1
        tag = tags[place]
        if tag[0] == "I" and before != owner[place]:
            tag = f"B{tag[1:]}"
        rows.append((text[start:end], tag))
        before = owner[place]
    return [*rows, ("",)]


def say(counts: Counter[str]) -> None:
    """Prints how many mentions of clinical notes do not fit the words, and how they were tagged.

    It returns nothing.

    Args:
      counts: from `tagged`: for each sentence to print the number of mentions that it is about, and
        for "mentions" the number of all.
    """
    for fault, count in counts.items():
        if fault != MENTIONS and count:
            messages.say(f"{count:,} of {counts[MENTIONS]:,} mentions {fault}.")


def kinds_of(row: Sequence[str]) -> list[str]:
    """Returns the type of the entity that begins in a line of a tagged clinical note, if one does.

    Args:
      row: a line of a note, as `tagged` makes it.

    Returns:
      A list of one str, the type, which is "mentions" for an entity without one; [] if no entity
      begins in the line.
    """
    return [tag[2:] or "mentions" for tag in row[1:] if tag[0] == "B"]
