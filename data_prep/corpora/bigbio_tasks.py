"""Makes files for fine-tuning of a data set in one of BigBio's schemas.

    python -m data_prep.corpora.bigbio_tasks --schema=kb --input=bc5cdr --output=out/bc5cdr

Reads a folder with a file for each split, as Parquet (.parquet) or as JSON, a list or lines (.json
or .jsonl): train, validation (or dev) and test. Names such as `train-00000-of-00001.parquet`, which
Hugging Face's hub gives, are found, too. The schema says what is written to train.tsv, dev.tsv and
test.tsv:

    kb      tagged words, for --task=ner
    text    text and labels, for --task=classification, or multilabel where a text has several
    pairs   text, pair and label, for --task=pair
    te      the same of premise and hypothesis
    qa      the same of question and context, for questions with one answer, such as yes and no

Each mention is compared with the text at its offsets. A mention in several parts is no entity of a
tagged file: it is counted, is a line of left_out.jsonl, and its parts are never joined. Left out
in the same way are a mention without offsets, the shorter one of two mentions that overlap, the
later one of two that share their first word, and a question with no or several answers.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, published_sentences
from data_prep.corpora.released_files import CorpusError
from tfbio.base import cli
from tfbio.formats import bigbio

_NAMES = {"train": "train", "dev": "validation|valid|dev|devel", "test": "test"}
_COLUMNS = {
    "text": ("id", "text", "label"),
    "pairs": ("id", "text", "pair", "label"),
    "te": ("id", "text", "pair", "label"),
    "qa": ("id", "text", "pair", "label"),
}


def read_examples(
    source: str | os.PathLike, schema: str, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Reads a data set in one of BigBio's schemas, as the rows of files for fine-tuning.

    Args:
      source: the path of a folder with a file for each split.
      schema: "kb", "text", "pairs", "te" or "qa".
      left: a list that gets `(id, path of its file, reason)`, all str, for each mention that is in
        several parts ("discontinuous"), has no offsets ("without_a_place"), overlaps a longer one
        ("overlaps") or whose word an earlier one has ("shares_a_word"), each pair without a label
        ("without_a_label"), and each question without exactly one answer ("not_one_answer") or
        without a context ("without_a_context").

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows, tuples of str:
      for "kb" lines of tagged words, else a header and the examples.

    Raises:
      CorpusError: a split has no file or several, or a label has a bar.
      FormatError: a file is not in the schema, or a mention is not at its place.
      TaskFileError: a file cannot be read.
    """
    splits = {}
    for split, names in _NAMES.items():
        path = _file_of(source, split, names)
        rows = bigbio.read(path, schema)
        if schema == "kb":
            splits[split] = _tagged(path, rows, left)
        else:
            splits[split] = [_COLUMNS[schema], *_EXAMPLES[schema](str(path), rows, left)]
    return splits


def _file_of(source: str | os.PathLike, split: str, names: str) -> Path:
    """Returns the file of a split; raises CorpusError if there is none or there are several."""
    pattern = re.compile(rf"(.*[-_.])?({names})(-00000-of-00001)?\.(parquet|jsonl?|jsonl?\.gz)")
    folder = Path(source)
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in paths if pattern.fullmatch(path.name)]
    if len(found) != 1:
        what = "no file" if not found else f"{len(found)} files"
        raise CorpusError(
            f"{source} has {what} of the split {split}: give a folder with one train, validation "
            "and test, each .parquet, .jsonl or .json."
        )
    return found[0]


def _tagged(
    path: Path, rows: list[bigbio.Row], left: corpus_splits.LeftOut
) -> list[tuple[str, ...]]:
    """Returns the documents of a split as lines of tagged words."""
    lines: list[tuple[str, ...]] = []
    for row, (document, entities) in zip(rows, bigbio.documents(rows, path=path), strict=True):
        for mention in row["entities"]:
            if len(mention["offsets"]) != 1:
                reason = bigbio.DISCONTINUOUS if mention["offsets"] else bigbio.WITHOUT_PLACE
                left.append((f"{document.id}.{mention['id']}", str(path), reason))
        # Passages end sentences, whatever stands between them.
        ends = {passage.end for passage in document.passages}
        text = "".join(
            "\n" if place in ends and letter == " " else letter
            for place, letter in enumerate(document.text)
        )
        mentions = [(x.start, x.end, x.type or "Entity") for x in entities]
        # Where nothing stands between them, they are tagged one by one, each at its offset.
        begun = {passage.start for passage in document.passages}
        for start, end in itertools.pairwise(sorted({0, len(text), *(begun & ends)})):
            part = " " * start + text[start:end]
            inside = [mention for mention in mentions if mention[0] < end and mention[1] > start]
            lines += published_sentences.tagged(part, inside, document.id, str(path), left)
    return lines


def _texts(path: str, rows: list[bigbio.Row], left: corpus_splits.LeftOut) -> list[tuple[str, ...]]:
    """Returns texts with their labels, between bars."""
    for row in rows:
        if any(label is None or "|" in label for label in row["labels"]):
            raise CorpusError(
                f"{path}, row {row['id']}: a label is null or has a bar, which parts labels here."
            )
    return [(row["id"], row["text"], "|".join(row["labels"])) for row in rows]


def _pairs(
    first: str, second: str
) -> Callable[[str, list[bigbio.Row], corpus_splits.LeftOut], list[tuple[str, ...]]]:
    """Returns the function from rows to pairs, by the fields of the two texts."""

    def pairs(
        path: str, rows: list[bigbio.Row], left: corpus_splits.LeftOut
    ) -> list[tuple[str, ...]]:
        labelled = [row for row in rows if row["label"]]
        left += [(row["id"], path, "without_a_label") for row in rows if not row["label"]]
        return [(row["id"], row[first], row[second], row["label"]) for row in labelled]

    return pairs


def _answers(
    path: str, rows: list[bigbio.Row], left: corpus_splits.LeftOut
) -> list[tuple[str, ...]]:
    """Returns the questions with a context and one answer, and lists the others."""
    examples: list[tuple[str, ...]] = []
    for row in rows:
        if len(row["answer"]) != 1 or not row["answer"][0]:
            left.append((row["id"], path, "not_one_answer"))
        elif not row["context"]:  # which makes no pair
            left.append((row["id"], path, "without_a_context"))
        else:
            examples.append((row["id"], row["question"], row["context"], row["answer"][0]))
    return examples


_EXAMPLES = {
    "text": _texts,
    "pairs": _pairs("text_1", "text_2"),
    "te": _pairs("premise", "hypothesis"),
    "qa": _answers,
}


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.bigbio_tasks`, which makes files for fine-tuning.

    Prints how many rows have each label, and returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags.make_files` and `read_examples`.
    """
    flag = flags.FLAGS
    splits = corpus_flags.make_files(
        argv, lambda left: read_examples(flag.input, flag.schema, left)
    )
    if flag.schema == "kb":
        corpus_splits.say_counts(splits, lambda row: [x for x in row[1:] if x.startswith("B")])
    else:
        corpus_splits.say_counts({split: rows[1:] for split, rows in splits.items()})


def define_flags() -> None:
    """Defines the command line's flags."""
    corpus_flags.define("A folder with a file for each split")
    flags.DEFINE_enum("schema", "kb", list(bigbio.SCHEMAS), "BigBio's schema of the files.")


if __name__ == "__main__":
    cli.run(main, define_flags)
