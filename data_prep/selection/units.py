"""Reads input files into units: some megabytes of texts on disk, and a row of numbers for each.

An input is one large file, or several small ones. It is read once. The rows hold all that later
steps must know of a text: its article, its version, and the signature of its words.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.readers import pmc, pubmed
from data_prep.running import left_out, work_folder
from data_prep.running.garbage_collection import rare_garbage_collection
from data_prep.selection import articles, duplicates, exclusion, fingerprints, versions
from tfbio.base import cli, storage
from tfbio.base.document_records import Document
from tfbio.base.shards import DataError, write_shard
from tfbio.formats import safe_xml

# A unit's number has its input's number in the upper half, its place in the input in the lower one.
_UNITS_OF_INPUT = _MOST_INPUTS = 1 << 16
# An input is one large file, or small ones up to this size and number. Of a small corpus inputs
# are smaller: there must be enough of them for workers to end together.
_LEAST_INPUT_BYTES = 1 << 18
_INPUT_BYTES = 4 << 20
_INPUT_FILES = 1000
_INPUTS = 128
# Characters of text in a small file, at most: PubMed's shipped ones have 0.75 for each compressed
# byte, so those of 4 MB stay far below; a bomb does not.
_MOST_HELD = 100_000_000
# Rows of a unit at most: 100,000 deletions or titles without abstract take no characters.
_UNIT_ROWS = 1 << 16
# The file in the working folder that says which articles are excluded.
EXCLUSION = "exclusion.npz"


def name_of(path: str) -> str:
    """Returns the base name of the file at `path`, its unprintable characters escaped."""
    return safe_xml.printable(os.path.basename(path))


@dataclasses.dataclass(frozen=True)
class Reader:
    """A worker's instructions for reading an input.

    Attributes:
      work: the working folder.
      selection: which articles and parts become documents.
      exclude: digest of the `Exclusion` in the working folder; "" if there is none.
      unit_characters: the characters of text after which a unit ends.
      max_articles: texts to read of each file; 0: all.
    """

    work: str
    selection: articles.Selection
    exclude: str
    unit_characters: int
    max_articles: int


def divide(paths: Sequence[str], sizes: Sequence[int]) -> list[tuple[int, list[bytes]]]:
    """Divides files into inputs: large ones alone, small ones together, in order.

    Args:
      paths: of the files.
      sizes: of the files, in bytes.

    Returns:
      For each input a pair of its number, from 0, and the list of its paths, as `read_input` takes
      them. The paths are bytes, as Beam's strings are UTF-8, which a file's name need not be.

    Raises:
      UserError: there are too many large files.
    """
    inputs: list[list[bytes]] = []
    room = files = 0
    # Larger inputs where there would be too many for the numbers of their units.
    most = _MOST_INPUTS // 2
    total = sum(sizes)
    input_bytes = max(_LEAST_INPUT_BYTES, min(total // _INPUTS, _INPUT_BYTES), total // most)
    input_files = max(_INPUT_FILES, len(paths) // most)
    for path, size in zip(paths, sizes, strict=True):
        if not inputs or size > room or files == input_files:
            inputs.append([])
            room, files = input_bytes, 0
        inputs[-1].append(os.fsencode(path))
        room -= size
        files += 1
    if len(inputs) > _MOST_INPUTS:
        raise cli.UserError(
            f"--input: more than {_MOST_INPUTS} large files: prepare them in parts."
        )
    return list(enumerate(inputs))


def read_input(
    job: tuple[int, list[bytes]], reader: Reader, partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Reads an input and writes its units, unless an interrupted run did; yields their rows.

    Args:
      job: the input's number, and the paths of its files as bytes.
      reader: how to read.
      partitions: the number of partitions that the rows are divided among.

    Yields:
      Pairs of a partition's number and its `versions.ROW`s as bytes; and each problem, a sentence,
      as a `TaggedOutput` named "problems". A bad file is such a problem and no error.

    Raises:
      DataError: the input has more than 65,536 units.
      OSError: the working folder cannot be written.
    """
    from apache_beam import pvalue

    index, paths = job[0], list(map(os.fsdecode, job[1]))
    note = storage.at(reader.work, f"input-{index:05d}.json")
    if not _is_read(note, index):
        work_folder.write_step(reader.work, note.stem, _make_units(index, paths, reader))
    content = json.loads(note.read_text(encoding="utf-8"))
    for problem in content["problems"]:
        yield pvalue.TaggedOutput("problems", sentence_of(problem))
    for unit in numbers_of(index, content):
        rows = load(unit_file(reader.work, unit, "rows.npy"))
        yield from grouped(rows, rows["key"] % partitions)


