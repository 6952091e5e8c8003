"""Divides a replica's examples into parts, and sums the parts' gradients for one update.

Parts that are worked on one after the other (gradient accumulation) take the activations of one.
Parts that are worked on at the same time, each on a core of its own, keep all cores of a CPU at
work. The result does not change: masks and samples are drawn for the global batch, and a loss is a
mean over it, to which each part adds its share.

Groups (`gradient_clip_groups`) do change the result: each is what a core of a TPU has in the
original ELECTRA code, with losses and a clipped gradient of its own. A group may be in parts, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbio.models import randomness, target
from tfbio.objectives.masking import MaskedBatch
from tfbio.training.gradients import sum_in_turn


class Parts(NamedTuple):
    """The parts of a replica's examples in the gradient accumulation of a pretraining step.

    A replica's examples, or each group of them, are divided into `rounds` * `at_once` equal parts.
    A part has a forward and a backward pass.

    Attributes:
      rounds: the number of rounds of parts, at least 1, one after the other.
      at_once: the number of parts in a round, at least 1, each with operations of its own, which
        may run at the same time.
    """

    rounds: int
    at_once: int


class Part(NamedTuple):
    """The part of a replica's examples that one forward pass sees in gradient accumulation.

    A group is one of those that `sum_of_clipped_groups` divides a replica's examples into.

    Attributes:
      index: int32 [], the number of the part among those of the replica, from 0.
      parts: the number of parts that the replica's examples are divided into.
      masked: float32 [], the number of masked tokens of the global batch, or of the group.
      tokens: float32 [], the number of all tokens but padding of the global batch, or of the group.
      shares: the number of forward passes that the global batch, or the group, takes over all
        replicas.
    """

    index: tf.Tensor
    parts: int
    masked: tf.Tensor
    tokens: tf.Tensor
    shares: int

    def uniform(self, shape: list[int], seed: tf.Tensor) -> tf.Tensor:
        """Draws a part's uniform numbers in gradient accumulation: its rows of a global draw.

        So the numbers of an example do not depend on the number of parts or replicas. Call it in a
        replica's context.

        Args:
          shape: the shape of the result; its first dimension is the number of examples of this
            part.
          seed: int32 [2], the same for all parts and replicas.

        Returns:
          float32 `shape`, in [0, 1).
        """
        return randomness.global_uniform(shape, seed, self.index, self.parts)

    def normal(self, shape: list[int], seed: tf.Tensor) -> tf.Tensor:
        """Draws a part's normal numbers in gradient accumulation: its rows of a global draw.

        So the numbers of an example depend on the number of parts or replicas by their rounding
        alone. Call it in a replica's context.

        Args:
          shape: the shape of the result; its first dimension is the number of examples of this
            part.
          seed: int32 [2], the same for all parts and replicas.

        Returns:
          float32 `shape`, with mean 0 and standard deviation 1.
        """
        return randomness.global_normal(shape, seed, self.index, self.parts)

    def dropout_seed(self, seed: tf.Tensor) -> tf.Tensor:
        """Derives a part's dropout seed in gradient accumulation, so that no two parts share one.

        Args:
          seed: int32 [2], the same for all parts.

        Returns:
          int32 [2]; `seed` itself if there is one part.
        """
        return seed if self.parts == 1 else randomness.fold_in(seed, self.index)


def whole(batch: dict[str, tf.Tensor], masked: MaskedBatch) -> Part:
    """Makes the `Part` of all of a replica's examples, as in a step without gradient accumulation.

    Call it in a replica's context.

    Args:
      batch: int32 [B, L] each, by name; `input_mask`, 1 for tokens and 0 for padding, is read.
      masked: the batch with masked tokens; its `weights`, float32 [B, N], are read.

    Returns:
      A `Part` with index 0, parts 1, as many shares as there are replicas, and as its totals those
      of the global batch, float32 [] each.
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
    """Accumulates gradients: calls a function on each part of a replica's examples, and sums.

    Call it in a replica's context.

    Args:
      function: takes a part of `batch` and `masked`, and the `Part`; returns a list of one tensor
        for each of `like`: the gradients of a part's share of the loss.
      batch: int32 [B, L] each, by name; B must be a multiple of the number of parts.
      masked: the batch with masked tokens, a `MaskedBatch`: `input_ids`, int32 [B, L]; `positions`
        and `ids`, int32 [B, N]; `weights`, float32 [B, N].
      like: the variables whose gradients are summed; [] if `function` returns [], as in evaluation.
      parts: how the examples are divided.
      group: the group that the examples are; None: all of the replica's examples.

    Returns:
      A list of one sum for each of `like`, a tensor of its shape and dtype; with a single part what
      `function` returns.
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
            parts=everything.parts * count,
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

    return sum_in_turn(of_round, range(0, count, at_once), _zeros_like(like))


def sum_of_clipped_groups(
    function: Callable[[dict[str, tf.Tensor], MaskedBatch, Part], list[tf.Tensor]],
    batch: dict[str, tf.Tensor],
    masked: MaskedBatch,
    like: list[tf.Variable],
    parts: Parts,
    groups: int,
    max_norm: float,
) -> list[tf.Tensor]:
    """Accumulates the gradients of groups of a replica's examples, and clips each group's first.

    A group's gradient is the result of `sum_over_parts`. The cores of a TPU do so in the original
    ELECTRA code, each with a group. `run_pretraining.py` takes the means of a loss over a core's
    examples. `create_optimizer` of `model/optimization.py` clips their gradient and gives it to
    `CrossShardOptimizer.apply_gradients`, which sums over the cores. That optimizer would divide by
    their number in `compute_gradients`, which is not called.

    Args:
      function: takes a part of `batch` and `masked`, and the `Part`; returns a list of one gradient
        for each of `like`, of losses that are means over a group.
      batch: int32 [B, L] each, by name; B must be a multiple of the parts of all groups.
      masked: the batch with masked tokens, a `MaskedBatch`: `input_ids`, int32 [B, L]; `positions`
        and `ids`, int32 [B, N]; `weights`, float32 [B, N].
      like: the variables whose gradients are summed.
      parts: how each group is divided.
      groups: the number of groups of a replica, which are worked on one after the other.
      max_norm: the largest global norm that a group's gradient keeps.

    Returns:
      A list of one gradient for each of `like`, a tensor of its shape and dtype; their global norm
      is at most `groups` * `max_norm`.
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
    return sum_in_turn(of_group, range(groups), _zeros_like(like))


