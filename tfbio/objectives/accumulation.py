"""Divides a replica's examples into parts, and sums the parts' gradients for one update.

Parts that are worked on one after the other (gradient accumulation) take the memory of one part.
Parts that are worked on at the same time, each on a core of its own, keep all cores of a CPU at
work. The result does not change: masks and samples are drawn for the global batch, and a loss is a
mean over it, to which each part adds its share.

Groups (`gradient_clip_groups`) do change the result: each is what a core of a TPU has in the
original ELECTRA code, with losses and a clipped gradient of its own. A group may be in parts, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbio.models import randomness
from tfbio.objectives.masking import MaskedBatch


class Parts(NamedTuple):
    """The division of a replica's examples, or of a group of them, into parts.

    Attributes:
      rounds: rounds of parts, one after the other.
      at_once: parts in a round, each with operations of its own, which may run at the same time.
    """

    rounds: int
    at_once: int


class Part(NamedTuple):
    """The examples of a replica that a forward pass sees, and the totals for their losses.

    Attributes:
      index: int32 [], the number of the part.
      count: parts of a replica's examples.
      masked: float32 [], masked tokens of the global batch, or of the group.
      tokens: float32 [], all tokens of the global batch, or of the group, without padding.
      shares: forward passes that the global batch, or the group, takes over all replicas.
    """

    index: tf.Tensor
    count: int
    masked: tf.Tensor
    tokens: tf.Tensor
    shares: int

    def uniform(self, shape: list[int], seed: tf.Tensor) -> tf.Tensor:
        """Draws uniform numbers: these examples' rows of one draw for the global batch.

        Args:
          shape: the shape of the result; its first dimension is the examples of this part.
          seed: int32 [2].

        Returns:
          float32 `shape`, in [0, 1).
        """
        return randomness.global_uniform(shape, seed, self.index, self.count)

    def dropout_seed(self, seed: tf.Tensor) -> tf.Tensor:
        """Derives a seed that no other part has; int32 [2] -> int32 [2]."""
        return seed if self.count == 1 else randomness.fold_in(seed, self.index)


def whole(batch: dict[str, tf.Tensor], masked: MaskedBatch) -> Part:
    """Returns the `Part` that has all of a replica's examples; call it in a replica's context.

    Its index is 0, its count 1, and its totals are those of the global batch.

    Args:
      batch: int32 [B, L] each, by name; `input_mask` is read.
      masked: the batch with masked tokens; its `weights`, float32 [B, N], are read.
    """
    totals = _totals(batch, masked)
    replica = tf.distribute.get_replica_context()
    replicas = replica.num_replicas_in_sync
    if replicas > 1:
        totals = replica.all_reduce(tf.distribute.ReduceOp.SUM, totals)
    return Part(tf.constant(0), 1, masked=totals[0], tokens=totals[1], shares=replicas)


def _totals(batch: dict[str, tf.Tensor], masked: MaskedBatch) -> tf.Tensor:
    """Counts the masked tokens and all tokens of some examples; float32 [2]."""
    counted = masked.weights, tf.cast(batch["input_mask"], tf.float32)
    return tf.stack([tf.reduce_sum(weights) for weights in counted])


def sum_over_parts(
    function: Callable[[dict[str, tf.Tensor], MaskedBatch, Part], list[tf.Tensor]],
    batch: dict[str, tf.Tensor],
    masked: MaskedBatch,
    like: list[tf.Variable],
    parts: Parts,
    group: Part | None = None,
) -> list[tf.Tensor]:
    """Calls a function on each part of a replica's examples, and sums what it returns.

    Args:
      function: takes a part of `batch` and `masked`, and the `Part`; returns one tensor for each of
        `like`: the gradients of a part's share of the loss.
      batch: int32 [B, L] each, by name; B a multiple of all parts.
      masked: the batch with masked tokens: a `MaskedBatch` of int32 [B, L] and int32 and float32
        [B, N].
      like: variables with the shapes and dtypes of the results.
      parts: how the examples are divided.
      group: which of the replica's examples these are; None: all.

    Returns:
      A list of one sum for each of `like`, of its shape and dtype.
    """
    everything = group or whole(batch, masked)
    rounds, at_once = parts
    count = rounds * at_once
    if count == 1:
        return function(batch, masked, everything)
    rows = masked.ids.shape[0] // count

    def of_part(index: tf.Tensor) -> list[tf.Tensor]:
        own_batch, own_masked = _rows(index, rows, batch, masked)
        part = everything._replace(
            index=index if group is None else group.index * count + index,
            count=everything.count * count,
            shares=everything.shares * count,
        )
        return function(own_batch, own_masked, part)

    def of_round(first: tf.Tensor) -> list[tf.Tensor]:
        sums = of_part(first)
        for offset in range(1, at_once):
            added = of_part(first + offset)
            sums = [tf.add_n(pair) for pair in zip(sums, added, strict=True)]
        return sums

    if rounds == 1:
        return of_round(tf.constant(0))

    return _sum_in_turn(of_round, range(0, count, at_once), like)


def sum_of_clipped_groups(
    function: Callable[[dict[str, tf.Tensor], MaskedBatch, Part], list[tf.Tensor]],
    batch: dict[str, tf.Tensor],
    masked: MaskedBatch,
    like: list[tf.Variable],
    parts: Parts,
    groups: int,
    max_norm: float,
) -> list[tf.Tensor]:
    """Calls `sum_over_parts` for each group of a replica's examples, clips each sum, and adds them.

    The cores of a TPU do so in the original ELECTRA code, each with a group. `run_pretraining.py`
    takes the means of a loss over a core's examples. `create_optimizer` of `model/optimization.py`
    clips their gradient and gives it to `CrossShardOptimizer.apply_gradients`, which sums over the
    cores. That optimizer would divide by their number in `compute_gradients`, which is not called.

    Args:
      function: takes a part of `batch` and `masked`, and the `Part`; returns one gradient for each
        of `like`, of losses that are means over a group.
      batch: int32 [B, L] each, by name; B a multiple of all parts of all groups.
      masked: the batch with masked tokens: a `MaskedBatch` of int32 [B, L] and int32 and float32
        [B, N].
      like: variables with the shapes and dtypes of the results.
      parts: how each group is divided.
      groups: how many a replica has; they are worked on one after the other.
      max_norm: the largest global norm that a group's gradient keeps.

    Returns:
      A list of a gradient for each of `like`, of its shape and dtype; their global norm is at most
      `groups` * `max_norm`.
    """
    rows = masked.ids.shape[0] // groups

    def of_group(index: tf.Tensor) -> list[tf.Tensor]:
        own_batch, own_masked = _rows(index, rows, batch, masked)
        totals = _totals(own_batch, own_masked)
        group = Part(index, groups, masked=totals[0], tokens=totals[1], shares=1)
        summed = sum_over_parts(function, own_batch, own_masked, like, parts, group)
        summed = [tf.convert_to_tensor(gradient) for gradient in summed]
        return tf.clip_by_global_norm(summed, max_norm)[0]

    if groups == 1:
        return of_group(tf.constant(0))
    return _sum_in_turn(of_group, range(groups), like)


def _rows(
    index: tf.Tensor, rows: int, batch: dict[str, tf.Tensor], masked: MaskedBatch
) -> tuple[dict[str, tf.Tensor], MaskedBatch]:
    """Returns part `index` of a batch and of its masked tokens; each part has so many rows."""

    def take(values: tf.Tensor) -> tf.Tensor:
        first = [index * rows] + [0] * (values.shape.rank - 1)
        return tf.slice(values, first, [rows, *values.shape[1:]])

    return tf.nest.map_structure(take, (batch, masked))


def _sum_in_turn(
    function: Callable[[tf.Tensor], list[tf.Tensor]], indices: range, like: list[tf.Variable]
) -> list[tf.Tensor]:
    """Sums the results of a function of an index, int32 []; as many tensors as `like` has."""

    def add(index: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        added = function(index)
        return [index + indices.step, *(a + b for a, b in zip(sums, added, strict=True))]

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in like]
    # One at a time: in parallel they would take the memory of all.
    _, *sums = tf.while_loop(
        lambda index, *_: index < indices.stop,
        add,
        [tf.constant(0), *zeros],
        parallel_iterations=1,
        maximum_iterations=len(indices),
    )
    return sums
