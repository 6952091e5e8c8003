"""Reads files of tagged words, a word and its tag a line, of tasks and of the user's own data.

The tags may be of several schemes (BIO, IOB1, IOBES, BILOU, IO). Files may be gzip-compressed,
begin with a byte-order mark and have Windows line ends. A line that is not as its format says stops
the reading: nothing is mended or left out in silence.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Literal

from tfbio.base.messages import say
from tfbio.formats.tables import stands_in
from tfbio.formats.task_examples import TaggedSentence
from tfbio.formats.task_file_errors import is_none_of, mistake
from tfbio.formats.task_files import not_empty
from tfbio.formats.text_files import read_lines


def read(
    path: str, types: Sequence[str] | None = None, scheme: Literal["BIO", "IO"] = "BIO"
) -> list[TaggedSentence]:
    """Reads a file of tagged words: a word and its tag a line (CoNLL, MTL, BLURB).

    An empty line ends a sentence. Tabs or single blanks separate the columns; the first is the
    word, the last the tag. Those between them are not kept, and of the lines that begin a document
    its number alone, as BLURB's have it (`-DOCSTART- (10070173)`).

    A file with tags S or E is in the scheme IOBES, one with U or L in BILOU; both are given in BIO:
    S and U, the only word of an entity, are B, and E and L, its last, are I.

    A file whose entities begin with I, and with B only directly behind another of the same type, is
    in the scheme IOB1, as CoNLL 2003 was released. It is given in BIO, and a printed line says so.

    Args:
      path: the file.
      types: the types of entities; None for any. A file may leave out the only type of a task, as
        BLURB's do (B, I, O).
      scheme: "BIO" for a file in BIO, IOBES, BILOU or IOB1; "IO" for EBM-PICO, which has no B.

    Returns:
      A list of at least one `TaggedSentence`, in the order of the file, with tags such as
      "B-Chemical" or "O".

    Raises:
      TaskFileError: the file cannot be read or is empty, a line is not of this format, or its tag
        goes on with an entity that did not begin.
    """
    sentences: list[TaggedSentence] = []
    words: list[str] = []
    tags: list[str] = []
    width, document = 0, ""
    lines = read_lines(path)
    in_file = _scheme(lines) if scheme == "BIO" else scheme
    before = "O"
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if words:
                first = number - len(words)
                where = (path, first)
                own = (tuple(words), tuple(tags))
                sentences.append(TaggedSentence(str(first), *own, document, where))
                words, tags, before = [], [], "O"
            if line.startswith("-DOCSTART-"):
                begun = re.fullmatch(r"-DOCSTART- \(?(\d+)\)?", line)
                document = begun[1] if begun else ""
            continue
        cells = line.split("\t" if "\t" in line else " ")
        width = width or max(len(cells), 2)
        if len(cells) != width or not cells[0]:
            raise mistake(
                (path, number),
                f"expected {width} columns with the word first and its tag last, separated by "
                f"single tabs or blanks, found {line!r:.60}",
            )
        problem = _tag_problem(cells[-1], before, types, in_file)
        if problem:
            others = [] if _TAG.fullmatch(cells[-1]) else cells[:-1]
            fit = [i for i, x in enumerate(others) if not _tag_problem(x, x, types, in_file)]
            raise mistake((path, number), problem + stands_in("tag", fit))
        words.append(cells[0])
        tags.append(_in_bio(cells[-1], before, in_file))
        before = cells[-1]
    if in_file == _IOB1:
        _say_iob1(path)
    return not_empty(path, sentences)


_TAG = re.compile("O|[BIESUL](-.+)?")
# The scheme IOB1, by its letters.
_IOB1 = "IOB"
# The schemes of tags, and for each the letters that are another one in BIO.
_IN_BIO = {
    "BIO": {},
    "IO": {},
    _IOB1: {},
    "IOBES": {"S": "B", "E": "I"},
    "BILOU": {"U": "B", "L": "I"},
}


def _scheme(lines: Sequence[str]) -> str:
    """Returns which of the schemes but IO a file is in, by the last column of its lines."""
    # A type may have blanks where tabs part the columns.
    tags = [line.split("\t" if "\t" in line else " ")[-1] for line in lines]
    tags = [tag if _TAG.fullmatch(tag) else "O" for tag in tags]
    prefixes = {tag[0] for tag in tags} & set("SEUL")
    for scheme in ("IOBES", "BILOU"):
        if prefixes and prefixes <= set(scheme):
            return scheme
    pairs = itertools.pairwise(["O", *tags])
    begin = {tag[0] for before, tag in pairs if tag != "O" and not _goes_on(tag, before)}
    return _IOB1 if begin == {"I"} else "BIO"


def _goes_on(tag: str, before: str) -> bool:
    """Returns True if a tag may go on with an entity: the one before is B or I of its type."""
    return before in (f"B{tag[1:]}", f"I{tag[1:]}")


def _in_bio(tag: str, before: str, scheme: str) -> str:
    """Returns a tag in BIO; the tag and the one before it are as the file has them."""
    if scheme == _IOB1 and tag != "O" and not _goes_on(tag, before):
        return f"B{tag[1:]}"
    return _IN_BIO[scheme].get(tag[0], tag[0]) + tag[1:]


@functools.cache  # the training file of the user's own data is read twice, for its labels first
def _say_iob1(path: str) -> None:
    """Prints once that a file is in IOB1."""
    say(f"{path} is in the scheme IOB1, as CoNLL 2003 is: an I that begins an entity is read as B.")


def _tag_problem(tag: str, before: str, types: Sequence[str] | None, scheme: str) -> str:
    """Says why a tag cannot stand after the one before it; "" if it can."""
    prefix, _, entity_type = tag.partition("-")
    if tag == "O":
        return ""
    if prefix == "O" or prefix not in [*scheme] or tag.endswith("-"):
        letters = ", ".join(f"{letter}-TYPE" for letter in sorted(scheme) if letter != "O")
        return f"expected a tag of the scheme {scheme} (O, {letters}), found {tag!r:.60}"
    if types is not None and entity_type not in types and (entity_type or len(types) != 1):
        if not any(types):
            return f"the tag {tag!r:.60} has a type, and those for training none: write {prefix!r}"
        return f"the type in the tag {tag!r:.60} {is_none_of(types)}"
    begin = f"B{tag[1:]}"
    inside = scheme not in ("IO", _IOB1) and prefix in ("I", "E", "L")
    if inside and not _goes_on(tag, before):
        return f"the tag {tag!r} follows {before!r}: write {begin!r} where an entity begins"
    return ""


def read_bio(path: str, types: tuple[str, ...] | None) -> list[TaggedSentence]:
    """Reads tagged words as `read` does, and leaves out the types: all tags are "B", "I" and "O".

    Args:
      path: a file with a word and its BIO tag a line, as BLURB's are.
      types: the types of entities that the file may have, which are dropped; None for any.

    Returns:
      A list of at least one `TaggedSentence`, in the order of the file.

    Raises:
      TaskFileError: the file cannot be read or is empty, or a line or its tag is not as for `read`.
    """
    return [
        dataclasses.replace(sentence, tags=tuple(tag[0] for tag in sentence.tags))
        for sentence in read(path, types)
    ]