def _zeros_like(variables: list[tf.Variable]) -> list[tf.Tensor]:
    """Returns zeros of the shape and dtype of each variable."""
    return [tf.zeros(variable.shape, variable.dtype) for variable in variables]


def _rows(
    index: tf.Tensor, rows: int, batch: dict[str, tf.Tensor], masked: MaskedBatch
) -> tuple[dict[str, tf.Tensor], MaskedBatch]:
    """Returns part `index` of a batch and of its masked tokens; each part has so many rows.

    A part has the rows that follow those of the one before. On a mesh it has every n-th row, so
    that each group of devices has the same share of each part: a slice of rows that are divided
    over devices is whole on each of them, and each would work on all of it.
    """

    def take(values: tf.Tensor) -> tf.Tensor:
        if target.is_mesh():
            parts = values.shape[0] // rows
            return tf.gather(tf.reshape(values, [rows, parts, *values.shape[1:]]), index, axis=1)
        first = [index * rows] + [0] * (values.shape.rank - 1)
        return tf.slice(values, first, [rows, *values.shape[1:]])

    return tf.nest.map_structure(take, (batch, masked))


def share_of_mean(values: tf.Tensor, weights: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    """Computes the share of some examples in a mean loss, a masked language model's or ELECTRA's.

    The mean is weighted and over the global batch; the shares of all replicas and parts sum to it.
    So gradients are summed, and the loss does not depend on how the batch is divided.

    Args:
      values, weights: float32, of one shape.
      total: float32 [], the sum of the weights over the global batch.

    Returns:
      float32 [], the sum of values * weights, over the total and 1e-6 (no division by 0).
    """
    return tf.reduce_sum(values * weights) / (total + 1e-6)
