"""Estimates the memory and the least time of a pretraining step on a TPU.

Both are formulas for the step in its form for a TPU (`tpu_layers`), in bfloat16.
`pretraining_cost` prints them for `--dry_run`. The TPU's compiler gives better figures for single
settings, in minutes: `scripts/tpu_check.py`. Tests hold the formulas against its results.

Sizes are of arrays as a TPU lays them out, with the last dimension padded to 128.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tfbio.base.device_flags import MeshShape
from tfbio.models import encoder_cost
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_weights
from tfbio.training import devices
from tfbio.training.devices import DEVICES
from tfbio.training.precision import precision_on

# A TPU pads the last dimension of an array to a multiple of this.
_LANES = 128
# Bytes of a number.
_BFLOAT16, _FLOAT32 = 2, 4
# Bytes of the compiled program, which is in memory, too: 31 to 133 MB from ELECTRA-small to -large.
PROGRAM = 60e6


class Arrays(NamedTuple):
    """The bytes (floats) of a layer's arrays, in bfloat16 and as a TPU lays them out.

    Attributes:
      hidden: bytes of an array [hidden_size, tokens].
      inner: bytes of an array [intermediate_size, tokens].
      heads: bytes of an array [batch, heads, head_size, length], such as the query.
      scores: bytes of an array [batch, heads, length, length].
    """

    hidden: float
    inner: float
    heads: float
    scores: float


def arrays(shape: EncoderConfig, length: int, examples: float, model: int = 1) -> Arrays:
    """Computes the bytes of a layer's arrays as a TPU lays them out, for the TPU's cost.

    Args:
      shape: settings of the encoder.
      length: tokens of an example.
      examples: examples that a device works on at once.
      model: devices that share a model, and divide all of these arrays but `hidden`.

    Returns:
      A named tuple of floats, the bytes of an array in bfloat16 of the shape: `hidden`,
      [hidden_size, tokens]; `inner`, [intermediate_size, tokens]; `heads`,
      [batch, heads, head_size, length], such as the query; `scores`,
      [batch, heads, length, length], of attention.
    """
    tokens, padded = examples * length, _LANES * math.ceil(length / _LANES)
    hidden = _BFLOAT16 * shape.hidden_size
    scores = _BFLOAT16 * examples * shape.num_attention_heads * length * padded / model
    inner = _BFLOAT16 * shape.intermediate_size * tokens / model
    return Arrays(hidden * tokens, inner, hidden * examples * padded / model, scores)


def memory(
    config: PretrainingConfig, device: devices.Device, mesh: MeshShape | None = None
) -> float:
    """Estimates the memory that a pretraining step costs on each device of a TPU, in bfloat16.

    The weights and Adam's averages are there all the time, in float32, and with gradient
    accumulation the sum of the gradients. The rest is largest either in the generator's pass
    (`encoder_memory`), which has the word scores, or in the discriminator's, which has the
    gradients of the generator's layers in bfloat16, or when all gradients are in float32. The
    on-chip memory holds a part of that. A distillation's teacher has its weights, in float32, and a
    copy of its scores besides.

    The devices of a mesh divide weights, gradients and averages, and all arrays but the hidden
    states of the current layer. Its averages are not divided over the parts of the examples, as the
    program that `scripts/tpu_check.py --mesh` compiles has them.

    Args:
      config: all settings; with a mesh, of a masked language model.
      device: a TPU; its `count` of them share the batch.
      mesh: groups of devices, each of which shares a model, in place of `count`; None: each
        device has one.

    Returns:
      Bytes, a float.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    groups, model = mesh or (device.count, 1)
    parts = config.turns(groups)
    examples = math.ceil(config.train_batch_size / (groups * parts))
    count = objective_cost.parameters(config).all
    if mesh:
        count = mesh_weights.numbers(config, mesh).parameters
    of_layers = encoder_cost.layer_parameters(config.encoder) / model
    # Without a generator of its own the discriminator's layers are both.
    has_own = config.has_generator and config.untied_generator
    of_generator = encoder_cost.layer_parameters(config.generator) if has_own else 0

    def largest(length: int) -> float:
        # As large as so many copies in float32: the generator's samples take two.
        copies = 3 if config.objective == "mlm" else 5
        scored = copies * objective_cost.scored_positions(config, length)
        scored += objective_cost.teacher_scored_positions(config, length)
        scores = _FLOAT32 * examples * scored * config.encoder.vocab_size / model
        if config.objective == "mlm":
            of_pass = encoder_memory(config.encoder, length, examples, scores, model)
            if config.adversarial.weight:  # the clean pass waits for the last one
                of_pass += _kept_memory(config.encoder, length, examples, model) + scores
            return of_pass
        discriminator = encoder_memory(config.encoder, length, examples) + _BFLOAT16 * of_generator
        if not config.has_generator:
            return discriminator
        return max(discriminator, encoder_memory(config.generator, length, examples, scores))

    all_the_time = _FLOAT32 * (4 if parts > 1 else 3) * count + PROGRAM - device.on_chip
    all_the_time += _FLOAT32 * objective_cost.teacher_parameters(config)
    others = _FLOAT32 * (count - of_layers - of_generator)  # gradients of embeddings and heads
    activations = max(largest(phase.sequence_length) for phase in config.phases())
    # A model that fits into the on-chip memory has none of the other.
    return max(0.0, all_the_time + max(others + activations, _FLOAT32 * count))


