"""Makes BLURB's files of PubMedQA: a question and the abstract that answers yes, no or maybe.

    python -m data_prep.corpora.pubmedqa --input=ori_pqal.json --output=out/pubmedqa

Reads the 1,000 questions that experts labelled (<https://github.com/pubmedqa/pubmedqa>). An
example is the PMID, the question, the abstract's parts (CONTEXTS) joined by a blank, and the
label. The abstract's conclusion (LONG_ANSWER) is the answer in words, and not in the example.

BLURB takes the splits that the corpus's makers draw, each label by itself: half of the questions
for testing, and the others in ten folds, one for development and nine for training.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli

_LABELS = ("yes", "no", "maybe")
_QUESTIONS = 1000
FOLDS = 10


def read_examples(
    source: str | os.PathLike, fold: int = 0
) -> dict[str, list[tuple[str, str, str, str]]]:
    """Reads the labelled questions of PubMedQA's release, as the rows of the splits.

    Args:
      source: the release: the path of ori_pqal.json, or of a folder or an archive that holds it.
      fold: which fold is for development, from 0 to 9.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows `(PMID, question,
      abstract's parts joined by a blank, "yes", "no" or "maybe")`, all str.

    Raises:
      CorpusError: the file cannot be read, is not JSON of 1,000 questions by PMID, or one of them
        lacks a part.
    """
    (file,) = released_files.find(source, r"ori_pqal\.json").values()
    rows = {pmid: _example(pmid, entry, file) for pmid, entry in _entries(file).items()}
    if len(rows) != _QUESTIONS:
        raise CorpusError(
            f"{file.path} has {len(rows):,} questions instead of {_QUESTIONS:,}, of which the "
            "splits are drawn: give PubMedQA's ori_pqal.json."
        )
    splits = draw_splits({pmid: row[-1] for pmid, row in rows.items()}, fold)
    return {split: [rows[pmid] for pmid in splits[split]] for split in corpus_splits.SPLITS}


def _entries(file: File) -> dict[str, Any]:
    entries = file.json()
    if not isinstance(entries, dict):
        raise CorpusError(f"{file.path} is not an object of questions by PMID.")
    return entries


def _example(pmid: str, entry: Any, file: File) -> tuple[str, str, str, str]:
    match entry:
        case {"QUESTION": str(question), "CONTEXTS": [*parts], "final_decision": label} if (
            label in _LABELS and all(isinstance(part, str) for part in parts)
        ):
            return pmid, question, " ".join(parts), label
    raise CorpusError(
        f"{file.path}: the question {pmid} lacks QUESTION, CONTEXTS, or a final_decision of yes, "
        "no or maybe."
    )


def draw_splits(labels: Mapping[str, str], fold: int = 0) -> dict[str, list[str]]:
    """Draws PubMedQA's splits as the corpus's makers do, with their random numbers.

    Args:
      labels: the label of each question ("yes", "no" or "maybe"), by PMID.
      fold: which fold is for development, from 0 to 9.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is the list of the PMIDs of the
      split, as str in the makers' order.
    """
    numbers = random.Random(0)
    rest, test = _draw_folds(labels, 2, numbers)
    folds = _draw_folds({pmid: labels[pmid] for pmid in rest}, FOLDS, numbers)
    train = [pmid for number, part in enumerate(folds) if number != fold for pmid in part]
    return {"train": train, "dev": folds[fold], "test": test}


def _draw_folds(labels: Mapping[str, str], count: int, numbers: random.Random) -> list[list[str]]:
    """Draws folds with the same share of each label."""
    folds: list[list[str]] = [[] for _ in range(count)]
    for label in _LABELS:
        pmids = [pmid for pmid, own in labels.items() if own == label]
        numbers.shuffle(pmids)
        size = -(-len(pmids) // count)
        for number, part in enumerate(folds):
            part += pmids[number * size : (number + 1) * size]
    if len(folds[-1]) != len(folds[0]):  # too few were left for the last one
        for part in folds[:-1]:
            picked = numbers.choice(part)
            part.remove(picked)
            folds[-1].append(picked)
    return folds


def define_flags() -> None:
    """Defines the flags of `python -m data_prep.corpora.pubmedqa`, and returns nothing.

    They are `--input`, `--output`, `--overwrite` and `--fold`.
    """
    corpus_flags.define("ori_pqal.json[.gz]")
    flags.DEFINE_integer(
        "fold", 0, "The fold for development.", lower_bound=0, upper_bound=FOLDS - 1
    )


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.pubmedqa`, which makes BLURB's files of PubMedQA.

    Prints how many examples have each label, and returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags.make_files` and `read_examples`.
    """
    flag = flags.FLAGS
    splits = corpus_flags.make_files(argv, lambda left: read_examples(flag.input, flag.fold))
    corpus_splits.say_counts(splits)


if __name__ == "__main__":
    cli.run(main, define_flags)
