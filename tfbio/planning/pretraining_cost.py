"""Estimates the memory, days and epochs of a pretraining run from its settings alone.

`run_pretraining.py --dry_run` prints `report`. TensorFlow is not imported here, as that alone takes
longer than the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbio.base.errors import UsageError
from tfbio.objectives import division, objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_cost, pretraining_cost_on_tpu
from tfbio.planning.activation_cost import activations
from tfbio.training import devices
from tfbio.training.devices import DEVICES, SHARE_OF_PEAK, Device
from tfbio.training.precision import precision_on

if TYPE_CHECKING:
    from tfbio.base.device_flags import MeshShape
    from tfbio.base.manifests import Manifest


def memory(config: PretrainingConfig, device: Device, precision: str) -> int:
    """Estimates the bytes that a pretraining step takes on each device: parameters and activations.

    For a TPU in bfloat16 see `pretraining_cost_on_tpu.memory`. Counts 16 bytes for each parameter,
    4 more if a device works on several parts in turn, whose gradients it sums, 4 for each of a
    distillation's teacher, and `activation_cost.activations`.

    Args:
      config: all settings.
      device: the device; its `count` of them share the batch.
      precision: "bfloat16" or "float32", of the activations.

    Returns:
      Bytes, an int.

    Raises:
      KeyError: `precision` is another text.
      ConfigError: the generator's sizes do not go together.
    """
    of_parameter = devices.BYTES_OF_PARAMETER + (4 if config.turns(device.count) > 1 else 0)
    weights = of_parameter * objective_cost.parameters(config).all
    weights += 4 * objective_cost.teacher_parameters(config)
    return weights + activations(config, device.count, precision)


def needed_memory(config: PretrainingConfig, name: str) -> int:
    """Estimates the bytes of memory that a pretraining step takes on each device of a name.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`, such as "tpu-v3-8" or "a100"; a TPU in bfloat16 has the
        formula of `pretraining_cost_on_tpu.memory`, all others that of `memory`.

    Returns:
      Bytes, an int.

    Raises:
      KeyError: there is no device of this name.
      ConfigError: the generator's sizes do not go together.
    """
    if name.startswith("tpu") and precision_on(config.run.precision, name) == "bfloat16":
        return int(pretraining_cost_on_tpu.memory(config, DEVICES[name]))
    return memory(config, DEVICES[name], precision_on(config.run.precision, name))


def parts_that_fit(config: PretrainingConfig, name: str) -> int | None:
    """Finds the least `run.gradient_accumulation_steps` at which a pretraining step fits in memory.

    Args:
      config: all settings; the search begins with its value.
      name: one of `devices.DEVICES`, such as "tpu-v3-8".

    Returns:
      The number of parts, an int; None if none fits that the batch divides by.

    Raises:
      KeyError: there is no device of this name.
      ConfigError: the generator's sizes do not go together.
    """
    device = DEVICES[name]
    return division.least_parts(
        config, device.count, lambda made: needed_memory(made, name) <= device.memory
    )


def days(config: PretrainingConfig, name: str) -> float:
    """Estimates the days of a pretraining run, at `SHARE_OF_PEAK` (28 %) of the devices' peak.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`, such as "tpu-v3-8".

    Returns:
      Days, a float.

    Raises:
      KeyError: there is no device of this name.
      ConfigError: the generator's sizes do not go together.
    """
    device = DEVICES[name]
    peak = device.count * getattr(device, precision_on(config.run.precision, name))
    return objective_cost.run_flops(config) / (peak * SHARE_OF_PEAK) / (24 * 3600)


def computational_ratio(num_train_steps: int, train_batch_size: int) -> float:
    """Computes C, BioM's measure of how long a model was pretrained, whatever its size.

    It is the number of examples that the run reads, as a multiple of the 4 M steps of 256 examples
    of ELECTRA-base++ (Alrowili and Vijay-Shanker, 2021, Table 1).

    Args:
      num_train_steps: the steps of the run.
      train_batch_size: the examples of a step on all devices.
    """
    return num_train_steps * train_batch_size / (4_000_000 * 256)


def report(
    config: PretrainingConfig,
    name: str = "",
    data: list[tuple[str, Manifest]] | None = None,
    mesh: MeshShape | None = None,
) -> str:
    """Describes the cost of a pretraining run, as `run_pretraining.py --dry_run` prints it.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`, such as "tpu-v3-8"; "": all.
      data: the folder of examples and its manifest for each of the run's phases; None: without
        epochs.
      mesh: devices that share models; None: each has one.

    Returns:
      Text: lines on the parameters, the run's steps and FLOP, those of each phase (with the
      epochs), and a table with GB of memory, days and least days for each device; with a mesh, the
      table and lines of `mesh_cost.report`.

    Raises:
      UsageError: there is no device of this name, or the settings do not go with the mesh.
      ConfigError: the generator's sizes do not go together.
      IndexError: `data` lacks a phase of the run.
    """
    if name and name not in DEVICES:
        raise UsageError(f"--estimate_for={name}: expected one of {', '.join(DEVICES)}.")
    count, batch = objective_cost.parameters(config), config.train_batch_size
    kept = f"{_short(count.encoder)} in the encoder"
    if count.generator:
        kept += f", {_short(count.generator)} in the generator alone"
    if teacher := objective_cost.teacher_parameters(config):
        kept += f", {_short(teacher)} in the teacher"
    ratio = computational_ratio(config.last_step, batch)
    lines = [
        f"parameters: {kept}, {_short(count.all)} trained",
        f"the run: {config.last_step:,} steps of {batch:,} examples, "
        f"{objective_cost.run_flops(config):.2e} FLOP, "
        f"{ratio:.2g} of ELECTRA-base++'s examples (C)",
    ]
    if config.warmup_warning:
        lines.append(config.warmup_warning)
    for number, phase in enumerate(config.phases()):
        flops = objective_cost.example_flops(config, phase.sequence_length)
        lines.append(
            f"  {phase.steps:,} steps at length {phase.sequence_length}: "
            f"{_short(batch * flops)}FLOP each, {_short(flops)}FLOP an example"
        )
        if data:
            lines.append(f"    {_examples_seen(*data[number], phase.steps * batch)}")
    if config.generator_warmup_steps:
        lines.append(f"  in the first {config.generator_warmup_steps:,} the generator learns alone")
    lines += [mesh_cost.report(config, mesh, name)] if mesh else _table(config, name)
    return "\n".join(lines)


def _table(config: PretrainingConfig, name: str) -> list[str]:
    """Returns the lines of the table of devices, each of which has a model; "": all devices."""
    lines = [f"{'on':10}  {'in':8}  {'GB of memory each':>17}  {'days':>8}  {'at least':>8}"]
    for each in [name] if name else DEVICES:
        device, precision = DEVICES[each], precision_on(config.run.precision, each)
        needed = needed_memory(config, each)
        sizes = f"{needed / 1e9:,.1f} of {device.memory / 1e9:,.0f}"
        times = [
            "" if time is None else f"{time:,.0f}" if time >= 10 else f"{time:.2g}"
            for time in (days(config, each), pretraining_cost_on_tpu.least_days(config, each))
        ]
        columns = f"{each:10}  {precision:8}  {sizes:>17}  {times[0]:>8}  {times[1]:>8}"
        columns += _note(config, each, needed)
        lines.append(columns.rstrip())
    lines.append(
        f"Days at {SHARE_OF_PEAK:.0%} of the peak; at least as many as the products, memory and "
        "interconnect of a TPU allow. All are estimates; docs/benchmarks.md compares them with "
        "published runs."
    )
    return lines


def _note(config: PretrainingConfig, name: str, needed: float) -> str:
    """Says why a run cannot be on a device with these settings, and the remedy; "" if it can.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`.
      needed: the bytes of memory that a step takes on each device.
    """
    count, groups = DEVICES[name].count, config.gradient_clip_groups
    if config.train_batch_size % count:
        return f"  does not divide by {count} devices"
    if config.train_batch_size % (pieces := division.pieces(config, count)):
        return f"  does not divide by {count} devices with all their parts ({pieces} pieces)"
    note = f"  needs gradient_clip_groups={count}, or 1" if groups > 1 and groups % count else ""
    if needed > DEVICES[name].memory:
        parts = parts_that_fit(config, name)
        remedy = f"; fits with run.gradient_accumulation_steps={parts}" if parts else ""
        # No mesh runs on a TPU yet.
        on_gpu = not name.startswith("tpu")
        if parts is None and on_gpu and (proposed := mesh_cost.smallest(config, name)):
            remedy = f"; fits with --mesh={proposed.mesh}"
            if proposed.parts > config.run.gradient_accumulation_steps:
                remedy += f" and run.gradient_accumulation_steps={proposed.parts}"
        note += f"  too much{remedy}"
    return note


def _short(number: float) -> str:
    """Shortens a number: 39957000000000 -> "40.0 T"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= factor:
            return f"{number / factor:,.1f} {prefix}"
    return f"{number / 1e3:,.1f} k"


def _examples_seen(folder: str, manifest: Manifest, seen: int) -> str:
    """Describes a folder of examples, and how often a run reads it that takes `seen` examples."""
    there = sum(shard.records for shard in manifest.shards_of("train"))
    size = sum(shard.bytes for shard in manifest.shards)
    text = f"{folder}: {size / 1e9:,.3g} GB, {there:,} training examples"
    text += f", {seen / there:,.3g} epochs" if there else ""
    # Examples of the original ELECTRA code come without counts.
    if "padding_share" in manifest.counts:
        tokens = seen * manifest.settings["sequence_length"]
        tokens *= 1 - manifest.counts["padding_share"]
        text += f", {tokens:,.3g} tokens without padding"
    return text
