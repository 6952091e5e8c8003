"""The real `TPUStrategy` without a TPU: its graphs, and their execution on CPUs.

TensorFlow traces `TPUStrategy.run` into a graph that says what every core does, once for all cores:
operations with the attribute `_tpu_replicate`, whose inputs and outputs for each core come from
`TPUReplicatedInput` and go to `TPUReplicatedOutput` (`tpu_program.trace`). `emulate` runs a
function that calls `strategy.run`, with a copy of the operations for each core. `compiled` has XLA
compile these copies, and `lower` what one core does.
"""

import graphlib
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2

from tfbio.planning.tpu_program import BOOKKEEPING, make_strategy, trace

__all__ = ["make_strategy", "trace"]  # what else tests need is here

_COLLECTIVES = ("CrossReplicaSum", "AllToAll")
# No core can do these: they are Python's, the host's, or give shapes that depend on values.
NOT_FOR_A_TPU = re.compile("Py(Func|Call)|Eager|Print|Summary|String|Assert|Unique|Where$|Debug")

# For each tensor of a traced function, the tensors that the cores have in its place.
PerCore = list[tf.Tensor]


def distribute_dataset(
    strategy: tf.distribute.TPUStrategy, dataset: tf.data.Dataset
) -> tf.distribute.DistributedDataset:
    """Divides global batches as on a TPU, but leaves them on the host."""
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    return strategy.experimental_distribute_dataset(dataset, options)


def on_one_device(strategy: tf.distribute.TPUStrategy) -> tf.distribute.TPUStrategy:
    """Puts the variables that a strategy makes from now on on one device, as `compiled` needs."""
    first = strategy.extended._tpu_devices[:1]
    strategy.extended._tpu_devices = np.repeat(first, strategy.num_replicas_in_sync, axis=0)
    return strategy


def rows_of_cores(
    strategy: tf.distribute.TPUStrategy, dataset: tf.data.Dataset
) -> tuple[dict[str, tf.Tensor], ...]:
    """Returns what each core gets of the first batch."""
    first = next(iter(distribute_dataset(strategy, dataset)))
    divided = {name: strategy.experimental_local_results(values) for name, values in first.items()}
    return tuple(
        dict(zip(divided, own, strict=True)) for own in zip(*divided.values(), strict=True)
    )


def replica_operations(graph: tf.Graph) -> list[tf.Operation]:
    """Returns what each core does, the bodies of loops and branches included."""
    found = [op for op in graph.get_operations() if _is_replicated(op)]
    for function in _functions_of(graph, graph.get_operations()):
        if any(_is_replicated(op) for op in function.get_operations()):  # a loop of the host
            found += replica_operations(function)
    return found + [op for inner in _functions_of(graph, found) for op in _all_operations(inner)]


def _all_operations(graph: tf.Graph) -> list[tf.Operation]:
    found = graph.get_operations()
    return found + [op for inner in _functions_of(graph, found) for op in _all_operations(inner)]


def _functions_of(graph: tf.Graph, operations: list[tf.Operation]) -> list[tf.Graph]:
    """Returns the graphs of the functions that operations call, loop over, or choose from."""
    names = [
        value.func.name
        for op in operations
        for value in op.node_def.attr.values()
        if value.WhichOneof("value") == "func"
    ]
    functions = [graph._get_function(name) for name in names]
    return [function.graph for function in functions if hasattr(function, "graph")]


def _is_replicated(op: tf.Operation) -> bool:
    return "_tpu_replicate" in op.node_def.attr


def _is_for_several_cores(graph: tf.Graph, op: tf.Operation) -> bool:
    """Tells of an operation that cannot be copied as a whole: its functions use other cores."""
    return any(
        inner.type in (*_COLLECTIVES, "TPUReplicateMetadata")
        for function in _functions_of(graph, [op])
        for inner in _all_operations(function)
    )


