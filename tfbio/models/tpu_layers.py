"""Computes the Transformer layers of `encoder` in the form for a TPU, where memory takes the time.

The tokens come last in every array, where a TPU pads to 128: heads of 64 units there would take
twice the memory. All products read and write that form, so that nothing is copied from one to
another. The layers are one loop, see `layer_loop`. Tests hold outputs and gradients equal to
`layers.TransformerLayer`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from tfbio.models import layer_loop
from tfbio.models.activations import ACTIVATIONS
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layer_loop import Keep
from tfbio.models.randomness import dropout

if TYPE_CHECKING:
    from tfbio.models.layers import TransformerLayer


class _LayerWeights(NamedTuple):
    """The weights of a Transformer layer with h hidden and f feed-forward units, for a TPU.

    They are variables or tensors. The weights of several layers have a first dimension for the
    layer.

    Attributes:
      query_key_value: [h, 3 h]; on a mesh of devices [h, 3, h].
      query_key_value_bias: [3 h]; on a mesh of devices [3, h].
      attention_output: [h, h].
      attention_output_bias, attention_gamma, attention_beta: [h] each.
      intermediate: [h, f].
      intermediate_bias: [f].
      output: [f, h].
      output_bias, output_gamma, output_beta: [h] each.
    """

    query_key_value: tf.Tensor  # [h, 3 h] or [h, 3, h]
    query_key_value_bias: tf.Tensor  # [3 h] or [3, h]
    attention_output: tf.Tensor  # [h, h]
    attention_output_bias: tf.Tensor  # [h]
    attention_gamma: tf.Tensor  # [h]
    attention_beta: tf.Tensor  # [h]
    intermediate: tf.Tensor  # [h, f]
    intermediate_bias: tf.Tensor  # [f]
    output: tf.Tensor  # [f, h]
    output_bias: tf.Tensor  # [h]
    output_gamma: tf.Tensor  # [h]
    output_beta: tf.Tensor  # [h]


def run(
    config: EncoderConfig,
    layers: Sequence[TransformerLayer],
    hidden: tf.Tensor,
    attention_bias: tf.Tensor,
    seeds: Sequence[Sequence[tf.Tensor]] | None,
) -> tf.Tensor:
    """Applies all of an encoder's Transformer layers, one after the other, in the form for a TPU.

    The result is that of calling each `TransformerLayer`, the form for CPUs and GPUs.

    Args:
      config: the settings of the encoder.
      layers: may be one layer, again and again.
      hidden: [batch * length, hidden_size], the first layer's input, float, of static shape.
      attention_bias: [batch, 1, 1 or length, length], added to the scores; the dtype of `hidden`.
      seeds: for each layer int32 [2] for each of its three dropouts; None for none.

    Returns:
      [batch * length, hidden_size], the last layer's output, in the dtype of `hidden`.
    """
    weights_of = {layer: _weights(layer) for layer in dict.fromkeys(layers)}
    weights = [weights_of[layer] for layer in layers]
    layer = functools.partial(_layer, config)
    return tf.transpose(layer_loop.run(layer, weights, tf.transpose(hidden), attention_bias, seeds))


def _weights(layer: TransformerLayer) -> _LayerWeights:
    """Collects a layer's weights."""
    attention, first = layer.attention_output, layer.attention_norm
    return _LayerWeights(
        *(layer.query_key_value.kernel, layer.query_key_value.bias),
        *(attention.kernel, attention.bias, first.gamma, first.beta),
        *(layer.intermediate.kernel, layer.intermediate.bias),
        *(layer.output_dense.kernel, layer.output_dense.bias),
        *(layer.output_norm.gamma, layer.output_norm.beta),
    )


