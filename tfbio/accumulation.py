"""A replica's examples in parts, for one update.

One after the other (gradient accumulation) they take the memory of one part. At the same time, each
on a core of its own, they keep all cores of a CPU at work. What is learnt does not change: masks
and samples are drawn for the global batch, and a loss is a mean over it, of which each part adds
its share.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbio import randomness
from tfbio.masking import MaskedBatch


class Part(NamedTuple):
    """Which of a replica's examples one forward pass sees, and what their losses are shares of."""

    index: tf.Tensor  # int32 []
    count: int  # parts of a replica's examples
    hidden: tf.Tensor  # float32 [], hidden tokens of the global batch
    tokens: tf.Tensor  # float32 [], all its tokens without padding

    @property
    def shares(self) -> int:
        """Forward passes that the global batch takes, over all replicas."""
        return self.count * tf.distribute.get_replica_context().num_replicas_in_sync

    def uniform(self, shape: list[int], seed: tf.Tensor) -> tf.Tensor:
        """These examples' rows of one draw for the global batch; float32 `shape`, in [0, 1)."""
        return randomness.global_uniform(shape, seed, self.index, self.count)

    def dropout_seed(self, seed: tf.Tensor) -> tf.Tensor:
        """A seed that no other part has; int32 [2]."""
        return seed if self.count == 1 else randomness.fold_in(seed, self.index)


def whole(batch: dict[str, tf.Tensor], masked: MaskedBatch) -> Part:
    """All of a replica's examples at once."""
    counted = masked.weights, tf.cast(batch["input_mask"], tf.float32)
    totals = tf.stack([tf.reduce_sum(weights) for weights in counted])
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync > 1:
        totals = replica.all_reduce(tf.distribute.ReduceOp.SUM, totals)
    return Part(tf.constant(0), 1, hidden=totals[0], tokens=totals[1])


def sum_over_parts(
    function: Callable[[dict[str, tf.Tensor], MaskedBatch, Part], list[tf.Tensor]],
    batch: dict[str, tf.Tensor],
    masked: MaskedBatch,
    like: list[tf.Variable],
    rounds: int,
    at_once: int,
) -> list[tf.Tensor]:
    """Calls a function on each part of a replica's examples, and sums what it returns.

    Args:
      function: gives one tensor for each of `like`: the gradients of a part's share of the loss.
      batch: [B, L] each, B a multiple of all parts.
      masked: the batch with tokens hidden.
      like: variables that have the shapes and dtypes of what is returned.
      rounds: of parts, one after the other.
      at_once: parts in a round, each with operations of its own, which may run at the same time.
    """
    everything = whole(batch, masked)
    parts = rounds * at_once
    if parts == 1:
        return function(batch, masked, everything)
    rows = masked.ids.shape[0] // parts

    def of_part(index: tf.Tensor) -> list[tf.Tensor]:
        def take(values: tf.Tensor) -> tf.Tensor:
            first = [index * rows] + [0] * (values.shape.rank - 1)
            return tf.slice(values, first, [rows, *values.shape[1:]])

        own_batch, own_masked = tf.nest.map_structure(take, (batch, masked))
        return function(own_batch, own_masked, everything._replace(index=index, count=parts))

    def of_round(first: tf.Tensor) -> list[tf.Tensor]:
        sums = of_part(first)
        for offset in range(1, at_once):
            added = of_part(first + offset)
            sums = [tf.add_n(pair) for pair in zip(sums, added, strict=True)]
        return sums

    if rounds == 1:
        return of_round(tf.constant(0))

    def add_round(index: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        added = of_round(index)
        return [index + at_once, *(a + b for a, b in zip(sums, added, strict=True))]

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in like]
    # One at a time: in parallel they would take the memory of all.
    _, *sums = tf.while_loop(
        lambda index, *_: index < parts,
        add_round,
        [tf.constant(0), *zeros],
        parallel_iterations=1,
        maximum_iterations=rounds,
    )
    return sums
