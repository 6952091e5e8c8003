"""What a pretraining run costs, from its settings alone: parameters, FLOPs, memory, days.

`run_pretraining.py --dry_run` prints `report`. TensorFlow is not imported here, as that alone takes
longer than the answer.

What counts as a FLOP: the matrix products of a step, a multiplication with its addition as two, and
the backward pass as twice the forward one, for each product has two gradients. Words are scored at
the hidden positions only, padding is multiplied like other tokens, and look-ups and element-wise
operations are nothing. A test holds the count equal to PyTorch's of Hugging Face's ELECTRA.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from tfbio.cli import UserError
from tfbio.config import EncoderConfig, PretrainingConfig

if TYPE_CHECKING:
    from tfbio.records import Manifest

# The share of a device's peak that a whole run reaches, all that is no product included.
# Calibrated on BERT-large by You et al. (2020), "Large Batch Optimization for Deep Learning:
# Training BERT in 76 minutes": 8,599 steps on 1,024 chips of TPU v3, batch 65,536 at length 128 and
# 32,768 at 512, as many examples of each as BERT's million steps of 512 have. It is the fastest of
# the published runs; docs/pretraining.md compares others.
SHARE_OF_PEAK = 0.28

# What a device has to keep of each parameter in float32: weight, gradient, Adam's two averages.
BYTES_OF_PARAMETER = 4 * 4


class Device(NamedTuple):
    """Hardware under one name; all but `count` is of one of its devices."""

    count: int  # that each take a part of the batch
    bfloat16: float  # FLOP/s of dense products, the most that the vendor states
    float32: float  # the same for float32 numbers, as TensorFlow multiplies them by default
    memory: float  # bytes
    bandwidth: float = math.inf  # bytes a second of memory
    interconnect: float = math.inf  # bytes a second to and from the other devices


# A TPU multiplies float32 numbers in bfloat16, an NVIDIA GPU since Ampere in TF32; Volta and Turing
# have no bfloat16 but in float32. The core of a TPU is a device up to v3, a chip from v4. Sources,
# per chip: cloud.google.com/tpu/docs/v2 (45 TFLOP/s, 16 GiB at 700 GB/s), v3 (123, 32 at 900), v4
# (275, 32 at 1,200), v5e (197, 16 at 819), v5p (459, 95 at 2,765), v6e (918, 32 at 1,640); their
# interconnects 4 x 496 and 4 x 656 Gbit/s (Jouppi et al., 2020, "A Domain-Specific Supercomputer
# for Training Deep Neural Networks", Table 3), 2,400, 1,600, 4,800 and 3,584 Gbit/s (the same
# pages). NVIDIA's data sheets of V100 SXM2, T4, A100 SXM, H100 SXM and H200 SXM, without sparsity,
# and of each the version with the least memory.
DEVICES = {
    "tpu-v2-8": Device(8, 22.5e12, 22.5e12, 8 * 2**30, 350e9, 124e9),
    "tpu-v3-8": Device(8, 61.5e12, 61.5e12, 16 * 2**30, 450e9, 164e9),
    "tpu-v4-8": Device(4, 275e12, 275e12, 32 * 2**30, 1200e9, 300e9),
    "tpu-v5e-8": Device(8, 197e12, 197e12, 16e9, 819e9, 200e9),
    "tpu-v5p-8": Device(4, 459e12, 459e12, 95e9, 2765e9, 600e9),
    "tpu-v6e-8": Device(8, 918e12, 918e12, 32e9, 1640e9, 448e9),
    "t4": Device(1, 8.1e12, 8.1e12, 16e9, 320e9),
    "v100": Device(1, 15.7e12, 15.7e12, 16e9, 900e9),
    "a100": Device(1, 312e12, 156e12, 40e9, 1555e9),
    "h100": Device(1, 989e12, 494e12, 80e9, 3350e9),
    "h200": Device(1, 989e12, 494e12, 141e9, 4800e9),
}
# Those that multiply bfloat16 numbers as such; `distribution.set_precision` asks the device itself.
HAVE_BFLOAT16 = ("tpu", "a100", "h100", "h200")


class Parameters(NamedTuple):
    """How many numbers are learnt."""

    encoder: int  # what is kept
    generator: int  # of its own, with its head; 0 where the encoder itself is the generator
    all: int


def parameters(config: PretrainingConfig) -> Parameters:
    """Counts what `pretraining.count_parameters` counts on the model, without making one."""
    shape = config.encoder
    encoder = encoder_parameters(shape)
    if config.objective == "mlm":
        return Parameters(encoder, 0, encoder + _word_head(shape))
    generator = 0
    if not config.uniform_generator:
        generator = _word_head(config.generator)
        if config.untied_generator:
            generator += _body(config.generator)
            if config.untied_generator_embeddings:
                generator += _embeddings(config.generator)
    discriminator_head = sum((i + 1) * o for i, o in _discriminator_head(shape))
    return Parameters(encoder, generator, encoder + generator + discriminator_head)


def encoder_parameters(shape: EncoderConfig) -> int:
    """Of embeddings and layers."""
    return _embeddings(shape) + _body(shape)


def encoder_flops(shape: EncoderConfig, length: int) -> int:
    """Counts the FLOPs of an encoder's forward pass on one example."""
    return _forward(shape, length)


