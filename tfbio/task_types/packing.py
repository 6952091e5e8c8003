"""Batches for fine-tuning without padding: several texts to a row, each as if it were alone.

Texts of a task differ widely in length, so batches of padded texts are largely padding. Here the
texts of a batch lie one after another in a few rows; tokens attend to those of their own text, and
positions start with it. What is learnt from a batch is what would be learnt from the same texts
padded, but for the numbers that dropout draws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# Rows are of a multiple of so many tokens. Longer rows leave less unused at their ends, shorter
# ones need less attention.
ROW_UNIT = 128
# How many numbers of rows are usual: each is a graph of its own.
NUM_SHAPES = 8


class PerToken(NamedTuple):
    """An array that has a value, or several, for each token.

    Attributes:
      values: for each window an array [tokens, ...].
      padding: the value where there is no token.
    """

    values: list[np.ndarray]
    padding: float = 0


@dataclasses.dataclass(frozen=True)
class Features:
    """The windows that the encoder reads of the examples; a long example may have several.

    A task type names the arrays that its head and its loss take from a batch. Lists of arrays have
    one array for each window. Whatever else leads from the outputs back to the examples is in a
    subclass of the task type's own.

    Attributes:
      input_ids: int32 [tokens] for each window.
      segment_ids: int32 [tokens] for each window.
      example: int64 [windows], the number of the example that each window is of.
      per_token: name -> an array with values for each token.
      per_window: name -> [...] for each window. The losses are then for each window, too.
      positions: name -> int [groups, most tokens] for each window: the tokens of some groups,
        counted from the start of the window; a group with fewer tokens has some of them again.
    """

    input_ids: list[np.ndarray]
    segment_ids: list[np.ndarray]
    example: np.ndarray
    per_token: Mapping[str, PerToken] = dataclasses.field(default_factory=dict)
    per_window: Mapping[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    positions: Mapping[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each window, int64 [windows]."""
        return np.array([len(ids) for ids in self.input_ids], np.int64)


@dataclasses.dataclass(frozen=True)
class Places:
    """The places of the windows of a batch in its rows.

    Attributes:
      row: int64 [windows], the row of each.
      start: int64 [windows], the place of its first token in the row.
      rows: the number of rows.
      row_length: the tokens of a row.
    """

    row: np.ndarray
    start: np.ndarray
    rows: int
    row_length: int


def place(lengths: Sequence[int] | np.ndarray, row_length: int) -> Places:
    """Places each window in the first row with room for it, the longest first.

    That is first-fit decreasing, which takes at most 11/9 of the fewest rows, and one more (Yue,
    1991).

    Args:
      lengths: the tokens of each window.
      row_length: the tokens of a row, as many as the longest window at least.

    Returns:
      `Places`: the row and the first token of each window, int64 [windows] each, and the number of
      rows.
    """
    row, start = np.zeros([len(lengths)], np.int64), np.zeros([len(lengths)], np.int64)
    used: list[int] = []
    for window in np.argsort(-np.asarray(lengths), kind="stable"):
        length = lengths[window]
        number = next((n for n, tokens in enumerate(used) if tokens + length <= row_length), None)
        if number is None:
            number = len(used)
            used.append(0)
        row[window], start[window] = number, used[number]
        used[number] += length
    return Places(row, start, len(used), row_length)


def fill(
    features: Features, chosen: np.ndarray, places: Places, rows: int, pad_id: int
) -> dict[str, np.ndarray]:
    """Makes the arrays of a batch.

    Args:
      features: all windows.
      chosen: int64 [n], the windows of the batch.
      places: where each of those lies.
      rows: of the arrays; those that are not used are padding.
      pad_id: of [PAD].

    Returns:
      By name: int32 `input_ids`, `segment_ids`, `position_ids` and `document_ids` (the window's
      number in the batch, from 1; 0 for padding), [rows, row_length] each; `first`, int32 [n], the
      place of each window's first token when the rows are laid end to end; and by their names the
      arrays of `per_token`, [rows, row_length, ...], of `per_window`, [n, ...], and of `positions`,
      int32 [n, groups, most tokens], which are such places, too.
    """
    shape = [rows, places.row_length]
    batch = {
        "input_ids": np.full(shape, pad_id, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "position_ids": np.zeros(shape, np.int32),
        "document_ids": np.zeros(shape, np.int32),
    }
    for name, (values, padding) in features.per_token.items():
        like = values[chosen[0]]
        batch[name] = np.full([*shape, *like.shape[1:]], padding, like.dtype)
    for number, (window, row, start) in enumerate(
        zip(chosen, places.row, places.start, strict=True), start=1
    ):
        length = len(features.input_ids[window])
        here = row, slice(start, start + length)
        batch["input_ids"][here] = features.input_ids[window]
        batch["segment_ids"][here] = features.segment_ids[window]
        batch["position_ids"][here] = np.arange(length)
        batch["document_ids"][here] = number
        for name, (values, _) in features.per_token.items():
            batch[name][here] = values[window]
    batch["first"] = (places.row * places.row_length + places.start).astype(np.int32)
    for name, values in features.per_window.items():
        batch[name] = np.stack([values[window] for window in chosen])
    for name, values in features.positions.items():
        own = np.stack([values[window] for window in chosen])
        batch[name] = (own + batch["first"][:, None, None]).astype(np.int32)
    return batch


class Part(NamedTuple):
    """A replica's share of a batch.

    Attributes:
      arrays: name -> array, as `fill` returns them.
      windows: int64 [n], the windows that it has.
    """

    arrays: dict[str, np.ndarray]
    windows: np.ndarray


class Packer:
    """Makes batches, of few shapes.

    Args:
      features: all windows.
      batch_size: windows in a batch.
      replicas: devices that share it, of which each packs its own.
      pad_id: of [PAD].
      padded_length: 0; or give each window a row of its own, of so many tokens.

    Attributes:
      features, replicas, pad_id, padded_length: as given.
      lengths: int64 [windows], the tokens of each.
      usual_tokens: the mean number of tokens of a replica's share of a batch.
    """

    def __init__(
        self,
        features: Features,
        batch_size: int,
        replicas: int,
        pad_id: int,
        padded_length: int = 0,
    ):
        self.features, self.replicas, self.pad_id = features, replicas, pad_id
        self.padded_length, self.lengths = padded_length, features.lengths
        self.usual_tokens = self.lengths.mean() * batch_size / replicas

    def batch(self, chosen: np.ndarray) -> list[Part]:
        """Makes a batch.

        Args:
          chosen: int64 [n], its windows, of which each replica takes n / replicas in a row.

        Returns:
          A `Part` for each replica, all with arrays of one shape.

        Raises:
          ValueError: the replicas do not divide n.
        """
        shares = np.split(chosen, self.replicas)
        if self.padded_length:
            row_length = self.padded_length
            layouts = [place(np.full_like(share, row_length), row_length) for share in shares]
        else:
            row_length = -(-int(self.lengths[chosen].max()) // ROW_UNIT) * ROW_UNIT
            layouts = [place(self.lengths[share], row_length) for share in shares]
        rows = max(places.rows for places in layouts)
        if not self.padded_length:
            # The next multiple of so many rows, so that there are not too many shapes; never more
            # rows than windows.
            step = max(1, round(self.usual_tokens / row_length / NUM_SHAPES))
            rows = min(-(-rows // step) * step, len(shares[0]))
        return [
            Part(fill(self.features, share, places, rows, self.pad_id), share)
            for share, places in zip(shares, layouts, strict=True)
        ]
