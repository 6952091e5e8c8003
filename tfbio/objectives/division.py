"""Divides the batch of a pretraining step by the devices, and by the parts of a step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from tfbio.base.errors import UsageError
from tfbio.objectives.pretraining_config import PretrainingConfig


def check(config: PretrainingConfig, replicas: int, compiles: bool = False) -> None:
    """Checks that a pretraining batch divides by devices and parts of a step; returns nothing.

    Args:
      config: all settings.
      replicas: the devices that share the batch.
      compiles: True if the devices compile each step whatever `run.jit_compile` says, as TPUs do.

    Raises:
      UsageError: it does not, `gradient_clip_groups` does not divide by the devices, or a setting
        of one device is given for several.
    """
    if config.run.jit_compile and replicas > 1 and not compiles:
        raise UsageError("run.jit_compile works on one device or on a TPU, not on several.")
    if config.run.parallel_parts > 1 and replicas > 1:
        raise UsageError("run.parallel_parts works on one device, not on several.")
    size, groups = config.train_batch_size, config.gradient_clip_groups
    # A size that the devices do not divide would make both remedies of groups wrong.
    if groups > 1 and groups % replicas and size % replicas == 0:
        raise UsageError(
            f"gradient_clip_groups {groups} does not divide by {replicas} devices: give {replicas} "
            "(each clips the gradient of its examples), or 1 (that of all is clipped)."
        )
    if size % replicas or size % pieces(config, replicas):
        divided = " and ".join(f"{name}={number}" for name, number in _parts(config).items())
        raise UsageError(
            f"train_batch_size {size} does not divide by {replicas} devices"
            + (f" with {divided}." if divided else ".")
        )


def pieces(config: PretrainingConfig, replicas: int) -> int:
    """Computes into how many pieces of the same size a pretraining step divides its batch.

    Args:
      config: all settings.
      replicas: the devices that share the batch.
    """
    in_parts = math.prod(_parts(config).values())
    # Groups are over all devices.
    return in_parts if config.gradient_clip_groups > 1 else replicas * in_parts


def least_parts(
    config: PretrainingConfig, replicas: int, fits: Callable[[PretrainingConfig], bool]
) -> int | None:
    """Finds the least `run.gradient_accumulation_steps` at which a pretraining step fits in memory.

    Args:
      config: all settings; the search begins with its value.
      replicas: the devices, or the groups of a mesh, that share the batch.
      fits: a function that says of settings whether their step fits.

    Returns:
      The number of parts, an int; None if none fits that the batch divides by.
    """
    begin = config.run.gradient_accumulation_steps
    most, rest = divmod(config.train_batch_size * begin, pieces(config, replicas))
    if rest:
        return None
    for parts in range(begin, most + 1):
        if most % parts == 0:
            run = dataclasses.replace(config.run, gradient_accumulation_steps=parts)
            if fits(dataclasses.replace(config, run=run)):
                return parts
    return None


def _parts(config: PretrainingConfig) -> dict[str, int]:
    """Returns the settings that divide the examples of a device, or of all, by their names."""
    names = ("gradient_accumulation_steps", "parallel_parts")
    parts = {f"run.{x}": getattr(config.run, x) for x in names}
    parts["gradient_clip_groups"] = config.gradient_clip_groups
    return {name: number for name, number in parts.items() if number > 1}
