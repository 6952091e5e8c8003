"""Makes BLURB's files of Hallmarks of Cancer: which of ten hallmarks a sentence speaks of.

    python -m data_prep.corpora.hoc --input=Hallmarks-of-Cancer \\
        --index=data_generation/indexing/HoC --output=out/hoc

Reads the folders `labels` and `text` of <https://github.com/sb895/Hallmarks-of-Cancer>, or an
archive of them. An example, below the header `labels, sentence, index`, is the ten labels in
alphabetical order (`0_0,1_1,...`: the second is there), the sentence, and `PMID_sN` with N from 0.
The annotators' finer classes count as the hallmark above them. The splits are lists of abstracts,
BLURB's `indexing/HoC/{train,dev,test}_pmid.tsv`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, released_files
from tfbio.base import cli
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.task_files import HOC_HEADER, hoc_labels


def read_examples(
    source: str | os.PathLike, index: str | os.PathLike, left: corpus_splits.LeftOut | None = None
) -> dict[str, list[tuple[str, str, str]]]:
    """Reads the labelled sentences of the release, as rows for each split.

    Args:
      source: the release, a folder or an archive.
      index: the folder of BLURB's lists.
      left: a list that gets `(id, path of its file, reason)` for each of the abstracts that no list
        names, and the labels without a sentence.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows of texts, first
      the header `("labels", "sentence", "index")`, then `("0_0,1_1,...", sentence, PMID_sN)`.

    Raises:
      CorpusError: the release or the lists cannot be used, or do not belong together.
    """
    files = released_files.find(source, r"(labels|text)/\d+\.txt")
    splits = {}
    listed: set[str] = set()
    for split in corpus_splits.SPLITS:
        splits[split] = [HOC_HEADER]
        for name in released_files.read_index(index, f"{split}_pmid.tsv"):
            listed.add(name)
            if f"labels/{name}" not in files or f"text/{name}" not in files:
                raise released_files.CorpusError(
                    f"{split}_pmid.tsv in {index} lists {name}, of which {source} does not hold "
                    "both labels and text."
                )
            pmid = name.removesuffix(".txt")
            of_name = files[f"labels/{name}"], files[f"text/{name}"]
            splits[split] += read_abstract(pmid, *of_name, left)
    if left is not None:
        names = {key.rpartition("/")[2] for key in files} - listed
        left += [(name.removesuffix(".txt"), name, "not_listed") for name in sorted(names)]
    return splits


def read_abstract(
    pmid: str,
    labels: released_files.File,
    text: released_files.File,
    left: corpus_splits.LeftOut | None = None,
) -> Iterator[tuple[str, str, str]]:
    """Yields the examples of one abstract.

    Args:
      pmid: of the abstract.
      labels: the file of its labels.
      text: the file of its sentences, one a line.
      left: a list that gets `(id, path of its file, reason)` for each of the labels without a
        sentence.

    Yields:
      `("0_0,1_1,...", sentence, PMID_sN)`, all texts, with N from 0.

    Raises:
      CorpusError: a sentence has no labels, or a label is unknown.
    """
    sentences = text.text().removesuffix("\n").split("\n")
    # "< A AND B--finer < NULL <": a part for each sentence, without a line end.
    parts = labels.text().partition("\n")[0].split("<")[1:]
    if len(parts) < len(sentences):
        raise released_files.CorpusError(
            f"{labels.path} labels {len(parts)} of the {len(sentences)} sentences of {text.path}."
        )
    for number, (sentence, part) in enumerate(zip(sentences, parts, strict=False)):
        yield hoc_labels(hallmarks(part, labels.path)), sentence.strip(), f"{pmid}_s{number}"
    if left is not None:
        beyond = range(len(sentences), len(parts))
        left += [(f"{pmid}_s{number}", labels.path, "no_sentence") for number in beyond]


def hallmarks(part: str, path: str) -> set[str]:
    """Returns the set of the hallmarks of one sentence, by their names in `HALLMARKS`.

    Args:
      part: such as " Inducing angiogenesis--finer AND ..." or " NULL ", which has none.
      path: of the file, for errors.

    Raises:
      CorpusError: one is unknown.
    """
    names = {label.partition("--")[0].strip().lower() for label in part.split("AND")}
    names -= {"", "null"}
    if unknown := sorted(names.difference(HALLMARKS)):
        raise released_files.CorpusError(
            f"{path} has the label {unknown[0]!r}, which is no hallmark."
        )
    return names


def labels_of(row: Sequence[str]) -> list[str]:
    """Returns the names of an example's hallmarks as a list of texts; [] for the header."""
    return [name for i, name in enumerate(HALLMARKS) if f"{i}_1" in row[0].split(",")]


def main(argv: list[str]) -> None:
    """Runs the command: writes the splits and `left_out.jsonl` to `--output`, and prints counts.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UsageError: the command line has something beside flags.
      CorpusError: the release or the lists cannot be used, or a file exists already or cannot be
        written.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    left: corpus_splits.LeftOut = []
    splits = read_examples(flag.input, flag.index, left)
    corpus_splits.write(flag.output, splits, flag.overwrite, left)
    corpus_splits.say_counts(splits, labels_of)


if __name__ == "__main__":
    cli.run(main, lambda: corpus_flags.define("The folders labels and text", index="HoC"))
