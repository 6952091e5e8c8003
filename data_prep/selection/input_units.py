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
from typing import TYPE_CHECKING, Any

import numpy as np

import tfbio
from data_prep.readers import pubmed
from data_prep.readers.problem import Problem
from data_prep.running import same_versions, work_folder
from data_prep.running.garbage_collection import rare_garbage_collection
from data_prep.selection import (
    articles,
    duplicates,
    exclusion,
    fingerprints,
    row_groups,
    texts,
    unit_files,
    versions,
)
from data_prep.selection.unit_files import EXCLUSION, UNITS_OF_INPUT
from tfbio.base import file_paths, messages, storage
from tfbio.base.document_records import Document
from tfbio.base.errors import DataError, UserError, is_of_object_store
from tfbio.base.shards import write_shard
from tfbio.formats import safe_xml

if TYPE_CHECKING:
    from apache_beam import pvalue

# Characters of text in a small file, at most: PubMed's shipped ones have 0.75 for each compressed
# byte, so those of 4 MB stay far below; a bomb does not.
_MOST_HELD = 100_000_000
# Rows of a unit at most: 100,000 deletions or titles without abstract take no characters.
_UNIT_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Reader:
    """The settings with which workers read inputs into units.

    Attributes:
      work: the path of the working folder.
      selection: which articles and parts become documents.
      exclude: the digest of the `Exclusion` in the working folder; "" if there is none.
      unit_characters: the characters of text after which a unit ends.
      max_articles: texts to read of each file; 0: all.
      tfbio_version: the version of tfbio where the command was given.
    """

    work: str
    selection: articles.Selection
    exclude: str
    unit_characters: int
    max_articles: int
    tfbio_version: str = tfbio.__version__


def read_input(
    job: tuple[int, list[bytes]], reader: Reader, partitions: int
) -> Iterator[tuple[int, bytes] | pvalue.TaggedOutput[str, str | tuple[int, bytes]]]:
    """Reads one input into units on disk, unless an interrupted run did, and yields their rows.

    An input is a large file or several small ones; a unit is some megabytes of its texts.

    Args:
      job: the input's number, and the paths of its files as bytes.
      reader: how to read.
      partitions: the number of partitions that the rows are divided among.

    Yields:
      Pairs of a partition's number and its `versions.ROW`s as bytes; as a Beam `TaggedOutput` named
      "without_pmid", such pairs of the full texts that have a PMC number, by which they are
      divided, and no PMID; and each problem, a sentence, as one named "problems". A bad file is
      such a problem and no error.

    Raises:
      DataError: the input has more than 65,536 units, a file of it cannot be read now, or this
        worker has another version of tfbio.
      OSError: the working folder cannot be read or written.
    """
    from apache_beam import pvalue

    index, paths = job[0], list(map(os.fsdecode, job[1]))
    note = file_paths.at(reader.work, f"input-{index:05d}.json")
    if not _is_read(note, index):
        same_versions.check_tfbio(reader.tfbio_version)
        work_folder.write_step(reader.work, note.stem, _make_units(index, paths, reader))
    content = json.loads(note.read_text(encoding="utf-8"))
    for problem in content["problems"]:
        yield pvalue.TaggedOutput("problems", messages.problem(problem))
    for unit in unit_files.units_of_input(index, content):
        rows = unit_files.load(unit_files.unit_file(reader.work, unit, "rows.npy"))
        without = (rows["pmcid"] > 0) & (rows["key"] >= articles.NO_PMID)
        yield from row_groups.grouped(rows[~without], rows["key"][~without] % partitions)
        for group in row_groups.grouped(rows[without], rows["pmcid"][without] % partitions):
            yield pvalue.TaggedOutput("without_pmid", group)


@rare_garbage_collection()
def _make_units(index: int, paths: Sequence[str], reader: Reader) -> dict[str, Any]:
    """Writes the units of an input.

    Returns:
      The input's note: how many units and shards, the counts, and the problems.
    """
    units, shards = 0, 0
    counts: Counter[str] = Counter()
    problems: list[tuple[str, str, str]] = []
    try:
        for rows, documents, names in _units(_candidates(paths, reader, counts, problems), reader):
            if units == UNITS_OF_INPUT:
                raise DataError(f"{paths[0]} has more than {units} units: raise --shard_megabytes.")
            unit = index * UNITS_OF_INPUT + units
            _write_unit(reader.work, unit, rows, documents, names)
            units += 1
            # A unit of deletions alone comes to no shard.
            shards += not rows["deleted"].all()
    except safe_xml.BadFile as error:  # of the input's only file
        for file in file_paths.at(reader.work).glob(f"unit-{index:05d}-*"):
            file.unlink()
        units, shards, counts = 0, 0, Counter(bad_input_files=1)
        problems = [_problem(messages.file_name(paths[0]), "", error)]
    return {"units": units, "shards": shards, "counts": counts, "problems": problems}


