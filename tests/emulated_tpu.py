"""The real `TPUStrategy` without a TPU: its graphs, and their execution on CPUs.

TensorFlow traces `TPUStrategy.run` into a graph that says what every core does, once for all cores:
operations with the attribute `_tpu_replicate`, whose inputs and outputs for each core come from
`TPUReplicatedInput` and go to `TPUReplicatedOutput`. `make_strategy` makes the strategy from a
resolver that tells of a TPU that is not there, with the variables of core i on a logical CPU
device; `trace` gives the graph, and `execute` runs it, one copy of the operations for each core.
"""

import collections
import graphlib
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.tpu import tpu_system_metadata

_Device = collections.namedtuple("_Device", "name device_type")
_TASK = "/job:localhost/replica:0/task:0/device:"
# What only tells the TPU's runtime of the replication.
_BOOKKEEPING = ("TPUReplicateMetadata", "TPUCompilationResult")
# No XLA kernel has these, nor could a TPU's host run the first two.
NOT_FOR_A_TPU = re.compile("Py(Func|Call)|Eager|Print|Summary|String|Assert|Unique|Where$|Debug")


class _Resolver:
    """Tells of the cores of one host."""

    def __init__(self, cores: int):
        self.cores = cores

    def get_tpu_system_metadata(self) -> tpu_system_metadata.TPUSystemMetadata:
        devices = [_Device(f"{_TASK}TPU:{core}", "TPU") for core in range(self.cores)]
        return tpu_system_metadata.TPUSystemMetadata(
            num_cores=self.cores,
            num_hosts=1,
            num_of_cores_per_host=self.cores,
            topology=None,
            devices=devices,
        )

    def get_job_name(self) -> str:
        return "localhost"


def make_strategy(cores: int) -> tf.distribute.TPUStrategy:
    """A strategy for so many cores; their variables take turns on the logical CPU devices."""
    strategy = tpu_strategy.TPUStrategyV2(_Resolver(cores))
    cpus = len(tf.config.list_logical_devices("CPU"))
    names = [[f"{_TASK}CPU:{core % cpus}"] for core in range(cores)]
    strategy.extended._tpu_devices = np.array(names, dtype=object)
    strategy.extended._host_device = f"{_TASK}CPU:0"
    # One handle for the variables of all cores is a thing of the TPU's runtime.
    strategy._enable_packed_variable_in_eager_mode = False
    return strategy


def trace(strategy: tf.distribute.TPUStrategy, step: Callable, *rows: dict[str, tf.Tensor]):
    """The graph of a step, a `ConcreteFunction`.

    Args:
      strategy: see `make_strategy`.
      step: what a replica does.
      rows: for each core, what it gets of the batch.
    """

    @tf.function(autograph=False)
    def traced_step(*rows):
        per_core = strategy.experimental_distribute_values_from_function(
            lambda context: rows[context.replica_id_in_sync_group]
        )
        return strategy.run(step, args=(per_core,))

    return traced_step.get_concrete_function(*rows)


def replica_operations(graph: tf.Graph) -> list[tf.Operation]:
    """What each core does, the bodies of loops and branches included."""
    found = [op for op in graph.get_operations() if _is_replicated(op)]
    return found + [op for name in _functions_of(found) for op in _body(graph, name, set())]


def _body(graph: tf.Graph, name: str, seen: set[str]) -> list[tf.Operation]:
    if name in seen:
        return []
    seen.add(name)
    function = graph._get_function(name)
    inner = function.graph if hasattr(function, "graph") else None
    found = inner.get_operations() if inner is not None else []
    return found + [op for each in _functions_of(found) for op in _body(inner, each, seen)]


def _functions_of(operations: list[tf.Operation]) -> list[str]:
    return [
        value.func.name
        for op in operations
        for value in op.node_def.attr.values()
        if value.WhichOneof("value") == "func"
    ]


def _is_replicated(op: tf.Operation) -> bool:
    return "_tpu_replicate" in op.node_def.attr


