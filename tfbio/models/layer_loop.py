"""Runs a stack of layers as one loop: the form for a TPU, whose program is then that of one layer.

A loop whose gradient TensorFlow derives would store every intermediate result of every layer. Here
the forward pass keeps each layer's input and its large matrix products, and the backward pass
computes the rest again, which is cheap: element-wise operations, and the scores of attention.

Layers that share their weights, as ALBERT's do, have them once, with one sum of their gradients. A
copy of both for each layer would take 10 GB in ALBERT-xxlarge.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfbio.models.layers import precise_dtype

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
        all layers have the same shapes. Layers that share their weights have one tuple, which is
        there for each of them.
      hidden: the first layer's input, a float tensor of static shape.
      attention_bias: the same for every layer, a float tensor; not differentiated.
      seeds: for each layer int32 [2] for each of its dropouts; None for none.

    Returns:
      The last layer's result, a tensor of the shape and dtype of `hidden`.
    """
    count, make = len(weights), type(weights[0])
    shared = count > 1 and all(own is weights[0] for own in weights)
    form: _Shared | _Stacked = _Shared() if shared else _Stacked(count)
    all_seeds = None if seeds is None else tf.stack([tf.stack(own) for own in seeds])

    def apply(
        index: tf.Tensor, own: Sequence[tf.Tensor], hidden: tf.Tensor, keep: Keep
    ) -> tf.Tensor:
        own_seeds = None if all_seeds is None else tf.unstack(_take(all_seeds, index))
        return layer(make(*own), hidden, attention_bias, own_seeds, keep)

    @tf.custom_gradient
    def all_layers(hidden: tf.Tensor, *given: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        of_one = form.specs(given)
        results = _kept_specs(layer, make, hidden, attention_bias, of_one)
        kept = [_array(count, value.shape, value.dtype) for value in (hidden, *results)]

        def forward(index: tf.Tensor, hidden: tf.Tensor, *kept: tf.TensorArray) -> tuple[Any, ...]:
            own, results = form.of_layer(given, index), []

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

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            def backward(
                step: tf.Tensor, upstream: tf.Tensor, *sums: tf.Tensor | tf.TensorArray
            ) -> tuple[Any, ...]:
                index = count - 1 - step
                own = form.of_layer(given, index)
                hidden, *results = (_take(values, index) for values in kept)
                left_to_replay = iter(results)

                def replay(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
                    return _known(function, next(left_to_replay), inputs)

                with tf.GradientTape() as tape:
                    tape.watch([hidden, *own])
                    result = apply(index, own, hidden, replay)
                upstream, *of_weights = tape.gradient(result, [hidden, *own], upstream)
                return step + 1, upstream, *form.add(sums, of_weights, index)

            _, upstream, *sums = tf.while_loop(
                lambda step, *_: step < count,
                backward,
                [tf.constant(0), upstream, *form.no_gradients(of_one)],
                parallel_iterations=1,
            )
            return upstream, *form.gradients(sums)

        return last, gradient

    return all_layers(hidden, *form.inputs(weights))


class _Stacked:
    """Weights of their own for each of `count` layers: stacked, and so are their gradients."""

    def __init__(self, count: int):
        self._count = count

    def inputs(self, weights: Sequence[NamedTuple]) -> list[tf.Tensor]:
        """Returns the tensors that the loop has the layers' weights as."""
        return [tf.stack(own) for own in zip(*weights, strict=True)]

    def specs(self, given: Sequence[tf.Tensor]) -> list[tf.TensorSpec]:
        """Returns shapes and dtypes of a layer's weights; `given` are the `inputs`."""
        return [tf.TensorSpec(values.shape[1:], values.dtype) for values in given]

    def of_layer(self, given: Sequence[tf.Tensor], index: tf.Tensor) -> list[tf.Tensor]:
        """Takes the weights of a layer; its index is int32 []."""
        return [_take(values, index) for values in given]

    def no_gradients(self, specs: Sequence[tf.TensorSpec]) -> list[tf.TensorArray]:
        """Returns what the loop over the layers' gradients begins with."""
        return [_array(self._count, spec.shape, spec.dtype) for spec in specs]

    def add(
        self, sums: Sequence[tf.TensorArray], gradients: Sequence[tf.Tensor], index: tf.Tensor
    ) -> list[tf.TensorArray]:
        """Adds the gradients of a layer's weights."""
        pairs = zip(sums, gradients, strict=True)
        return [array.write(index, value) for array, value in pairs]

    def gradients(self, sums: Sequence[tf.TensorArray]) -> list[tf.Tensor]:
        """Returns the gradients of the `inputs`."""
        return [array.stack() for array in sums]


class _Shared:
    """Weights that all layers share, and the sums of their gradients; methods as in `_Stacked`."""

    def inputs(self, weights: Sequence[NamedTuple]) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(values) for values in weights[0]]

    def specs(self, given: Sequence[tf.Tensor]) -> list[tf.TensorSpec]:
        return [tf.TensorSpec(values.shape, values.dtype) for values in given]

    def of_layer(self, given: Sequence[tf.Tensor], index: tf.Tensor) -> list[tf.Tensor]:
        return list(given)

    def no_gradients(self, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
        # As precise as the sum of a variable's gradients is elsewhere.
        return [tf.zeros(spec.shape, precise_dtype()) for spec in specs]

    def add(
        self, sums: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor], index: tf.Tensor
    ) -> list[tf.Tensor]:
        pairs = zip(sums, gradients, strict=True)
        return [total + tf.cast(value, total.dtype) for total, value in pairs]

    def gradients(self, sums: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return list(sums)


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
    weights: Sequence[tf.TensorSpec],
) -> list[tf.TensorSpec]:
    """Returns shapes and dtypes of the values that a layer keeps, from a graph that is dropped."""
    specs = []

    def note(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
        result = function(*inputs)
        specs.append(tf.TensorSpec(result.shape, result.dtype))
        return result

    with tf.__internal__.FuncGraph("kept").as_default():
        own = make(*(tf.zeros(spec.shape, spec.dtype) for spec in weights))
        bias = tf.zeros(attention_bias.shape, attention_bias.dtype)
        layer(own, tf.zeros(hidden.shape, hidden.dtype), bias, None, note)
    return specs


def _known(
    function: Callable[..., tf.Tensor], result: tf.Tensor, inputs: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Returns `result`, which is function(*inputs), with that function's gradient."""

    @tf.custom_gradient
    def known(*inputs: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                # The gradient does not need the value, so TensorFlow never computes it.
                again = function(*inputs)
            return tape.gradient(again, inputs, upstream)

        return tf.identity(result), gradient

    return known(*inputs)
