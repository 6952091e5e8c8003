"""Divides a corpus into the splits train, dev and test, and writes their files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

from data_prep.corpora.released_files import CorpusError, File
from data_prep.running import left_out
from tfbio.base import file_paths, messages, storage
from tfbio.base.held_out import hash_fraction
from tfbio.formats import text_files

SPLITS = ("train", "dev", "test")
_OF_BLURB = (
    "give a list that can, of BLURB's with --index the folder of this corpus in `indexing` of its "
    "data_generation.tar.gz."
)

# The share of documents held out for development where a release has no split for it.
DEV_FRACTION = 0.1

_BREAKS = str.maketrans("\t\n\r", "   ")

# The parts of a release that are in no split: (id, path of its file, reason) each.
LeftOut = list[tuple[str, str, str]]
# The rows of each split, by the split's name.
Splits = Mapping[str, Sequence[Sequence[str]]]


def hold_out(
    documents: Mapping[str, Collection[str]],
    fraction: float = DEV_FRACTION,
    sizes: Mapping[str, int] | None = None,
) -> set[str]:
    """Chooses the documents of a corpus's development split, where its release has none.

    Hashes of the names decide, so the choice is the same on every machine. A document stays in
    training if no other there has one of its labels.

    Args:
      documents: the labels in each document, by its name.
      fraction: the share of the documents, or of the sum of `sizes`, to hold out; rounded up.
      sizes: how many a document counts for, by its name; None: one each.

    Returns:
      The set of the names of the chosen documents. Together they count for no more than asked, and
      for less where too few documents may go; it may be empty.
    """
    sizes = dict.fromkeys(documents, 1) if sizes is None else sizes
    # 0.1 * 70 is more than 7 in binary; what the user typed is exact.
    wanted = math.ceil(Fraction(str(fraction)) * sum(sizes.values()))
    having = Counter(label for labels in documents.values() for label in set(labels))
    held: set[str] = set()
    for name in sorted(documents, key=hash_fraction):
        labels = set(documents[name])
        if sizes[name] <= wanted and all(having[label] > 1 for label in labels):
            held.add(name)
            wanted -= sizes[name]
            having.subtract(labels)
    return held


def check_parts(documents: Collection[str], held: Collection[str], asked: str) -> None:
    """Checks that neither a corpus's training split nor its development split is empty.

    It returns nothing.

    Args:
      documents: the names of all documents for training or development.
      held: the names of those for development.
      asked: the flag that divided them, for the message.

    Raises:
      CorpusError: one of the two splits is empty.
    """
    if not held or len(held) == len(documents):
        raise CorpusError(
            f"{asked} leaves nothing for {'training' if held else 'development'}: give another, "
            "and the whole release as --input."
        )


def with_development(
    train: Mapping[str, Sequence[tuple[str, ...]]],
    test: Mapping[str, Sequence[tuple[str, ...]]],
    dev_documents: str,
    labels_of: Callable[[Sequence[str]], Iterable[str]],
    dev_fraction: float = DEV_FRACTION,
) -> dict[str, list[tuple[str, ...]]]:
    """Divides a corpus's documents into splits, where its release has none for development.

    Args:
      train: the rows of each document for training or development, by the document's name.
      test: the rows of each document for testing, by the document's name.
      dev_documents: the path of a file with the names of documents for development; "": a share of
        them, chosen by hashes of their names.
      labels_of: a function from a row to the labels in it.
      dev_fraction: the share, above 0 and below 1.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is the list of the rows of its
      documents, tuples of str in their order.

    Raises:
      CorpusError: the file cannot be read, or names a document that is not in `train`; a split has
        no document.
    """
    for split, documents in (("train", train), ("test", test)):
        if not documents:
            raise CorpusError(f"--input holds no note of the {split} set: give the whole release.")
    if dev_documents:
        remedy = "give as --dev_documents a file with the names of notes, one a line."
        held = set(read_index(*os.path.split(dev_documents), remedy))
        if missing := sorted(held - train.keys()):
            raise CorpusError(f"{dev_documents} lists {missing[0]}, which is no note for training.")
    else:
        held = hold_out(
            {x: {y for row in rows for y in labels_of(row)} for x, rows in train.items()},
            dev_fraction,
        )
    asked = (
        f"--dev_documents={dev_documents}" if dev_documents else f"--dev_fraction={dev_fraction}"
    )
    check_parts(train, held, asked)
    return {
        "train": [row for name, rows in train.items() if name not in held for row in rows],
        "dev": [row for name, rows in train.items() if name in held for row in rows],
        "test": [row for rows in test.values() for row in rows],
    }


def write(
    output: str | os.PathLike,
    splits: Mapping[str, Iterable[Sequence[str]]],
    overwrite: bool,
    left: Iterable[tuple[str, str, str]] = (),
) -> None:
    """Writes a corpus's splits as `train.tsv`, `dev.tsv` and `test.tsv`, or none of them.

    Returns nothing. Columns stand between tabs, in UTF-8; tabs and line ends within one become
    blanks, as in BLURB's files. `left_out.jsonl` lists the parts of the release that are in no
    split, and their reasons are counted on stdout.

    Args:
      output: the path of the folder to write to; it is made if it does not exist.
      splits: the rows of each split, sequences of str, by the split's name.
      overwrite: True: replace files that are there.
      left: the parts that are in no split: `(id, path of its file, reason)` each.

    Raises:
      CorpusError: without `overwrite` a file is there already, or one cannot be written.
      UserError: another process writes there, or no installed package supports the address.
    """
    paths = {split: file_paths.at(output, f"{split}.tsv") for split in splits}
    there = [path for path in paths.values() if path.exists()]
    # A run that was killed between two splits leaves some of them, with the same bytes.
    cut_short = len(there) < len(paths)
    reasons: Counter[str] = Counter()
    try:
        with storage.only_writer(output), ExitStack() as stack:  # all appear when the block ends
            file_paths.at(output).mkdir(parents=True, exist_ok=True)
            for split, rows in splits.items():
                text = "".join(
                    "\t".join(column.translate(_BREAKS) for column in row) + "\n" for row in rows
                )
                content = text_files.without_halves(text).encode()
                path = paths[split]
                same = cut_short and path in there and path.read_bytes() == content
                if path in there and not same and not overwrite:
                    raise CorpusError(
                        f"{path} exists: add --overwrite to replace it, or give another --output."
                    )
                stream = stack.enter_context(storage.written_whole(path))
                stream.write(content)
                stream.flush()  # so that a full disk is noticed before any file appears
            stream = stack.enter_context(
                storage.written_whole(file_paths.at(output, left_out.FILE))
            )
            for id_, origin, reason in left:
                reasons[reason] += 1
                stream.write(left_out.line(id_, os.path.basename(origin), reason))
            stream.flush()
    except OSError as error:
        raise CorpusError(f"cannot write to {output}: {messages.reason(error)}.") from error
    if reasons:
        text = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in reasons.most_common())
        messages.say(f"left out, see {left_out.FILE}: {text}")


def say_counts(
    splits: Mapping[str, Iterable[Sequence[str]]],
    labels_of: Callable[[Sequence[str]], Iterable[str]] = lambda row: row[-1:],
) -> None:
    """Prints for each of a corpus's splits how many rows have each label, in one line.

    It returns nothing.

    Args:
      splits: the rows of each split, sequences of str, by the split's name.
      labels_of: a function from a row to the labels in it; default: its last column.
    """
    for split, rows in splits.items():
        counts = Counter(label for row in rows for label in labels_of(row))
        # GAD's labels are 0 and 1, and "293 1" would be read as one number.
        names = {label: f"'{label}'" if label[:1].isdigit() else label for label in counts}
        text = ", ".join(f"{counts[label]:,} {names[label]}" for label in sorted(counts))
        messages.say(f"{split}: {text}")


def read_index(folder: str | os.PathLike, name: str, remedy: str = _OF_BLURB) -> list[str]:
    """Reads a released file that lists names, such as BLURB's lists of a corpus's documents.

    The names stand one a line, or all in one line between commas.

    Args:
      folder: the folder of the list.
      name: the name of the list's file.
      remedy: what to do if it cannot be read.

    Returns:
      The list of the names, str in the order of the file, none of them empty.

    Raises:
      CorpusError: it cannot be read, or is not text in UTF-8.
    """
    path = Path(folder, name)
    try:
        text = File(str(path), path.read_bytes()).text()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({messages.reason(error)}): {remedy}") from error
    return [item.strip() for item in text.replace(",", "\n").split("\n") if item.strip()]
