"""Differentiates a loss: training's only `GradientTape`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

from tfbio.models import target

# None: the loss does not depend on the variable.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def differentiate(
    forward: Callable[[], tuple[tf.Tensor, Any]],
    sources: Sequence[tf.Variable | tf.Tensor],
    watched: Sequence[tf.Tensor] = (),
) -> tuple[Any, list[Gradient]]:
    """Computes the gradients of a loss, for whatever applies them, such as `optimization`.

    Args:
      forward: computes the loss, float32 [], and any further result for the caller.
      sources: what to differentiate with respect to, n variables or tensors.
      watched: the sources that are tensors and not variables.

    Returns:
      The further result of `forward`, and a list of n gradients. Each has the shape and dtype of
      its source, or is a `tf.IndexedSlices` of it; None where the loss does not depend on the
      source.
    """
    with tf.GradientTape() as tape:
        for tensor in watched:
            tape.watch(tensor)
        loss, told = forward()
    return told, tape.gradient(loss, list(sources))


def sum_in_turn(
    function: Callable[[tf.Tensor], list[tf.Tensor]], indices: range, zeros: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Sums what a function of an index returns, such as the gradients of a part of the examples.

    Args:
      function: takes an index, int32 [], and returns n tensors.
      indices: the indices, from 0.
      zeros: n zeros, of the shapes and dtypes of the tensors.

    Returns:
      A list of n sums.
    """

    def add(index: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        added = function(index)
        return [index + indices.step, *(a + b for a, b in zip(sums, added, strict=True))]

    # One at a time: in parallel they would take the memory of all.
    _, *sums = tf.while_loop(
        lambda index, *_: index < indices.stop,
        add,
        [tf.constant(0), *zeros],
        parallel_iterations=1,
        maximum_iterations=len(indices),
    )
    return sums


def apply_clipped(
    optimizer: keras.optimizers.legacy.Optimizer,
    gradients: list[tf.Tensor],
    variables: list[tf.Variable],
    max_norm: float,
) -> tf.Tensor:
    """Takes an optimizer's step by summed and clipped gradients, if their norm is finite.

    The gradients are summed over the replicas, and their global norm is clipped. Call it in a
    replica's context. Where the norm is not finite the step is counted, and no variable changes.

    Args:
      optimizer: an `Adam` or a `lamb.Lamb`, which counts the step in any case.
      gradients: the gradients of this replica, each of its variable's shape and dtype.
      variables: the variables to update.
      max_norm: the largest global norm that gradients keep; 0: they are not clipped.

    Returns:
      float32 [], the global norm before clipping.
    """
    replica = tf.distribute.get_replica_context()
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    if replica.num_replicas_in_sync > 1:
        gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    norm = _norm_on_mesh(gradients) if target.is_mesh() else tf.linalg.global_norm(gradients)
    optimizer.applies = tf.math.is_finite(norm)
    # That of `tf.clip_by_global_norm`. The optimizer multiplies by it in the pass in which it
    # zeroes gradients that are not finite.
    scale = max_norm / tf.maximum(norm, max_norm) if max_norm else 1.0
    optimizer.gradient_scale = tf.where(optimizer.applies, scale, 0.0)
    optimizer.apply_gradients(
        zip(gradients, variables, strict=True), experimental_aggregate_gradients=False
    )
    return norm


def _norm_on_mesh(gradients: list[tf.Tensor]) -> tf.Tensor:
    """Computes `tf.linalg.global_norm` in operations that DTensor divides.

    Its pass over sums of squares ends the process where gradients are divided in several ways.
    """
    return tf.sqrt(sum(tf.reduce_sum(tf.square(gradient)) for gradient in gradients))
