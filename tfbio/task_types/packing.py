"""Batches for fine-tuning without padding: several texts to a row, each as if it were alone.

Texts of a task differ widely in length, so batches of padded texts are largely padding. Here the
texts of a batch lie one after another in a few rows; tokens attend to those of their own text, and
positions start with it. What is learnt from a batch is what would be learnt from the same texts
padded, but for the numbers that dropout draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from tfbio.task_types import row_placement
from tfbio.task_types.features import Features
from tfbio.task_types.row_placement import Places

# Rows are of a multiple of so many tokens. Longer rows leave less unused at their ends, shorter
# ones need less attention.
_ROW_UNIT = 128
# The same where one graph takes all shapes, so that a batch has rows of the length it needs.
_SHORT_ROW_UNIT = 64
# How many numbers of rows are usual: each is a graph of its own.
NUM_SHAPES = 8


def fill(
    features: Features, chosen: np.ndarray, places: Places, rows: int, pad_id: int
) -> dict[str, np.ndarray]:
    """Makes the arrays of a fine-tuning batch by packing: several windows lie in a row.

    Args:
      features: all windows.
      chosen: int64 [n], the numbers of the batch's windows, one at least.
      places: the row and the first token of each of those, and the row_length.
      rows: the number of rows; those that are not used are padding.
      pad_id: the id of [PAD].

    Returns:
      By name: int32 `input_ids`, `segment_ids`, `position_ids` and `document_ids` (the window's
      number in the batch, from 1; 0 for padding), [rows, row_length] each; `first`, int32 [n], the
      place of each window's first token when the rows are laid end to end; and by their names the
      arrays of `per_token`, [rows, row_length, ...], of `per_window`, [n, ...], and of `positions`,
      int32 [n, groups, most tokens], which are places of this kind, too.
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
    """The share of a packed batch that one replica takes.

    Attributes:
      arrays: name -> array, as `fill` returns them.
      windows: int64 [n], the numbers of its windows.
    """

    arrays: dict[str, np.ndarray]
    windows: np.ndarray


class Packer:
    """Packs windows into the rows of batches, as many as each batch needs; for CPUs and GPUs.

    `fixed_shapes.FixedShapePacker` does it for TPUs. Numbers of rows are rounded up, so that there
    are not too many shapes.

    Args:
      features: all windows.
      batch_size: the number of windows in a batch.
      replicas: the number of devices that share it, of which each packs its own.
      pad_id: the id of [PAD].
      padded_length: 0; or give each window a row of its own, of so many tokens.

    Attributes:
      features, replicas, pad_id, padded_length: as given.
      lengths: int64 [windows], the tokens of each.
      usual_tokens: the mean number of tokens of a replica's share of a batch, a float.
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
        """Makes a batch by packing the windows of each replica's share into rows.

        Args:
          chosen: int64 [n], the numbers of its windows, of which each replica takes the next n /
            replicas.

        Returns:
          A `Part` for each replica, all with arrays of one shape.

        Raises:
          ValueError: the replicas do not divide n.
        """
        shares = np.split(chosen, self.replicas)
        if self.padded_length:
            row_length = self.padded_length
            layouts = [
                row_placement.first_fit(np.full_like(share, row_length), row_length)
                for share in shares
            ]
        else:
            row_length = -(-int(self.lengths[chosen].max()) // _ROW_UNIT) * _ROW_UNIT
            layouts = [row_placement.first_fit(self.lengths[share], row_length) for share in shares]
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

    def short_row_batches(self) -> list[Callable[[], list[Part]]]:
        """Divides all windows among batches of short rows, for a device that takes all shapes.

        Returns:
          For each batch a function that makes it: a list of one `Part`, whose number of windows and
          row length differ from batch to batch.
        """
        divided = row_placement.batches_of_short_rows(
            self.lengths, math.ceil(self.usual_tokens), _SHORT_ROW_UNIT
        )

        def make(chosen: np.ndarray, places: Places) -> list[Part]:
            return [Part(fill(self.features, chosen, places, places.rows, self.pad_id), chosen)]

        return [partial(make, *each) for each in divided]
