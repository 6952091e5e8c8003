"""Describes a form of the user's own data that a task type learns from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tfbio.formats.tables import read_own_table
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types.metrics import Scores


@dataclasses.dataclass(frozen=True)
class OwnTask:
    """One `--task=NAME` for the user's own data: a form of files that a task type can learn from.

    Attributes:
      name: the NAME, such as "relation".
      read: (path, all labels) -> the examples of a file; None: they may have any labels.
      score: all labels -> `Task.score`, (examples, predictions) -> `Scores`, for which the data
        need not be at hand.
      labels: the labels in use, sorted -> all labels, in the order of the model's outputs.
      fewest: the fewest labels from which something can be learnt.
      has_negative: True if one of the labels says that there is none of the others; it is first.
      settings: name -> value, where `FinetuningConfig`'s defaults are others.
      hold_out: the training examples -> these and those of "dev", where that has no file; or None.
    """

    name: str
    read: Callable[..., list]
    score: Callable[[tuple[str, ...]], Callable[[Sequence, Sequence], Scores]]
    labels: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple
    fewest: int = 0
    has_negative: bool = False
    settings: Mapping[str, float | int] = dataclasses.field(default_factory=dict)
    hold_out: Callable[[list], tuple[list, list]] | None = None


def own_table(*columns: str) -> Callable[[str, tuple[str, ...] | None], list[LabelledText]]:
    """Returns, for a task type of texts, the reader of a table of texts of the user's own.

    Args:
      columns: those that the table must have, such as "text", "pair", "label", "score", "labels".

    Returns:
      (path, all labels) -> the `LabelledText` of each line; None for the labels takes any. It
      raises a TaskFileError if the file cannot be read or is empty, the columns are not clear, or
      a line is not as they say.
    """

    def read(path: str, labels: tuple[str, ...] | None) -> list[LabelledText]:
        return read_own_table(path, columns, labels)

    return read
