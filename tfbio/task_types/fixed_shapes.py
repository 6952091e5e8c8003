"""Batches of a few shapes that are known beforehand, for devices that compile each shape.

A TPU compiles a step for every shape of a batch, which takes longer than hundreds of steps. So
training uses at most three shapes, which depend on the lengths of the training set alone,
and prediction uses one, which depends on the settings alone. `Finetuner` makes its batches here if
`run.fixed_shapes` says so. The arrays are stacked, so that one call of a function takes many steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio.task_types import row_placement
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features
from tfbio.task_types.row_placement import Places

# Rows are a multiple of so many tokens: a TPU keeps bfloat16 in tiles of 16 by 128.
_ROW_UNIT = 16
# The share of tokens that padding may have, where that makes rows shorter.
_MOST_PADDING = 0.14
# Batches from which the shapes are chosen.
_SAMPLE = 1000
# Most texts of a row, in tokens of the row for each. It bounds the texts of a batch.
_TOKENS_A_TEXT = 8
# The arrays of every batch that have an element for each token.
_OF_TOKENS = ("input_ids", "segment_ids", "position_ids", "document_ids")


class Shape(NamedTuple):
    """One of the few fixed shapes that fine-tuning batches have on a TPU.

    Attributes:
      rows: the rows of all replicas together.
      row_length: the tokens of a row.
    """

    rows: int
    row_length: int


def training_shapes(lengths: np.ndarray, config: CommonSettings, replicas: int) -> list[Shape]:
    """Chooses the fixed shapes of a task's training batches from the lengths of its windows.

    They are the same for every trial, since what dropout draws depends on the shape.

    Args:
      lengths: int64 [windows], the tokens of each.
      config: all settings.
      replicas: the number of devices that share a batch.

    Returns:
      Three shapes or fewer, the shortest first; without `run.pack` one of
      train_batch_size rows of sequence_length tokens.
    """
    size = config.train_batch_size
    if not config.run.pack:
        return [Shape(size, config.sequence_length)]
    generator = np.random.default_rng(0)
    epochs = math.ceil(_SAMPLE * size / len(lengths))
    sample = np.concatenate([generator.permutation(lengths) for _ in range(epochs)])
    return choose_shapes(sample[: _SAMPLE * size].reshape(-1, size), lengths.max(), replicas)


def choose_shapes(batches: np.ndarray, longest: int, replicas: int) -> list[Shape]:
    """Chooses the fixed shapes in which batches like these have the least padding.

    All have the same number of rows: a multiple of the replicas by a power of two, the largest one
    with a share of padding up to `_MOST_PADDING` (0.14), since attention costs less in shorter
    rows. Two shapes take most batches. The third one is half as long again, over the median, as the
    longest batch needs, so that it takes what the sample does not have.

    Args:
      batches: int64 [batches, examples], the tokens of each example.
      longest: the tokens of the longest example of all.
      replicas: the number of devices that share a batch.

    Returns:
      Three shapes or fewer, the shortest first; row lengths are multiples of 16.
    """
    best: list[Shape] = []
    least = math.inf
    rows = replicas
    while not best or rows <= batches.shape[1]:
        needed = [row_placement.deal(lengths, rows).row_length for lengths in batches]
        beyond = max(needed) + (max(needed) - float(np.median(needed))) / 2
        last = rounded(max(beyond, longest))
        lengths, counts = np.unique([rounded(length) for length in needed], return_counts=True)
        up_to = np.cumsum(counts)  # batches that need at most such a length
        # Tokens of a row in all batches, by the first shape (down) and the second one (across).
        total = (
            np.expand_dims(lengths * up_to, 1)
            + lengths * np.maximum(up_to - up_to[:, np.newaxis], 0)
            + last * (len(batches) - np.maximum(up_to, up_to[:, np.newaxis]))
        )
        padding = 1 - batches.sum() / (rows * total.min())
        if padding < max(least, _MOST_PADDING):
            least = padding
            first, second = np.unravel_index(total.argmin(), total.shape)
            # On BC5-chem and HoC, two shapes leave 16 % of the tokens to padding, three leave 12 %
            # (tests/tfbio/task_types/test_fixed_shapes.py).
            chosen = sorted({int(lengths[first]), int(lengths[second]), last})
            best = [Shape(rows, length) for length in chosen]
        rows *= 2
    return best


def rounded(length: float) -> int:
    """Returns the next row length of fixed shapes, a multiple of `_ROW_UNIT` (16) tokens."""
    return math.ceil(length / _ROW_UNIT) * _ROW_UNIT


class Batch(NamedTuple):
    """A batch of one of the fixed shapes, and the places of its windows.

    Attributes:
      shape: the number of its shape among `FixedShapePacker.shapes`.
      arrays: name -> array [replicas, ...], see `FixedShapePacker`.
      texts: int64 [texts], the numbers of its windows among all windows.
      replica: int64 [texts], the replica of each.
      first: int64 [texts], the place of its first token among those of its replica.
      number: int64 [texts], its number among the replica's, from 0.
    """

    shape: int
    arrays: dict[str, np.ndarray]
    texts: np.ndarray
    replica: np.ndarray
    first: np.ndarray
    number: np.ndarray


class FixedShapePacker:
    """Packs windows into batches of given fixed shapes, as a TPU needs.

    `packing.Packer` gives each batch the shape that it needs.

    The arrays of a batch are those of `packing.fill`, with the replicas in front, and padded to the
    longest shape: [replicas, rows of a replica, longest row_length, ...]. `first` and the arrays of
    `per_window` are padded to `count` windows of a replica, [replicas, count, ...]; where the
    features have `per_window`, `real`, float32 [replicas, count], is 1 for windows and 0 for
    padding. In place of `positions`, whose length depends on the data, there are numbers of
    windows, as in `document_ids`: `NAME_of_tokens`, int32 [replicas, rows, row_length, groups], has
    for each token the window that has the token in a group, or 0.

    Args:
      features: all windows.
      shapes: the shapes, the shortest first, all of the same number of rows.
      replicas: the number of devices that share a batch.
      pad_id: the id of [PAD].
      count: the most windows of a replica.

    Attributes:
      features, shapes, replicas, pad_id, count: as given, the shapes as a tuple.
      lengths: int64 [windows], the tokens of each.
      token_arrays: the names of the arrays that have elements for each token, a tuple.
    """

    def __init__(
        self, features: Features, shapes: Sequence[Shape], replicas: int, pad_id: int, count: int
    ):
        self.features, self.shapes, self.replicas = features, tuple(shapes), replicas
        self.pad_id, self.count, self.lengths = pad_id, count, features.lengths
        # A tuple: two equal sets would be two graphs for `tf.function`.
        self.token_arrays = (*_OF_TOKENS, *features.per_token, *map(_of_tokens, features.positions))

    def fit(self, chosen: np.ndarray) -> tuple[Places, int]:
        """Chooses the shortest of the fixed shapes that holds a batch's windows, and places them.

        Args:
          chosen: int64 [n], the numbers of the windows.

        Returns:
          `Places`, with the row and first token of each window, int64 [n]; and the number of the
          shape.

        Raises:
          ValueError: no shape holds them.
        """
        places = row_placement.deal(self.lengths[chosen], self.shapes[0].rows)
        for number, shape in enumerate(self.shapes):
            if places.row_length <= shape.row_length:
                return places, number
        raise ValueError(f"no shape holds a row of {places.row_length} tokens")

    def train_batch(self, chosen: np.ndarray) -> Batch:
        """Makes a training batch of the shortest of the fixed shapes that holds the windows.

        Args:
          chosen: int64 [n], the numbers of the windows.

        Raises:
          ValueError: no shape holds them.
          IndexError: a replica gets more than `count` windows.
        """
        return self._batch(chosen, *self.fit(chosen))

    def predict_batches(self) -> Iterator[Batch]:
        """Yields batches of one fixed shape, the first, for the prediction of all windows.

        The windows stand in another order than in the features; rows of the last `Batch` may be
        empty.
        """
        rows, row_length = self.shapes[0]
        places = row_placement.best_fit(
            self.lengths, row_length, self.count * self.replicas // rows
        )
        by_row = np.argsort(places.row, kind="stable")
        batch = places.row[by_row] // rows
        for chosen in np.split(by_row, np.flatnonzero(np.diff(batch)) + 1):
            yield self._batch(
                chosen, Places(places.row[chosen] % rows, places.start[chosen], rows, row_length), 0
            )

    def _batch(self, chosen: np.ndarray, places: Places, shape: int) -> Batch:
        features, lengths, longest = self.features, self.lengths[chosen], self.shapes[-1].row_length
        rows = places.rows // self.replicas
        replica = places.row // rows
        first = places.row % rows * self.shapes[shape].row_length + places.start
        # Each text's number in its replica.
        order = np.argsort(replica, kind="stable")
        number = np.zeros_like(first)
        number[order] = np.arange(len(chosen)) - np.searchsorted(replica[order], replica[order])

        ends = np.cumsum(lengths)
        positions = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        start = places.row * longest + places.start
        here = np.repeat(start, lengths) + positions

        def per_token(values: np.ndarray, padding: float = 0) -> np.ndarray:
            array = np.full([places.rows * longest, *values.shape[1:]], padding, values.dtype)
            array[here] = values
            return array.reshape([self.replicas, rows, longest, *values.shape[1:]])

        def per_window(values: np.ndarray) -> np.ndarray:
            array = np.zeros([self.replicas, self.count, *values.shape[1:]], values.dtype)
            array[replica, number] = values
            return array

        arrays = {
            "input_ids": per_token(
                _joined(features.input_ids, chosen).astype(np.int32), self.pad_id
            ),
            "segment_ids": per_token(_joined(features.segment_ids, chosen).astype(np.int32)),
            "position_ids": per_token(positions.astype(np.int32)),
            "document_ids": per_token(np.repeat(number + 1, lengths).astype(np.int32)),
            "first": per_window(first.astype(np.int32)),
        }
        for name, (values, padding) in features.per_token.items():
            arrays[name] = per_token(_joined(values, chosen), padding)
        for name, values in features.per_window.items():
            arrays[name] = per_window(np.stack([values[window] for window in chosen]))
        if features.per_window:
            arrays["real"] = per_window(np.ones([len(chosen)], np.float32))
        for name, values in features.positions.items():
            groups = np.stack([values[window] for window in chosen])  # [windows, groups, most]
            ids = np.zeros([places.rows * longest, groups.shape[1]], np.int32)
            tokens = start[:, None, None] + groups
            ids[tokens, np.arange(groups.shape[1])[:, None]] = number[:, None, None] + 1
            arrays[_of_tokens(name)] = ids.reshape([self.replicas, rows, longest, -1])
        return Batch(shape, arrays, chosen, replica, first, number)


def _of_tokens(name: str) -> str:
    """Returns "NAME_of_tokens", the name of the array in a batch that stands in for positions."""
    return f"{name}_of_tokens"


def _joined(values: Sequence[np.ndarray], chosen: np.ndarray) -> np.ndarray:
    """Returns the tokens' values of the windows `chosen`, one window after another."""
    return np.concatenate([values[window] for window in chosen])


