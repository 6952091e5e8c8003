"""Makes the files of GAD and EU-ADR from BioBERT's folds: is a gene related to a disease?

    python -m data_prep.corpora.biobert_folds --input=REdata/euadr --fold=1 --output=out/euadr

Reads one of the folders 1 to 10 of GAD or euadr in BioBERT's REdata.zip
(<https://github.com/dmis-lab/biobert>): train.tsv, a sentence and its label a line, and test.tsv,
with the header `index, sentence, label`. The command writes three files with that header.

The folds have no split for development. BLURB takes the first of GAD's, and the last 535 of its
4,796 lines for development: `--dev_size=535` makes BLURB's files. Without it, it is the last ninth.
"""

from __future__ import annotations

import os

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError
from tfbio.base import cli

_HEADER = ("index", "sentence", "label")
_LABELS = ("0", "1")


def read_examples(
    source: str | os.PathLike, fold: int, dev_size: int = 0
) -> dict[str, list[tuple[str, ...]]]:
    """Reads one of BioBERT's ten folds of GAD or EU-ADR, as the rows of the splits.

    Args:
      source: the release: the path of a folder or an archive.
      fold: the number of the fold, from 1 to 10.
      dev_size: how many of the last lines for training are for development; 0: a ninth.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of str:
      first the header `("index", "sentence", "label")`, then `(index, sentence, "0" or "1")`. The
      index counts from "0" in "train" and in "dev"; in "test" it is the release's.

    Raises:
      CorpusError: the release cannot be read or lacks the fold, a line lacks a column, a label is
        not 0 or 1, or no line is left for training or for development.
    """
    files = released_files.find(source, rf"{fold}/(train|test)\.tsv")
    if len(files) != 2:
        raise CorpusError(f"{source} lacks {fold}/train.tsv or {fold}/test.tsv.")
    train = [tuple(row) for _, row in files[f"{fold}/train.tsv"].rows(2)]
    (_, header), *rest = files[f"{fold}/test.tsv"].rows(3)
    if tuple(header) != _HEADER:
        path = files[f"{fold}/test.tsv"].path
        raise CorpusError(f"{path}, line 1: expected the header {', '.join(_HEADER)}.")
    dev_size = dev_size or len(train) // 9
    if not 0 < dev_size < len(train):
        raise CorpusError(
            f"{files[f'{fold}/train.tsv'].path} has {len(train):,} lines, of which {dev_size:,} "
            "cannot be for development."
        )
    parts = {"train": train[:-dev_size], "dev": train[-dev_size:]}
    splits = {
        split: [(str(number), *row) for number, row in enumerate(rows)]
        for split, rows in parts.items()
    } | {"test": [tuple(row) for _, row in rest]}
    for split, rows in splits.items():
        for row in rows:
            if row[2] not in _LABELS:
                raise CorpusError(
                    f"fold {fold} of {source}, row {row[0]} of {split}: expected the label 0 or 1, "
                    f"found {row[2]!r:.60}."
                )
    return {split: [_HEADER, *rows] for split, rows in splits.items()}


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.biobert_folds`, which makes the files of GAD and EU-ADR.

    Prints how many examples have each label, and returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags.make_files` and `read_examples`.
    """
    flag = flags.FLAGS
    splits = corpus_flags.make_files(
        argv, lambda left: read_examples(flag.input, flag.fold, flag.dev_size)
    )
    corpus_splits.say_counts({split: rows[1:] for split, rows in splits.items()})


def define_flags() -> None:
    """Defines the flags of `python -m data_prep.corpora.biobert_folds`, and returns nothing.

    They are `--input`, `--output`, `--overwrite`, `--fold` and `--dev_size`.
    """
    corpus_flags.define("GAD or euadr of BioBERT's REdata.zip")
    flags.DEFINE_integer("fold", 1, "The number of the fold.", lower_bound=1, upper_bound=10)
    flags.DEFINE_integer("dev_size", 0, "Lines for development (0: a ninth).", lower_bound=0)


if __name__ == "__main__":
    cli.run(main, define_flags)
