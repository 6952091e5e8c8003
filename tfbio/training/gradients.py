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
      forward: computes the loss, float32 [], and whatever else the caller wants to know.
      sources: what to differentiate with respect to.
      watched: those of the sources that are tensors and not variables.

    Returns:
      What else `forward` returned, and a gradient for each source; None where the loss does not
      depend on it.
    """
    with tf.GradientTape() as tape:
        for tensor in watched:
            tape.watch(tensor)
        loss, told = forward()
    return told, tape.gradient(loss, list(sources))
