"""The tasks to fine-tune on: what they read, their labels and how they are scored.

A new task is one entry in `TASKS`.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Sequence

from tfbio.cli import UserError

SPLITS = ("train", "dev", "test")


class TaskError(UserError):
    """A task that does not exist, or whose files are missing or damaged."""


@dataclasses.dataclass(frozen=True)
class Example:
    """One text, its label, and the id under which its prediction is written."""

    id: str
    label: str
    text: str


@dataclasses.dataclass(frozen=True)
class Task:
    """A labelled task.

    Attributes:
      name: what `--task` calls it.
      labels: all labels, in the order of the model's outputs.
      read: (path of a split's file, the labels) -> its examples.
      made_by: the command that makes the files, for the error when one is missing.
      score: (true labels, predicted labels) -> figures by name.
      metric: the name of the figure that sums the task up.
    """

    name: str
    labels: tuple[str, ...]
    read: Callable[[str, Sequence[str]], list[Example]]
    made_by: str
    score: Callable[[Sequence[str], Sequence[str]], dict[str, float]]
    metric: str

    def examples(self, data_dir: str, split: str) -> list[Example]:
        """The examples of "train", "dev" or "test", in the order of the file.

        Raises:
          TaskError: the file is missing, or a line of it cannot be used.
        """
        path = os.path.join(data_dir, f"{split}.tsv")
        if not os.path.isfile(path):
            raise TaskError(f"{path} is missing: make it with `{self.made_by}`.")
        examples = self.read(path, self.labels)
        if not examples:
            raise TaskError(f"{path} holds no example: make it again with `{self.made_by}`.")
        return examples


def read_labelled_sentences(path: str, labels: Sequence[str]) -> list[Example]:
    """Reads tab-separated lines `id, label, sentence` below a header that says so.

    Raises:
      TaskError: naming file and line, where the header, the columns or the label are not so.
    """
    header = "id\tlabel\tsentence"
    try:
        # utf-8-sig: a byte-order mark is no part of the header.
        with open(path, encoding="utf-8-sig") as file:
            # Not `splitlines`, which also splits at characters that may stand in a sentence.
            lines = [line.rstrip("\n") for line in file]
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not text in UTF-8: {error.reason}.") from error
    if not lines or lines[0] != header:
        raise TaskError(f"{path}, line 1: expected the header {header!r}.")
    examples = []
    for number, line in enumerate(lines[1:], start=2):
        columns = line.split("\t")
        if len(columns) != 3:
            raise TaskError(
                f"{path}, line {number}: expected 3 tab-separated columns (id, label, sentence), "
                f"found {len(columns)}."
            )
        if columns[1] not in labels:
            raise TaskError(
                f"{path}, line {number}: unknown label {columns[1]!r}; the labels are "
                f"{', '.join(labels)}."
            )
        examples.append(Example(*columns))
    return examples


def accuracy_and_macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Share of right labels, and the mean of the labels' F1, both in [0, 1]."""
    from sklearn import metrics

    return {
        "accuracy": float(metrics.accuracy_score(truth, predicted)),
        "macro_f1": float(metrics.f1_score(truth, predicted, average="macro", zero_division=0.0)),
    }


TASKS = {
    task.name: task
    for task in (
        Task(
            name="sentence_roles",
            labels=("background", "objective", "methods", "results", "conclusions"),
            read=read_labelled_sentences,
            made_by="python -m data_prep.sentence_roles",
            score=accuracy_and_macro_f1,
            metric="accuracy",
        ),
    )
}


def find(name: str) -> Task:
    """The task of a name.

    Raises:
      TaskError: there is none; the message names the nearest.
    """
    if name not in TASKS:
        nearest = difflib.get_close_matches(name, TASKS, n=1, cutoff=0.0)[0]
        raise TaskError(f"there is no task {name!r}; the nearest is {nearest!r}.")
    return TASKS[name]
