"""Finds the files of a task's splits in a folder, and checks the splits against each other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from tfbio.base import nearby_folders
from tfbio.base.messages import quoted
from tfbio.formats.label_sets import labels_of
from tfbio.formats.task_examples import Example, Question
from tfbio.formats.task_file_errors import TaskFileError, Where, mistake, place_of

SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("dev", "devel", "valid", "validation"),
    "test": ("test",),
}
_SPLIT_ENDINGS = (".tsv", ".txt", ".json")
# SQuAD's files as they are released: its development set is what the papers report on.
_RELEASED_FILES = {
    "train": ["train-v1.1.json", "train-v2.0.json"],
    "dev": [],
    "test": ["dev-v1.1.json", "dev-v2.0.json"],
}


# Of smaller files a first line says too little.
_FEWEST_LINES = 10


class NearbyError(TaskFileError):
    """The error for a folder without a task's files, where a folder in it has them."""


def find_split(data_dir: str, split: str, optional: bool = False) -> str:
    """Finds the file of a split in a task's folder, under any of the names in use.

    These are "train", "dev" (also "devel", "valid", "validation") and "test" with the ending .tsv,
    .txt or .json, and SQuAD's "train-v1.1.json" and "dev-v1.1.json" (the test split) or those of
    v2.0; any of them also with .gz.

    Args:
      data_dir: the folder.
      split: "train", "dev" or "test".
      optional: True if there may be none; the path is "" then.

    Returns:
      The path of the file.

    Raises:
      TaskFileError: there is none, or more than one; or there is no such folder.
    """
    names = [f"{name}{ending}" for name in SPLIT_NAMES[split] for ending in _SPLIT_ENDINGS]
    names += _RELEASED_FILES[split]

    def files_in(folder: str) -> list[str]:
        paths = (os.path.join(folder, name + packed) for name in names for packed in ("", ".gz"))
        return [path for path in paths if os.path.isfile(path)]

    files = files_in(data_dir)
    if len(files) > 1:
        message = f"{data_dir} holds more than one file of the split {split!r}: leave one of"
        raise TaskFileError(f"{message} {', '.join(map(os.path.basename, files))}.")
    if not files and optional:
        return ""
    if not files:
        if near := nearby_folders.below(data_dir, lambda folder: bool(files_in(folder))):
            one = " or ".join(near[:3])
            raise NearbyError(f"{data_dir} holds no file of the split {split!r}: give {one}.")
        if os.path.isfile(data_dir):
            raise TaskFileError(f"{data_dir} is a file, expected the folder that it is in.")
        if not os.path.isdir(data_dir):
            raise TaskFileError(f"{data_dir}: there is no such folder.")
        message = f"{data_dir} holds no file of the split {split!r}"
        tables = [f"{name}.csv" for name in SPLIT_NAMES[split]]
        for table in tables:
            if os.path.isfile(os.path.join(data_dir, table)):
                raise TaskFileError(
                    f"{message}: {table} has commas between columns; write {table[:-4]}.tsv with "
                    "tabs (docs/finetuning.md shows how in pandas)."
                )
        raise TaskFileError(
            f"{message}: expected one of {', '.join(names)} (or one of them with .gz)."
        )
    return files[0]


def hold_out(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Divides questions into a train split and a dev split, the last tenth or so.

    Questions on one context stay together wherever they stand; of questions with several contexts
    those of one question do. The contexts, or questions, that appear last are held out.

    Returns:
      Two lists of `Question`, in their order: for training and for development; neither is empty.

    Raises:
      TaskFileError: there are too few.
    """
    groups = [question.question_id or question.context for question in questions]
    sizes = Counter(groups)  # in the order in which they first appear
    held: set[str] = set()
    missing = len(questions) // 10
    for group in reversed(sizes):
        if missing <= 0:
            break
        held.add(group)
        missing -= sizes[group]
    if len(held) in (0, len(sizes)):
        path = questions[0].where[0]
        raise TaskFileError(
            f"{path} has too few questions to hold out a tenth for development: add a dev.json."
        )
    placed = [*zip(groups, questions, strict=True)]
    train = [question for group, question in placed if group not in held]
    return train, [question for group, question in placed if group in held]


def check_splits(examples: Mapping[str, Sequence[Example]]) -> None:
    """Checks the examples of all splits of a task against each other, and returns nothing.

    Args:
      examples: for each split ("train", "dev", "test") its examples.

    Raises:
      TaskFileError: two examples of a split have one id, "train", if it is given, lacks a label of
        another split, or the files' first lines seem to name their columns and were not known.
    """
    _check_first_lines(examples)
    known = labels_of(examples.get("train", ()))
    for split, in_split in examples.items():
        places: dict[str, Where] = {}
        for example in in_split:
            path, place = example.where
            if example.id in places:
                before = place_of(places[example.id])
                message = f"the id {example.id!r} stands in {before} already: give another"
                raise mistake(example.where, message)
            places[example.id] = example.where
            for i, label in example.numbered_labels():
                if "train" in examples and label not in known:
                    raise mistake(
                        (path, place + i if isinstance(place, int) else place),
                        f"the label {label!r:.60} of {split} has no example in train, which has "
                        f"{quoted(known)}: correct it, or add such an example",
                    )


def _check_first_lines(examples: Mapping[str, Sequence[Example]]) -> None:
    """Raises a TaskFileError if a header that was not known as one was read as an example.

    So it is if the files begin with the same line, whose label no other line has, and are not
    tiny.
    """
    if min(map(len, examples.values())) < _FEWEST_LINES:
        return
    first, *of_others = (in_split[0] for in_split in examples.values())
    labels = {label for _, label in first.numbered_labels()}
    # After a header that was known the first example is on line 2.
    if not of_others or first.where[1] != 1 or any(x != first for x in of_others):
        return
    others = (x for in_split in examples.values() for x in in_split[1:])
    if labels and not labels & {label for x in others for _, label in x.numbered_labels()}:
        raise mistake(
            first.where,
            f"all files begin with the same line, whose label {quoted(sorted(labels))} no other "
            "line has: if it names the columns, call them text (pair for a second text) and label",
        )
