"""Decides which texts of the units are kept: the newest versions, and the best of duplicates.

These are steps of the pipeline of `data_prep.documents`. Each takes one group of Beam's, a number
with rows as bytes, and yields (number, rows as bytes) for the next step to group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from data_prep.selection import duplicates, units, versions
from tfbio.text import ragged


def newest_versions(group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Decides which texts are the newest, over the articles of one partition.

    Args:
      group: the number of the partition, and `versions.ROW`s of its articles as bytes.

    Yields:
      The number of a unit, and its `versions.ROW`s with their verdicts as bytes: "reason" is an
      index of `versions.VERDICTS`, 0 for a text that is kept.
    """
    rows = versions.newest(np.frombuffer(b"".join(group[1]), versions.ROW))
    yield from units.grouped(rows, rows["unit"])


def band_rows(
    group: tuple[int, Iterable[bytes]], work: str, partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Divides the signatures of one unit's kept texts among partitions.

    Args:
      group: the number of the unit, and its `versions.ROW`s with their verdicts as bytes.
      work: the working folder, which has the unit's signatures.
      partitions: the number of partitions.

    Yields:
      The number of a partition (0 to `partitions` - 1), and `duplicates.ROW`s of the texts as
      bytes: similar texts have rows in one partition.

    Raises:
      OSError: the unit's file of signatures cannot be read.
    """
    unit, blocks = group
    rows = np.frombuffer(b"".join(blocks), versions.ROW)
    bands = units.load(units.unit_file(work, unit, "bands.npy"))
    bands = bands[np.isin(bands["row"], texts_of(rows[rows["reason"] == 0]))]
    yield from units.grouped(bands, bands["key"] % partitions)


def duplicate_texts(
    group: tuple[int, Iterable[bytes]], only_exact: bool
) -> Iterator[tuple[int, bytes]]:
    """Finds the duplicates in one partition.

    Args:
      group: the number of the partition, and its `duplicates.ROW`s as bytes.
      only_exact: True for only those with the same words, not those that are nearly the same.

    Yields:
      The number of a unit, and `duplicates.DUPLICATE` rows as bytes, one for each of its texts that
      repeat a better one.
    """
    repeated = duplicates.find(np.frombuffer(b"".join(group[1]), duplicates.ROW))
    if only_exact:
        repeated = repeated[repeated["exact"]]
    yield from units.grouped(repeated, repeated["unit"])


def texts_of(rows: np.ndarray) -> np.ndarray:
    """Returns the indices of candidates' texts among the texts of their unit.

    Args:
      rows: `versions.ROW` [candidates] of one unit.

    Returns:
      int64 [texts], the indices of the first candidate's texts first, then those of the second, and
      so on.
    """
    counts = rows["texts"].astype(np.int64)
    return ragged.ranges(rows["first"].astype(np.int64), counts)
