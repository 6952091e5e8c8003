"""Makes BLURB's files of BIOSSES: how similar two sentences are, from 0 to 4.

`tfbio data biosses` reads with this module Annotation-Pairs.docx and Annotator-Scores.docx, which
BIOSSES-Dataset.rar holds (<https://github.com/gizemsogancioglu/biosses>): unpack it first, since
nothing in Python reads such an archive. The first table has in a row a number and two sentences,
the second a number and the scores of the five annotators, whose mean is the score. The splits are
those of BLURB's files.

This module follows the description of the format (BigBio's loader `biosses.py`, and BLURB's files).
It was never tried on the release itself.
"""

from __future__ import annotations

import io
import os
import zipfile

from data_prep.corpora import released_files
from data_prep.corpora.released_files import CorpusError, File

_PAIRS, _SCORES = "Annotation-Pairs.docx", "Annotator-Scores.docx"
_ANNOTATORS = 5
_HEADER = ("pair_id", "sent1", "sent2", "score")
# The numbers of the pairs in BLURB's files, in their order; the others are for training.
_DEV = (88, 82, 8, 63, 47, 68, 40, 90, 100, 24, 41, 91, 80, 9, 72, 2)
_TEST = (59, 96, 70, 22, 81, 38, 57, 23, 33, 89, 69, 49, 7, 71, 97, 25, 83, 64, 52, 20)
_ALL = range(1, 101)
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def read_examples(source: str | os.PathLike) -> dict[str, list[tuple[str, ...]]]:
    """Reads the pairs of sentences of BIOSSES's release, as the rows of BLURB's splits.

    Args:
      source: the release, unpacked: the path of a folder.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of str:
      first the header `("pair_id", "sent1", "sent2", "score")`, then the pairs, the score with one
      decimal.

    Raises:
      CorpusError: the release cannot be read or lacks a file, or a table has not a row for each of
        the 100 pairs.
    """
    names = (_PAIRS, _SCORES)
    files = released_files.find(source, "|".join(name.replace(".", r"\.") for name in names))
    for name in names:
        if name not in files:
            raise CorpusError(f"{source} lacks {name}: unpack BIOSSES-Dataset.rar.")
    pairs, scores = _rows(files[_PAIRS], 2), _rows(files[_SCORES], _ANNOTATORS)
    means = {number: _mean(files[_SCORES], number, cells) for number, cells in scores.items()}
    train = [number for number in _ALL if number not in _DEV + _TEST]
    return {
        split: [_HEADER, *((str(x), *pairs[x], f"{means[x]:.1f}") for x in numbers)]
        for split, numbers in (("train", train), ("dev", _DEV), ("test", _TEST))
    }


def _rows(file: File, columns: int) -> dict[int, list[str]]:
    """Returns the cells of each numbered row of a Word document's tables, by its number.

    Raises:
      CorpusError: it is no such document, or a pair has no row of this many cells.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
            member = archive.getinfo("word/document.xml")
            if member.file_size > released_files.MAX_FILE_BYTES:
                raise CorpusError(f"{file.path} is too long when it is unpacked.")
            content = archive.read(member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{file.path} is no document of Word: fetch it again.") from error
    rows = {}
    for row in released_files.parse_xml(file.path, content).iter(f"{_WORD}tr"):
        cells = [
            "".join(part.text or "" for part in cell.iter(f"{_WORD}t")).strip()
            for cell in row.iter(f"{_WORD}tc")
        ]
        number = released_files.offset(cells[0].rstrip(".")) if cells else -1
        if number in _ALL and len(cells) == columns + 1 and all(cells):
            rows[number] = cells[1:]
    if missing := sorted(set(_ALL) - set(rows)):
        raise CorpusError(
            f"{file.path}: expected a table with a row of the number {missing[0]} and {columns} "
            "cells."
        )
    return rows


def _mean(file: File, number: int, cells: list[str]) -> float:
    """Returns the mean of a pair's scores.

    Raises:
      CorpusError: one is no whole number from 0 to 4.
    """
    if any(cell not in ("0", "1", "2", "3", "4") for cell in cells):
        raise CorpusError(
            f"{file.path}, pair {number}: expected scores from 0 to 4, found {', '.join(cells)!r}."
        )
    return sum(map(int, cells)) / len(cells)
