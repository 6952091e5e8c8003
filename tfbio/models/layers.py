"""The layers of an encoder: self-attention, feed-forward network, and the layers in them.

Each product is a plain matrix product on `[batch * length, hidden]`; see `encoder`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras as keras

from tfbio.models import compiled, target
from tfbio.models.activations import ACTIVATIONS
from tfbio.models.attention import attend
from tfbio.models.biases import add_bias, sum_of_rows
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.initial_weights import weight
from tfbio.models.randomness import dropout
from tfbio.models.residuals import add_with_dropout


class TransformerLayer(keras.layers.Layer):
    """One of the layers of an encoder's stack, in the form for CPUs and GPUs.

    It has self-attention and a feed-forward network, each with a residual and a LayerNorm: after
    the residual, or with `layer_norm_first` before the sub-layer. `tpu_layers` computes the same in
    the form for a TPU.

    Args:
      config: the settings of the encoder.
      name: the name of the layer.

    Attributes:
      num_heads: the number of heads of attention.
      layer_norm_first: True if each LayerNorm comes before its sub-layer.
      hidden_dropout_prob, attention_dropout_prob: the shares that dropout zeroes, in [0, 1).
      query_key_value, attention_output, attention_norm: the layers of attention, two `Dense` and a
        `LayerNorm`.
      intermediate, output_dense, output_norm: the layers of the feed-forward network, two `Dense`
        and a `LayerNorm`.
      activation: the function between `intermediate` and `output_dense`.
    """

    def __init__(self, config: EncoderConfig, name: str):
        super().__init__(name=name)
        size, deviation = config.hidden_size, config.initializer_range
        epsilon = config.layer_norm_eps
        self.num_heads = config.num_attention_heads
        self.layer_norm_first = config.layer_norm_first
        self.hidden_dropout_prob = config.hidden_dropout_prob
        self.attention_dropout_prob = config.attention_probs_dropout_prob
        before_residual = config.residual_initializer_range
        self.query_key_value = Dense(size, 3 * size, deviation, "attention/query_key_value")
        self.attention_output = Dense(size, size, before_residual, "attention/output")
        self.attention_norm = LayerNorm(size, epsilon, "attention/output/LayerNorm")
        self.activation = ACTIVATIONS[config.hidden_act]
        self.intermediate = Dense(size, config.intermediate_size, deviation, "intermediate")
        self.output_dense = Dense(config.intermediate_size, size, before_residual, "output")
        self.output_norm = LayerNorm(size, epsilon, "output/LayerNorm")

    def call(
        self,
        hidden: tf.Tensor,
        attention_bias: tf.Tensor,
        seeds: Sequence[tf.Tensor] | None = None,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes one Transformer layer (Vaswani et al., 2017, section 3.1, as BERT has it).

        With `layer_norm_first` it is that of Shoeybi et al. (2019), figure 7b.

        Args:
          hidden: [batch * length, hidden_size], any float dtype.
          attention_bias: [batch, 1, 1 or length, length], added to the scores; the dtype of
            `hidden`.
          seeds: int32 [2] for each of the three dropouts; None for no dropout.
          rows: int32 [n], in training of static shape, the rows whose output is wanted; None for
            all. The layer computes what follows its attention for these alone.

        Returns:
          [batch * length, hidden_size], or [n, hidden_size], of the dtype of `hidden`.
        """
        attention_seed, first_seed, second_seed = [None] * 3 if seeds is None else seeds
        in_training = seeds is not None
        before = self.attention_norm(hidden) if self.layer_norm_first else hidden
        context = self._attend(before, attention_bias, attention_seed)
        if rows is not None:
            context, hidden = tf.gather(context, rows), tf.gather(hidden, rows)
        hidden = self._add(self.attention_output, context, hidden, first_seed, in_training)
        if not self.layer_norm_first:
            hidden = self.attention_norm(hidden)
        before = self.output_norm(hidden) if self.layer_norm_first else hidden
        bias = tf.convert_to_tensor(self.intermediate.bias)
        inner = self.activation(self.intermediate.product(before), bias, in_training)
        hidden = self._add(self.output_dense, inner, hidden, second_seed, in_training)
        return hidden if self.layer_norm_first else self.output_norm(hidden)

    def _add(
        self,
        dense: Dense,
        inputs: tf.Tensor,
        residual: tf.Tensor,
        seed: tf.Tensor | None,
        in_training: bool,
    ) -> tf.Tensor:
        """Adds what a dense layer makes of its inputs, after dropout, to the residual."""
        rate = self.hidden_dropout_prob
        if in_training and compiled.is_for(residual.dtype):
            bias = tf.convert_to_tensor(dense.bias)
            return add_with_dropout(dense.product(inputs), bias, residual, rate, seed)
        return dropout(dense(inputs), rate, seed) + residual

    def _attend(
        self, hidden: tf.Tensor, attention_bias: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        batch, _, _, length = shape_of(attention_bias)
        size = hidden.shape[-1]
        head_size = size // self.num_heads
        if target.is_mesh():
            return self._attend_on_mesh(hidden, attention_bias, seed)
        projected = tf.reshape(
            self.query_key_value(hidden, apart=seed is not None and hidden.dtype == tf.bfloat16),
            [batch, length, 3 * self.num_heads, head_size],
        )
        # One transpose for all; `split`, because the gradient of slicing is three paddings.
        query, key, value = tf.split(tf.transpose(projected, [0, 2, 1, 3]), 3, axis=1)
        context = attend(query, key, value, attention_bias, self.attention_dropout_prob, seed)
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch * length, size])

    def _attend_on_mesh(
        self, hidden: tf.Tensor, attention_bias: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        batch, _, _, length = shape_of(attention_bias)
        size = hidden.shape[-1]
        heads = [batch, length, self.num_heads, size // self.num_heads]
        query, key, value = (
            tf.transpose(tf.reshape(projected, heads), [0, 2, 1, 3])
            for projected in _three_products(self.query_key_value, hidden)
        )
        query *= 1.0 / math.sqrt(size // self.num_heads)
        scores = tf.matmul(query, key, transpose_b=True) + attention_bias
        weights = dropout(tf.nn.softmax(scores), self.attention_dropout_prob, seed)
        context = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return tf.reshape(context, [batch * length, size])


def _three_products(layer: Dense, inputs: tf.Tensor) -> list[tf.Tensor]:
    """Computes the query, key and value layer for a mesh, which divides the columns of each.

    Args:
      layer: has the kernel [size, 3 * size], which is [size, 3, size] on a mesh, and the bias.
      inputs: float [rows, size].

    Returns:
      A list of query, key and value, [rows, size] each.
    """
    size = inputs.shape[-1]
    kernels, biases = tf.convert_to_tensor(layer.kernel), tf.convert_to_tensor(layer.bias)
    if kernels.shape.rank == 2:
        kernels, biases = tf.reshape(kernels, [size, 3, size]), tf.reshape(biases, [3, size])
    return [tf.matmul(inputs, kernels[:, i]) + biases[i] for i in range(3)]


class Dense(keras.layers.Layer):
    """A dense layer of an encoder: multiplies rows with a matrix, and adds a bias.

    Args:
      inputs: the number of numbers in a row.
      outputs: the number of numbers in a row of the result.
      deviation: the standard deviation of the truncated normal distribution that the initial
        weights are drawn from. None: they are drawn from Glorot's uniform distribution,
        TensorFlow 1's default, which the original ELECTRA code leaves to `embeddings_project`
        (`modeling.py:BertModel`) and to the discriminator's last layer
        (`run_pretraining.py:PretrainingModel`).
      name: the name of the layer, which the names of its weights begin with.

    Attributes:
      kernel: the variable [inputs, outputs], float32 in a run.
      bias: the variable [outputs], float32 in a run; 0 at first.
    """

    def __init__(self, inputs: int, outputs: int, deviation: float | None, name: str):
        super().__init__(name=name.replace("/", "_"))
        self.kernel = weight(self, f"{name}/kernel", [inputs, outputs], deviation)
        self.bias = self.add_weight(f"{name}/bias", [outputs], initializer="zeros")

    def call(self, inputs: tf.Tensor, apart: bool = False) -> tf.Tensor:
        """Computes the dense layer of rows.

        Args:
          inputs: float [rows, inputs], in the compute dtype of Keras' policy (float32 or bfloat16
            in a run).
          apart: see `add_bias`.

        Returns:
          [rows, outputs], in that dtype.
        """
        return add_bias(self.product(inputs), tf.convert_to_tensor(self.bias), apart)

    def product(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes the dense layer of rows, but for its bias; see `call`."""
        return tf.matmul(inputs, self.kernel)


def precise_dtype() -> tf.DType:
    """Returns the dtype of what layers compute in float32 where all else is in bfloat16.

    It is `tf.float32`. Under Keras' policy "float64" it is `tf.float64`: so scripts/parity.py
    judges the rounding of the other code alone.
    """
    compute_dtype = keras.mixed_precision.global_policy().compute_dtype
    return tf.float64 if compute_dtype == "float64" else tf.float32


class LayerNorm(keras.layers.Layer):
    """A layer of an encoder that normalises rows over their last axis, in `precise_dtype`.

    Args:
      size: the number of numbers in a row.
      epsilon: added to the variance.
      name: the name of the layer, which the names of its weights begin with.

    Attributes:
      gamma: the variable [size] that scales, float32 in a run; 1 at first.
      beta: the variable [size] that is added, float32 in a run; 0 at first.
      epsilon: added to the variance.
    """

    def __init__(self, size: int, epsilon: float, name: str = "LayerNorm"):
        super().__init__(name=name.replace("/", "_"))
        self.epsilon = epsilon
        # Not rounded to bfloat16 on their way to `call`, nor are their gradients.
        exact = {"experimental_autocast": False}
        self.gamma = self.add_weight(f"{name}/gamma", [size], initializer="ones", **exact)
        self.beta = self.add_weight(f"{name}/beta", [size], initializer="zeros", **exact)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises rows: any float [rows, size] -> [rows, size] of the same dtype."""
        if target.is_onednn_prediction() and not tf.executing_eagerly():
            return _onednn_layer_norm(inputs, self.gamma, self.beta, self.epsilon)
        rows, gamma, beta = (tf.cast(x, precise_dtype()) for x in (inputs, self.gamma, self.beta))
        return tf.cast(_layer_norm(rows, gamma, beta, self.epsilon), inputs.dtype)


def _layer_norm(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes LayerNorm with its gradient in closed form, in fewer passes than TensorFlow derives.

    Ba et al. (2016), "Layer Normalization".
    """

    @tf.custom_gradient
    def normalise(
        inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Callable]:
        centred = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)
        normalised = centred * scale

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            weighted = upstream * normalised
            from_normalised = upstream * gamma
            mean = tf.reduce_mean(from_normalised, axis=-1, keepdims=True)
            if target.is_cpu():
                shares = gamma[:, tf.newaxis] / gamma.shape[0]
                projection = tf.matmul(weighted, shares, name="row_means")
            else:
                projection = tf.reduce_mean(weighted * gamma, axis=-1, keepdims=True)
            from_inputs = (from_normalised - mean - normalised * projection) * scale
            return from_inputs, sum_of_rows(weighted), sum_of_rows(upstream)

        return normalised * gamma + beta, gradient

    return normalise(inputs, gamma, beta)


def _onednn_layer_norm(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Computes LayerNorm in the only form that TensorFlow 2.20 makes one operation of oneDNN's.

    It is that of Keras' LayerNormalization: a batch normalisation whose channels are the rows. The
    graph must not know how many they are, or it folds the ones and zeros that the form has.
    """
    rows, size = shape_of(inputs)
    channels = tf.reshape(inputs, [1, rows, size, 1])
    normalised, *_ = tf.compat.v1.nn.fused_batch_norm(
        channels, tf.ones([rows]), tf.zeros([rows]), epsilon=epsilon, data_format="NCHW"
    )
    gamma, beta = (tf.cast(x, inputs.dtype) for x in (gamma, beta))
    return tf.reshape(normalised, [rows, size]) * gamma + beta


def shape_of(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """Returns the shape of a layer's tensor as a list of sizes.

    Args:
      tensor: a tensor of known rank.

    Returns:
      For each axis an int where the graph knows the size, else int32 [].

    Raises:
      ValueError: the rank is not known.
    """
    known = tensor.shape.as_list()
    if None not in known:
        return known
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(known)]


def count_parameters(layer: keras.layers.Layer) -> int:
    """Counts the trainable parameters of a layer, as pretraining prints them of its encoder."""
    return sum(variable.shape.num_elements() for variable in layer.trainable_variables)
