"""The hidden layers of a multi-layer perceptron, on the vectors of tokens or texts."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfbio.models import randomness
from tfbio.models.layers import precise_dtype


class MLP(keras.layers.Layer):
    """Dense layers with ReLU, and dropout between them, below the last layer of a head.

    Gu et al. (2021), section 5.2, name an MLP for relations, without its size. The heads of Shin et
    al. (2020), Tables 1 and 2, have one or two layers of 512 or 1,024, and for answers two of
    2,048. The paper does not say where in them its dropout is.

    Args:
      inputs: the size of the vectors.
      num_layers: the number of layers.
      size: the units of each layer.
      deviation: the standard deviation of the initial weights, a truncated normal.

    Attributes:
      hidden: the layers, a list of Keras `Dense`.
    """

    def __init__(self, inputs: int, num_layers: int, size: int, deviation: float):
        super().__init__(name="mlp", dtype=precise_dtype())
        self.hidden = [
            keras.layers.Dense(
                size,
                "relu",
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=deviation),
                name=f"hidden_{number}",
                dtype=precise_dtype(),
            )
            for number in range(num_layers)
        ]
        for layer, width in zip(self.hidden, [inputs, *[size] * (num_layers - 1)], strict=True):
            layer.build([None, width])

    def call(self, vectors: tf.Tensor, dropout_prob: float, seed: tf.Tensor | None) -> tf.Tensor:
        """Computes the output of the last hidden layer of the MLP, without dropout on it.

        Args:
          vectors: float32 [n, inputs], those of tokens or of texts.
          dropout_prob: the probability of dropout between two layers, in [0, 1).
          seed: int32 [2], keys the dropout; None for none.

        Returns:
          float32 [n, size].
        """
        for number, layer in enumerate(self.hidden):
            if number:
                key = None if seed is None else randomness.fold_in(seed, tf.constant(number))
                vectors = randomness.dropout(vectors, dropout_prob, key)
            vectors = layer(vectors)
        return vectors
