"""Estimates the steps, FLOPs, padding, memory and time of a fine-tuning run.

`run_finetuning.py --dry_run` prints `report`. FLOPs are those of the encoder's matrix products
(`encoder_cost`), three times in training and once in prediction, for padding as for other tokens.
Heads are small and not counted. Of texts whose first token is read, a CPU or GPU computes up to
three quarters less of the last layer, which is counted whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tfbio.base.errors import UsageError
from tfbio.models import encoder_cost
from tfbio.models.encoder_config import EncoderConfig
from tfbio.planning import activation_cost, pretraining_cost_on_tpu
from tfbio.task_types import fixed_shapes, packing
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.training import devices
from tfbio.training.precision import precision_on

# Random batches from which `_batch_slots` estimates the padding of a run.
_SAMPLE = 200


def _sample_batches(count: int, size: int) -> list[np.ndarray]:
    """Draws `_SAMPLE` batches of `size` windows, as numbers of windows below `count`.

    A batch of more windows than there are has them in turn, each as often as another, give or take
    two, as in training (`finetuning_data.training_order`): fixed shapes may hold no other batches.
    """
    generator = np.random.default_rng(0)
    if count >= size:
        return [generator.choice(count, size, replace=False) for _ in range(_SAMPLE)]
    epochs = math.ceil(_SAMPLE * size / count)
    order = np.concatenate([generator.permutation(count) for _ in range(epochs)])
    return list(order[: _SAMPLE * size].reshape(_SAMPLE, size))


def _batch_slots(
    features: Features, config: FinetuningConfig, replicas: int, fixed: bool
) -> tuple[float, int, int]:
    """Measures the tokens of training batches, padding included, on 200 random batches.

    Args:
      features: the windows to train on.
      config: all settings.
      replicas: devices that share a batch.
      fixed: True if batches have only a few fixed shapes, as on a TPU (`run.fixed_shapes`).

    Returns:
      (mean, largest, row_length): the mean number of tokens in a batch over all replicas, the
      largest number that all replicas work on at a time, and the number of tokens in a row of that.
    """
    parts = 1 if fixed else config.parts(replicas)
    size = config.train_batch_size
    # As many windows as divide; `_what_is_refused` says it of those that do not.
    whole = max(1, size // (replicas * parts)) * replicas * parts
    batches = _sample_batches(len(features.lengths), whole)
    if fixed:
        shapes = fixed_shapes.training_shapes(features.lengths, config, replicas)
        packer = fixed_shapes.FixedShapePacker(features, shapes, replicas, 0, size)
        used = [shapes[packer.fit(chosen)[1]] for chosen in batches]
        largest = shapes[-1]
    else:
        padded_length = 0 if config.run.pack else config.sequence_length
        plain = packing.Packer(features, size, replicas * parts, 0, padded_length)
        used = []
        for chosen in batches:
            rows, length = plain.batch(chosen)[0].arrays["input_ids"].shape
            used.append(fixed_shapes.Shape(rows * replicas * parts, length))
        largest = max(used, key=math.prod)
    slots = [shape.rows * shape.row_length for shape in used]
    mean = float(np.mean(slots)) * size / whole
    return mean, math.prod(largest) // parts, largest.row_length


def _what_is_refused(config: FinetuningConfig, replicas: int, fixed: bool) -> str:
    """Says why a run on so many devices is refused, in a few words; "" if it is not."""
    size, groups = config.train_batch_size, config.gradient_clip_groups
    steps = config.run.gradient_accumulation_steps
    if size % replicas or config.run.eval_batch_size % replicas:
        return f"  does not divide by {replicas} devices"
    if groups > 1 and groups % replicas:
        return f"  gradient_clip_groups does not divide by {replicas} devices"
    if fixed and (groups > 1 or steps > 1):
        name = "gradient_clip_groups" if groups > 1 else "run.gradient_accumulation_steps"
        return f"  {name} needs run.fixed_shapes=never"
    if size % (replicas * steps):
        return f"  does not divide by {replicas} devices and {steps} parts"
    return ""


def memory(
    shape: EncoderConfig,
    tokens: float,
    row_length: int,
    precision: str,
    name: str,
    in_parts: bool = False,
) -> float:
    """Estimates the bytes of memory that a fine-tuning step takes on a device.

    Counts 16 bytes for each parameter of the encoder, 4 more if the device works on several parts
    in turn, whose gradients it sums, and the activations of its layers, see
    `activation_cost.bytes_of_token`. Heads are not counted.

    Args:
      shape: settings of the encoder.
      tokens: the tokens of a batch on this device, or of the largest of its parts.
      row_length: tokens that attend to each other.
      precision: "bfloat16" or "float32", of the activations.
      name: one of `devices.DEVICES`, such as "tpu-v3-8"; a TPU takes less in bfloat16
        (`pretraining_cost_on_tpu.encoder_memory`).
      in_parts: True if the device works on several parts of its examples in turn.

    Returns:
      Bytes, a float.

    Raises:
      KeyError: `precision` is another text.
    """
    if name.startswith("tpu") and precision == "bfloat16":
        activations = pretraining_cost_on_tpu.encoder_memory(shape, row_length, tokens / row_length)
    else:
        activations = tokens * activation_cost.bytes_of_token(shape, row_length, precision)
    of_parameter = devices.BYTES_OF_PARAMETER + (4 if in_parts else 0)
    return of_parameter * encoder_cost.encoder_parameters(shape) + activations


def report(
    config: FinetuningConfig,
    shape: EncoderConfig,
    trained: Features,
    features: Mapping[str, Features],
    examples: Mapping[str, int],
    num_steps: int,
    name: str = "",
) -> str:
    """Describes the cost of a fine-tuning run: its data, steps, FLOPs, memory and time.

    Args:
      config: all settings.
      shape: settings of the encoder.
      trained: the windows to train on.
      features: the windows of each split by its name; "train", and "dev" if there are evaluations,
        must be there.
      examples: how many examples each split has, by its name.
      num_steps: the steps of a trial.
      name: one of `devices.ON_ONE_HOST`, such as "tpu-v3-8"; "": all.

    Returns:
      The text that `--dry_run` prints: lines on each split, on parameters and steps, and a table
      with padding, GB of memory and minutes a trial for each device.

    Raises:
      UsageError: there is no device of this name.
      KeyError: `features` lacks a split.
    """
    if name and name not in devices.ON_ONE_HOST:
        known = ", ".join(devices.ON_ONE_HOST)
        raise UsageError(f"--estimate_for={name}: expected one of {known}.")
    lines = []
    for split, count in examples.items():
        lengths = features[split].lengths
        lines.append(
            f"{split}: {count:,} examples in {len(lengths):,} windows of {lengths.mean():.1f} "
            f"tokens in the mean, {lengths.max()} at most"
        )
    if len(trained.lengths) != len(features["train"].lengths):
        lines.append(f"trained on: {len(trained.lengths):,} windows, some made from others")
    tokens = config.train_batch_size * trained.lengths.mean()
    scored = sum(own.lengths.sum() for split, own in features.items() if split != "train")
    evaluations = 0
    if config.eval_every_steps:
        evaluations = math.ceil(num_steps / config.eval_every_steps)
        scored += evaluations * features["dev"].lengths.sum()
    # Rows of attention are about as long as a window may be.
    of_token = encoder_cost.encoder_flops(shape, config.sequence_length) / config.sequence_length
    flops = of_token * (3 * num_steps * tokens + scored)
    lines += [
        f"parameters: {encoder_cost.encoder_parameters(shape) / 1e6:,.1f} M in the encoder",
        f"the run: {config.num_trials} trials of {num_steps:,} steps of {config.train_batch_size} "
        f"windows and {evaluations} evaluations, {flops:.2e} FLOP each without padding",
        f"{'on':9}  {'in':8}  {'padding':>7}  {'GB of memory each':>17}  {'minutes a trial':>15}",
    ]
    for each in [name] if name else devices.ON_ONE_HOST:
        device = devices.DEVICES[each]
        choice = config.run.fixed_shapes
        fixed = choice == "always" or (choice == "auto" and each.startswith("tpu"))
        mean, most, row_length = _batch_slots(trained, config, device.count, fixed)
        precision = precision_on(config.run.precision, each)
        # A run with fixed shapes refuses parts.
        in_parts = not fixed and config.parts(device.count) > 1
        needed = memory(shape, most / device.count, row_length, precision, each, in_parts)
        peak = device.count * getattr(device, precision)
        seconds = of_token * (3 * num_steps * mean + scored) / (peak * devices.SHARE_OF_PEAK)
        sizes = f"{needed / 1e9:,.1f} of {device.memory / 1e9:,.0f}"
        padding = f"{1 - tokens / mean:.1%}"
        note = "" if needed <= device.memory else "  too much"
        note += _what_is_refused(config, device.count, fixed)
        lines.append(
            f"{each:9}  {precision:8}  {padding:>7}  {sizes:>17}  {seconds / 60:>15,.2g}{note}"
        )
    lines.append(
        f"Minutes at {devices.SHARE_OF_PEAK:.0%} of the peak, which small batches do not reach, "
        "and without compilation: a lower bound. Memory is an estimate."
    )
    return "\n".join(lines)
