"""Differentiates a loss: training's only `GradientTape`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

# None: the loss does not depend on the variable.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def differentiate(
    forward: Callable[[], tuple[tf.Tensor, Any]],
    sources: Sequence[tf.Variable | tf.Tensor],
    watched: Sequence[tf.Tensor] = (),
) -> tuple[Any, list[Gradient]]:
    """Differentiates a loss.

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