def example_flops(
    config: PretrainingConfig, sequence_length: int, generator_alone: bool = False
) -> int:
    """FLOPs of training on one example, forward and backward.

    Where the generator learns alone, the discriminator has a forward pass, for what is logged.
    """
    hidden_tokens = config.max_predictions(sequence_length)
    if config.objective == "mlm":
        forward = _forward(config.encoder, sequence_length)
        forward += _word_scores(config.encoder, hidden_tokens)
    else:
        forward = _forward(config.encoder, sequence_length)
        forward += _products(_discriminator_head(config.encoder), sequence_length)
        if generator_alone:
            return example_flops(config, sequence_length) - 2 * forward
        if not config.uniform_generator:
            forward += _forward(config.generator, sequence_length)
            forward += _word_scores(config.generator, hidden_tokens)
    return 3 * forward


def run_flops(config: PretrainingConfig, first_step: int = 0, last_step: int | None = None) -> int:
    """FLOPs of the steps from `first_step` up to, not including, `last_step` (None: the end)."""
    last_step = config.num_train_steps if last_step is None else last_step
    flops = phase_start = 0
    for sequence_length, phase_end in config.phases():
        first, last = max(first_step, phase_start), min(last_step, phase_end)
        steps = max(0, last - first)
        alone = max(0, min(last, config.generator_warmup_steps) - first)
        examples = (steps - alone) * example_flops(config, sequence_length)
        if alone:
            examples += alone * example_flops(config, sequence_length, generator_alone=True)
        flops += examples * config.train_batch_size
        phase_start = phase_end
    return flops


def memory(config: PretrainingConfig, device: Device, precision: str) -> int:
    """Bytes that a step takes on each device: parameters, and activations for the backward pass.

    An estimate. Of each token a layer of h hidden and f feed-forward units and a heads keeps, at
    length l, 10 h + 3 f + 3 a l numbers: query, key, value and what attention gives; of each of two
    sub-layers the dropout mask, the normalised sum and its scaled form, which is the next one's
    input; input, distribution function and output of GELU; the attention's weights before and
    after dropout, and its mask. Scores of words are kept twice, in float32. The generator's are
    gone when the discriminator's come (see `Electra.gradients`): the larger of the two counts. What
    lives for a moment only is not counted, nor that XLA computes some anew rather than keep it.
    """
    parts = device.count * config.run.gradient_accumulation_steps
    examples = math.ceil(config.train_batch_size / parts)
    size = {"float32": 4, "bfloat16": 2}[precision]

    def layers(shape: EncoderConfig, length: int) -> int:
        of_token = 10 * shape.hidden_size + 3 * shape.intermediate_size
        of_token += 3 * shape.num_attention_heads * length
        return size * shape.num_hidden_layers * length * of_token

    def activations(length: int) -> int:
        scores = 2 * 4 * config.max_predictions(length) * config.encoder.vocab_size
        of_encoder = layers(config.encoder, length)
        if config.objective == "mlm":
            return examples * (of_encoder + scores)
        of_generator = layers(config.generator, length) + scores if config.has_generator else 0
        return examples * max(of_encoder, of_generator)

    largest = max(activations(length) for length, _ in config.phases())
    return BYTES_OF_PARAMETER * parameters(config).all + largest


