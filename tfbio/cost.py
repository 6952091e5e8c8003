"""Counts parameters and FLOPs from settings alone, and lists what devices can do.

`pretraining_cost` and `finetuning_cost` make estimates of it. TensorFlow is not imported here, as
that alone takes longer than the answer.

What counts as a FLOP: the matrix products of a step, a multiplication with its addition as two, and
the backward pass as twice the forward one, for each product has two gradients. Words are scored at
the hidden positions only, padding is multiplied like other tokens, and look-ups and element-wise
operations are nothing. A test holds the count equal to PyTorch's of Hugging Face's ELECTRA.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from tfbio.encoder_config import EncoderConfig
from tfbio.pretraining_config import PretrainingConfig

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
    on_chip: float = 0.0  # bytes of on-chip memory that arrays can stay in; of TPUs


# A TPU multiplies float32 numbers in bfloat16, an NVIDIA GPU since Ampere in TF32; Volta and Turing
# have no bfloat16 but in float32. The core of a TPU is a device up to v3, a chip from v4. Sources,
# per chip: cloud.google.com/tpu/docs/v2 (45 TFLOP/s, 16 GiB at 700 GB/s), v3 (123, 32 at 900), v4
# (275, 32 at 1,200), v5e (197, 16 at 819), v5p (459, 95 at 2,765), v6e (918, 32 at 1,640); their
# interconnects 4 x 496 and 4 x 656 Gbit/s (Jouppi et al., 2020, "A Domain-Specific Supercomputer
# for Training Deep Neural Networks", Table 3), 2,400, 1,600, 4,800 and 3,584 Gbit/s (the same
# pages); on-chip memory from jax 0.10.2, jax/_src/pallas/mosaic/tpu_info.py, without the 16 MiB a
# core that the compiler works in (xla_tpu_scoped_vmem_limit_kib). NVIDIA's data sheets of V100
# SXM2, T4, A100 SXM, H100 SXM and H200 SXM, without sparsity, and of each the version with the
# least memory.
DEVICES = {
    "tpu-v2-8": Device(8, 22.5e12, 22.5e12, 8 * 2**30, 350e9, 124e9),
    "tpu-v3-8": Device(8, 61.5e12, 61.5e12, 16 * 2**30, 450e9, 164e9),
    "tpu-v4-8": Device(4, 275e12, 275e12, 32 * 2**30, 1200e9, 300e9, 128 * 2**20),
    "tpu-v5e-8": Device(8, 197e12, 197e12, 16e9, 819e9, 200e9, 112 * 2**20),
    "tpu-v5p-8": Device(4, 459e12, 459e12, 95e9, 2765e9, 600e9, 96 * 2**20),
    "tpu-v6e-8": Device(8, 918e12, 918e12, 32e9, 1640e9, 448e9, 112 * 2**20),
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


def layer_parameters(shape: EncoderConfig) -> int:
    """Counts the parameters of all layers and the projection, each layer with its own."""
    return _body(dataclasses.replace(shape, share_layers=False))


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
        forward += word_flops(config.encoder, hidden_tokens)
    else:
        forward = _forward(config.encoder, sequence_length)
        forward += _products(_discriminator_head(config.encoder), sequence_length)
        if generator_alone:
            return example_flops(config, sequence_length) - 2 * forward
        if not config.uniform_generator:
            forward += _forward(config.generator, sequence_length)
            forward += word_flops(config.generator, hidden_tokens)
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


def precision_on(config: PretrainingConfig, name: str) -> str:
    """What a run computes in on a named device; see `distribution.set_precision`."""
    if config.run.precision != "auto":
        return config.run.precision
    return "bfloat16" if name.startswith(HAVE_BFLOAT16) else "float32"


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


def word_flops(shape: EncoderConfig, hidden_tokens: float) -> float:
    """Counts the FLOPs of the forward pass of scoring words at so many positions."""
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
