"""Checks that all texts of the input are accounted for, and writes the documents' manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.running import left_out, work_folder
from data_prep.selection import texts, unit_files
from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import DataError
from tfbio.base.manifests import Manifest
from tfbio.base.shards import Shard


class Inputs(NamedTuple):
    """The numbers of input files and inputs, for the manifest of documents and its check.

    Attributes:
      files: the number of files.
      inputs: the number of inputs, each a large file or several small ones.
    """

    files: int
    inputs: int


def finish(
    output: str, work: Path, inputs: Inputs, settings: dict[str, Any], strict: bool
) -> Manifest:
    """Writes the manifest of documents, once all texts are accounted for, and ends the stage.

    Also writes `left_out.jsonl`, prints each problem of the input, and removes the working folder.

    Args:
      output: the output folder.
      work: the working folder, with the notes of the inputs and of the documents' shards.
      inputs: the numbers of files and inputs that there were.
      settings: the settings that the documents depend on, by name; values that JSON can hold.
      strict: True if any bad input is fatal, not only all of it.

    Returns:
      The `Manifest`, of kind "documents": its `counts` has ints for "input_files",
      "bad_input_files", "bad_parts", the texts by kind ("citation", "abstract", "body",
      "other_abstract" and those of `texts.KINDS`), "documents", "sentences" and "words", in
      "left_out" the number of texts left out by reason, and in "words_by_category" the words of the
      clinical notes; its `problems` has a sentence for each bad file or part.

    Raises:
      DataError: bad input is fatal, no text is left, a shard is not to be seen yet, or a text is
        not accounted for.
      OSError: the output folder cannot be written.
    """
    notes = work_folder.read_all_steps(work, "input", inputs.inputs)
    problems = [messages.problem(problem) for note in notes for problem in note["problems"]]
    counts: Counter[str] = Counter(input_files=inputs.files)
    for note in notes:
        counts.update(note["counts"])
    try:
        check_problems(problems, counts, strict)
    except DataError:
        work_folder.close_work(output, None)
        raise
    shards = sum(note["shards"] for note in notes)
    written = work_folder.read_all_steps(work, "documents", shards)
    reasons: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    for note in written:
        counts.update(note["counts"])
        reasons.update(note["left_out"])
        categories.update(note["words_by_category"])
    kinds = ("citation", "abstract", "body", "other_abstract", *texts.KINDS)
    read = sum(counts[kind] for kind in kinds)
    if not counts["documents"]:
        work_folder.close_work(output, None)
        raise DataError(
            f"nothing is left of {read} texts in {inputs.files} input files: "
            + (", ".join(f"{name} {n}" for name, n in reasons.items() if n) or "they are empty")
            + "."
        )
    lines = _write_left_out(output, work, notes)
    bad = counts["bad_input_files"] + counts["bad_parts"]
    if not read == counts["documents"] + reasons.total() == counts["documents"] + lines - bad:
        raise DataError(
            f"{output}: {read} texts were read, {counts['documents']} written and "
            f"{reasons.total()} left out, of which {left_out.FILE} has {lines - bad}: remove the "
            "folder, run the same command again, and report it if this is said again."
        )
    every_count: dict[str, Any] = dict(counts) | {"left_out": dict(reasons)}
    if categories:
        every_count["words_by_category"] = dict(categories)
    manifest = Manifest(
        "documents",
        settings,
        every_count,
        [Shard(**note["shard"]) for note in written if note["shard"]["records"]],
        problems,
    )
    work_folder.close_work(output, manifest)
    return manifest


def check_problems(problems: Sequence[str], counts: dict[str, int], strict: bool) -> None:
    """Prints the problems in a manifest of documents, and fails if bad input is fatal.

    Returns nothing.

    Args:
      problems: a sentence for each bad file or part.
      counts: the manifest's counts: "input_files", how many files there were, and, where not 0,
        "bad_input_files" and "bad_parts", how many files and parts were bad.
      strict: True if any bad input is fatal, not only all of it.

    Raises:
      DataError: there is a problem, and `strict` is True or no file was good.
    """
    for problem in problems:
        messages.say(f"left out {problem}")
    bad, files = counts.get("bad_input_files", 0), counts["input_files"]
    if problems and (strict or bad == files):
        why = "and --strict is set" if strict else "and no other input was good"
        parts = f", and {count} parts of others," if (count := counts.get("bad_parts", 0)) else ""
        more = f" And {len(problems) - 1} more, which are listed above." if problems[1:] else ""
        raise DataError(
            f"{bad} of {files} input files{parts} could not be used, {why}: {problems[0]}{more}"
        )


def _write_left_out(output: str, work: Path, notes: Sequence[dict[str, Any]]) -> int:
    """Joins the units' lists of texts left out, and adds the problems, in the order of the input.

    Args:
      output: the output folder.
      work: the working folder.
      notes: of each input, from `input_units.read_input`.

    Returns:
      The number of lines.
    """
    lines = 0
    with storage.written_whole(file_paths.at(output, left_out.FILE)) as stream:
        for index, note in enumerate(notes):
            for file, part, sentence in note["problems"]:
                reason = "bad_part" if part else "bad_input_file"
                stream.write(left_out.line(part, file, reason, sentence))
                lines += 1
            for unit in unit_files.units_of_input(index, note):
                part = file_paths.at(work, unit_files.left_out_file(unit))
                if part.exists():  # a unit of deletions alone has none
                    content = part.read_bytes()
                    stream.write(content)
                    lines += content.count(b"\n")
    return lines
