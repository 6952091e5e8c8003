"""Makes BLURB's files of JNLPBA of the release.

`tfbio data jnlpba` reads with this module Genia4ERtask2.iob2 of Genia4ERtraining.tar.gz and
Genia4EReval2.iob2 of Genia4ERtest.tar.gz, the files with the numbers of the abstracts. The five
types of entities become one. The release has no development set: `splits/jnlpba_dev.txt` lists the
200 abstracts that MTL-Bioinformatics-2016 took, and BLURB with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from data_prep.corpora import abstract_mentions, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File

_TRAIN, _TEST = "Genia4ERtask2.iob2", "Genia4EReval2.iob2"


def read_examples(source: str | os.PathLike) -> dict[str, list[tuple[str, ...]]]:
    """Reads the tagged words of JNLPBA's release, as the lines of BLURB's splits.

    Args:
      source: the release: the path of a folder or an archive.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of lines, tuples of str:
      `("-DOCSTART- NUMBER",)`, `(word, tag)` with the tag "B", "I" or "O", and `("",)` for an empty
      line.

    Raises:
      CorpusError: the release cannot be read or lacks a file, or a line is not of its form.
    """
    files = released_files.find(source, rf"{re.escape(_TRAIN)}|{re.escape(_TEST)}")
    for name in (_TRAIN, _TEST):
        if name not in files:
            raise CorpusError(f"{source} lacks {name}: give both archives.")
    dev = set(corpus_splits.read_index(abstract_mentions.LISTS, "jnlpba_dev.txt"))
    splits: dict[str, list[tuple[str, ...]]] = {split: [] for split in corpus_splits.SPLITS}
    for number, rows in _abstracts(files[_TRAIN]):
        splits["dev" if number in dev else "train"] += rows
    for _, rows in _abstracts(files[_TEST]):
        splits["test"] += rows
    return splits


def _abstracts(file: File) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yields the number of each abstract, and its lines.

    Raises:
      CorpusError: a line is neither a word with its tag nor the beginning of an abstract.
    """
    number = ""
    rows: list[tuple[str, ...]] = []
    for at, line in enumerate(file.text().removesuffix("\n").split("\n"), start=1):
        begun = re.fullmatch(r"###MEDLINE:(\d+)\s*", line)
        cells = line.split("\t")
        if begun:
            if number:
                yield number, rows
            number, rows = begun[1], [(f"-DOCSTART- {begun[1]}",)]
        elif not line.strip() and number:
            rows.append(("",))
        elif number and len(cells) == 2 and re.fullmatch(r"O|[BI]-\w+", cells[1]):
            rows.append((cells[0], cells[1][0]))
        else:
            raise CorpusError(
                f"{file.path}, line {at}: expected ###MEDLINE:NUMBER, or a word, a tab and its tag "
                f"behind it, found {line!r:.60}."
            )
    if number:
        yield number, rows