def _problem(file: str, part: str, sentence: object) -> tuple[str, str, str]:
    """Returns a problem as `messages.problem` takes it, not long, whatever the file holds."""
    return file, messages.cut(part), messages.cut(str(sentence), 300)


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
      DataError: a file cannot be read now, which says nothing about it.
    """
    excluded = _exclusion(reader.work, reader.exclude) if reader.exclude else None
    for path in paths:
        name = messages.file_name(path)
        unknown: Counter[str] = Counter()
        items: Iterable[articles.Candidate | Problem]
        items = _read(path, reader.selection, excluded, unknown)
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
            if isinstance(item, Problem):
                counts["bad_parts"] += 1
                problems.append(_problem(name, item.name, item.sentence))
            else:
                counts[item.kind] += 1
                ids = (*(document.id for document in item.documents), *dict(item.lacking))
                counts["other_abstract"] += sum(articles.OTHER_SUFFIX in id_ for id_ in ids)
                yield name, item
        if unknown:
            counts["unknown_entities"] += unknown.total()


def _read(
    path: str,
    selection: articles.Selection,
    excluded: exclusion.Exclusion | None,
    unknown: Counter[str],
) -> Iterator[articles.Candidate | Problem]:
    """Reads the texts of a file, as `texts.read` does; an error of the disk or the network ends it.

    Raises:
      BadFile: it is bad.
      DataError: it cannot be read now. The input gets no note, so it is read again.
    """
    try:
        yield from texts.read(path, selection, excluded, unknown)
    except UserError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not is_of_object_store(error):
            raise
        raise DataError(
            f"{path} cannot be read now ({messages.reason(error)}): run the same command again, "
            "which continues, or leave the file out."
        ) from error


def _whole(
    items: Iterable[articles.Candidate | Problem],
) -> list[articles.Candidate | Problem]:
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
) -> Iterator[tuple[np.ndarray, list[Document], list[unit_files.Name]]]:
    """Yields the rows, the texts, and the names of the rows, of one unit after the other."""
    rows: list[tuple] = []
    documents: list[Document] = []
    names: list[unit_files.Name] = []
    # Of texts that may be kept, and of others apart: so these hardly change where a shard ends.
    characters = [0, 0]
    for file, candidate in candidates:
        year, number = _edition(file)
        names.append((candidate.id, file, candidate.lacking))
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
                candidate.pmcid,
                articles.REASONS.index(candidate.reason) + 1 if candidate.reason else 0,
                candidate.kind == articles.BODY,
                (candidate.id, "without_text") in candidate.lacking,
                candidate.kind == articles.DELETION,
            )
        )
        for document in candidate.documents:
            documents.append(document)
            characters[bool(candidate.reason)] += sum(map(len, document.sentences))
        # A unit of deletions, or of articles without text, has its bounds too.
        if max(characters) >= reader.unit_characters or len(rows) == _UNIT_ROWS:
            yield np.array(rows, versions.ROW), documents, names
            rows, documents, names, characters = [], [], [], [0, 0]
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
    names: Sequence[unit_files.Name],
) -> None:
    rows["unit"] = unit
    write_shard(unit_files.unit_file(work, unit, "tfrecord"), (d.serialize() for d in documents))
    bands = [
        duplicates.rows(fingerprints.words(" ".join(document.sentences)), unit, text)
        for text, document in enumerate(documents)
    ]
    bands = np.concatenate([np.zeros(0, duplicates.ROW), *bands])
    for kind, array in (("bands", bands), ("rows", rows)):
        content = io.BytesIO()
        np.save(content, array)  # into a file, NumPy's error does not say that the disk is full
        path = unit_files.unit_file(work, unit, f"{kind}.npy")
        # On the disk before the note of the input says that it is read.
        with storage.written_whole(path) as stream:
            stream.write(content.getvalue())
    storage.write_text(unit_files.unit_file(work, unit, "names.json"), json.dumps(names))


def _is_read(note: Path, index: int) -> bool:
    """Returns True if all of an input's units are there, or were made documents already."""
    if not note.exists():
        return False
    return all(
        unit_files.unit_file(note.parent, unit, "tfrecord").exists()
        or work_folder.shard_is_done(note.parent, unit_files.shard_file(unit))
        for unit in unit_files.units_of_input(index, json.loads(note.read_text(encoding="utf-8")))
    )


@functools.cache
def _exclusion(work: str, digest: str) -> exclusion.Exclusion:
    """Loads them once in each worker process; another run may have others in the same folder."""
    return exclusion.read_saved(file_paths.at(work, EXCLUSION))