def tpu_memory(config: PretrainingConfig, device: Device) -> int:
    """Estimates the bytes that a step takes on each device of a TPU, in bfloat16.

    Counts what the step that `run.optimize_for` calls "tpu" has in memory where it has most, the
    backward pass through an encoder (`layer_loop`, `encoder.transformer_layer`). Of each parameter:
    weight, Adam's averages and gradient in float32, and the sum of the gradients where the batch is
    worked on in parts. Of each parameter of a layer: weight and gradient in bfloat16, those of all
    layers one after the other. Of each token and layer, h hidden and f feed-forward units: the
    input, query, key, value, context, and the results of the three other products, 7 h + f numbers.
    Of the one layer that is worked on: 6 h + 2 f numbers of each token, and three of each pair of
    tokens and head. The generator has its word scores besides: four copies in float32, which are
    gone when the discriminator's pass begins, as all of the generator's are.
    """
    parts = config.run.gradient_accumulation_steps
    examples = math.ceil(config.train_batch_size / (device.count * parts))

    def of_encoder(shape: EncoderConfig, length: int) -> int:
        hidden, inner = shape.hidden_size, shape.intermediate_size
        kept = shape.num_hidden_layers * length * (7 * hidden + inner)
        working = length * (6 * hidden + 2 * inner)
        working += 3 * shape.num_attention_heads * length * length
        layers = encoder_parameters(dataclasses.replace(shape, share_layers=False))
        layers -= _embeddings(shape)
        return 2 * (examples * (kept + working) + 2 * layers)

    def largest(length: int) -> int:
        scores = 4 * 4 * examples * config.max_predictions(length) * config.encoder.vocab_size
        own = of_encoder(config.encoder, length)
        if config.objective == "mlm":
            return own + scores
        return max(own, of_encoder(config.generator, length) + scores * config.has_generator)

    of_parameters = BYTES_OF_PARAMETER + (4 if parts > 1 else 0)
    activations = max(largest(length) for length, _ in config.phases())
    return of_parameters * parameters(config).all + activations


def needed_memory(config: PretrainingConfig, name: str) -> int:
    """Estimates the bytes that a step takes on each device of one of `DEVICES`."""
    if name.startswith("tpu") and precision_on(config, name) == "bfloat16":
        return tpu_memory(config, DEVICES[name])
    return memory(config, DEVICES[name], precision_on(config, name))


def parts_that_fit(config: PretrainingConfig, name: str) -> int | None:
    """Returns the smallest `run.gradient_accumulation_steps` that fits; None if none does.

    Args:
      config: all settings.
      name: one of `DEVICES`.
    """
    device, parts = DEVICES[name], config.run.gradient_accumulation_steps
    while config.train_batch_size % (device.count * parts) == 0:
        run = dataclasses.replace(config.run, gradient_accumulation_steps=parts)
        if needed_memory(dataclasses.replace(config, run=run), name) <= device.memory:
            return parts
        parts *= 2
    return None


def precision_on(config: PretrainingConfig, name: str) -> str:
    """What a run computes in on a named device; see `distribution.set_precision`."""
    if config.run.precision != "auto":
        return config.run.precision
    return "bfloat16" if name.startswith(HAVE_BFLOAT16) else "float32"


def days(config: PretrainingConfig, name: str) -> float:
    """Estimated days of a whole run on one of `DEVICES`, all of its devices together."""
    device = DEVICES[name]
    peak = device.count * getattr(device, precision_on(config, name))
    return run_flops(config) / (peak * SHARE_OF_PEAK) / (24 * 3600)


