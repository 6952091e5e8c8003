"""Computes the activation functions of BERT, ELECTRA and ALBERT, with gradients in closed form."""

import math
from collections.abc import Callable

import tensorflow as tf

from tfbio.models import compiled, target
from tfbio.models.biases import add_bias, sum_of_rows

# Computes the function of inputs, and then, if it is called, the derivative; of the inputs' shape
# and dtype both.
_Formula = Callable[[tf.Tensor], tuple[tf.Tensor, Callable[[], tf.Tensor]]]


def gelu(inputs: tf.Tensor, bias: tf.Tensor | None = None, in_training: bool = False) -> tf.Tensor:
    """Computes the activation function GELU in its exact form, with erf, as in BERT and ELECTRA.

    Hendrycks and Gimpel (2016), section 2: x * Phi(x). The derivative is Phi(x) + x * phi(x).

    Args:
      inputs: [rows, size], any float dtype; without a bias any shape.
      bias: [size], the same dtype, added to the inputs first; None for none.
      in_training: whether a backward pass follows, for which other operations may be better. They
        compute the same function, with other roundings in bfloat16.

    Returns:
      A tensor of the shape and dtype of `inputs`.
    """
    return _apply(_exact, inputs, bias, in_training)


def _exact(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[], tf.Tensor]]:
    cumulative = 0.5 * (1.0 + tf.math.erf(inputs * math.sqrt(0.5)))

    def derivative() -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(inputs)) * (1.0 / math.sqrt(2.0 * math.pi))
        return cumulative + inputs * density

    return inputs * cumulative, derivative


def _gelu_tanh(
    inputs: tf.Tensor, bias: tf.Tensor | None = None, in_training: bool = False
) -> tf.Tensor:
    """Computes the activation function GELU with a hyperbolic tangent for Phi, as in ALBERT.

    Hendrycks and Gimpel (2016), section 2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Args:
      inputs, bias, in_training: see `gelu`.

    Returns:
      A tensor of the shape and dtype of `inputs`.
    """
    return _apply(_tanh, inputs, bias, in_training)


def _tanh(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[], tf.Tensor]]:
    scale, cubic = math.sqrt(2.0 / math.pi), 0.044715
    squared = tf.square(inputs)
    tangent = tf.tanh(scale * inputs * (1.0 + cubic * squared))
    cumulative = 0.5 * (1.0 + tangent)

    def derivative() -> tf.Tensor:
        slope = (1.0 - tf.square(tangent)) * (1.0 + 3.0 * cubic * squared)
        return cumulative + (0.5 * scale) * inputs * slope

    return inputs * cumulative, derivative


def _apply(
    formula: _Formula, inputs: tf.Tensor, bias: tf.Tensor | None, in_training: bool
) -> tf.Tensor:
    """Applies a formula to inputs; see `gelu`.

    In training on a CPU there are two differences. XLA makes one loop of the bias and the formula,
    and one of the derivative, if `compiled` does. And bfloat16 is converted to float32 once, where
    TensorFlow converts the inputs and the output of each operation. Prediction must not have that:
    it is the plain form that TensorFlow fuses into a product.
    """
    if in_training and compiled.is_for(inputs.dtype):
        return _in_one_loop(formula, inputs, tf.zeros([], inputs.dtype) if bias is None else bias)
    if bias is not None:
        inputs = add_bias(inputs, bias)

    @tf.custom_gradient
    def activation(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        if not (in_training and target.is_cpu()):
            outputs, derivative = formula(inputs)
            return outputs, lambda upstream: upstream * derivative()
        dtype = inputs.dtype
        outputs, derivative = formula(tf.cast(inputs, tf.float32) if dtype.size == 2 else inputs)
        # The derivative is computed with the function: it alone is kept until the backward pass.
        kept = tf.cast(derivative(), dtype)
        return tf.cast(outputs, dtype), lambda upstream: upstream * kept

    return activation(inputs)


def _in_one_loop(formula: _Formula, inputs: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Applies a formula to rows and their bias, each pass as one compiled loop.

    The backward pass computes what both have in common again, as it takes less time than to read
    it from memory.
    """

    @tf.custom_gradient
    def activation(inputs: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_inputs = _backward(inputs, bias, upstream, formula)
            return of_inputs, sum_of_rows(of_inputs)

        return _forward(inputs, bias, formula), gradient

    return activation(inputs, bias)


@compiled.compiled
def _forward(inputs: tf.Tensor, bias: tf.Tensor, formula: _Formula) -> tf.Tensor:
    outputs, _ = formula(tf.cast(inputs, tf.float32) + tf.cast(bias, tf.float32))
    return tf.cast(outputs, inputs.dtype)


@compiled.compiled
def _backward(
    inputs: tf.Tensor, bias: tf.Tensor, upstream: tf.Tensor, formula: _Formula
) -> tf.Tensor:
    _, derivative = formula(tf.cast(inputs, tf.float32) + tf.cast(bias, tf.float32))
    return tf.cast(tf.cast(upstream, tf.float32) * derivative(), inputs.dtype)


# By Hugging Face's names: `EncoderConfig.hidden_act`.
ACTIVATIONS = {"gelu": gelu, "gelu_new": _gelu_tanh}
