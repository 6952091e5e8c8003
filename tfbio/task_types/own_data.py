"""Makes a task of data of the user's own, in one of the released formats or in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from tfbio.formats import task_files
from tfbio.formats.splits import find_split
from tfbio.formats.tables import read_own_table
from tfbio.formats.task_examples import (
    labels_of,
)
from tfbio.task_types.scores import Scores
from tfbio.task_types.task import (
    Task,
    TaskError,
    bio_tags,
    score_answers,
    score_classes,
    score_entities,
    score_label_sets,
    score_relations,
    score_similarity,
    span_task,
)

OWN = ("ner", "classification", "relation", "pair", "regression", "multilabel", "qa")
# What their tables have, beside a text and its label.
_COLUMNS = {
    "pair": ("text", "pair", "label"),
    "regression": ("text", "score"),
    "multilabel": ("text", "labels"),
}
# What most data sets call it that there is no relation; DDI's is "DDI-false".
_NEGATIVE = re.compile(
    r"(?:\w+[-:])?(?:0|false|none|null|n/?a|no[-_ ]?relation|negative|other)", re.IGNORECASE
)


def of_own_data(kind: str, data_dir: str, negative: str = "") -> Task:
    """Makes a task for files in one of the forms that `task_files` describes.

    Its labels are those of the training file.

    Args:
      kind: one of `OWN`.
      data_dir: folder with the files.
      negative: of "relation", the label that says that there is none; "" for one with a usual name.

    Raises:
      TaskFileError: the training file is missing, or cannot be read.
      TaskError: it has too few labels, or it is not clear which is the negative one.
    """
    score = partial(own_score, kind)
    if kind == "qa":
        return span_task(kind)
    train = find_split(data_dir, "train")
    if kind == "ner":
        types = labels_of(task_files.read_tagged_words(train))
        read = partial(task_files.read_tagged_words, types=types)
        labels = bio_tags(types)
        return Task(kind, "tagging", labels, read, score(labels), {})
    columns = _COLUMNS.get(kind, ("text", "label"))
    labels = labels_of(read_own_table(train, columns))
    fewest = {"regression": 0, "multilabel": 1}.get(kind, 2)
    if len(labels) < fewest:
        raise TaskError(f"{train} has {len(labels)} labels: nothing can be learnt from it.")
    if kind == "relation":
        # The first, as in the other tasks of relations; so `own_score` knows it.
        negative = _negative_of(labels, negative, train)
        labels = (negative, *(label for label in labels if label != negative))
    read = partial(read_own_table, wanted=columns, labels=labels or None)
    name = kind if kind in ("regression", "multilabel") else "classification"
    return Task(kind, name, labels, read, score(labels), {})


def _negative_of(labels: Sequence[str], wanted: str, path: str) -> str:
    """Returns the label for no relation: the one that is wanted, or one with a usual name."""
    listed = ", ".join(labels)[:120]
    if wanted and wanted not in labels:
        raise TaskError(f"--negative_label={wanted}: {path} has the labels {listed}; give one.")
    usual = [label for label in labels if _NEGATIVE.fullmatch(label)]
    if not wanted and len(usual) != 1:
        remedy = "" if usual else ", or --task=classification if there is none"
        raise TaskError(
            f"{path} has the labels {listed}, and it is not clear which says that there is no "
            f"relation: give --negative_label=LABEL{remedy}."
        )
    return wanted or usual[0]


def own_score(kind: str, labels: Sequence[str]) -> Callable[[Sequence, Sequence], Scores]:
    """Returns `Task.score` for data of the user's own, which need not be at hand.

    Args:
      kind: one of `OWN`.
      labels: all labels, as `Task.labels` has them.
    """
    if kind == "ner":
        # Every trial has the figures of all types, found or not.
        types = [label[2:] for label in labels if label.startswith("B-")]
        return partial(score_entities, types=types)
    if kind == "multilabel":
        return partial(score_label_sets, labels=labels)
    if kind == "relation":
        return partial(score_relations, negative=labels[0], types=labels[1:])
    return {"regression": score_similarity, "qa": score_answers}.get(kind, score_classes)