def report(
    config: PretrainingConfig, name: str = "", data: dict[int, tuple[str, Manifest]] | None = None
) -> str:
    """What `--dry_run` prints.

    Args:
      config: all settings.
      name: one of `DEVICES`; "": all.
      data: the folder of examples of each sequence length, and its manifest; None: not said.

    Raises:
      UserError: there is no device of this name.
    """
    if name and name not in DEVICES:
        raise UserError(f"--estimate_for={name}: expected one of {', '.join(DEVICES)}.")
    count, batch = parameters(config), config.train_batch_size
    kept = f"{_short(count.encoder)} in the encoder"
    if count.generator:
        kept += f", {_short(count.generator)} in the generator alone"
    lines = [
        f"parameters: {kept}, {_short(count.all)} trained",
        f"the run: {config.num_train_steps:,} steps of {batch:,} examples, "
        f"{run_flops(config):.2e} FLOP",
    ]
    phase_start = 0
    for length, phase_end in config.phases():
        steps, flops = phase_end - phase_start, example_flops(config, length)
        lines.append(
            f"  {steps:,} steps at length {length}: {_short(batch * flops)}FLOP each, "
            f"{_short(flops)}FLOP an example"
        )
        if data:
            lines.append(f"    {_examples_seen(*data[length], steps * batch)}")
        phase_start = phase_end
    if config.generator_warmup_steps:
        lines.append(f"  in the first {config.generator_warmup_steps:,} the generator learns alone")
    lines.append(f"{'on':9}  {'in':8}  {'GB of memory each':>17}  {'days':>8}")
    for each in [name] if name else DEVICES:
        device, precision = DEVICES[each], precision_on(config, each)
        needed = needed_memory(config, each)
        sizes = f"{needed / 1e9:,.1f} of {device.memory / 1e9:,.0f}"
        time = days(config, each)
        time = f"{time:,.0f}" if time >= 10 else f"{time:.2g}"
        note = ""
        if needed > device.memory:
            parts = parts_that_fit(config, each)
            remedy = f"; fits with run.gradient_accumulation_steps={parts}" if parts else ""
            note = f"  too much{remedy}"
        lines.append(f"{each:9}  {precision:8}  {sizes:>17}  {time:>8}{note}")
    lines.append(
        f"Days at {SHARE_OF_PEAK:.0%} of the peak; they and the memory are estimates, of which "
        "docs/pretraining.md says how good they are."
    )
    return "\n".join(lines)


def _short(number: float) -> str:
    """39957000000000 -> "40.0 T"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= factor:
            return f"{number / factor:,.1f} {prefix}"
    return f"{number / 1e3:,.1f} k"


def _examples_seen(folder: str, manifest: Manifest, seen: int) -> str:
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


# The products of a model, as (inputs, outputs) of each, and what they come to.


def _projection(shape: EncoderConfig) -> list[tuple[int, int]]:
    sizes = shape.embedding_size, shape.hidden_size
    return [sizes] if shape.has_projection else []


def _layer(shape: EncoderConfig) -> list[tuple[int, int]]:
    size = shape.hidden_size
    return [
        (size, 3 * size),
        (size, size),
        (size, shape.intermediate_size),
        (shape.intermediate_size, size),
    ]


def _discriminator_head(shape: EncoderConfig) -> list[tuple[int, int]]:
    return [(shape.hidden_size, shape.hidden_size), (shape.hidden_size, 1)]


def _products(dense: list[tuple[int, int]], rows: int) -> int:
    return sum(2 * rows * inputs * outputs for inputs, outputs in dense)


def _forward(shape: EncoderConfig, length: int) -> int:
    """FLOPs of an encoder on one example; attention has two products, scores and sums."""
    attention = 2 * 2 * length * length * shape.hidden_size
    layer = _products(_layer(shape), length) + attention
    return _products(_projection(shape), length) + shape.num_hidden_layers * layer


def _word_scores(shape: EncoderConfig, hidden_tokens: int) -> int:
    dense = [(shape.hidden_size, shape.embedding_size), (shape.embedding_size, shape.vocab_size)]
    return _products(dense, hidden_tokens)


def _embeddings(shape: EncoderConfig) -> int:
    """Parameters; a LayerNorm has two for each number that it normalises."""
    rows = shape.vocab_size + shape.max_position_embeddings + shape.type_vocab_size
    return (rows + 2) * shape.embedding_size


def _body(shape: EncoderConfig) -> int:
    """Parameters of an encoder without its embeddings."""
    layer = sum((inputs + 1) * outputs for inputs, outputs in _layer(shape))
    projection = sum((inputs + 1) * outputs for inputs, outputs in _projection(shape))
    norms = 2 * 2 * shape.hidden_size
    layers = 1 if shape.share_layers else shape.num_hidden_layers
    return projection + layers * (layer + norms)


def _word_head(shape: EncoderConfig) -> int:
    """Parameters; the output weights are the embeddings."""
    return (shape.hidden_size + 1 + 2) * shape.embedding_size + shape.vocab_size
