"""Makes a task of data of the user's own, in the forms that the task types read.

A task type says itself, in `own_tasks`, which `--task` it has for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from tfbio.base.errors import UserError
from tfbio.formats.label_sets import labels_of
from tfbio.formats.splits import find_split
from tfbio.task_types import types
from tfbio.task_types.metrics import Scores
from tfbio.task_types.task import Task

# By name: the task type, and how it learns from such data.
OWN = {own.name: (each, own) for each in types.TYPES.values() for own in each.own_tasks}
# What most data sets call it that there is no relation; DDI's is "DDI-false".
_NEGATIVE = re.compile(
    r"(?:\w+[-:])?(?:0|false|none|null|n/?a|no[-_ ]?relation|negative|other)", re.IGNORECASE
)


def of_own_data(name: str, data_dir: str, negative: str = "") -> Task:
    """Reads the labels in the user's own data, in the training file, and makes a `Task` of them.

    Args:
      name: one of `OWN`, the names that `--task` has for the user's own data.
      data_dir: the folder with the files.
      negative: the label that says that there is none of the others, such as no relation; "" for
        one with a usual name.

    Returns:
      The task, with the score and settings of its `OwnTask`; a negative label is the first.

    Raises:
      TaskFileError: the training file is missing or there are several, it cannot be read, or a line
        is not of its form.
      TaskError: it has too few labels, or it is not clear which is the negative one.
      KeyError: the name is not one of `OWN`.
    """
    task_type, own = OWN[name]
    train = find_split(data_dir, "train")
    used = labels_of(own.read(train, None))
    if len(used) < own.fewest:
        raise TaskError(f"{train} has {len(used)} labels: nothing can be learnt from it.")
    if own.has_negative:
        # The first, as in the other tasks of relations; so the score knows it.
        negative = _negative_of(used, negative, train)
        used = (negative, *(label for label in used if label != negative))
    labels = own.labels(used)
    return Task(
        name,
        task_type.name,
        labels,
        partial(own.read, labels=labels or None),
        own.score(labels),
        own.settings,
        hold_out=own.hold_out,
    )


def _negative_of(labels: Sequence[str], wanted: str, path: str) -> str:
    """Returns the label that says that there is no relation.

    Args:
      labels: of the training file.
      wanted: the label, if the user names one; else it is the one with a usual name.
      path: the training file, for messages.
    """
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


def own_score(name: str, labels: Sequence[str]) -> Callable[[Sequence, Sequence], Scores]:
    """Returns `Task.score` for the user's own data, from the labels alone.

    The data need not be at hand.

    Args:
      name: one of `OWN`.
      labels: all labels, as `Task.labels` has them.

    Returns:
      A function (examples, predictions) -> `Scores`.

    Raises:
      KeyError: the name is not one of `OWN`.
    """
    return OWN[name][1].score(tuple(labels))


class TaskError(UserError):
    """The `UserError` for data of which no task can be made.

    They have too few labels, or it is not clear which label is the negative one.
    """
