"""Estimates the bytes that a training step keeps for its backward pass, on a CPU or GPU."""

from __future__ import annotations

import math

from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig

_BYTES = {"float32": 4, "bfloat16": 2}


def bytes_of_token(shape: EncoderConfig, length: int, precision: str, model: int = 1) -> int:
    """Estimates the bytes of the activations of an encoder's layers for each token of a step.

    A layer of h hidden and f feed-forward units and a heads keeps for a token, at length l,
    10 h + 3 f + 3 a l numbers: query, key, value and the output of attention; for each of two
    sub-layers the dropout mask, the normalised sum and its scaled form, which is the next one's
    input; input, distribution function and output of GELU; the attention's weights before and after
    dropout, and its mask. Only a mesh keeps that mask (see `attention.attend`), so elsewhere the
    estimate is a little high, most of all on a CPU, which keeps the derivative of GELU in place of
    its input and distribution function (see `activations`). It is so, too, for tokens that the last
    layer leaves out (see `target.leaves_rows_out`). Devices that share a model divide its heads and
    feed-forward units, so 4 h + 3 f + 3 a l of them; the 6 h of the sub-layers are whole on each
    (Korthikanti et al., 2022, "Reducing Activation Recomputation in Large Transformer Models",
    section 4.2.1).

    Args:
      shape: settings of the encoder.
      length: the tokens that attend to each other.
      precision: "bfloat16" or "float32", of the activations.
      model: the number of devices that share a model.

    Returns:
      Bytes on each device, an int.

    Raises:
      KeyError: `precision` is another text.
    """
    divided = 4 * shape.hidden_size + 3 * shape.intermediate_size
    divided += 3 * shape.num_attention_heads * length
    of_token = 6 * shape.hidden_size + math.ceil(divided / model)
    return _BYTES[precision] * shape.num_hidden_layers * of_token


def activations(config: PretrainingConfig, count: int, precision: str, model: int = 1) -> int:
    """Estimates the bytes of the activations of a pretraining step, on each device.

    They are those of the layers, see `bytes_of_token`, and the scores of words, which devices that
    share a model divide.

    Scores of words are kept twice, in float32. A distillation's teacher keeps its scores once. The
    generator's activations are gone when the discriminator's come (see `Electra.gradients`): the
    larger of the two counts. Arrays that live for a moment only are not counted, and XLA, which
    computes some arrays anew rather than keep them, may need less.

    Args:
      config: all settings.
      count: the number of devices, or of groups of a mesh, that share the batch.
      precision: "bfloat16" or "float32", of the activations.
      model: the number of devices that share a model.

    Returns:
      Bytes, an int, for the phase with the most.

    Raises:
      KeyError: `precision` is another text.
      ConfigError: the generator's sizes do not go together.
    """
    examples = math.ceil(config.train_batch_size / (count * config.turns(count)))

    def layers(shape: EncoderConfig, length: int) -> int:
        return length * bytes_of_token(shape, length, precision, model)

    def of_phase(length: int) -> int:
        scored = 2 * objective_cost.scored_positions(config, length)
        scored += objective_cost.teacher_scored_positions(config, length)
        scores = 4 * scored * math.ceil(config.encoder.vocab_size / model)
        of_encoder = layers(config.encoder, length)
        if config.objective == "mlm":
            # Adversarial pretraining keeps those of two passes, the clean and the last one.
            return (2 if config.adversarial.weight else 1) * examples * (of_encoder + scores)
        of_generator = layers(config.generator, length) + scores if config.has_generator else 0
        return examples * max(of_encoder, of_generator)

    return max(of_phase(phase.sequence_length) for phase in config.phases())
