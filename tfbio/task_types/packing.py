"""Batches for fine-tuning without padding: several texts to a row, each as if it were alone.

Texts of a task differ widely in length, so batches of padded texts are largely padding. Here the
texts of a batch lie one after another in a few rows; tokens attend to those of their own text, and
positions start with it. What is learnt from a batch is what would be learnt from the same texts
padded, but for the numbers that dropout draws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfbio.models.batches import NO_TARGET

# Rows are of a multiple of so many tokens. Longer rows leave less unused at their ends, shorter
# ones need less attention.
ROW_UNIT = 128
# How many numbers of rows are usual: each is a graph of its own.
NUM_SHAPES = 8


@dataclasses.dataclass(frozen=True)
class Features:
    """What the encoder sees of the examples; a long sentence may be several windows.

    Attributes:
      input_ids: int32 [tokens] for each window.
      segment_ids: int32 [tokens] for each window.
      targets: for each window int32 [tokens], where tokens have targets; else what the window has.
      example: int64 [windows], the number of the example that each is of.
      of_tokens: whether tokens have targets, or windows.
      words: of tags, for each window int64 [own words], the first tokens of the words that it tags.
      entities: where the entities of a text stand for it, for each window int64 [2, most tokens],
        the tokens of both; those of fewer tokens have some again.
    """

    input_ids: list[np.ndarray]
    segment_ids: list[np.ndarray]
    targets: list[np.ndarray]
    example: np.ndarray
    of_tokens: bool
    words: Sequence[np.ndarray] = ()
    entities: Sequence[np.ndarray] = ()

    @property
    def lengths(self) -> np.ndarray:
        """int64 [windows]."""
        return np.array([len(ids) for ids in self.input_ids], np.int64)


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the windows of a batch lie: row and first token, int64 [windows] each."""

    row: np.ndarray
    start: np.ndarray
    rows: int
    row_length: int


def place(lengths: Sequence[int], row_length: int) -> Places:
    """Each window into the first row with room for it, the longest first.

    That is first-fit decreasing, which takes at most 11/9 of the fewest rows, and one more (Yue,
    1991).
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


def fill(features: Features, chosen: np.ndarray, places: Places, rows: int, pad_id: int) -> dict:
    """The arrays of a batch.

    Args:
      features: all there are.
      chosen: int64 [n], which of them the batch has.
      places: where each of those lies.
      rows: of the arrays; those that are not used are padding.
      pad_id: of [PAD].

    Returns:
      int32 `input_ids`, `segment_ids`, `position_ids` and `document_ids` (the window's number in
      the batch, from 1; 0 for padding), [rows, row_length] each; `first`, int32 [n], the place of
      each window's first token when the rows are laid end to end; `targets`, [rows, row_length]
      where tokens have targets, else [n, ...]; and `entities`, int32 [n, 2, most tokens], such
      places too, if the windows have them.
    """
    shape = [rows, places.row_length]
    batch = {
        "input_ids": np.full(shape, pad_id, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "position_ids": np.zeros(shape, np.int32),
        "document_ids": np.zeros(shape, np.int32),
    }
    of_tokens = features.of_tokens
    if of_tokens:
        batch["targets"] = np.full(shape, NO_TARGET, np.int32)
    else:
        batch["targets"] = np.stack([features.targets[window] for window in chosen])
    for number, (window, row, start) in enumerate(
        zip(chosen, places.row, places.start, strict=True), start=1
    ):
        length = len(features.input_ids[window])
        here = row, slice(start, start + length)
        batch["input_ids"][here] = features.input_ids[window]
        batch["segment_ids"][here] = features.segment_ids[window]
        batch["position_ids"][here] = np.arange(length)
        batch["document_ids"][here] = number
        if of_tokens:
            batch["targets"][here] = features.targets[window]
    batch["first"] = (places.row * places.row_length + places.start).astype(np.int32)
    if features.entities:
        entities = np.stack([features.entities[window] for window in chosen])
        batch["entities"] = (entities + batch["first"][:, None, None]).astype(np.int32)
    return batch


class Part(NamedTuple):
    """A replica's share of a batch: its arrays (see `fill`), and its windows, int64 [n]."""

    arrays: dict[str, np.ndarray]
    windows: np.ndarray


class Packer:
    """Makes batches, of few shapes.

    Args:
      features: all there are.
      batch_size: windows in a batch.
      replicas: devices that share it, of which each packs its own.
      pad_id: of [PAD].
      padded_length: 0; or give each window a row of its own, of so many tokens.
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
        """Each replica's part of the batch of the windows `chosen`, int64 [n]."""
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