def _layer(
    config: EncoderConfig,
    weights: _LayerWeights,
    hidden: tf.Tensor,
    attention_bias: tf.Tensor,
    seeds: Sequence[tf.Tensor] | None,
    keep: Keep,
) -> tf.Tensor:
    """Computes a layer (Vaswani et al., 2017, section 3.1, as BERT has it).

    With `layer_norm_first` it is that of Shoeybi et al. (2019), figure 7b.

    Args:
      config, attention_bias: see `run`.
      weights: the weights of the layer.
      hidden: [hidden_size, batch * length].
      seeds: int32 [2] for each of the three dropouts; None for none.
      keep: see `layer_loop`.

    Returns:
      The next layer's `hidden`.
    """
    attention_seed, first_seed, second_seed = seeds or [None] * 3

    def add(multiply: Callable[..., tf.Tensor], seed: tf.Tensor | None) -> Callable[..., tf.Tensor]:
        """Makes a function that adds a dense layer's outputs, after dropout, to its first input."""

        def added(hidden: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
            return hidden + dropout(multiply(*inputs), config.hidden_dropout_prob, seed)

        return added

    def attention_norm(hidden: tf.Tensor) -> tf.Tensor:
        gamma, beta = weights.attention_gamma, weights.attention_beta
        return _layer_norm(hidden, gamma, beta, config.layer_norm_eps, keep)

    def output_norm(hidden: tf.Tensor) -> tf.Tensor:
        gamma, beta = weights.output_gamma, weights.output_beta
        return _layer_norm(hidden, gamma, beta, config.layer_norm_eps, keep)

    first = config.layer_norm_first
    inputs = attention_norm(hidden) if first else hidden
    context = _attend(config, weights, inputs, attention_bias, attention_seed, keep)
    output = weights.attention_output, weights.attention_output_bias
    hidden = keep(add(_dense_of_heads, first_seed), hidden, context, *output)
    normalised = output_norm(hidden) if first else attention_norm(hidden)
    inner = keep(_dense, normalised, weights.intermediate, weights.intermediate_bias)
    inner = ACTIVATIONS[config.hidden_act](inner)
    output = weights.output, weights.output_bias
    if first:
        # The next layer keeps it as its input.
        return add(_dense, second_seed)(hidden, inner, *output)
    return output_norm(keep(add(_dense, second_seed), normalised, inner, *output))


def _attend(
    config: EncoderConfig,
    weights: _LayerWeights,
    hidden: tf.Tensor,
    attention_bias: tf.Tensor,
    seed: tf.Tensor | None,
    keep: Keep,
) -> tf.Tensor:
    """Computes self-attention before its output layer; [batch, heads, head_size, length].

    Args:
      config, weights, hidden, attention_bias, keep: see `_layer`.
      seed: the seed of the dropout.
    """
    batch, _, _, length = attention_bias.shape
    size, heads = hidden.shape[0], config.num_attention_heads

    def project(hidden: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        kernel = tf.reshape(kernel, [size, heads, -1])
        hidden = tf.reshape(hidden, [size, batch, length])
        return tf.einsum("shd,sbl->bhdl", kernel, hidden) + tf.reshape(bias, [heads, -1, 1])

    # On a mesh they have an axis for the three, see `sharding.shape_on_mesh`.
    kernels = tf.convert_to_tensor(weights.query_key_value)
    biases = tf.convert_to_tensor(weights.query_key_value_bias)
    if kernels.shape.rank == 3:
        kernels, biases = tf.unstack(kernels, axis=1), tf.unstack(biases)
    else:
        kernels, biases = tf.split(kernels, 3, axis=1), tf.split(biases, 3)
    projections = zip(kernels, biases, strict=True)
    query, key, value = (keep(project, hidden, *projection) for projection in projections)
    query *= 1.0 / math.sqrt(size // heads)
    scores = tf.einsum("bhdq,bhdk->bhqk", query, key) + attention_bias
    shares = dropout(tf.nn.softmax(scores), config.attention_probs_dropout_prob, seed)
    return keep(functools.partial(tf.einsum, "bhqk,bhdk->bhdq"), shares, value)


def _dense_of_heads(context: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Computes a dense layer on the outputs of attention.

    Args:
      context: [batch, heads, head_size, length].
      kernel: [heads * head_size, outputs].
      bias: [outputs].

    Returns:
      [outputs, batch * length].
    """
    batch, heads, head_size, length = context.shape
    outputs = kernel.shape[-1]
    kernel = tf.reshape(kernel, [heads, head_size, outputs])
    product = tf.einsum("hdo,bhdl->obl", kernel, context)
    return tf.reshape(product, [outputs, batch * length]) + bias[:, tf.newaxis]


def _dense(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Computes a dense layer; inputs [inputs, tokens] -> [outputs, tokens]."""
    return tf.matmul(kernel, inputs, transpose_a=True) + bias[:, tf.newaxis]


def _layer_norm(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float, keep: Keep
) -> tf.Tensor:
    """Computes `layers.LayerNorm` for [size, tokens], and keeps means and variances."""

    @tf.custom_gradient
    def normalise(
        inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Callable]:
        mean, variance = tf.unstack(keep(_moments, inputs))
        scale = tf.math.rsqrt(variance + epsilon)
        normalised = (inputs - mean) * scale

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            weighted = upstream * normalised
            from_normalised = upstream * gamma
            mean = tf.reduce_mean(from_normalised, axis=0)
            projection = tf.reduce_mean(weighted * gamma, axis=0)
            from_inputs = (from_normalised - mean - normalised * projection) * scale
            of_beta = tf.reduce_sum(upstream, axis=1, keepdims=True)
            return from_inputs, tf.reduce_sum(weighted, axis=1, keepdims=True), of_beta

        return normalised * gamma + beta, gradient

    gamma, beta = (tf.cast(weight, tf.float32)[:, tf.newaxis] for weight in (gamma, beta))
    return tf.cast(normalise(tf.cast(inputs, tf.float32), gamma, beta), inputs.dtype)


def _moments(inputs: tf.Tensor) -> tf.Tensor:
    """Computes means and variances in one pass over memory, like Flax, as E[x^2] - E[x]^2.

    Args:
      inputs: float32 [size, tokens].

    Returns:
      float32 [2, tokens].
    """
    mean = tf.reduce_mean(inputs, axis=0)
    square = tf.reduce_mean(tf.square(inputs), axis=0)
    return tf.stack([mean, tf.maximum(square - tf.square(mean), 0.0)])