def execute(traced, cores: int, *rows: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    """Runs a traced step: a copy of its operations for each core, which share only the sums.

    Args:
      traced: see `trace`.
      cores: of the strategy.
      rows: as for `trace`.

    Returns:
      What the step returned, flat, of every core.
    """
    outer = traced.graph

    def copy_all(*flat: tf.Tensor) -> list[tf.Tensor]:
        graph = tf.compat.v1.get_default_graph()
        _copy_functions(outer, graph)
        # By name, the tensor of each core; of what all have in common the same for all.
        tensors: dict[str, list[tf.Tensor]] = {}
        copies: dict[str, list[tf.Operation]] = {}
        inputs = [*flat, *(graph.capture(external) for external, _ in outer.captures)]
        for placeholder, value in zip(outer.inputs, inputs, strict=True):
            tensors[placeholder.name] = [value] * cores
            copies[placeholder.op.name] = [value.op] * cores
        for op in _in_order(outer):
            if op.name in copies or op.type in _BOOKKEEPING:
                copies.setdefault(op.name, [])
                continue
            _copy(graph, op, tensors, copies, cores)
        with tf.control_dependencies([c for op in outer.control_outputs for c in copies[op.name]]):
            return [tf.identity(tensors[output.name][0]) for output in outer.outputs]

    run = tf.function(copy_all, autograph=False)
    return run(*tf.nest.flatten(rows, expand_composites=True))


def _in_order(graph: tf.Graph) -> list[tf.Operation]:
    """Returns the operations, each after all that it waits for, some of which were made later."""
    operations = graph.get_operations()
    before = {op: {*(value.op for value in op.inputs), *op.control_inputs} for op in operations}
    return list(graphlib.TopologicalSorter(before).static_order())


def _copy_functions(outer: tf.Graph, graph: tf.Graph) -> None:
    for function in outer._functions.values():
        if not graph._is_function(function.name):
            graph._add_function_recursive(function)


def _copy(graph, op, tensors, copies, cores) -> None:
    """Adds an operation to the graph, for each core or for all."""
    if op.type == "TPUReplicatedInput":
        tensors[op.outputs[0].name] = [tensors[value.name][0] for value in op.inputs]
        copies[op.name] = []
        return
    if op.type == "TPUReplicatedOutput":
        (value,) = op.inputs
        for core, output in enumerate(op.outputs):
            tensors[output.name] = [tensors[value.name][core]] * cores
        copies[op.name] = []
        return
    if op.type == "CrossReplicaSum":
        sums = tf.add_n(tensors[op.inputs[0].name])
        tensors[op.outputs[0].name] = [sums] * cores
        copies[op.name] = [sums.op]
        return
    if op.type == "AllToAll":
        axis, new_axis = op.get_attr("split_dimension"), op.get_attr("concat_dimension")
        parts = [tf.split(value, cores, axis) for value in tensors[op.inputs[0].name]]
        gathered = [tf.concat([own[core] for own in parts], new_axis) for core in range(cores)]
        tensors[op.outputs[0].name] = gathered
        copies[op.name] = [value.op for value in gathered]
        return
    made = []
    for core in range(cores if _is_replicated(op) else 1):
        node = node_def_pb2.NodeDef()
        node.CopyFrom(op.node_def)
        for name in ("_tpu_replicate", "_class", "_has_manual_control_dependencies"):
            node.attr.pop(name, None)
        node.device = ""
        control = [copy for before in op.control_inputs for copy in copies[before.name]]
        own = [tensors[value.name][core] for value in op.inputs]
        attributes = {name: value for name, value in node.attr.items()}
        types = [output.dtype for output in op.outputs]
        with graph.control_dependencies(control):
            copy = graph._create_op_internal(
                op.type, own, types, attrs=attributes, op_def=op.op_def, name=op.name
            )
        made.append(copy)
    copies[op.name] = made
    for number, output in enumerate(op.outputs):
        each = [copy.outputs[number] for copy in made]
        tensors[output.name] = each if len(each) == cores else each * cores