def encoder_memory(
    shape: EncoderConfig, length: int, examples: float, scores: float = 0.0, model: int = 1
) -> float:
    """Estimates the memory that an encoder's backward pass costs on a TPU, but for float32 weights.

    Counts for each parameter of the layers the weight and the gradient in bfloat16; for each layer
    the arrays that `layer_loop` keeps: the inputs of the layer and of both normalisations, query,
    key, value, context, and the inner units; and for the current layer the gradients of those, and
    three arrays of attention scores. Adam's averages are not counted either.

    Args:
      shape: settings of the encoder.
      length: tokens of an example.
      examples: examples that a device works on at once.
      scores: bytes of word scores, which are gone before the first layer's pass.
      model: devices that share a model.

    Returns:
      Bytes, a float.
    """
    of = arrays(shape, length, examples, model)
    kept = _kept_memory(shape, length, examples, model)
    working = 2 * of.hidden + 4 * of.heads + 2 * of.inner + 3 * of.scores
    of_layers = encoder_cost.layer_parameters(shape) / model
    # Beside weight and gradient there is another copy where the weights are divided.
    copies = 2 if model == 1 else 3
    return kept + max(working, scores) + copies * _BFLOAT16 * of_layers


def _kept_memory(shape: EncoderConfig, length: int, examples: float, model: int) -> float:
    """Estimates the bytes of the arrays that `layer_loop` keeps; see `encoder_memory`."""
    of = arrays(shape, length, examples, model)
    # The layer's input, and the sums that are normalised: the last one is the next layer's input
    # with `layer_norm_first`.
    hidden = 2 if shape.layer_norm_first else 3
    # Devices that share a model keep a part of the hidden states each, and put them together anew.
    hidden_states = hidden * of.hidden / model
    return shape.num_hidden_layers * (hidden_states + 4 * of.heads + of.inner)