def emulate(function: Callable, cores: int) -> Callable:
    """Returns a function that does the same as one that calls `strategy.run`, on CPUs.

    Args:
      function: of tensors and iterators. It is traced when it is first called.
      cores: of the strategy.
    """
    made = []

    def call(*arguments):
        if not made:
            traced = tf.function(function, autograph=False).get_concrete_function(*arguments)
            made.append(_replicate(traced, cores))
        return made[0](*tf.nest.flatten(arguments, expand_composites=True))

    return call


def compiled(traced, cores: int) -> Callable[..., list[tf.Tensor]]:
    """Compiles a traced step with XLA: a copy for each core, which share only the sums.

    Args:
      traced: see `trace`; its strategy's variables are `on_one_device`.
      cores: of the strategy.

    Returns:
      A function of the rows of each core, as for `trace`. It takes the step and returns what the
      step returned, flat, of every core.
    """
    program = _replicate(traced, cores, jit_compile=True)
    return lambda *rows: program(*tf.nest.flatten(rows, expand_composites=True))


def lower(traced, *rows: dict[str, tf.Tensor]) -> str:
    """Compiles what the first core does to StableHLO; raises if XLA has no kernel for it.

    Args:
      traced: see `trace`.
      rows: as for `trace`.
    """
    compiled = _replicate(traced, 1, jit_compile=True)
    arguments = tf.nest.flatten(rows, expand_composites=True)
    return compiled.experimental_get_compiler_ir(*arguments)(stage="stablehlo")


def _replicate(traced, cores: int, jit_compile: bool = False) -> tf.types.experimental.Callable:
    """Returns a function of the flat arguments of a traced one, with each core's operations."""
    outer = traced.graph

    def copy_all(*flat: tf.Tensor) -> list[tf.Tensor]:
        graph = tf.compat.v1.get_default_graph()
        for function in outer._functions.values():
            if not graph._is_function(function.name):
                graph._add_function_recursive(function)
        captured = [external for external, _ in outer.captures]
        inputs = [[value] * cores for value in (*flat, *captured)]
        outputs, done = _copy_function(outer, inputs, cores)
        with tf.control_dependencies(done):
            return [tf.identity(values[0]) for values in outputs]

    return tf.function(copy_all, autograph=False, jit_compile=jit_compile)


def _copy_function(
    source: tf.Graph, inputs: list[PerCore], cores: int, of_cores: bool = False
) -> tuple[list[PerCore], list[tf.Operation]]:
    """Copies the operations of a traced function into the graph that is being made.

    Args:
      source: the function's.
      inputs: for each of its inputs.
      cores: how many.
      of_cores: whether each core has its own of every operation, as in the body of a core's loop.

    Returns:
      Its outputs, and the copies after which it is done.
    """
    tensors = {own.name: values for own, values in zip(source.inputs, inputs, strict=True)}
    # By name, the copies that whatever has to wait for an operation waits for.
    copies: dict[str, list[tf.Operation]] = {own.op.name: [] for own in source.inputs}

    def done(operations: list[tf.Operation]) -> list[tf.Operation]:
        return [copy for op in operations for copy in copies[op.name]]

    operations = source.get_operations()
    after = {op: op.control_inputs for op in operations}
    # As on a TPU, no core starts before all have what they get from the host.
    given = [op for op in operations if op.type == "TPUReplicatedInput"]
    given = [value.op for op in given for value in op.inputs if value.dtype != tf.resource]
    after |= {op: given for op in operations if op.type == "TPUReplicateMetadata"}
    needed = {op: [*after[op], *(value.op for value in op.inputs)] for op in operations}
    for op in graphlib.TopologicalSorter(needed).static_order():
        if op.name in copies:
            continue
        with tf.control_dependencies(done(after[op])):
            inputs = [tensors[value.name] for value in op.inputs]
            outputs, copies[op.name] = _copy(source, op, inputs, cores, of_cores)
        tensors |= {old.name: new for old, new in zip(op.outputs, outputs, strict=True)}
    return [tensors[output.name] for output in source.outputs], done(source.control_outputs)


