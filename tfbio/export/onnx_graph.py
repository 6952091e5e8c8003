"""Converts a graph of TensorFlow to ONNX, for `onnx_model`, without copies of the weights.

tf2onnx copies a graph in each of its passes: with the weights in it, that took 4.4 GB for a model
of 90 MB. So the weights are inputs of the graph that it sees, and are put in afterwards.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    import onnx
    from tensorflow.core.framework import graph_pb2
    from tensorflow.types.experimental import ConcreteFunction

_LOOPS = ("While", "StatelessWhile")


def convert(
    function: tf.types.experimental.GenericFunction,
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    """Converts a function to ONNX, with the values of its variables as they are.

    Args:
      function: takes tensors, and returns a dict of tensors; with one input signature.
      inputs: the names that its inputs get, in their order.
      outputs: the names of its outputs, the keys of the dict, in the order that they get.
      opset: the version of ONNX's operations.

    Returns:
      The model.
    """
    import onnx

    concrete = function.get_concrete_function()
    with _quiet():
        content, weights = _weights_as_inputs(concrete)
        if weights is None:
            converted = _convert_with_weights(function, opset)
        else:
            converted = _convert_without_weights(concrete, content, weights, inputs, outputs, opset)
    graph = converted.graph
    given = {x.name: x for x in graph.input}
    found = {x.name: x for x in graph.output}
    del graph.input[:], graph.output[:]
    graph.input.extend(given[name] for name in inputs)
    graph.output.extend(found[name] for name in outputs)
    used = {name for node in graph.node for name in node.input}
    for name, variable in (weights or {}).items():
        if f"{name}:0" in used:
            graph.initializer.append(onnx.numpy_helper.from_array(variable.numpy(), f"{name}:0"))
    return converted


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leaves out that tf2onnx uses an old interface of TensorFlow, and what it removed."""
    loggers = [(tf.get_logger(), logging.ERROR), (logging.getLogger("tf2onnx"), logging.WARNING)]
    before = [logger.level for logger, _ in loggers]
    for logger, level in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for (logger, _), level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _convert_with_weights(
    function: tf.types.experimental.GenericFunction, opset: int
) -> onnx.ModelProto:
    """Converts a function with its weights as constants."""
    import tf2onnx

    return tf2onnx.convert.from_function(function, function.input_signature, opset=opset)[0]


def _convert_without_weights(
    concrete: ConcreteFunction,
    content: graph_pb2.GraphDef,
    weights: dict[str, tf.Variable],
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    """Converts a graph whose weights are inputs, and names its other inputs and its outputs."""
    import tf2onnx

    captured = {placeholder.name for _, placeholder in concrete.graph.captures}
    given = [x.name for x in concrete.graph.inputs if x.name not in captured]
    found = [concrete.structured_outputs[name].name for name in outputs]
    return tf2onnx.convert.from_graph_def(
        content,
        input_names=[*given, *(f"{name}:0" for name in weights)],
        output_names=found,
        opset=opset,
        tensors_to_rename=dict(zip([*given, *found], [*inputs, *outputs], strict=True)),
    )[0]


def _weights_as_inputs(
    concrete: ConcreteFunction,
) -> tuple[graph_pb2.GraphDef, dict[str, tf.Variable] | None]:
    """Returns a function's graph with placeholders where it reads variables.

    Returns:
      The graph; and for each placeholder, by its name, the variable that it stands for. None if a
      variable is read elsewhere; or if there is a loop, as of a Bi-LSTM: in such a graph tf2onnx
      loses its types.
    """
    content = concrete.graph.as_graph_def(add_shapes=True)
    variables = {variable.handle.ref(): variable for variable in concrete.variables}
    of_handle = {
        placeholder.op.name: variables[handle.ref()]
        for handle, placeholder in concrete.graph.captures
        if handle.ref() in variables
    }
    weights = {}
    for node in content.node:
        if node.op == "ReadVariableOp" and node.input[0] in of_handle:
            variable = weights[node.name] = of_handle[node.input[0]]
            node.op = "Placeholder"
            node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
            del node.input[:]
        elif node.op in _LOOPS or not of_handle.keys().isdisjoint(node.input):
            return content, None
    return content, weights
