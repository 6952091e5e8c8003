"""Writes the kept texts of a unit as documents with sentences: one shard for each unit.

This is the last step of the pipeline of `data_prep.documents`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import threadpoolctl

import tfbio
from data_prep.running import left_out, same_versions, work_folder
from data_prep.running.garbage_collection import rare_garbage_collection
from data_prep.selection import articles, duplicates, texts, unit_files, versions
from data_prep.sentences import splitters
from tfbio.base import file_paths, messages, storage
from tfbio.base.document_records import Document, article_of
from tfbio.base.shards import Shard, read_shard, write_shard


@dataclasses.dataclass(frozen=True)
class Writer:
    """The settings with which workers write the shards of documents.

    Attributes:
      work: the path of the working folder, which lies in the output folder.
      splitter: the name of the sentence splitter, an installed package.
      strict: True to write nothing if an input has a problem.
      splitter_version: the version of the splitter where the command was given.
      tfbio_version: that of tfbio there.
    """

    work: str
    splitter: str
    strict: bool
    splitter_version: str
    tfbio_version: str = tfbio.__version__


def write(
    group: tuple[int, dict[str, Iterable[bytes]]], problems: Sequence[str], writer: Writer
) -> None:
    """Writes the kept texts of one unit as a shard of documents, unless it is there already.

    Writes the shard into the output folder, and into the working folder the unit's list of texts
    left out and a note: the shard, the counts of documents, sentences and words, how many texts
    were left out for which reason, and the words of clinical notes by category. The documents have
    sentences and stand in the unit's order. A unit of which no text is kept has no shard. Returns
    nothing.

    Args:
      group: the unit's number, and a dictionary of rows as bytes: "newest", its `versions.ROW`s
        with their verdicts, and "duplicates", its `duplicates.DUPLICATE` rows.
      problems: of all inputs, a sentence each; with `writer.strict` any of them keeps all units
        from being written.
      writer: how to write.

    Raises:
      UsageError: the sentence splitter cannot be loaded.
      DataError: the texts of the unit in the working folder are damaged, another run has begun in
        the output folder, or this worker has another version of tfbio or of the splitter.
      OSError: a file cannot be read or written.
    """
    if problems and writer.strict:
        return  # the run fails
    unit, decided = group
    work, file = writer.work, unit_files.shard_file(unit)
    if work_folder.shard_is_done(work, file):
        return
    same_versions.check_tfbio(writer.tfbio_version)
    here = " ".join(splitters.resolve(writer.splitter))
    same_versions.check(here, f"{writer.splitter} {writer.splitter_version}")
    rows = np.frombuffer(b"".join(decided["newest"]), versions.ROW)
    alike = np.frombuffer(b"".join(decided["duplicates"]), duplicates.DUPLICATE)
    alike = duplicates.merge([alike])
    places = set(versions.texts_of(rows[rows["reason"] == 0]).tolist())
    places -= set(alike["row"].tolist())

    unit_file = unit_files.unit_file(work, unit, "tfrecord")
    everything = int(unit_files.load(unit_files.unit_file(work, unit, "rows.npy"))["texts"].sum())
    stored = read_shard(work, Shard(unit_file.name, everything, 0, ""))
    documents = [Document.parse(record) for record in stored]
    names = json.loads(unit_files.unit_file(work, unit, "names.json").read_text(encoding="utf-8"))
    _name_by_pmid(rows, documents, names)
    reasons: Counter[str] = Counter()
    with storage.written_whole(file_paths.at(work, unit_files.left_out_file(unit))) as stream:
        for id_, source, reason in _left_out(rows, alike, documents, names):
            reasons[reason] += 1
            stream.write(left_out.line(id_, source, reason))
    kept = [document for place, document in enumerate(documents) if place in places]
    counts: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    shard = Shard(file, 0, 0, "")
    if kept:
        split = _split(kept, writer.splitter, counts, categories)
        records = work_folder.unless_replaced(work, (d.serialize() for d in split))
        with rare_garbage_collection():
            shard = write_shard(work_folder.output_of(work) / file, records)
    note = {
        "shard": dataclasses.asdict(shard),
        "counts": counts,
        "left_out": reasons,
        "words_by_category": categories,
    }
    work_folder.write_step(work, file, note)
    unit_file.unlink()


def _name_by_pmid(
    rows: np.ndarray, documents: list[Document], names: list[unit_files.Name]
) -> None:
    """Renames, in place, the full texts that `versions.with_pmids` gave a PMID.

    By its id an article is held out, so its full text must have that of PubMed's abstract.
    """
    of_pmc = (rows["version"] == 0) & (rows["pmcid"] > 0) & (rows["key"] < articles.NO_PMID)
    columns = (rows[name][of_pmc].tolist() for name in ("row", "first", "texts", "key"))
    for row, first, count, pmid in zip(*columns, strict=True):
        id_, file, lacking = names[row]
        if article_of(id_) == f"pmid:{pmid}":
            continue
        suffix = id_.removeprefix(article_of(id_))
        names[row] = (f"pmid:{pmid}{suffix}", file, lacking)
        for text in range(first, first + count):
            documents[text] = dataclasses.replace(documents[text], id=names[row][0])


def _left_out(
    rows: np.ndarray,
    alike: np.ndarray,
    documents: Sequence[Document],
    names: Sequence[unit_files.Name],
) -> Iterator[tuple[str, str, str]]:
    """Yields (id, file, reason) for each text of a unit that is left out, in their order."""
    exact = dict(zip(alike["row"].tolist(), alike["exact"].tolist(), strict=True))
    rows = rows[np.argsort(rows["row"])]
    columns = (rows[name].tolist() for name in ("row", "first", "texts", "reason"))
    for row, first, count, reason in zip(*columns, strict=True):
        id_, file, lacking = names[row]
        ids = [document.id for document in documents[first : first + count]]
        if reason:
            # The other abstracts of a citation that lost to a newer one are left out with it.
            for left in dict.fromkeys((id_, *ids, *dict(lacking))):
                yield left, file, versions.VERDICTS[reason]
            continue
        for left, why in lacking:
            yield left, file, why
        for text, left in enumerate(ids, start=first):
            if text in exact:
                yield left, file, "exact_duplicate" if exact[text] else "near_duplicate"


def _split(
    documents: Sequence[Document],
    splitter: str,
    counts: Counter[str],
    categories: Counter[str],
) -> Iterator[Document]:
    """Yields the documents with their sentences instead of whole sections.

    It adds to `counts`, and the words of clinical notes to `categories`.
    """
    # All sections of a unit go through the splitter in one stream, which keeps its batches full.
    split = _splitter(splitter)(text for document in documents for text in document.sentences)
    for document in documents:
        sentences: list[str] = []
        sections: list[str] = []
        for section in document.sections:
            parts = next(split)
            sentences += parts
            sections += [section] * len(parts)
        counts["documents"] += 1
        counts["sentences"] += len(sentences)
        words = sum(len(text.split()) for text in (document.title, *sentences))
        counts["words"] += words
        if document.id.startswith(texts.PREFIXES[texts.NOTE]):
            categories[messages.cut(document.sections[0])] += words
        yield dataclasses.replace(document, sentences=sentences, sections=sections)


@functools.cache
def _splitter(name: str) -> splitters.Splitter:
    """Loads a splitter once in each worker process, with one thread for matrix products."""
    threadpoolctl.threadpool_limits(1)
    return splitters.load(name)
