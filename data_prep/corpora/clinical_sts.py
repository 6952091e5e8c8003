"""Makes the files of MedSTS and ClinicalSTS: two clinical sentences, how similar from 0 to 5.

    python -m data_prep.corpora.clinical_sts --input=ClinicalSTS --output=out/clinical_sts

Reads two files of the organisers, .txt or .tsv, one with "train" in its name and one with "test". A
line is two sentences and their score, tab-separated. An example, below the header `index,
sentence1, sentence2, score`, is the number of the line and these. BLUE's files, which have more
columns, need no command: the task reads them as they are.

The release has no split for development. As in BLUE, a tenth of the pairs for training is held out
(75 of 750 in MedSTS). With `--dev_fraction=0.2` it is a fifth, as in Table 1 of BioELECTRA's paper:
of ClinicalSTS' 1,641 pairs 1,312 are left for training, and 329 are for development. The pairs are
chosen by hashes of their sentences; how BLUE and BioELECTRA chose them is not known.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli

_HEADER = ("index", "sentence1", "sentence2", "score")


def read_examples(
    source: str | os.PathLike, dev_fraction: float = corpus_splits.DEV_FRACTION
) -> dict[str, list[tuple[str, ...]]]:
    """Reads the pairs of sentences of the release of MedSTS or ClinicalSTS, as rows of the splits.

    Args:
      source: the release: the path of a folder or an archive.
      dev_fraction: the share of the pairs for training that is for development, above 0 and below
        1; hashes of the sentences choose them.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of str:
      first the header `("index", "sentence1", "sentence2", "score")`, then `(number of the line
      from "1", sentence, sentence, score from 0 to 5)`.

    Raises:
      CorpusError: the release cannot be read, or has not one file for training and one for testing;
        a line is not two sentences and a score from 0 to 5; or no pair is left for training or for
        development.
    """
    rows = {}
    for split in ("train", "test"):
        files = list(released_files.find(source, rf"[^/]*(?i:{split})[^/]*\.(txt|tsv)").values())
        if len(files) > 1:
            raise CorpusError(
                f"{files[0].path} and {files[1].path} may both be for {split}: give one of them."
            )
        rows[split] = list(_read_file(files[0]))
    # The same pair once more, with its sentences exchanged or not, would be on the same side.
    pairs = {row: "\t".join(sorted(row[1:3])) for row in rows["train"]}
    sizes = Counter(pairs.values())
    held = corpus_splits.hold_out(dict.fromkeys(sizes, ()), dev_fraction, sizes)
    corpus_splits.check_parts(sizes, held, f"--dev_fraction={dev_fraction}")
    splits = {
        "train": [row for row, pair in pairs.items() if pair not in held],
        "dev": [row for row, pair in pairs.items() if pair in held],
        "test": rows["test"],
    }
    return {split: [_HEADER, *of_split] for split, of_split in splits.items()}


def _read_file(file: File) -> Iterator[tuple[str, str, str, str]]:
    """Yields the examples of one file of the release of MedSTS or ClinicalSTS.

    Args:
      file: a file of the release.

    Yields:
      Rows `(number of the line from "1", sentence, sentence, score)`, all str; the score is from 0
      to 5.

    Raises:
      CorpusError: a line is not two sentences and a score.
    """
    for number, (first, second, score) in file.rows(3):
        try:
            fits = 0 <= float(score) <= 5 and first.strip() and second.strip()
        except ValueError:
            fits = False
        if not fits:
            raise CorpusError(
                f"{file.path}, line {number}: expected two sentences and a score from 0 to 5, "
                f"found {score!r:.60} as the score."
            )
        yield str(number), first, second, score.strip()


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.clinical_sts`, which makes MedSTS's or ClinicalSTS's files.

    Prints how many pairs each split has, and returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags`: `make_files` and `dev_fraction`; and `read_examples`.
    """
    splits = corpus_flags.make_files(
        argv, lambda left: read_examples(flags.FLAGS.input, corpus_flags.dev_fraction())
    )
    corpus_splits.say_counts(
        {split: rows[1:] for split, rows in splits.items()}, lambda row: ["pairs"]
    )


def define_flags() -> None:
    """Defines the command line's flags."""
    corpus_flags.define("The files for training and for testing", held_out="pairs")


if __name__ == "__main__":
    cli.run(main, define_flags)
