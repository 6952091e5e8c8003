"""Counts the parameters and FLOPs of pretraining from the settings alone; see `encoder_cost`.

`planning.pretraining_cost` makes estimates of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.encoder_cost import (
    attention_flops,
    body_parameters,
    embedding_parameters,
    encoder_flops,
    encoder_parameters,
    first_product_flops,
    product_flops,
    word_flops,
    word_head_parameters,
)
from tfbio.objectives.pretraining_config import PretrainingConfig


class Parameters(NamedTuple):
    """The number of parameters that are learnt.

    Attributes:
      encoder: the parameters of the encoder, which is kept.
      generator: the parameters of the generator alone, with its head; only the head's where the
        encoder itself is the generator, and 0 where there is none.
      all: all parameters.
    """

    encoder: int
    generator: int
    all: int


def parameters(config: PretrainingConfig) -> Parameters:
    """Counts the parameters of the models of a pretraining objective, without making one.

    The counts are those of `layers.count_parameters`.

    Args:
      config: all settings.

    Returns:
      A named tuple of ints: `encoder`, of the encoder, which is kept; `generator`, of the generator
      alone, with its head (only the head where the encoder itself is the generator; 0 for "mlm" and
      without a generator); `all`, of all that is learnt.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    shape = config.encoder
    encoder = encoder_parameters(shape)
    if config.objective == "mlm":
        learnt = encoder + word_head_parameters(shape)
        if config.sentence_pair_loss:
            learnt += sum((i + 1) * o for i, o in _sentence_pair_head(shape))
        learnt += sum((i + 1) * o for i, o in _alignment(config))
        return Parameters(encoder, 0, learnt)
    generator = 0
    if not config.uniform_generator:
        generator = word_head_parameters(config.generator)
        if config.untied_generator:
            generator += body_parameters(config.generator)
            if config.untied_generator_embeddings:
                generator += embedding_parameters(config.generator)
    discriminator_head = sum((i + 1) * o for i, o in _discriminator_head(shape))
    return Parameters(encoder, generator, encoder + generator + discriminator_head)


def example_flops(
    config: PretrainingConfig, sequence_length: int, generator_alone: bool = False
) -> int:
    """Counts the FLOPs that a pretraining objective takes for one example, forward and backward.

    Adversarial pretraining has two passes more than the one of the words. The first one finds the
    perturbation: its backward pass has no gradients of weights. The second one learns, as the words
    do, but for the embeddings.

    Args:
      config: all settings.
      sequence_length: tokens of the example.
      generator_alone: True if the generator alone learns, which "electra" only has. The
        discriminator then has a forward pass, for the figures that are logged.

    Returns:
      FLOPs, an int, a multiplication with its addition as two.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    masked_tokens = config.max_predictions(sequence_length)
    if config.objective == "mlm":
        forward = encoder_flops(config.encoder, sequence_length)
        forward += word_flops(config.encoder, scored_positions(config, sequence_length))
        adversarial = 0
        if config.adversarial.weight:
            step = 2 * forward + attention_flops(config.encoder, sequence_length)
            without = first_product_flops(config.encoder, sequence_length)
            adversarial = step + 3 * forward - without
        if config.sentence_pair_loss:
            forward += product_flops(_sentence_pair_head(config.encoder), 1)
        aligned = _positions(config.distillation.cosine_positions, config, sequence_length)
        forward += product_flops(_alignment(config), aligned)
        return 3 * forward + adversarial + teacher_flops(config, sequence_length)
    forward = encoder_flops(config.encoder, sequence_length)
    forward += product_flops(_discriminator_head(config.encoder), sequence_length)
    if generator_alone:
        return example_flops(config, sequence_length) - 2 * forward
    if not config.uniform_generator:
        forward += encoder_flops(config.generator, sequence_length)
        forward += word_flops(config.generator, masked_tokens)
    return 3 * forward


def teacher_flops(config: PretrainingConfig, sequence_length: int) -> int:
    """Counts the FLOPs that a distillation's teacher takes for one example: a forward pass.

    Args:
      config: all settings.
      sequence_length: tokens of the example.

    Returns:
      FLOPs, an int; 0 without a teacher.
    """
    if not config.distillation.has_teacher:
        return 0
    teacher = config.distillation.teacher(config.encoder)
    scored = teacher_scored_positions(config, sequence_length)
    return encoder_flops(teacher, sequence_length) + word_flops(teacher, scored)


def teacher_parameters(config: PretrainingConfig) -> int:
    """Counts the parameters of a distillation's teacher, which learns nothing; 0 without one."""
    if not config.distillation.has_teacher:
        return 0
    teacher = config.distillation.teacher(config.encoder)
    return encoder_parameters(teacher) + word_head_parameters(teacher)


def scored_positions(config: PretrainingConfig, sequence_length: int) -> int:
    """Counts the positions of an example at which an "mlm" model's objective scores all words.

    They are the masked ones. A student whose divergence counts all positions scores these besides.

    Args:
      config: all settings.
      sequence_length: tokens of the example.
    """
    settings = config.distillation
    everywhere = settings.kl_weight > 0 and settings.kl_positions == "all"
    return config.max_predictions(sequence_length) + (sequence_length if everywhere else 0)


def teacher_scored_positions(config: PretrainingConfig, sequence_length: int) -> int:
    """Counts the positions of an example at which a distillation's teacher scores all words.

    Args:
      config: all settings.
      sequence_length: tokens of the example.
    """
    settings = config.distillation
    if not settings.kl_weight:
        return 0
    return _positions(settings.kl_positions, config, sequence_length)


def run_flops(config: PretrainingConfig, first_step: int = 0, last_step: int | None = None) -> int:
    """Adds up the FLOPs that a pretraining objective takes in a range of steps, over all phases.

    Args:
      config: all settings.
      first_step: the number of the first step, from 0.
      last_step: the number of the first step after them; None: to the end of the run.

    Returns:
      FLOPs, an int; each step is on a global batch of `train_batch_size` examples.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """
    last_step = config.last_step if last_step is None else last_step
    flops = 0
    for length, start, end in config.phases():
        first, last = max(first_step, start), min(last_step, end)
        steps = max(0, last - first)
        alone = max(0, min(last, config.generator_warmup_steps) - first)
        examples = (steps - alone) * example_flops(config, length)
        if alone:
            examples += alone * example_flops(config, length, generator_alone=True)
        flops += examples * config.train_batch_size
    return flops


def _positions(positions: str, config: PretrainingConfig, sequence_length: int) -> int:
    """Returns the number of positions of an example, "masked" or "all", as arrays have them."""
    return sequence_length if positions == "all" else config.max_predictions(sequence_length)


def _alignment(config: PretrainingConfig) -> list[tuple[int, int]]:
    """Returns (inputs, outputs) of the map before the cosine loss, if there is one."""
    settings, own = config.distillation, config.encoder.hidden_size
    taught = settings.teacher(config.encoder).hidden_size
    return [(own, taught)] if settings.cosine_weight and own != taught else []


def _discriminator_head(shape: EncoderConfig) -> list[tuple[int, int]]:
    """Returns (inputs, outputs) of each product of the head."""
    return [(shape.hidden_size, shape.hidden_size), (shape.hidden_size, 1)]


def _sentence_pair_head(shape: EncoderConfig) -> list[tuple[int, int]]:
    """Returns (inputs, outputs) of each product of the head, which sees one token."""
    return [(shape.hidden_size, shape.hidden_size), (shape.hidden_size, 2)]