def _copy(
    source: tf.Graph, op: tf.Operation, inputs: list[PerCore], cores: int, of_cores: bool
) -> tuple[list[PerCore], list[tf.Operation]]:
    """Copies one operation, for each core or once for all; returns its outputs and the copies."""
    if op.type in BOOKKEEPING:
        return [[None] * cores for _ in op.outputs], [tf.no_op()]
    if op.type == "TPUReplicatedInput":
        return [[values[0] for values in inputs][:cores]], []
    if op.type == "TPUReplicatedOutput":
        return [[inputs[0][min(core, cores - 1)]] * cores for core in range(len(op.outputs))], []
    if op.type == "CrossReplicaSum":
        sums = tf.add_n(inputs[0])
        return [[sums] * cores], [sums.op]
    if op.type == "AllToAll":
        axis, new_axis = op.get_attr("split_dimension"), op.get_attr("concat_dimension")
        number = op.get_attr("split_count")
        parts = [tf.split(value, number, axis) for value in inputs[0]]
        given = [[own[core] for own in parts] for core in range(cores)]
        gathered = [tf.concat(own * (number // cores), new_axis) for own in given]
        return [gathered], [value.op for value in gathered]
    of_cores = of_cores or _is_replicated(op)
    copied = cores if of_cores else 1
    if _is_for_several_cores(source, op):
        if op.type in ("While", "StatelessWhile"):
            return _copy_loop(source, op, inputs, cores, of_cores)
        assert op.type in ("PartitionedCall", "StatefulPartitionedCall"), op.type
        (called,) = _functions_of(source, [op])
        return _copy_function(called, inputs, cores, of_cores)
    made = []
    for core in range(copied):
        node = node_def_pb2.NodeDef()
        node.CopyFrom(op.node_def)
        for name in ("_tpu_replicate", "_class", "_has_manual_control_dependencies"):
            node.attr.pop(name, None)
        copy = tf.compat.v1.get_default_graph()._create_op_internal(
            op.type,
            [values[core] for values in inputs],
            [output.dtype for output in op.outputs],
            attrs=dict(node.attr.items()),
            op_def=op.op_def,
            name=op.name,
        )
        made.append(copy)
    outputs = [
        [copy.outputs[number] for copy in made] * (cores // copied)
        for number in range(len(op.outputs))
    ]
    return outputs, made


def _copy_loop(
    source: tf.Graph, op: tf.Operation, inputs: list[PerCore], cores: int, of_cores: bool
) -> tuple[list[PerCore], list[tf.Operation]]:
    """Copies a loop whose rounds use other cores: one loop, over the variables of all cores."""
    condition, body = (
        source._get_function(op.get_attr(name).name).graph for name in ("cond", "body")
    )
    # The other inputs, such as the handles of variables, are the same in every round.
    changing = [
        number
        for number, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True))
        if before is not after
    ]
    copied = cores if of_cores else 1

    def with_constant(flat: list[tf.Tensor]) -> list[PerCore]:
        values, remaining = list(inputs), iter(flat)
        for number in changing:
            values[number] = [next(remaining) for _ in range(copied)] * (cores // copied)
        return values

    def flat(values: list[PerCore]) -> list[tf.Tensor]:
        return [values[number][core] for number in changing for core in range(copied)]

    def round_of_all(*values: tf.Tensor) -> list[tf.Tensor]:
        outputs, done = _copy_function(body, with_constant(values), cores, of_cores)
        with tf.control_dependencies(done):
            return [tf.identity(value) for value in flat(outputs)]

    def goes_on(*values: tf.Tensor) -> tf.Tensor:
        (going,), _ = _copy_function(condition, with_constant(values), cores, of_cores)
        return going[0]  # all cores do as many rounds

    results = tf.while_loop(
        goes_on,
        round_of_all,
        flat(inputs),
        parallel_iterations=1,
    )
    return with_constant(results), [results[0].op]
