"""Makes the weights of an encoder's layers: drawn at once, in a thread of its own, or not at all.

To draw the weights of a model of BERT-base's size takes seconds, on one core. A model whose weights
are restored needs none, and pretraining traces its step meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import tensorflow as tf
import tf_keras as keras


class _OfThread(threading.local):
    """Holds what a thread sets for the layers that it makes, while others may make theirs."""

    are_restored = False  # see `restored_weights`
    drawing: Drawing | None = None  # see `drawn_meanwhile`


_of_thread = _OfThread()


class Drawing:
    """Initial weights that a thread of its own draws; until then the variables are zeros.

    `drawn_meanwhile` makes one. A weight has the value that it would have at once.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "initial weights")
        self._weights: list[Future[None]] = []

    def draw(self, variable: tf.Variable, initializer: keras.initializers.Initializer) -> None:
        """Draws the initial values of a weight in the thread, and returns nothing.

        Args:
          variable: gets them; a variable of one device.
          initializer: draws them. Its seed is chosen before.
        """

        def assign() -> None:
            variable.assign(initializer(variable.shape, variable.dtype))

        self._weights.append(self._thread.submit(assign))

    def finish(self) -> None:
        """Waits until all variables have their initial weights, and returns nothing.

        Raises:
          tf.errors.OpError: one could not be drawn, such as ResourceExhaustedError.
        """
        try:
            for weight in self._weights:
                weight.result()
        finally:
            self._thread.shutdown(cancel_futures=True)


@contextlib.contextmanager
def drawn_meanwhile() -> Iterator[Drawing]:
    """Draws the initial weights of layers that are made in a `with` block in another thread.

    The layers must be those of one CPU: on another device the same seed gives other numbers.

    Yields:
      The `Drawing`. Call its `finish` before the weights are read or changed.
    """
    before, drawing = _of_thread.drawing, Drawing()
    _of_thread.drawing = drawing
    try:
        yield drawing
    finally:
        _of_thread.drawing = before


@contextlib.contextmanager
def restored_weights() -> Iterator[None]:
    """Makes the weights of layers zeros that are made in a `with` block, and restored after it.

    Yields:
      Nothing.
    """
    before, _of_thread.are_restored = _of_thread.are_restored, True
    try:
        yield
    finally:
        _of_thread.are_restored = before


def weight(
    layer: keras.layers.Layer,
    name: str,
    shape: list[int],
    deviation: float | None,
    autocast: bool = True,
) -> tf.Variable:
    """Adds a trainable weight to a Keras layer of an encoder.

    Args:
      layer: gets the weight.
      name: the name of the weight.
      shape: the shape of the weight.
      deviation: the standard deviation of the truncated normal distribution that the initial
        weights are drawn from; None for Glorot's uniform distribution.
      autocast: whether the layer reads it in the compute dtype of Keras' policy.

    Returns:
      The variable, of that shape, in the dtype of the layer's variables (float32 in a run).
    """
    if deviation is None:
        initializer = keras.initializers.GlorotUniform()
    else:
        initializer = keras.initializers.TruncatedNormal(stddev=deviation)
    drawing = _of_thread.drawing
    if not _of_thread.are_restored and drawing is None:
        return layer.add_weight(
            name, shape, initializer=initializer, experimental_autocast=autocast
        )
    # Keras takes seeds from a generator as it first draws. Here, too, so that this weight and those
    # that are made after it have the values that they have elsewhere.
    initializer._random_generator.make_seed_for_stateless_op()
    variable = layer.add_weight(name, shape, initializer="zeros", experimental_autocast=autocast)
    if drawing is not None and not _of_thread.are_restored:
        drawing.draw(variable, initializer)
    return variable
