"""Makes BLURB's files of Hallmarks of Cancer: which of ten hallmarks a sentence speaks of.

`tfbio data hoc` reads with this module the folders `labels` and `text` of
<https://github.com/sb895/Hallmarks-of-Cancer>, or an archive of them. An example, below the header
`labels, sentence, index`, is the ten labels in alphabetical order (`0_0,1_1,...`: the second is
there), the sentence, and `PMID_sN` with N from 0. The annotators' finer classes count as the
hallmark above them. The splits are lists of abstracts, BLURB's
`indexing/HoC/{train,dev,test}_pmid.tsv`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from data_prep.corpora import corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.formats.hoc import HEADER, label_cell
from tfbio.formats.label_sets import HALLMARKS


def read_examples(
    source: str | os.PathLike, index: str | os.PathLike, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, str, str]]]:
    """Reads the labelled sentences of HoC's release, as the rows of BLURB's splits.

    Args:
      source: the release: the path of a folder or an archive.
      index: the folder of BLURB's lists, `{train,dev,test}_pmid.tsv`.
      left: a list that gets `(id, path of its file, reason)`, all str, for each abstract that no
        list names ("not_listed"), and for the labels without a sentence ("no_sentence").

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of three
      str: first the header `("labels", "sentence", "index")`, then `("0_0,1_1,...", sentence,
      PMID_sN)` with N from 0, where `1_1` says that the second of the ten hallmarks in alphabetical
      order is there.

    Raises:
      CorpusError: the release or a list cannot be read, a list names an abstract without labels or
        text, or `read_abstract` refuses one.
    """
    files = released_files.find(source, r"(labels|text)/\d+\.txt")
    splits = {}
    listed: set[str] = set()
    for split in corpus_splits.SPLITS:
        splits[split] = [HEADER]
        for name in corpus_splits.read_index(index, f"{split}_pmid.tsv"):
            listed.add(name)
            if f"labels/{name}" not in files or f"text/{name}" not in files:
                raise CorpusError(
                    f"{split}_pmid.tsv in {index} lists {name}, of which {source} does not hold "
                    "both labels and text."
                )
            pmid = name.removesuffix(".txt")
            of_name = files[f"labels/{name}"], files[f"text/{name}"]
            splits[split] += read_abstract(pmid, *of_name, left)
    names = {key.rpartition("/")[2] for key in files} - listed
    left += [(name.removesuffix(".txt"), name, "not_listed") for name in sorted(names)]
    return splits


def read_abstract(
    pmid: str, labels: File, text: File, left: corpus_splits.LeftOut
) -> Iterator[tuple[str, str, str]]:
    """Yields the examples of one abstract of HoC's release.

    Args:
      pmid: the PMID of the abstract, as text.
      labels: the file of its labels.
      text: the file of its sentences, one a line.
      left: a list that gets `(PMID_sN, path of the file, "no_sentence")`, all str, for the labels
        without a sentence.

    Yields:
      Rows `("0_0,1_1,...", sentence, PMID_sN)`, all str, with N from 0: for each of the ten
      hallmarks in alphabetical order its number and 1 if it is there, else 0.

    Raises:
      CorpusError: a sentence has no labels, a label is unknown, or a file is not text in UTF-8.
    """
    sentences = text.text().removesuffix("\n").split("\n")
    # "< A AND B--finer < NULL <": a part for each sentence, without a line end.
    parts = labels.text().partition("\n")[0].split("<")[1:]
    if len(parts) < len(sentences):
        raise CorpusError(
            f"{labels.path} labels {len(parts)} of the {len(sentences)} sentences of {text.path}."
        )
    for number, (sentence, part) in enumerate(zip(sentences, parts, strict=False)):
        yield label_cell(_hallmarks(part, labels.path)), sentence.strip(), f"{pmid}_s{number}"
    beyond = range(len(sentences), len(parts))
    left += [(f"{pmid}_s{number}", labels.path, "no_sentence") for number in beyond]


def _hallmarks(part: str, path: str) -> set[str]:
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
        raise CorpusError(f"{path} has the label {unknown[0]!r}, which is no hallmark.")
    return names


def labels_of(row: Sequence[str]) -> list[str]:
    """Returns the hallmarks in a row of the corpus HoC, for the counts that are printed.

    Args:
      row: the header, or `(labels, sentence, index)` as `read_examples` makes it.

    Returns:
      The list of their names, such as ["cellular energetics"]; [] for the header.
    """
    return [name for i, name in enumerate(HALLMARKS) if f"{i}_1" in row[0].split(",")]
