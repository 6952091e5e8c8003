"""Makes a labelled task from the documents: the role of each sentence in its abstract.

    python -m data_prep.sentence_roles --documents=out/documents --output=out/sentence_roles

Writes `train.tsv`, `dev.tsv` and `test.tsv` (columns id, label, sentence). The label is the NLM
category of the sentence's section, or, in the abstract of a full text that PubMed lacks, the
section's title: background, objective, methods, results or conclusions. Only abstracts that consist
of such sections, with two labels at least, are used. The split is by article: dev and test articles
are those that `python -m data_prep.examples` holds out of pretraining, given the same
--held_out_fraction, so no pretrained model has seen their text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from absl import flags

from data_prep.running import command, work_folder
from tfbio.base import cli, file_paths, messages, storage
from tfbio.base.document_records import Document, read_documents
from tfbio.base.errors import DataError
from tfbio.base.held_out import hash_fraction, is_held_out
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest
from tfbio.base.shards import Shard

LABELS = ("background", "objective", "methods", "results", "conclusions")
_SPLITS = ("train", "dev", "test")


def _split_of(article: str, held_out_fraction: float) -> str:
    """Returns the split of an article, which depends on its id alone.

    Args:
      article: its id, such as "pmid:123".
      held_out_fraction: share of the articles in dev and test together.

    Returns:
      "train", "dev" or "test"; about half of the held-out articles are "dev".
    """
    if not is_held_out(article, held_out_fraction):
        return "train"
    return "dev" if hash_fraction(f"dev {article}") < 0.5 else "test"


def roles(document: Document) -> list[str] | None:
    """Returns the role of each sentence in a structured abstract, such as "methods" or "results".

    Args:
      document: an abstract, or a full text.

    Returns:
      A list with one of `LABELS` ("background", "objective", "methods", "results" or "conclusions")
      for each sentence. None if the document does not suit the task: it is no abstract, has a
      sentence outside of sections with these roles, or has only one role.
    """
    if document.id != document.article:
        return None  # no abstract: a full text's sections have titles of the authors' own
    labels = [section.lower() for section in document.sections]
    if not set(labels) <= set(LABELS) or len(set(labels)) < 2:
        return None
    return labels


def make_sentence_roles(
    documents: str | os.PathLike,
    output: str | os.PathLike,
    *,
    held_out_fraction: float = command.HELD_OUT_FRACTION,
    overwrite: bool = False,
) -> Manifest:
    """Makes the labelled task of sentence roles from documents, or reuses a finished one.

    Writes train.tsv, dev.tsv, test.tsv and manifest.json. The first line of a `.tsv` file names its
    columns, and each other line is a sentence: its document's id, its label, and its text.

    Args:
      documents: the folder of documents.
      output: the folder to write to.
      held_out_fraction: the share (0 to 1) of the articles in dev and test together.
      overwrite: True to replace finished output, whatever its settings.

    Returns:
      The `Manifest` of the folder `output`, of kind "sentence_roles". Its `counts` has for "train",
      "dev" and "test" a dictionary of ints: "articles", "sentences", and for each of `LABELS` the
      number of its sentences. Its `shards` are the three files, whose records are sentences.

    Raises:
      DataError: `documents` is not a whole folder of documents, has texts with section labels or no
        suitable article for one of the splits; or `output` was made with other settings, has files
        that are not of this command, or cannot be written.
      OSError: a file cannot be written.
    """
    from tqdm import tqdm

    _check_fraction(held_out_fraction)
    source = read_manifest(documents, "documents")
    if source.settings.get("section_labels"):
        raise DataError(
            f"the texts in {documents} begin with the labels that the task is about: make "
            "documents without --section_labels."
        )
    settings = {
        "documents_sha256": storage.sha256_of(file_paths.at(documents, MANIFEST)),
        "held_out_fraction": held_out_fraction,
    }
    output = file_paths.at(output)
    manifest = work_folder.finished(output / MANIFEST, "sentence_roles", settings, overwrite)
    if manifest is not None:
        messages.say(f"{output} is complete and is reused.")
        return manifest

    work_folder.check_unfinished(output, "sentence_roles")
    paths = {split: output / f"{split}.tsv" for split in _SPLITS}
    work_folder.check_free(output, paths.values(), overwrite)
    articles: Counter[str] = Counter()
    labels_of: dict[str, Counter[str]] = {split: Counter() for split in _SPLITS}
    with _made(output), ExitStack() as stack:
        # They appear together at the end of the block, and not at all after an error.
        files = {x: stack.enter_context(storage.written_whole(paths[x])) for x in _SPLITS}
        for file in files.values():
            file.write(b"id\tlabel\tsentence\n")
        every = read_documents(documents, source.shards)
        total = source.counts.get("documents")
        for document in tqdm(every, "sentence roles", total, disable=None, unit=" documents"):
            labels = roles(document)
            if labels is None:
                continue
            split = _split_of(document.article, held_out_fraction)
            articles[split] += 1
            labels_of[split].update(labels)
            for label, sentence in zip(labels, document.sentences, strict=True):
                # White space was made single spaces when the XML was read: no tab, no line end.
                files[split].write(f"{document.id}\t{label}\t{sentence}\n".encode())
        empty = [split for split in _SPLITS if not articles[split]]
        if empty:
            raise DataError(
                f"the documents in {documents} have no structured abstract for "
                f"{' and '.join(empty)}: give more documents, or another --held_out_fraction."
            )
        work_folder.open_work(output, "sentence_roles", settings, overwrite)
    shards = []
    for split, path in paths.items():
        lines = sum(labels_of[split].values())
        size, sha256 = storage.size(path), storage.sha256_of(path)
        shards.append(Shard(path.name, lines, size, sha256, split))
    counts = {
        split: {"articles": articles[split], "sentences": sum(labels_of[split].values())}
        | {label: labels_of[split][label] for label in LABELS}
        for split in _SPLITS
    }
    manifest = Manifest("sentence_roles", settings, counts, shards)
    work_folder.close_work(output, manifest)
    return manifest


def _check_fraction(held_out_fraction: float) -> None:
    """Raises a DataError if the splits cannot have articles."""
    if not held_out_fraction:
        raise DataError(
            "--held_out_fraction=0 leaves no article for dev and test: give what the examples were "
            "made with."
        )


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Makes a folder if there is none; and removes it again if the block leaves nothing in it."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {messages.reason(error)}.") from error
    try:
        yield
    finally:
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def define_flags() -> None:
    """Defines the absl flags of the command that makes the task of sentence roles; returns nothing.

    They are `--documents`, `--output`, `--held_out_fraction` and `--overwrite`.
    """
    flags.DEFINE_string("documents", None, "Folder of documents to read.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_float(
        "held_out_fraction",
        command.HELD_OUT_FRACTION,
        "Share of the articles for dev and test together; give what the examples were made with.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    command.define_common_flags(runs_beam=False)


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.sentence_roles`, which makes a labelled task.

    Writes the task's files, prints the counts of labels by split, and returns nothing.

    Args:
      argv: the program's name alone.

    Raises:
      UserError: there is another argument, the task cannot be made, as `make_sentence_roles` says,
        or another process writes to `--output`.
      OSError: a file cannot be written.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        manifest = make_sentence_roles(
            flag.documents,
            flag.output,
            held_out_fraction=flag.held_out_fraction,
            overwrite=flag.overwrite,
        )
    for split, counts in manifest.counts.items():
        text = ", ".join(f"{counts[label]:,} {label}" for label in LABELS)
        messages.say(
            f"{split}: {counts['sentences']:,} sentences of {counts['articles']:,} articles: {text}"
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
