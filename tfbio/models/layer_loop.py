"""Runs a stack of layers as one loop: the form for a TPU, whose program is then that of one layer.

A loop whose gradient TensorFlow derives would store every intermediate result of every layer. Here
the forward pass keeps each layer's input and its large matrix products, and the backward pass
computes the rest again, which is cheap: element-wise operations, and the scores of attention.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

# keep(function, *inputs) returns function(*inputs).
Keep = Callable[..., tf.Tensor]


def run(
    layer: Callable[..., tf.Tensor],
    weights: Sequence[NamedTuple],
    hidden: tf.Tensor,
    attention_bias: tf.Tensor,
    seeds: Sequence[Sequence[tf.Tensor]] | None,
) -> tf.Tensor:
    """Runs a layer several times as one loop in the graph, with weights and seeds for each time.

    Args:
      layer: called as layer(weights, hidden, attention_bias, seeds, keep); returns the new
        `hidden`, of the same shape. It calls its large products as keep(function, *inputs), which
        returns function(*inputs) and stores the result for the backward pass. Each of these
        functions is linear in each of its inputs, or not differentiated. `tpu_layers` has such a
        layer.
      weights: the weights of each layer, at least one, a NamedTuple of float tensors or variables;
        all layers have the same shapes.
      hidden: the first layer's input, a float tensor of static shape.
      attention_bias: the same for every layer, a float tensor; not differentiated.
      seeds: for each layer int32 [2] for each of its dropouts; None for none.

    Returns:
      The last layer's result, a tensor of the shape and dtype of `hidden`.
    """
    count, make = len(weights), type(weights[0])
    all_seeds = None if seeds is None else tf.stack([tf.stack(own) for own in seeds])

    def apply(index: tf.Tensor, own: Sequence[tf.Tensor], hidden: tf.Tensor, keep: Keep):
        own_seeds = None if all_seeds is None else tf.unstack(_take(all_seeds, index))
        return layer(make(*own), hidden, attention_bias, own_seeds, keep)

    @tf.custom_gradient
    def all_layers(hidden: tf.Tensor, *stacked: tf.Tensor):
        results = _kept_specs(layer, make, hidden, attention_bias, stacked)
        kept = [_array(count, value.shape, value.dtype) for value in (hidden, *results)]

        def forward(index: tf.Tensor, hidden: tf.Tensor, *kept: tf.TensorArray):
            own, results = [_take(values, index) for values in stacked], []

            def record(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
                results.append(function(*inputs))
                return results[-1]

            result = apply(index, own, hidden, record)
            values = zip(kept, [hidden, *results], strict=True)
            return index + 1, result, *(array.write(index, value) for array, value in values)

        _, last, *kept = tf.while_loop(
            lambda index, *_: index < count,
            forward,
            [tf.constant(0), hidden, *kept],
            parallel_iterations=1,
        )
        kept = [array.stack() for array in kept]

        def gradient(upstream: tf.Tensor):
            def backward(step: tf.Tensor, upstream: tf.Tensor, *sums: tf.TensorArray):
                index = count - 1 - step
                own = [_take(values, index) for values in stacked]
                hidden, *results = (_take(values, index) for values in kept)
                left_to_replay = iter(results)

                def replay(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
                    return _known(function, next(left_to_replay), inputs)

                with tf.GradientTape() as tape:
                    tape.watch([hidden, *own])
                    result = apply(index, own, hidden, replay)
                upstream, *of_weights = tape.gradient(result, [hidden, *own], upstream)
                pairs = zip(sums, of_weights, strict=True)
                return step + 1, upstream, *(array.write(index, value) for array, value in pairs)

            arrays = [_array(count, values.shape[1:], values.dtype) for values in stacked]
            _, upstream, *arrays = tf.while_loop(
                lambda step, *_: step < count,
                backward,
                [tf.constant(0), upstream, *arrays],
                parallel_iterations=1,
            )
            return upstream, *(array.stack() for array in arrays)

        return last, gradient

    return all_layers(hidden, *(tf.stack(own) for own in zip(*weights, strict=True)))


def _take(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Takes one of the stacked values, [n, ...] -> [...], by a slice: a gather would be slower."""
    rest = values.shape[1:].as_list()
    return tf.reshape(tf.slice(values, [index] + [0] * len(rest), [1, *rest]), rest)


def _array(count: int, shape: tf.TensorShape, dtype: tf.DType) -> tf.TensorArray:
    return tf.TensorArray(dtype, count, element_shape=shape, clear_after_read=False)


def _kept_specs(
    layer: Callable[..., tf.Tensor],
    make: Callable[..., NamedTuple],
    hidden: tf.Tensor,
    attention_bias: tf.Tensor,
    stacked: Sequence[tf.Tensor],
) -> list[tf.TensorSpec]:
    """Returns shapes and dtypes of the values that a layer keeps, from a graph that is dropped."""
    specs = []

    def note(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
        result = function(*inputs)
        specs.append(tf.TensorSpec(result.shape, result.dtype))
        return result

    with tf.__internal__.FuncGraph("kept").as_default():
        own = make(*(tf.zeros(values.shape[1:], values.dtype) for values in stacked))
        bias = tf.zeros(attention_bias.shape, attention_bias.dtype)
        layer(own, tf.zeros(hidden.shape, hidden.dtype), bias, None, note)
    return specs


def _known(
    function: Callable[..., tf.Tensor], result: tf.Tensor, inputs: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Returns `result`, which is function(*inputs), with that function's gradient."""

    @tf.custom_gradient
    def known(*inputs: tf.Tensor):
        def gradient(upstream: tf.Tensor):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                # The gradient does not need the value, so TensorFlow never computes it.
                again = function(*inputs)
            return tape.gradient(again, inputs, upstream)

        return tf.identity(result), gradient

    return known(*inputs)
