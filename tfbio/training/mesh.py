"""Divides one model over several devices, with TensorFlow's DTensor.

A mesh has two dimensions: each row of devices along "model" holds one model, divided as
`models.sharding` says, and the examples are divided over the rows, along "data".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.models import sharding, target

DATA, MODEL = "data", "model"
_WHOLE = dtensor.UNSHARDED
# What an optimizer adds to the name of a weight.
_AVERAGE = re.compile(r"(.*)/[mv]")
# The mesh that graphs are traced for.
_traced_for: Mesh | None = None


class Mesh:
    """A mesh of this machine's devices, which compute with one model.

    Args:
      shape: its shape; also an attribute.
      device_type: "CPU" or "GPU"; there are `shape.devices` logical ones or more.
    """

    def __init__(self, shape: MeshShape, device_type: str = "CPU"):
        self.shape = shape
        self._mesh = dtensor.create_mesh(
            [(DATA, shape.data), (MODEL, shape.model)],
            devices=[f"{device_type}:{number}" for number in range(shape.devices)],
        )

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Makes all variables of a `with` block variables of the mesh, divided by their names.

        Yields:
          Nothing.

        Raises:
          ValueError: an axis of a variable does not divide by the devices.
        """

        def create(_: object, **arguments: object) -> tf.Variable:
            initial, name = arguments["initial_value"], str(arguments.get("name") or "")
            value = tf.convert_to_tensor(initial() if callable(initial) else initial)
            if arguments.get("dtype") is not None:
                value = tf.cast(value, arguments["dtype"])
            return self._variable(value, name, arguments.get("trainable") is not False)

        with tf.variable_creator_scope(create):
            yield

    def _variable(self, value: tf.Tensor, name: str, trainable: bool) -> tf.Variable:
        """Makes a variable of the mesh, divided by its name.

        An average of a weight is divided over the parts of the examples, too: rows of devices that
        hold the same weights need not all keep their averages. It is ZeRO's first stage
        (Rajbhandari et al., 2020, section 5.1).

        Args:
          value: its initial value, of any dtype, in the shape that it has elsewhere.
          name: its name.
          trainable: True if it is learnt.

        Raises:
          ValueError: an axis does not divide by the devices.
        """
        average = _AVERAGE.fullmatch(name)
        if average:  # which has its weight's shape already
            layout = self._layout(average[1], value.shape)
            _divide_over_data(layout, value.shape, self.shape.data)
        else:
            value = tf.reshape(value, sharding.shape_on_mesh(name, value.shape))
            layout = self._layout(name, value.shape)
        return dtensor.DVariable(self.put(value, layout), name=name, trainable=trainable)

    def _layout(self, name: str, shape: Sequence[int]) -> list[str]:
        """Returns which dimension of the mesh divides each axis of a weight."""
        axis, layout = sharding.divided_axis(name), [_WHOLE] * len(shape)
        if axis is not None:
            if shape[axis] % self.shape.model:
                raise ValueError(f"{name}: axis {axis} of {shape} does not divide.")
            layout[axis] = MODEL
        return layout

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Makes all graphs that are traced in a `with` block graphs for this mesh.

        Yields:
          Nothing.
        """
        global _traced_for
        before, _traced_for = _traced_for, self
        try:
            with target.mesh():
                yield
        finally:
            _traced_for = before

    def put(self, value: tf.Tensor, layout: list[str] | None = None) -> tf.Tensor:
        """Places a tensor on the mesh.

        Args:
          value: a tensor of this process, of any dtype.
          layout: for each axis `DATA`, `MODEL` or `dtensor.UNSHARDED`; None: it is whole on each
            device.

        Returns:
          A tensor of the mesh.
        """
        value = tf.convert_to_tensor(value)
        whole = dtensor.Layout.replicated(self._mesh, rank=len(value.shape))
        placed = dtensor.copy_to_mesh(value, whole)
        if layout is None or set(layout) <= {_WHOLE}:
            return placed
        return self.relayout(placed, layout)

    def relayout(self, value: tf.Tensor, layout: list[str] | None = None) -> tf.Tensor:
        """Divides a tensor of the mesh in another way; returns the tensor.

        Args:
          value: a tensor of the mesh, of any dtype.
          layout: see `put`.
        """
        layout = layout or [_WHOLE] * len(value.shape)
        return dtensor.relayout(value, dtensor.Layout(layout, self._mesh))

    def put_rows(self, value: tf.Tensor | np.ndarray) -> tf.Tensor:
        """Places a tensor on the mesh, its first axis divided over the parts of the examples.

        Args:
          value: [B, ...], of any dtype.

        Returns:
          A tensor of the mesh; whole on each device if its first axis does not divide.
        """
        value = tf.convert_to_tensor(value)
        if value.shape[0] % self.shape.data:
            return self.put(value)
        return self.put(value, [DATA] + [_WHOLE] * (len(value.shape) - 1))

    def assign(self, variable: tf.Variable, value: tf.Tensor | tf.Variable) -> None:
        """Assigns a value of this process to a variable of the mesh; returns nothing.

        Args:
          variable: the variable.
          value: its numbers, in the shape that it has elsewhere; see `sharding.padded_words`.
        """
        value, shape = tf.convert_to_tensor(value), variable.shape
        if value.shape.num_elements() < shape.num_elements():
            more = [[0, shape[0] - value.shape[0]], *([0, 0] for _ in shape[1:])]
            value = tf.pad(value, more, constant_values=sharding.padding(variable.name))
        layout = list(variable.layout.sharding_specs)
        variable.assign(self.put(tf.reshape(value, shape), layout))

    def collect(self, variable: tf.Variable, into: tf.Variable) -> None:
        """Assigns the value of a variable of the mesh to one of this process; returns nothing.

        Args:
          variable: the variable of the mesh.
          into: the variable of this process, in its shape or without the padding of words.
        """
        value = self.gather(variable)
        if value.size > into.shape.num_elements():
            value = value[: into.shape[0]]
        into.assign(value.reshape(into.shape))

    def gather(self, variable: tf.Variable | tf.Tensor) -> np.ndarray:
        """Collects a variable or tensor of the mesh: returns all of it, in its shape on the mesh.

        Args:
          variable: the variable or tensor, of any shape and dtype.
        """
        return self.relayout(tf.convert_to_tensor(variable)).numpy()


class MeshStrategy(tf.distribute.OneDeviceStrategy):
    """The strategy of a run whose steps a mesh computes; all else is this process's, on its CPU.

    The mesh takes GPUs, and where there is none, the parts that the CPU is divided into.

    Args:
      shape: the shape of the mesh.

    Attributes:
      mesh: the `Mesh`.

    Raises:
      UsageError: there are fewer devices than the mesh has.
    """

    def __init__(self, shape: MeshShape):
        gpus = tf.config.list_physical_devices("GPU")
        device_type = "GPU" if gpus else "CPU"
        # Logical GPUs would start TensorFlow, before which DTensor wants to set it up.
        count = len(gpus or tf.config.list_logical_devices("CPU"))
        if count < shape.devices:
            raise UsageError(
                f"--mesh={shape} needs {shape.devices} devices, and there are {count} "
                f"{device_type}s."
            )
        if device_type == "GPU":
            dtensor.initialize_accelerator_system("GPU")
        # DTensor divides graphs after TensorFlow has rewritten them, and its estimates of cost fill
        # standard error with messages about the shapes of parts.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        super().__init__("/cpu:0")
        self.mesh = Mesh(shape, device_type)


def whole(value: tf.Tensor) -> tf.Tensor:
    """Puts a value together on each device, in a graph that is traced for a mesh; returns it.

    Of random numbers that were divided, each device would draw the same.

    Args:
      value: a tensor of any shape. Outside of `Mesh.tracing` it is returned as it is.
    """
    return value if _traced_for is None else _traced_for.relayout(value)


def divided_as(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
    """Divides a value over the devices as a variable of a mesh is divided; returns the value.

    Args:
      variable: the variable. If it is of no mesh, the value is returned as it is.
      value: a tensor of its shape.
    """
    layout = getattr(variable, "layout", None)
    return value if layout is None else dtensor.relayout(value, layout)


def _divide_over_data(layout: list[str], shape: Sequence[int], parts: int) -> None:
    """Divides the first axis that is whole and divides by so many parts, if there is one."""
    for axis, size in enumerate(shape):
        if layout[axis] == _WHOLE and size % parts == 0:
            layout[axis] = DATA
            return
