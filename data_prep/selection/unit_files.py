"""Names the files of a unit in the working folder, and reads its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbio.base import file_paths

# A unit's number has its input's number in the upper half, its place in the input in the lower one.
UNITS_OF_INPUT = 1 << 16
# The file in the working folder that says which articles are excluded.
EXCLUSION = "exclusion.npz"
# The names of a row: its id, its file, and `articles.Candidate.lacking`.
Name = tuple[str, str, Sequence[tuple[str, str]]]


def units_of_input(index: int, note: dict[str, Any]) -> range:
    """Returns the numbers of an input's units, which name their files: from `index` * 65,536 on.

    Args:
      index: the input's number.
      note: the input's note in the working folder; its "units" is the number of its units.

    Returns:
      The numbers, without gaps.
    """
    return range(index * UNITS_OF_INPUT, index * UNITS_OF_INPUT + note["units"])


def unit_file(work: str | os.PathLike, unit: int, kind: str) -> Path:
    """Returns the path of a unit's file in the working folder, `unit-<input>-<place>.<kind>`.

    Args:
      work: the working folder.
      unit: the unit's number, `<input>` * 65,536 + `<place>`, each of which is written in five
        digits.
      kind: "tfrecord" (the texts), "rows.npy" (`versions.ROW`s), "bands.npy" (`duplicates.ROW`s) or
        "names.json" (the `Name` of each row).
    """
    return file_paths.at(work, f"unit-{_place(unit)}.{kind}")


def load(path: Path) -> np.ndarray:
    """Loads the rows in one of a unit's `.npy` files.

    Args:
      path: the path of the file, from `unit_file`.

    Returns:
      The array, in the shape and dtype that it was saved with.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no `.npy` file.
    """
    with path.open("rb") as stream:
        return np.load(stream)


def shard_file(unit: int) -> str:
    """Returns the name of a unit's file of documents, such as `documents-00000-00001.tfrecord`."""
    return f"documents-{_place(unit)}.tfrecord"


def left_out_file(unit: int) -> str:
    """Returns the name of a unit's file of texts left out, `left_out-00000-00001.jsonl`.

    It is a file of the working folder; all of them together become `left_out.jsonl`.

    Args:
      unit: the unit's number.
    """
    return f"left_out-{_place(unit)}.jsonl"


def _place(unit: int) -> str:
    """Returns a unit's input and place in it as part of a file name."""
    return "{:05d}-{:05d}".format(*divmod(unit, UNITS_OF_INPUT))
