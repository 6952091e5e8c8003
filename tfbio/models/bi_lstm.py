"""A bidirectional LSTM over packed texts."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfbio.models.layers import shape_of


class BiLSTM(keras.layers.Layer):
    """A bidirectional LSTM layer on packed rows, which reads each text of a row by itself.

    Args:
      size: the size of the inputs and, both directions together, of the outputs; even.

    Attributes:
      forward, backward: the Keras `LSTMCell` of each direction, with size / 2 units, in float32.
    """

    def __init__(self, size: int):
        super().__init__(name="bi_lstm", dtype="float32")
        self.forward, self.backward = (
            keras.layers.LSTMCell(size // 2, name=name, dtype="float32")
            for name in ("forward", "backward")
        )
        for cell in (self.forward, self.backward):
            cell.build([None, size])

    def call(self, vectors: tf.Tensor, documents: tf.Tensor, for_onnx: bool = False) -> tf.Tensor:
        """Runs the LSTM over each text in both directions, and puts their outputs side by side.

        Args:
          vectors: float32 [rows, tokens, size], the encoder's outputs.
          documents: int32 [rows, tokens], the number of each token's text, from 1; 0 for padding.
          for_onnx: True for the same outputs from a graph that tf2onnx can write: it loses the
            order of a loop that runs backward.

        Returns:
          float32 [rows, tokens, size]; the first half of the last axis is of the direction forward.
          The outputs of padding mean nothing.
        """
        vectors, documents = tf.transpose(vectors, [1, 0, 2]), tf.transpose(documents)
        border = documents[1:] != documents[:-1]
        end = tf.ones_like(border[:1])
        forward = _read(self.forward, vectors, tf.concat([end, border], axis=0), reverse=False)
        begins = tf.concat([border, end], axis=0)
        if for_onnx:
            vectors, begins = (tf.reverse(x, axis=[0]) for x in (vectors, begins))
            backward = tf.reverse(_read(self.backward, vectors, begins, reverse=False), axis=[0])
        else:
            backward = _read(self.backward, vectors, begins, reverse=True)
        return tf.transpose(tf.concat([forward, backward], axis=-1), [1, 0, 2])

    def last_states(self, outputs: tf.Tensor, documents: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        """Returns the state in which each direction of the LSTM has read a whole text.

        Args:
          outputs: float32 [rows * tokens, size], as `call` returns them, the rows end to end.
          documents: int32 [rows, tokens], as in `call`.
          first: int32 [texts], the place of each text's first token among all.

        Returns:
          float32 [texts, size]: forward the output at a text's last token, backward at its first.
        """
        (texts,) = shape_of(first)
        numbers = tf.reshape(documents, [-1]) - 1  # that of padding, -1, is left out
        places = tf.range(tf.size(numbers))
        # Batches of fixed shapes have room for more texts, which are of no token.
        last = tf.maximum(tf.math.unsorted_segment_max(places, numbers, texts), 0)
        half = self.forward.units
        return tf.concat(
            [tf.gather(outputs, last)[:, :half], tf.gather(outputs, first)[:, half:]], axis=1
        )


def _read(
    cell: keras.layers.LSTMCell, vectors: tf.Tensor, begins: tf.Tensor, reverse: bool
) -> tf.Tensor:
    """Runs a cell over the tokens of each row, and forgets its state where a text begins.

    Args:
      cell: the cell of one direction.
      vectors: float32 [tokens, rows, size].
      begins: bool [tokens, rows].
      reverse: True for the direction from the last token to the first.

    Returns:
      float32 [tokens, rows, cell.units].
    """

    def step(
        state: tuple[tf.Tensor, tf.Tensor], token: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        vector, begins_here = token
        kept = [tf.where(begins_here[:, None], 0.0, part) for part in state]
        return tuple(cell(vector, kept)[1])

    _, rows, _ = shape_of(vectors)
    start = tf.zeros([rows, cell.units])
    outputs, _ = tf.scan(step, (vectors, begins), (start, start), reverse=reverse)
    return outputs
