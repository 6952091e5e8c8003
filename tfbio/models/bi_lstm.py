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
      forward, backward: the Keras `LSTMCell` of each direction, with size / 2 units, in float32;
        they hold the weights, in Keras's form.
    """

    def __init__(self, size: int):
        super().__init__(name="bi_lstm", dtype="float32")
        self.forward, self.backward = (
            keras.layers.LSTMCell(size // 2, name=name, dtype="float32")
            for name in ("forward", "backward")
        )
        for cell in (self.forward, self.backward):
            cell.build([None, size])

    def call(self, vectors: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
        """Runs the LSTM over each text in both directions, and puts their outputs side by side.

        Args:
          vectors: float32 [rows, tokens, size], the encoder's outputs.
          documents: int32 [rows, tokens], the number of each token's text, from 1; 0 for padding.

        Returns:
          float32 [rows, tokens, size]; the first half of the last axis is of the direction forward.
          The outputs of padding mean nothing.
        """
        vectors, documents = tf.transpose(vectors, [1, 0, 2]), tf.transpose(documents)
        border = documents[1:] != documents[:-1]
        end = tf.ones_like(border[:1])
        begins = [tf.concat([end, border], axis=0), tf.concat([border, end], axis=0)]
        # All tokens at once: one product for each, with its gradient, takes much longer.
        inputs = [
            tf.tensordot(vectors, cell.kernel, axes=1) + cell.bias
            for cell in (self.forward, self.backward)
        ]
        # Both directions are read in one loop, which so has half the steps. tf2onnx would lose the
        # order of a loop that runs backward.
        inputs[1], begins[1] = (tf.reverse(x, axis=[0]) for x in (inputs[1], begins[1]))
        kernels = tf.stack([self.forward.recurrent_kernel, self.backward.recurrent_kernel])
        outputs = _read(tf.stack(inputs, axis=1), tf.stack(begins, axis=1), kernels)
        both = [outputs[:, 0], tf.reverse(outputs[:, 1], axis=[0])]
        return tf.transpose(tf.concat(both, axis=-1), [1, 0, 2])

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


def _read(inputs: tf.Tensor, begins: tf.Tensor, kernels: tf.Tensor) -> tf.Tensor:
    """Runs an LSTM over the tokens of each row, and forgets its state where a text begins.

    Args:
      inputs: float32 [tokens, directions, rows, 4 * units], what each token adds to the gates, in
        the order of Keras's `LSTMCell`: input, forget, candidate, output.
      begins: bool [tokens, directions, rows].
      kernels: float32 [directions, units, 4 * units], what the last output adds to them.

    Returns:
      float32 [tokens, directions, rows, units].
    """

    def step(
        state: tuple[tf.Tensor, tf.Tensor], token: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        of_token, begins_here = token
        hidden, memory = (tf.where(begins_here[..., tf.newaxis], 0.0, part) for part in state)
        gates = tf.split(of_token + tf.matmul(hidden, kernels), 4, axis=-1)
        written, kept, candidate, shown = gates
        memory = tf.sigmoid(kept) * memory + tf.sigmoid(written) * tf.tanh(candidate)
        return tf.sigmoid(shown) * tf.tanh(memory), memory

    _, directions, rows, size = shape_of(inputs)
    start = tf.zeros([directions, rows, size // 4])
    outputs, _ = tf.scan(step, (inputs, begins), (start, start))
    return outputs
