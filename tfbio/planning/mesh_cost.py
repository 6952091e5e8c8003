"""Estimates the memory of a pretraining step whose devices share models, and proposes a mesh.

`run_pretraining.py --dry_run` prints `report`, and proposes `smallest` for a recipe that fits on no
single GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.objectives import division, mesh_limits
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_weights, pretraining_cost_on_tpu
from tfbio.planning.activation_cost import activations
from tfbio.training.devices import DEVICES
from tfbio.training.precision import precision_on

_FLOAT32 = 4
# GPUs of one machine that a mesh is proposed for.
_GPUS = (2, 4, 8, 16)


class DeviceBytes(NamedTuple):
    """The bytes that each device of a mesh has in a pretraining step.

    Attributes:
      parameters: bytes of the weights.
      gradients: bytes of their gradients, and of the sum of those of several parts in turn.
      slots: bytes of the averages that Adam keeps of them.
      activations: bytes of the activations, an estimate.
    """

    parameters: int
    gradients: int
    slots: int
    activations: int


class Proposal(NamedTuple):
    """A mesh that a pretraining step fits on.

    Attributes:
      mesh: its shape.
      parts: the least `run.gradient_accumulation_steps` that it fits with.
    """

    mesh: MeshShape
    parts: int


def device_bytes(config: PretrainingConfig, mesh: MeshShape, precision: str) -> DeviceBytes:
    """Computes the bytes that each device of a mesh has in a pretraining step on GPUs or CPUs.

    Those of parameters and averages are exact: weights are float32, and divided as
    `mesh_weights.numbers` says. A gradient is divided as its weight; a device that works on several
    parts in turn has two, that of a part and the sum.

    Args:
      config: all settings.
      mesh: the shape of the mesh.
      precision: "bfloat16" or "float32", of the activations.

    Returns:
      A named tuple of ints: `parameters`, `gradients`, `slots` and `activations`.

    Raises:
      UsageError: the settings do not go with the mesh, see `mesh_limits.check`.
      KeyError: `precision` is another text.
    """
    mesh_limits.check(config, mesh)
    count = mesh_weights.numbers(config, mesh)
    parameters = _FLOAT32 * count.parameters
    kept = activations(config, mesh.data, precision, mesh.model)
    gradients = parameters * (2 if config.turns(mesh.data) > 1 else 1)
    return DeviceBytes(parameters, gradients, _FLOAT32 * count.slots, kept)


def host_bytes(config: PretrainingConfig) -> int:
    """Computes the bytes of a mesh's undivided copy of the model in the memory of the process.

    Checkpoints are written from it. It has the weights and Adam's averages in float32, however many
    devices the mesh has.

    Args:
      config: all settings of a masked language model.
    """
    return _FLOAT32 * sum(mesh_weights.numbers(config, MeshShape(1, 1)))


def needed_memory(config: PretrainingConfig, mesh: MeshShape, name: str) -> int:
    """Estimates the bytes of memory that a pretraining step takes on each device of a mesh.

    Args:
      config: all settings.
      mesh: the shape of the mesh.
      name: the devices of the mesh, one of `devices.DEVICES`; a TPU in bfloat16 has the formula of
        `pretraining_cost_on_tpu.memory`, all others that of `device_bytes`.

    Returns:
      Bytes, an int.

    Raises:
      KeyError: there is no device of this name.
      UsageError: the settings do not go with the mesh, see `mesh_limits.check`.
    """
    mesh_limits.check(config, mesh)
    precision = precision_on(config.run.precision, name)
    if name.startswith("tpu") and precision == "bfloat16":
        return int(pretraining_cost_on_tpu.memory(config, DEVICES[name], mesh))
    return sum(device_bytes(config, mesh, precision))


def parts_that_fit(config: PretrainingConfig, mesh: MeshShape, name: str) -> int | None:
    """Finds the least `run.gradient_accumulation_steps` at which a step fits on a mesh.

    Args:
      config: all settings; the search begins with its value.
      mesh: the shape of the mesh.
      name: its devices, one of `devices.DEVICES`.

    Returns:
      The number of parts, an int; None if none fits that the batch divides by.

    Raises:
      KeyError: there is no device of this name.
      UsageError: the settings do not go with the mesh, see `mesh_limits.check`.
    """
    mesh_limits.check(config, mesh)
    memory = DEVICES[name].memory
    return division.least_parts(
        config, mesh.data, lambda made: needed_memory(made, mesh, name) <= memory
    )


def smallest(config: PretrainingConfig, name: str) -> Proposal | None:
    """Finds the mesh with the fewest devices on which a pretraining step fits.

    Of those with as many devices, it is the one that divides the model into the fewest parts: they
    wait for each other in every layer, and the parts of the examples only at the end of a step.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`. A TPU's devices all take part; of GPUs up to 16 do.

    Returns:
      A named tuple of the `mesh` and its `parts`; None if there is none.

    Raises:
      KeyError: there is no device of this name.
    """
    for mesh in _meshes(DEVICES[name].count):
        try:
            parts = parts_that_fit(config, mesh, name)
        except UsageError:
            continue
        if parts:
            return Proposal(mesh, parts)
    return None


def _meshes(count: int) -> Iterator[MeshShape]:
    """Yields the shapes of meshes of so many devices that share models; of 1: of several GPUs."""
    for devices in _GPUS if count == 1 else (count,):
        models = (model for model in range(2, devices + 1) if devices % model == 0)
        yield from (MeshShape(devices // model, model) for model in models)


def report(config: PretrainingConfig, mesh: MeshShape, name: str = "") -> str:
    """Describes the memory of a pretraining step on a mesh, as `--dry_run --mesh` prints it.

    Args:
      config: all settings.
      mesh: the shape of the mesh.
      name: one of `devices.DEVICES`, such as "a100"; "": all.

    Returns:
      Text: lines on the bytes of each device and of the process, and a table with the GB of memory
      for each kind of devices: all GPUs, and the TPUs that have as many devices as the mesh, on
      which no mesh runs yet.

    Raises:
      UsageError: the settings do not go with the mesh, see `mesh_limits.check`; or it has another
        number of devices than the TPU of this name.
    """
    names = [each for each in DEVICES if DEVICES[each].count in (1, mesh.devices)]
    if name and name not in names:
        raise UsageError(
            f"--mesh={mesh} has {mesh.devices} devices, and --estimate_for={name} "
            f"{DEVICES[name].count}: give a mesh of as many."
        )
    of, half = (device_bytes(config, mesh, precision) for precision in ("float32", "bfloat16"))
    lines = [
        f"--mesh={mesh}: each of {mesh.devices} devices has",
        f"  {_gb(of.parameters)} of parameters, {_gb(of.gradients)} of their gradients, "
        f"{_gb(of.slots)} of Adam's averages,",
        f"  {_gb(of.activations)} of activations in float32, {_gb(half.activations)} in bfloat16 "
        "(estimates);",
        f"  and the process {_gb(host_bytes(config))} of the undivided model in its CPU's memory",
        f"{'on':10}  {'in':8}  {'GB of memory each':>17}",
    ]
    for each in [name] if name else names:
        needed, available = needed_memory(config, mesh, each), DEVICES[each].memory
        sizes = f"{needed / 1e9:,.1f} of {available / 1e9:,.0f}"
        # What a mesh on a TPU would need is known (docs/scale.md).
        note = "  cannot run yet" if each.startswith("tpu") else ""
        note += "" if needed <= available else _remedy(config, mesh, each)
        precision = precision_on(config.run.precision, each)
        lines.append(f"{each:10}  {precision:8}  {sizes:>17}{note}")
    return "\n".join(lines)


def _remedy(config: PretrainingConfig, mesh: MeshShape, name: str) -> str:
    """Says with how many parts of a batch a step fits on a mesh that it is too large for."""
    parts = parts_that_fit(config, mesh, name)
    return "  too much" + (f"; fits with run.gradient_accumulation_steps={parts}" if parts else "")


def _gb(size: int) -> str:
    return f"{size / 1e9:,.2f} GB"