def prediction_packer(
    features: Features, config: CommonSettings, replicas: int, pad_id: int
) -> FixedShapePacker:
    """Makes the `FixedShapePacker` for prediction, whose one shape depends on the settings alone.

    Its rows have sequence_length tokens, and all of a batch hold about `run.eval_batch_size` texts.

    Args:
      features: all windows, none longer than sequence_length.
      config: all settings.
      replicas: the number of devices that share a batch.
      pad_id: the id of [PAD].
    """
    row_length, size, most = config.sequence_length, config.run.eval_batch_size, 1
    if config.run.pack:
        # Texts fill a quarter of sequence_length or so: a batch has about eval_batch_size of them.
        size, most = math.ceil(size / 4), row_length // _TOKENS_A_TEXT
    rows = math.ceil(size / replicas)
    return FixedShapePacker(
        features, [Shape(rows * replicas, row_length)], replicas, pad_id, rows * most
    )


def has_fixed_shapes(config: CommonSettings, strategy: tf.distribute.Strategy) -> bool:
    """Returns True if the batches of a run have one of a few fixed shapes, as on a TPU.

    Args:
      config: all settings; `run.fixed_shapes` "auto" stands for a TPU alone.
      strategy: the strategy to compute with.
    """
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    return config.run.fixed_shapes == "always" or (config.run.fixed_shapes == "auto" and on_tpu)
