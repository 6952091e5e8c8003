"""Reads the clinical notes of MIMIC-III from `NOTEEVENTS.csv`, streamed.

The table has a note a row, in which the text is a quoted field of many lines
(mimic.mit.edu/docs/iii/tables/noteevents). A paragraph is a block of lines between empty ones: the
notes were typed in lines of fixed width.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data_prep.readers import text_lines
from data_prep.readers.problem import Problem
from tfbio.formats import safe_xml
from tfbio.formats.safe_xml import BadFile

_COLUMNS = ("ROW_ID", "SUBJECT_ID", "CATEGORY", "ISERROR", "TEXT")
_NAME = re.compile(r"noteevents\.csv(\.gz)?", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n\s*\n")
_MARK = re.compile(r"\[\*\*(.{0,200}?)\*\*\]", re.DOTALL)
_DATE = re.compile(r"[\d/\s-]*\d[\d/\s-]*")
# What tells one name from another: "Hospital1 18", "First Name8 (NamePattern2) 100"; but "Age over
# 90" has no other.
_NUMBERING = re.compile(r"\([^)]*\)|(?<!over )\b\d+|(?<=[^\W\d])\d+")


class Note(NamedTuple):
    """A clinical note.

    Attributes:
      row_id: its number in the table, such as "174".
      subject_id: the patient's number.
      category: its category, such as "Discharge summary" or "Nursing/other".
      is_error: True if a physician has marked it as an error.
      paragraphs: its paragraphs, without empty ones.
    """

    row_id: str
    subject_id: str
    category: str
    is_error: bool
    paragraphs: tuple[str, ...]


def is_name(name: str) -> bool:
    """Returns True for the names of MIMIC-III's table: `NOTEEVENTS.csv`, `NOTEEVENTS.csv.gz`.

    Args:
      name: the name without its folder.
    """
    return _NAME.fullmatch(name) is not None


def is_beginning(head: bytes) -> bool:
    """Returns True if a file begins with the header of MIMIC-III's table of notes.

    Args:
      head: the file's first bytes, from `text_lines.head`.
    """
    header = head.partition(b"\n")[0].upper().replace(b'"', b"").strip().split(b",")
    return {b"ROW_ID", b"CATEGORY", b"TEXT"} <= set(header)


def read_notes(path: str | os.PathLike, types_of_marks: bool = False) -> Iterator[Note | Problem]:
    """Reads MIMIC-III's table of notes, and yields the notes in order.

    Memory does not grow with the file.

    Args:
      path: the file, compressed with gzip or not.
      types_of_marks: True to write the type of each mark of de-identification in its place (see
        `_with_types`).

    Yields:
      A `Note` for each row, or a `Problem` for a row with another number of columns.

    Raises:
      BadFile: a column is missing, quotes do not end, the file is no text in UTF-8 or cut short, or
        it holds no note. The notes before the fault have been yielded: whoever reads on must
        discard them.
    """
    notes = 0
    with safe_xml.faults(), text_lines.open_file(path) as stream:
        lines = text_lines.LimitedLines(stream, "a note")
        # The lines are limited, and so a field is; by default it ends at 131,072 characters.
        csv.field_size_limit(text_lines.MAX_DOCUMENT_BYTES)
        rows = _rows(csv.reader(text_lines.decoded(lines), strict=True))
        header = [name.strip().upper() for name in next(rows, [])]
        if missing := [name for name in _COLUMNS if name not in header]:
            raise BadFile(
                f"its header lacks {', '.join(missing)}: it must be MIMIC-III's NOTEEVENTS.csv."
            )
        places = [header.index(name) for name in _COLUMNS]
        for number, row in enumerate(rows, start=2):
            if not row:  # an empty line
                continue
            lines.renew()
            if len(row) != len(header):
                yield Problem(f"row {number}", f"it has {len(row)} columns, not {len(header)}.")
                continue
            notes += 1
            yield _note([row[place] for place in places], types_of_marks)
    if not notes:
        raise BadFile("it holds no note.")


def _rows(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yields rows of a table; where quotes are wrong, all that follows could be anything."""
    try:
        yield from rows
    except csv.Error as error:
        raise BadFile(f"its quotes or columns are damaged ({error}).") from error


def _note(cells: Sequence[str], types: bool) -> Note:
    row_id, subject_id, category, is_error, text = cells
    blocks = _BLANK_LINES.split(_with_types(text) if types else text)
    return Note(
        row_id.strip(),
        subject_id.strip(),
        text_lines.clean(category),
        # pandas writes a column that lacks values as floats.
        is_error.strip() in ("1", "1.0"),
        text_lines.clean_all(blocks),
    )


def _with_types(text: str) -> str:
    """Replaces MIMIC-III's marks of de-identification by the types that they name.

    `[**Hospital1 18**]` becomes `Hospital`, `[**First Name8 (NamePattern2) 100**]` becomes
    `First Name`, and `[**2151-7-16**]` becomes `Date`.

    Args:
      text: the text of a note.

    Returns:
      The text without marks.
    """
    return _MARK.sub(_type, text)


def _type(mark: re.Match[str]) -> str:
    if _DATE.fullmatch(mark[1]):
        return "Date"
    return " ".join(_NUMBERING.sub(" ", mark[1]).split())
