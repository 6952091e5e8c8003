"""Compares the outputs of two models, or of one in two forms, to check a conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel, MaskedLanguageModelHead

if TYPE_CHECKING:
    import onnxruntime


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

    Both see the same four random texts, some with padding.

    Args:
      one: a model.
      other: a model of the same shape with as many outputs.

    Returns:
      The difference, 0.0 or more; NaN if a logit is.
    """
    inputs = _random_inputs(one.encoder.config)
    ours, theirs = _outputs(one, inputs), _outputs(other, inputs)
    if ours.ndim == 3:  # of tokens
        is_real = inputs[1].numpy() == 1
        ours, theirs = ours[is_real], theirs[is_real]
    return float(np.abs(ours - theirs).max())


def onnx_difference(
    session: onnxruntime.InferenceSession, model: Encoder | TaskModel
) -> tuple[float, float]:
    """Compares an ONNX model with TensorFlow by the largest absolute difference of their outputs.

    Both see two batches of four random texts, of other lengths, some with padding. TensorFlow
    computes as in fine-tuning and prediction (`TaskModel.call`), with the numbers of documents.

    Args:
      session: the ONNX model, with the inputs and outputs of `onnx_model`.
      model: the encoder or fine-tuned model that it was made of.

    Returns:
      The difference at tokens that are not padding, 0.0 or more, and the largest absolute output of
      TensorFlow; NaN if an output is.
    """
    config = model.config if isinstance(model, Encoder) else model.encoder.config
    longest = min(64, config.max_sequence_length)
    differences, largest = [], []
    for length in (longest, longest // 2 + 1):
        inputs = _random_inputs(config, length)
        ids, mask, segments = (values.numpy().astype(np.int64) for values in inputs)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        found = session.run(None, {x.name: given[x.name] for x in session.get_inputs()})
        ours = _outputs(model, inputs)
        theirs = found[0] if len(found) == 1 else np.stack(found, axis=-1)
        if ours.ndim == 3:  # of tokens
            ours, theirs = ours[mask == 1], theirs[mask == 1]
        differences.append(np.abs(ours - theirs).max())
        largest.append(np.abs(ours).max())
    return float(np.max(differences)), float(np.max(largest))


def _outputs(model: Encoder | TaskModel, inputs: tuple[tf.Tensor, ...]) -> np.ndarray:
    """Computes an encoder's vectors or a task's logits of ids, mask and segments.

    Returns:
      float32 [texts, tokens, size] or [texts, outputs].
    """
    # A GPU would round the products of matrices to fewer bits.
    with tf.device("/cpu:0"):
        ids, mask, segments = inputs
        if isinstance(model, Encoder):
            return model(ids, mask, segments).numpy()
        count, length = ids.shape
        batch = {
            "input_ids": ids,
            "segment_ids": segments,
            "document_ids": mask * tf.range(1, count + 1)[:, tf.newaxis],
            "position_ids": mask * tf.range(length),
            "first": length * tf.range(count),
        }
        values = model(batch).numpy()
    return values if len(values) == count else values.reshape([count, length, -1])


def _random_inputs(encoder: EncoderConfig, length: int = 0) -> tuple[tf.Tensor, ...]:
    """Returns ids, mask and segments of four texts, int32 [4, tokens] each, some with padding.

    Args:
      encoder: the shape of the encoder that is to read them.
      length: the tokens of the longest; 0: 64, or as many as the encoder has positions for.
    """
    length = length or min(64, encoder.max_sequence_length)
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

    def word_scores(encoder: Encoder, head: MaskedLanguageModelHead) -> tf.Tensor:
        return head(encoder(*inputs), encoder.embeddings.word)

    if isinstance(model, Electra):
        values = [model.discriminate(model.encoder(*inputs))]
        if model.generator is not None and model.generator_head is not None:
            values.append(word_scores(model.generator, model.generator_head))
        return values
    values = [word_scores(model.encoder, model.head)]
    if model.sentence_pair_head is not None:
        values.append(model.sentence_pair_head(model.encoder(*inputs)))
    return values
