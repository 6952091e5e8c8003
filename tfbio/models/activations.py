"""Computes the activation functions of BERT, ELECTRA and ALBERT, with gradients in closed form."""

import math
from collections.abc import Callable

import tensorflow as tf

from tfbio.models import target

# Computes the function of inputs, and then, if it is called, the derivative; of the inputs' shape
# and dtype both.
_Formula = Callable[[tf.Tensor], tuple[tf.Tensor, Callable[[], tf.Tensor]]]


def gelu(inputs: tf.Tensor, in_training: bool = False) -> tf.Tensor:
    """Computes the activation function GELU in its exact form, with erf, as in BERT and ELECTRA.

    Hendrycks and Gimpel (2016), section 2: x * Phi(x). The derivative is Phi(x) + x * phi(x).

    Args:
      inputs: any shape, any float dtype.
      in_training: whether a backward pass follows, for which other operations may be better. They
        compute the same function, with other roundings in bfloat16.

    Returns:
      A tensor of the shape and dtype of `inputs`.
    """

    def formula(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[], tf.Tensor]]:
        cumulative = 0.5 * (1.0 + tf.math.erf(inputs * math.sqrt(0.5)))

        def derivative() -> tf.Tensor:
            density = tf.exp(-0.5 * tf.square(inputs)) * (1.0 / math.sqrt(2.0 * math.pi))
            return cumulative + inputs * density

        return inputs * cumulative, derivative

    return _apply(formula, inputs, in_training)


def _gelu_tanh(inputs: tf.Tensor, in_training: bool = False) -> tf.Tensor:
    """Computes the activation function GELU with a hyperbolic tangent for Phi, as in ALBERT.

    Hendrycks and Gimpel (2016), section 2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Args:
      inputs, in_training: see `gelu`.

    Returns:
      A tensor of the shape and dtype of `inputs`.
    """
    scale, cubic = math.sqrt(2.0 / math.pi), 0.044715

    def formula(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[], tf.Tensor]]:
        squared = tf.square(inputs)
        tangent = tf.tanh(scale * inputs * (1.0 + cubic * squared))
        cumulative = 0.5 * (1.0 + tangent)

        def derivative() -> tf.Tensor:
            slope = (1.0 - tf.square(tangent)) * (1.0 + 3.0 * cubic * squared)
            return cumulative + (0.5 * scale) * inputs * slope

        return inputs * cumulative, derivative

    return _apply(formula, inputs, in_training)


def _apply(formula: _Formula, inputs: tf.Tensor, in_training: bool) -> tf.Tensor:
    """Applies a formula to inputs; see `gelu`.

    In training on a CPU there are two differences. The derivative is computed with the function: it
    alone is then kept until the backward pass. And bfloat16 is converted to float32 once, where
    TensorFlow converts the inputs and the output of each operation. Prediction must not have that:
    it is the plain form that TensorFlow fuses into a product.
    """

    @tf.custom_gradient
    def activation(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        if not (in_training and target.is_cpu()):
            outputs, derivative = formula(inputs)
            return outputs, lambda upstream: upstream * derivative()
        dtype = inputs.dtype
        outputs, derivative = formula(tf.cast(inputs, tf.float32) if dtype.size == 2 else inputs)
        kept = tf.cast(derivative(), dtype)
        return tf.cast(outputs, dtype), lambda upstream: upstream * kept

    return activation(inputs)


# By Hugging Face's names: `EncoderConfig.hidden_act`.
ACTIVATIONS = {"gelu": gelu, "gelu_new": _gelu_tanh}