def sentence_of(problem: Sequence[str]) -> str:
    """Returns the sentence on a problem: its parts that are not empty, joined with ": ".

    Args:
      problem: three strings: the file, the part of it that is bad or "", and why.
    """
    return ": ".join(filter(None, problem))


@rare_garbage_collection()
def _make_units(index: int, paths: Sequence[str], reader: Reader) -> dict[str, Any]:
    """Writes the units of an input.

    Returns:
      The input's note: how many units and shards, the counts, and the problems.
    """
    units, shards, counts, problems = 0, 0, Counter(), []
    try:
        for rows, documents, names in _units(_candidates(paths, reader, counts, problems), reader):
            if units == _UNITS_OF_INPUT:
                raise DataError(f"{paths[0]} has more than {units} units: raise --shard_megabytes.")
            unit = index * _UNITS_OF_INPUT + units
            _write_unit(reader.work, unit, rows, documents, names)
            units += 1
            # A unit of deletions alone comes to no shard.
            shards += not rows["deleted"].all()
    except safe_xml.BadFile as error:  # of the input's only file
        for file in storage.at(reader.work).glob(f"unit-{index:05d}-*"):
            file.unlink()
        units, shards, counts = 0, 0, Counter(bad_input_files=1)
        problems = [_problem(name_of(paths[0]), "", error)]
    return {"units": units, "shards": shards, "counts": counts, "problems": problems}


def _problem(file: str, part: str, sentence: object) -> tuple[str, str, str]:
    """Returns a problem as `sentence_of` takes it, of bounded length, whatever the file holds."""
    return file, left_out.cut(part), left_out.cut(str(sentence), 300)


def _candidates(
    paths: Sequence[str],
    reader: Reader,
    counts: Counter[str],
    problems: list[tuple[str, str, str]],
) -> Iterator[tuple[str, articles.Candidate]]:
    """Yields (file, candidate) for all files of an input; adds to `counts` and `problems`.

    Raises:
      BadFile: the input is one file, and it is bad: the candidates that were yielded must be
        discarded. A bad file among several is one of the problems, and none of it is yielded.
    """
    excluded = _exclusion(reader.work, reader.exclude) if reader.exclude else None
    for path in paths:
        name = name_of(path)
        unknown: Counter[str] = Counter()
        items = articles.read(path, reader.selection, excluded, unknown)
        if reader.max_articles:
            items = itertools.islice(items, reader.max_articles)
        if len(paths) > 1:
            try:
                items = _whole(items)
            except safe_xml.BadFile as error:
                counts["bad_input_files"] += 1
                problems.append(_problem(name, "", error))
                continue
        for item in items:
            if isinstance(item, pmc.Problem):
                counts["bad_parts"] += 1
                problems.append(_problem(name, item.name, item.sentence))
            else:
                counts[item.kind] += 1
                counts["other_abstract"] += max(0, len(item.documents) - 1)
                yield name, item
        if unknown:
            counts["unknown_entities"] += unknown.total()


def _whole(
    items: Iterable[articles.Candidate | pmc.Problem],
) -> list[articles.Candidate | pmc.Problem]:
    """Reads all of a small file, so that nothing of it is used before all of it is known good.

    Raises:
      BadFile: it is bad, or there is far more in it than a small file has.
    """
    held, characters = [], 0
    for item in items:
        held.append(item)
        if isinstance(item, articles.Candidate):
            characters += sum(len(text) for d in item.documents for text in d.sentences)
        if characters > _MOST_HELD:
            raise safe_xml.BadFile(
                f"its text has more than {_MOST_HELD:,} characters, which no file of its size has."
            )
    return held


def _units(
    candidates: Iterable[tuple[str, articles.Candidate]], reader: Reader
) -> Iterator[tuple[np.ndarray, list[Document], list[tuple[str, str]]]]:
    """Yields the rows, the texts, and the names of the rows, of one unit after the other."""
    rows: list[tuple] = []
    documents: list[Document] = []
    names: list[tuple[str, str]] = []
    characters = 0
    for file, candidate in candidates:
        year, number = _edition(file)
        names.append((candidate.id, file))
        rows.append(
            (
                candidate.key,
                candidate.version,
                year,
                number,
                candidate.revised,
                0,
                len(rows),
                len(documents),
                len(candidate.documents),
                articles.REASONS.index(candidate.reason) + 1 if candidate.reason else 0,
                candidate.kind == articles.BODY,
                candidate.kind == articles.DELETION,
            )
        )
        for document in candidate.documents:
            documents.append(document)
            characters += sum(map(len, document.sentences))
        # A unit of deletions, or of articles without text, has its bounds too.
        if characters >= reader.unit_characters or len(rows) == _UNIT_ROWS:
            yield np.array(rows, versions.ROW), documents, names
            rows, documents, names, characters = [], [], [], 0
    if rows:
        yield np.array(rows, versions.ROW), documents, names


