"""Divides the program of a step over the cores of a mesh, for the TPU's compiler.

The program is that of `tpu_program`, of one replica. Here its arguments that are weights, and the
averages of these, get the divisions that `models.sharding` says, as the attributes from which XLA's
partitioner (GSPMD, Xu et al., 2021) derives those of all other arrays. A mesh of DATA x MODEL cores
is then compiled for DATA replicas in MODEL partitions each.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import tensorflow as tf

from tfbio.models import sharding
from tfbio.planning import tpu_program

# What an optimizer adds to the name of a weight.
_AVERAGE = re.compile(r"/[mv]$")
_ALIAS = re.compile(r"parameter_number = (\d+) : i64\}, output_index = array<i64(?:: (\d+))?>\}")
_ARGUMENT = re.compile(r"(%arg(\d+): tensor<[^<>]*>)")
_ALL = "{replicated}"


def make_strategy(data: int) -> tuple[tf.distribute.TPUStrategy, list[tf.Variable]]:
    """Makes a `TPUStrategy` without a TPU whose variables have the shapes that a mesh has.

    The variables have no values, so their memory is asked for and never written: a model of any
    size can be traced.

    Args:
      data: the number of replicas, DATA.

    Returns:
      A strategy as of `tpu_program.make_strategy`, and a list of the variables that it makes, which
      grows.
    """
    strategy = tpu_program.make_strategy(data, one_copy=True)
    create, made = strategy.extended._create_variable, []

    def create_empty(next_creator: Callable, **arguments: object) -> tf.Variable:
        initial = arguments["initial_value"]
        with tf.__internal__.FuncGraph("shape").as_default():
            value = tf.convert_to_tensor(initial() if callable(initial) else initial)
        shape = sharding.shape_on_mesh(str(arguments["name"]), value.shape.as_list())
        dtype = arguments.get("dtype") or value.dtype

        def empty() -> tf.Tensor:
            with tf.init_scope():
                return tf.raw_ops.Empty(shape=shape, dtype=dtype)

        variable = create(next_creator, **arguments | {"initial_value": empty, "shape": shape})
        made.append(variable)
        return variable

    strategy.extended._create_variable = create_empty
    return strategy, made


def stablehlo(
    strategy: tf.distribute.TPUStrategy,
    made: list[tf.Variable],
    step: Callable,
    rows: dict[str, tf.Tensor],
    model: int,
) -> str:
    """Traces a step and writes the program of a group of devices, as StableHLO for JAX's parser.

    Args:
      strategy, made: the result of `make_strategy`.
      step: the function that each replica runs; it gets the rows of the batch and returns nothing.
      rows: a replica's rows of the batch, tensors of any dtype [rows, ...] by name, of static
        shapes.
      model: the devices of a group, which share the model: MODEL.

    Returns:
      The text of `tpu_program.stablehlo`, with a division over `model` partitions at each argument
      and result of its main function. The same program gives the same text.

    Raises:
      ValueError: the step returns something, or an axis of a weight does not divide.
    """
    data = strategy.num_replicas_in_sync
    traced = tpu_program.trace(strategy, step, *([rows] * data))
    names = {id(each.values[0].handle): each.name.split(":")[0] for each in made}
    arguments = [""] * len(rows)
    arguments += [names.get(id(external), "") for external, _ in traced.graph.captures]
    return divide(tpu_program.lower(traced, rows, data), arguments, model)


def divide(text: str, names: list[str], parts: int) -> str:
    """Divides the arguments of a program over partitions, and the results that are put into them.

    Args:
      text: StableHLO, of `tpu_program.stablehlo`.
      names: for each argument the name of its variable; "" for none, which is whole in each
        partition.
      parts: the number of partitions, MODEL.

    Returns:
      The text with an attribute `mhlo.sharding` at each argument and each result.

    Raises:
      ValueError: the program has another number of arguments, or an axis does not divide.
    """
    aliases = {int(result or 0): int(argument) for argument, result in _ALIAS.findall(text)}
    head, main, rest = re.split(r"(?m)(^  func\.func @main\(.*\{$)", text)
    arguments, results = main.rsplit(" -> ", 1)
    divisions = []

    def argument(match: re.Match) -> str:
        divisions.append(_division(names[int(match[2])], match[1], parts))
        return f'{match[1]} {{mhlo.sharding = "{divisions[-1]}"}}'

    arguments = _ARGUMENT.sub(argument, arguments)
    if len(divisions) != len(names):
        raise ValueError(f"{len(divisions)} arguments, and {len(names)} names")
    types = re.findall(r"tensor<[^<>]*>", results)
    results = ", ".join(
        f'{each} {{mhlo.sharding = "{divisions[aliases[number]] if number in aliases else _ALL}"}}'
        for number, each in enumerate(types)
    )
    return f"{head}{arguments} -> ({results}) {{{rest}"


def _division(name: str, argument: str, parts: int) -> str:
    """Returns how an argument is divided, in XLA's words."""
    shape = [int(size) for size in re.findall(r"(\d+)x", argument.split("<")[1])]
    axis = sharding.divided_axis(_AVERAGE.sub("", name)) if name else None
    if axis is None or parts == 1:
        return _ALL
    if shape[axis] % parts:
        raise ValueError(f"{name}: axis {axis} of {shape} does not divide by {parts}")
    tiles = [parts if each == axis else 1 for each in range(len(shape))]
    return f"{{devices=[{','.join(map(str, tiles))}]<=[{parts}]}}"
