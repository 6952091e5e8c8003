"""Traces a step for a TPU with the real `TPUStrategy`, and writes one core's program as StableHLO.

No TPU is needed. The strategy is made from a resolver that only names the cores, and its variables
lie on CPUs. The trace of a core becomes StableHLO, which the TPU's compiler takes
(`scripts/tpu_compiler.py`).
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.eager import context
from tensorflow.python.tpu import tpu_system_metadata

_Device = collections.namedtuple("_Device", "name device_type")
_TASK = "/job:localhost/replica:0/task:0/device:"
# Operations that only tell the TPU's runtime of the replication.
BOOKKEEPING = ("TPUReplicateMetadata", "TPUCompilationResult")


class _Resolver:
    """Names the cores of one host, as a resolver of a TPU does."""

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


def make_strategy(cores: int, one_copy: bool = False) -> tf.distribute.TPUStrategy:
    """Makes a `TPUStrategy` without a TPU, to trace the program of a step with.

    Args:
      cores: the number of replicas.
      one_copy: True if all cores share one copy of each variable, which takes the memory of one;
        else the copies are spread over the logical CPU devices.

    Returns:
      A strategy of `cores` replicas, whose variables lie on CPUs. Steps can be traced with it
      (`trace`), not run.
    """
    strategy = tpu_strategy.TPUStrategyV2(_Resolver(cores))
    extended = strategy.extended
    cpus = len(tf.config.list_logical_devices("CPU"))
    names = [[f"{_TASK}CPU:{core % cpus}"] for core in range(cores)]
    extended._tpu_devices = np.array(names, dtype=object)
    extended._host_device = f"{_TASK}CPU:0"
    # Only the TPU's runtime has one handle for the variables of all cores.
    strategy._enable_packed_variable_in_eager_mode = False
    if one_copy:
        create = extended._create_variable

        def create_once(next_creator: Callable, **kwargs: Any) -> tf.Variable:
            made: list[tf.Variable] = []

            def creator(**kwargs: Any) -> tf.Variable:
                if not made:
                    made.append(next_creator(**kwargs))
                return made[0]

            return create(creator, **kwargs)

        extended._create_variable = create_once
    return strategy


def trace(
    strategy: tf.distribute.TPUStrategy, step: Callable, *rows: dict[str, tf.Tensor]
) -> tf.types.experimental.ConcreteFunction:
    """Traces a step as a TPU program: `strategy.run` of it on all cores.

    Args:
      strategy: one that `make_strategy` made.
      step: the function that each replica runs; it gets its rows, a dict of tensors by name.
      *rows: for each core its rows of the batch, tensors of any dtype [rows, ...] by name.

    Returns:
      A `ConcreteFunction`, whose `graph` has the step once for each core.
    """

    @tf.function(autograph=False)
    def traced_step(*rows: dict[str, tf.Tensor]) -> Any:
        per_core = strategy.experimental_distribute_values_from_function(
            lambda context: rows[context.replica_id_in_sync_group]
        )
        return strategy.run(step, args=(per_core,))

    return traced_step.get_concrete_function(*rows)


def stablehlo(
    strategy: tf.distribute.TPUStrategy, step: Callable, rows: dict[str, tf.Tensor]
) -> str:
    """Traces a step and writes the TPU program of one core, as StableHLO that JAX's parser takes.

    Its arguments are the rows in the order of their names, then the variables as the step first
    uses them; its results the values of the variables that it changes.

    Args:
      strategy: one that `make_strategy` made.
      step: the function that each replica runs; it gets the rows and returns nothing.
      rows: a core's rows of the batch, tensors of any dtype [rows, ...] by name, of static shapes.

    Returns:
      The text of a StableHLO module; the same program gives the same text.

    Raises:
      ValueError: the step returns something.
    """
    cores = strategy.num_replicas_in_sync
    return lower(trace(strategy, step, *([rows] * cores)), rows, cores)


def lower(
    traced: tf.types.experimental.ConcreteFunction, rows: dict[str, tf.Tensor], cores: int
) -> str:
    """Lowers a trace of all cores to the TPU program of one core, as StableHLO text.

    Its arguments and results are in the order that `stablehlo` describes.

    Args:
      traced: the result of `trace` for a step that returns nothing.
      rows: a core's rows of the batch, tensors of any dtype [rows, ...] by name, of static shapes.
      cores: the number of cores of the strategy.

    Returns:
      The text of a StableHLO module; the same program gives the same text.

    Raises:
      ValueError: the step returns something.
    """
    definition = traced.graph.as_graph_def()
    own = {f.signature.name: f"{f.signature.name}_of_a_core" for f in definition.library.function}
    for function in definition.library.function:
        # TensorFlow would find the functions of the trace under their old names.
        function.signature.name = own[function.signature.name]
    for nodes in (definition.node, *(f.node_def for f in definition.library.function)):
        _for_one_core(nodes)
        for function in _functions_called(nodes):
            function.name = own.get(function.name, function.name)
    for function in definition.library.function:
        context.context().add_function_def(function)
    inputs = [tensor.op.name for tensor in traced.graph.inputs]
    for node in [node for node in definition.node if node.name in inputs]:
        definition.node.remove(node)
    used = {_node_of(value) for node in definition.node for value in node.input}

    @tf.function(jit_compile=True, autograph=False)
    def one_core(rows: dict[str, tf.Tensor]) -> None:
        captured = [tf.compat.v1.get_default_graph().capture(x) for x, _ in traced.graph.captures]
        given = tf.nest.flatten(rows) * cores
        pairs = zip(inputs, [*given, *captured], strict=True)
        values = {name: value for name, value in pairs if name in used}
        tf.graph_util.import_graph_def(definition, input_map=values, name="")

    text = one_core.experimental_get_compiler_ir(rows)(stage="stablehlo")
    # Operations that StableHLO lacks come in a dialect of the compiler.
    text = re.sub(r"= mhlo\.copy (%\S+) : (\S+)", r"= stablehlo.optimization_barrier \1 : \2", text)
    text = re.sub(r"= mhlo\.erf (%\S+) : (\S+)", r"= chlo.erf \1 : \2 -> \2", text)
    # Neither places nor names with a number of this process's: the same program is the same text.
    text = re.sub(r"(?m)^#loc.*\n| loc\((?:[^()]|\([^()]*\))*\)", "", text)
    names = re.findall(r"(?:^module|func\.func private) @([\w.]+)", text)
    numbers = {name: f"@function_{number}" for number, name in enumerate(names)}
    return re.sub(r"@([\w.]+)", lambda match: numbers.get(match[1], match[0]), text)


def _for_one_core(nodes: MutableSequence[node_def_pb2.NodeDef]) -> None:
    """Replaces the operations of `TPUStrategy` by XLA's, in place.

    Raises:
      ValueError: the step returns something.
    """
    by_name = {node.name: node for node in nodes}
    gone = {node.name for node in nodes if node.op in BOOKKEEPING}
    for node in list(nodes):
        for name in ("_tpu_replicate", "_class", "_has_manual_control_dependencies"):
            node.attr.pop(name, None)
        kept = [value for value in node.input if value.lstrip("^") not in gone]
        del node.input[:]
        node.input.extend(kept)
        node.device = ""
        if node.op == "TPUReplicatedInput":
            ids = all(by_name[_node_of(value)].op == "Const" for value in node.input)
            dtype = node.attr["T"].type
            inputs = list(node.input)
            node.attr.clear()
            del node.input[:]
            if ids and dtype == tf.int32.as_datatype_enum:
                node.op = "XlaReplicaId"
            else:
                node.op = "Identity"
                node.attr["T"].type = dtype
                node.input.append(inputs[0])
        elif node.op == "TPUReplicatedOutput":
            raise ValueError(f"{node.name}: a step to compile returns nothing.")
        elif node.op == "CrossReplicaSum":
            dtype = node.attr["T"].type
            node.attr.clear()
            node.op = "XlaAllReduce"
            node.attr["T"].type = dtype
            node.attr["reduce_op"].s = b"Add"
            node.attr["mode"].s = b"CrossReplica"
    for node in [node for node in nodes if node.op in BOOKKEEPING]:
        nodes.remove(node)


def _functions_called(
    nodes: Iterable[node_def_pb2.NodeDef],
) -> Iterator[attr_value_pb2.NameAttrList]:
    for node in nodes:
        for value in node.attr.values():
            if value.WhichOneof("value") == "func":
                yield value.func
            yield from value.list.func


def _node_of(value: str) -> str:
    return value.lstrip("^").split(":")[0]
