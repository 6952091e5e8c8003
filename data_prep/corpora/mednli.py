"""Makes BLUE's files of MedNLI: two sentences, and whether the second follows from the first.

    python -m data_prep.corpora.mednli --input=mednli-1.0.0.zip --output=out/mednli

Reads the release for credentialed users of <https://physionet.org/content/mednli/>:
mli_train_v1.jsonl, mli_dev_v1.jsonl and mli_test_v1.jsonl. An example, below the header `index,
sentence1, sentence2, label`, is the pair's id, both sentences, and entailment, contradiction or
neutral.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli

_HEADER = ("index", "sentence1", "sentence2", "label")
_LABELS = ("contradiction", "entailment", "neutral")


def read_examples(source: str | os.PathLike) -> dict[str, list[tuple[str, ...]]]:
    """Reads the pairs of sentences of MedNLI's release, as the rows of the splits.

    Args:
      source: the release: the path of a folder or an archive.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of four
      str: first the header `("index", "sentence1", "sentence2", "label")`, then `(id, sentence,
      sentence, label)`; the label is "contradiction", "entailment" or "neutral".

    Raises:
      CorpusError: the release cannot be read or lacks one of its three files, or a line is no
        labelled pair.
    """
    files = released_files.find(source, rf"mli_({'|'.join(corpus_splits.SPLITS)})_v1\.jsonl")
    splits: dict[str, list[tuple[str, ...]]] = {}
    for split in corpus_splits.SPLITS:
        name = f"mli_{split}_v1.jsonl"
        if name not in files:
            raise CorpusError(f"{source} does not hold {name}: give all three files.")
        splits[split] = [_HEADER, *_read_file(files[name])]
    return splits


def _read_file(file: File) -> Iterator[tuple[str, str, str, str]]:
    """Yields the examples of one file of MedNLI's release.

    Args:
      file: a file of the release, a JSON object a line.

    Yields:
      Rows `(id, sentence, sentence, label)`, all str; the label is "contradiction", "entailment" or
      "neutral".

    Raises:
      CorpusError: a line is no labelled pair.
    """
    for number, line in enumerate(file.text().removesuffix("\n").split("\n"), start=1):
        where = f"{file.path}, line {number}"
        match File(where, line.encode()).json():
            case {
                "pairID": str(id_),
                "sentence1": str(first),
                "sentence2": str(second),
                "gold_label": label,
            } if label in _LABELS:
                yield id_, first, second, label
            case _:
                raise CorpusError(
                    f"{where}: expected a pairID, a sentence1, a sentence2, and a gold_label of "
                    f"{', '.join(_LABELS)}."
                )


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.mednli`, which makes BLUE's files of MedNLI.

    Prints how many examples have each label, and returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags.make_files` and `read_examples`.
    """
    splits = corpus_flags.make_files(argv, lambda left: read_examples(flags.FLAGS.input))
    corpus_splits.say_counts({split: rows[1:] for split, rows in splits.items()})


def define_flags() -> None:
    """Defines the command line's flags."""
    corpus_flags.define("The archive of MedNLI")


if __name__ == "__main__":
    cli.run(main, define_flags)