def example_flops(config: PretrainingConfig, length: int) -> int:
    """Counts the FLOPs of pretraining on one example as they cost a TPU, in its form of the step.

    They are those of `objective_cost.example_flops`, and the attention scores once more: the
    backward pass computes them anew rather than keep them.

    Args:
      config: all settings.
      length: tokens of the example.

    Returns:
      FLOPs of one example, an int, forward and backward, a multiplication with its addition as two.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    shapes = [config.encoder]
    if config.has_generator:
        shapes.append(config.generator)
    again = sum(2 * shape.num_hidden_layers * length**2 * shape.hidden_size for shape in shapes)
    return objective_cost.example_flops(config, length) + _passes(config) * again


def _passes(config: PretrainingConfig) -> int:
    """Returns how often a step goes through the encoder, forward and backward."""
    return 3 if config.adversarial.weight else 1


def step_seconds(
    config: PretrainingConfig, device: devices.Device, length: int, generator_alone: bool = False
) -> float:
    """Estimates the least time that a pretraining step costs on a TPU, by the roofline.

    Each operation takes the time of its products at the peak, or of its bytes in memory, whichever
    is longer. The operations are those of the compiled program: products, with the operations that
    the compiler makes part of them, and passes over memory between them. An array of more than half
    of the on-chip memory is in the device's memory (HBM), as are the arrays that are kept for the
    backward pass. For each parameter 52 bytes are moved: 28 by Adam, 8 by the sum over the devices,
    4 for the gradient's norm, and 12 between float32 and bfloat16; 12 more with each part of a
    batch, to add its gradients up. For each word score 12 times its 4 bytes are moved, by softmax,
    loss and sample. The gradients' sum over the devices comes last. Each of the three passes of
    adversarial pretraining counts alike. Of a distillation's teacher the products alone count.

    Where the generator alone learns, the discriminator has a forward pass, of which nothing is
    kept, and the parameters that count are the generator's.

    Args:
      config: all settings.
      device: a TPU.
      length: tokens of an example.
      generator_alone: True for a step of `generator_warmup_steps`.

    Returns:
      Seconds, a float.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    parts = config.turns(device.count)
    examples = config.train_batch_size / (device.count * parts)
    scored = examples * objective_cost.scored_positions(config, length)

    def take(flops: float, kept: float, *moved: float) -> float:
        total = kept + sum(_off_chip(size, device) for size in moved)
        return max(flops / device.bfloat16, total / device.bandwidth)

    def layer(shape: EncoderConfig, learns: bool = True) -> float:
        of, size = arrays(shape, length, examples), shape.hidden_size
        tokens = examples * length
        square = 2 * tokens * size * size
        wide = 2 * tokens * size * shape.intermediate_size
        attention = 2 * tokens * length * size
        # FLOPs, bytes kept for the backward pass, and bytes moved.
        forward: list[tuple[float, ...]] = [
            *3 * [(square, of.heads, of.hidden, of.heads)],  # query, key, value
            (attention, 0, of.heads, of.heads, of.scores),
            (0, 0, of.scores),  # the softmax's sum
            (attention, of.heads, of.scores, of.heads, of.heads),
            (square, of.hidden, of.heads, of.hidden, of.hidden),  # with the residual
            (wide, of.inner, of.hidden, of.inner),
            (wide, 0 if shape.layer_norm_first else of.hidden, of.inner, of.hidden, of.hidden),
            (0, of.hidden, of.hidden, of.hidden, of.hidden),  # LayerNorm, and to keep it
        ]
        if not learns:
            return sum(take(flops, 0, *moved) for flops, _, *moved in forward)
        backward = [
            take(attention, 0, of.heads, of.heads, of.scores),
            take(0, 0, of.scores),
            take(wide, of.inner, of.hidden, of.inner),
            *3 * [take(wide, 0, of.hidden, of.inner)],
            # For each LayerNorm the sums, then the gradients.
            *4 * [take(0, of.hidden, of.hidden, of.hidden)],
            *2 * [take(square, 0, of.hidden, of.heads)],
            *4 * [take(attention, 0, of.scores, of.scores, of.heads, of.heads)],
            *3 * [take(square, 0, of.heads, of.hidden, of.hidden)],
            *3 * [take(square, 0, of.hidden, of.heads)],
            take(0, of.hidden + 4 * of.heads, of.hidden, *4 * [of.heads]),  # the kept arrays
        ]
        return sum(take(*each) for each in forward) + sum(backward)

    passes = _passes(config)
    of_layer = layer(config.encoder, learns=not generator_alone)
    seconds = passes * config.encoder.num_hidden_layers * of_layer
    scores = 0.0
    if config.objective == "mlm":
        scores = passes * 3 * encoder_cost.word_flops(config.encoder, scored)
    elif config.has_generator:
        seconds += config.generator.num_hidden_layers * layer(config.generator)
        scores = 3 * encoder_cost.word_flops(config.generator, scored)
    scores += examples * objective_cost.teacher_flops(config, length)
    seconds += scores / device.bfloat16
    if scores:
        copy = _off_chip(_FLOAT32 * scored * config.encoder.vocab_size, device)
        seconds += passes * 12 * copy / device.bandwidth
    learnt = objective_cost.parameters(config)
    count = learnt.generator if generator_alone else learnt.all
    exchanged = 2 * (device.count - 1) / device.count * _FLOAT32 * count
    of_parameter = 52 + (12 * parts if parts > 1 else 0)
    moved = of_parameter * count / device.bandwidth
    return parts * seconds + moved + exchanged / device.interconnect


def _off_chip(size: float, device: devices.Device) -> float:
    """Returns the bytes of an array in a device's memory: none if it fits beside the products."""
    return size if size > device.on_chip / 2 else 0.0


def least_days(config: PretrainingConfig, name: str) -> float | None:
    """Estimates the days that a whole pretraining run takes at least, where it is on a TPU.

    Its steps take the time of the roofline, `step_seconds`; those of `generator_warmup_steps` take
    less, since the discriminator has no backward pass in them.

    Args:
      config: all settings.
      name: one of `devices.DEVICES`, such as "tpu-v3-8".

    Returns:
      Days, a float; None if the device is no TPU or the run is not in bfloat16.

    Raises:
      KeyError: there is no TPU of this name.
      ConfigError: the generator's sizes do not go together.
    """
    if not name.startswith("tpu") or precision_on(config.run.precision, name) != "bfloat16":
        return None
    seconds = 0.0
    for phase in config.phases():
        shape = config, DEVICES[name], phase.sequence_length
        alone = max(0, min(phase.end, config.generator_warmup_steps) - phase.start)
        seconds += (phase.steps - alone) * step_seconds(*shape)
        if alone:
            seconds += alone * step_seconds(*shape, generator_alone=True)
    return seconds / (24 * 3600)