@functools.lru_cache
def _edition(file: str) -> tuple[int, int]:
    return pubmed.edition(file) or (0, 0)


def _write_unit(
    work: str,
    unit: int,
    rows: np.ndarray,
    documents: Sequence[Document],
    names: Sequence[tuple[str, str]],
) -> None:
    rows["unit"] = unit
    write_shard(unit_file(work, unit, "tfrecord"), (d.serialize() for d in documents))
    keys = np.repeat(rows["key"], rows["texts"]).tolist()
    from_pubmed = np.repeat(rows["version"] > 0, rows["texts"]).tolist()
    bands = [
        duplicates.rows(
            fingerprints.words(" ".join(document.sentences)),
            duplicates.order(from_pubmed[text], keys[text] & (1 << 63) - 1),
            unit,
            text,
        )
        for text, document in enumerate(documents)
    ]
    bands = np.concatenate([np.zeros(0, duplicates.ROW), *bands])
    for kind, array in (("bands", bands), ("rows", rows)):
        content = io.BytesIO()
        np.save(content, array)  # into a file, NumPy's error does not say that the disk is full
        path = unit_file(work, unit, f"{kind}.npy")
        with storage.naming(path):
            path.write_bytes(content.getvalue())
    storage.write_text(unit_file(work, unit, "names.json"), json.dumps(names))


def _is_read(note: Path, index: int) -> bool:
    """Returns True if all of an input's units are there, or were made documents already."""
    if not note.exists():
        return False
    return all(
        unit_file(note.parent, unit, "tfrecord").exists()
        or work_folder.shard_is_done(note.parent.parent, shard_file(unit))
        for unit in numbers_of(index, json.loads(note.read_text(encoding="utf-8")))
    )


def numbers_of(index: int, note: dict[str, Any]) -> range:
    """Returns the numbers of an input's units: from `index` * 65,536 on, without gaps.

    Args:
      index: the input's number.
      note: the input's note in the working folder; its "units" is their count.
    """
    return range(index * _UNITS_OF_INPUT, index * _UNITS_OF_INPUT + note["units"])


def unit_file(work: str | os.PathLike, unit: int, kind: str) -> Path:
    """Returns the path of one of a unit's files, `unit-<input>-<place>.<kind>`.

    Args:
      work: the working folder.
      unit: its number.
      kind: "tfrecord" (the texts), "rows.npy" (`versions.ROW`s), "bands.npy" (`duplicates.ROW`s) or
        "names.json" (the id and the file of each row).
    """
    return storage.at(work, f"unit-{_place(unit)}.{kind}")


def load(path: Path) -> np.ndarray:
    """Returns the array in a `.npy` file, in the shape and dtype that it was saved with.

    Raises:
      OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return np.load(stream)


def shard_file(unit: int) -> str:
    """Returns the name of a unit's shard of documents, such as `documents-00000-00001.tfrecord`."""
    return f"documents-{_place(unit)}.tfrecord"


def left_out_file(unit: int) -> str:
    """Returns the name of a unit's list of texts left out: `left_out-00000-00001.jsonl`."""
    return f"left_out-{_place(unit)}.jsonl"


def _place(unit: int) -> str:
    """Returns a unit's input and place in it as part of a file name."""
    return "{:05d}-{:05d}".format(*divmod(unit, _UNITS_OF_INPUT))


@functools.cache
def _exclusion(work: str, digest: str) -> exclusion.Exclusion:
    """Loads them once in each worker process; another run may have others in the same folder."""
    return exclusion.read_saved(storage.at(work, EXCLUSION))


def grouped(rows: np.ndarray, by: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Groups rows by number, so that Beam has few elements to group.

    Args:
      rows: [rows] of any dtype.
      by: int [rows], the number of each.

    Yields:
      A number, in ascending order, and its rows as bytes, in the order in which they were given.
    """
    order = np.argsort(by, kind="stable")
    rows = rows[order]
    numbers, starts, counts = np.unique(by[order], return_index=True, return_counts=True)
    for number, start, count in zip(numbers, starts, counts, strict=True):
        yield int(number), rows[start : start + count].tobytes()
