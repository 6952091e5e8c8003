"""Compares the outputs of two models on random texts, to check a conversion."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel


def pretraining_difference(
    one: Electra | MaskedLanguageModel, other: Electra | MaskedLanguageModel
) -> float:
    """Compares two pretraining models by the largest absolute difference of their logits.

    Both see the same four random texts, some with padding.

    Args:
      one: a model.
      other: a model of the same shape with the same heads.

    Returns:
      The difference, 0.0 or more; NaN if a logit is.

    Raises:
      ValueError: the models have different numbers of heads.
    """
    inputs = _random_inputs(other.config.encoder)
    pairs = zip(pretraining_logits(one, inputs), pretraining_logits(other, inputs), strict=True)
    return float(np.max([tf.reduce_max(tf.abs(a - b)) for a, b in pairs]))


def fine_tuned_difference(one: TaskModel, other: TaskModel) -> float:
    """Compares two fine-tuned models by the largest absolute difference of their logits.

    Both see the same four random texts, three of them with padding.

    Args:
      one: a model.
      other: a model of the same shape with as many outputs.

    Returns:
      The difference, 0.0 or more; NaN if a logit is.
    """
    return float(np.abs(_task_logits(one) - _task_logits(other)).max())


def _random_inputs(encoder: EncoderConfig) -> tuple[tf.Tensor, ...]:
    """Returns ids, mask and segments of four texts, int32 [4, tokens] each, some with padding."""
    length = min(64, encoder.max_sequence_length)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, encoder.vocab_size, [4, length])
    mask = np.arange(length) < np.array([[length], [length], [length / 2], [length / 4]])
    segments = rng.integers(0, encoder.type_vocab_size, [4, length])
    return tuple(tf.constant(values, tf.int32) for values in (ids, mask, segments))


def pretraining_logits(
    model: Electra | MaskedLanguageModel, inputs: tuple[tf.Tensor, ...]
) -> list[tf.Tensor]:
    """Computes the logits of all heads of a pretraining model, for comparison with another model's.

    Args:
      model: the model.
      inputs: ids, mask and segments, int32 [texts, tokens] each.

    Returns:
      A list of one or two float32 tensors. For an ELECTRA: the discriminator's logits [texts,
      tokens] and, if there is a generator, its logits of words [texts, tokens, vocab_size]. Else:
      the logits of words and, if there is a head of sentence pairs, its logits [texts, 2].
    """
    ids = inputs[0]
    everywhere = tf.tile(tf.range(ids.shape[1])[tf.newaxis], [ids.shape[0], 1])

    def word_scores(encoder: Encoder, head) -> tf.Tensor:
        return head(encoder(*inputs), everywhere, encoder.embeddings.word)

    if isinstance(model, Electra):
        values = [model.discriminate(model.encoder(*inputs))]
        if model.generator_head is not None:
            values.append(word_scores(model.generator, model.generator_head))
        return values
    values = [word_scores(model.encoder, model.head)]
    if model.sentence_pair_head is not None:
        values.append(model.sentence_pair_head(model.encoder(*inputs)))
    return values


def _task_logits(model: TaskModel) -> np.ndarray:
    """Computes the logits of four random texts, to compare models; three of them have padding.

    Returns:
      float32 [tokens, outputs] without padding for a model of tokens, or [4, outputs].
    """
    shape = model.encoder.config
    length = min(64, shape.max_sequence_length)
    rng, places = np.random.default_rng(0), np.arange(length)
    real = places < length - np.arange(4)[:, np.newaxis] * (length // 4)
    batch = {
        "input_ids": np.where(real, rng.integers(0, shape.vocab_size, real.shape), 0),
        "segment_ids": real & (places >= length // 8) & (shape.type_vocab_size > 1),
        "document_ids": real * np.arange(1, 5)[:, np.newaxis],
        "position_ids": real * places,
        "first": np.arange(4) * length,
    }
    values = model({name: tf.constant(values, tf.int32) for name, values in batch.items()}).numpy()
    return values if len(values) == len(real) else values[real.reshape(-1)]
