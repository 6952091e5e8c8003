"""Computes the activation functions of BERT, ELECTRA and ALBERT, with gradients in closed form."""

import math
from collections.abc import Callable

import tensorflow as tf


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Computes the activation function GELU in its exact form, with erf, as in BERT and ELECTRA.

    Hendrycks and Gimpel (2016), section 2: x * Phi(x). The derivative is Phi(x) + x * phi(x).

    Args:
      inputs: any shape, any float dtype.

    Returns:
      One tensor of the shape and dtype of `inputs`: the decorator, `tf.custom_gradient`, keeps the
      other value, the function for the gradient.
    """
    cumulative = 0.5 * (1.0 + tf.math.erf(inputs * math.sqrt(0.5)))

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(inputs)) * (1.0 / math.sqrt(2.0 * math.pi))
        return upstream * (cumulative + inputs * density)

    return inputs * cumulative, gradient


@tf.custom_gradient
def _gelu_tanh(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Computes the activation function GELU with a hyperbolic tangent for Phi, as in ALBERT.

    Hendrycks and Gimpel (2016), section 2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Args:
      inputs: any shape, any float dtype.

    Returns:
      One tensor of the shape and dtype of `inputs`: the decorator, `tf.custom_gradient`, keeps the
      other value, the function for the gradient.
    """
    scale, cubic = math.sqrt(2.0 / math.pi), 0.044715
    squared = tf.square(inputs)
    tangent = tf.tanh(scale * inputs * (1.0 + cubic * squared))
    cumulative = 0.5 * (1.0 + tangent)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        slope = (1.0 - tf.square(tangent)) * (1.0 + 3.0 * cubic * squared)
        return upstream * (cumulative + (0.5 * scale) * inputs * slope)

    return inputs * cumulative, gradient


# By Hugging Face's names: `EncoderConfig.hidden_act`.
ACTIVATIONS = {"gelu": gelu, "gelu_new": _gelu_tanh}
