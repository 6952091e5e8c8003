"""Classes, scores or several labels for texts, and for pairs of texts.

What the model sees of a text or a pair, `tokenization.Tokenizer.join` says. What is too long is cut
at its end, of a pair the longer text first, as in the original BERT and ELECTRA code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbio.formats import relations
from tfbio.formats.task_examples import LabelledText
from tfbio.models.batches import ENTITY_POOLINGS
from tfbio.task_types.packing import Pieces
from tfbio.text import tokenization


def encode(
    examples: Sequence[LabelledText],
    targets: list[np.ndarray],
    tokenizer: tokenization.Tokenizer,
    length: int,
) -> Pieces:
    """One piece for each example.

    Args:
      examples: texts, or pairs of them.
      targets: of each example.
      tokenizer: see `tokenization.load_tokenizer`.
      length: the most tokens of a piece, with [CLS] and [SEP].
    """
    texts = [text for example in examples for text in (example.text, example.pair)]
    encoded = [e.ids for e in tokenizer.encode(texts)]
    input_ids, segment_ids = [], []
    for example, first, second in zip(examples, encoded[::2], encoded[1::2], strict=True):
        is_pair = bool(example.pair)
        first, second = _cut(first, second, length - tokenizer.special_tokens(is_pair))
        ids, segments = tokenizer.join(first, second if is_pair else None)
        input_ids.append(ids)
        segment_ids.append(segments)
    numbers = np.arange(len(examples))
    return Pieces(input_ids, segment_ids, targets, numbers, of_tokens=False)


def _cut(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """The longer one loses its last token until both fit together, the second one where even."""
    over = len(first) + len(second) - room
    if over <= 0:
        return first, second
    difference = len(first) - len(second)
    from_longer = min(over, abs(difference))
    keep_first, keep_second = len(first), len(second)
    if difference > 0:
        keep_first -= from_longer
    else:
        keep_second -= from_longer
    rest = over - from_longer
    return first[: keep_first - rest // 2], second[: keep_second - (rest - rest // 2)]


class Classification:
    """One of several classes; see `tagging.Tagging` for the methods.

    Args:
      labels: all classes, in the order of the model's outputs.
      pooling: of `TaskModel`.
      entity_markers: whether the markers of relations are seen; see `relations`.
    """

    of_tokens = False

    def __init__(self, labels: Sequence[str], pooling: str = "first", entity_markers: bool = True):
        self.pooling, self.entity_markers = pooling, entity_markers
        self.labels = tuple(labels)
        self.num_outputs = len(self.labels)

    def pieces(self, examples, tokenizer, length) -> Pieces:
        """One for each example; the target is the number of its class."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        targets = [np.array(numbers[example.label], np.int32) for example in examples]
        if self.pooling not in ENTITY_POOLINGS and self.entity_markers:
            return encode(examples, targets, tokenizer, length)
        found = [relations.find(x, self.pooling, self.entity_markers) for x in examples]
        examples = [
            dataclasses.replace(example, text=text)
            for example, (text, _) in zip(examples, found, strict=True)
        ]
        pieces = encode(examples, targets, tokenizer, length)
        if self.pooling not in ENTITY_POOLINGS:
            return pieces
        encoded = tokenizer.encode([text for text, _ in found])
        entities = [
            # After [CLS]; what is cut off has the place of [SEP].
            [np.minimum(1 + _tokens(e.offsets, span), len(ids) - 1) for span in spans]
            for e, (_, spans), ids in zip(encoded, found, pieces.input_ids, strict=True)
        ]
        most = max(len(tokens) for both in entities for tokens in both)
        padded = [np.stack([np.resize(tokens, most) for tokens in both]) for both in entities]
        return dataclasses.replace(pieces, entities=padded)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Cross-entropy; logits float32 [texts, classes]."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["targets"], logits)
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Probabilities, float32 [texts, classes]."""
        return tf.nn.softmax(logits)

    def predictions(self, outputs: list[np.ndarray], pieces: Pieces, examples) -> list[str]:
        """The most probable class of each example; outputs float32 [classes] of each."""
        return [self.labels[number] for number in np.argmax(outputs, axis=-1)]


def _tokens(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> np.ndarray:
    """The tokens, whose characters `offsets` has, that have characters of a span; int64."""
    starts, ends = np.array(offsets).T
    tokens = np.flatnonzero((starts < span[1]) & (ends > span[0]))
    # What has no token, since its characters are dropped, has the place of what is cut off.
    return tokens if len(tokens) else np.array([len(offsets)])


class Regression:
    """A score; see `tagging.Tagging` for the methods.

    Args:
      labels: none.
      scale: what the model learns is the score divided by this.
    """

    of_tokens = False
    labels = ()
    num_outputs = 1

    def __init__(self, labels: Sequence[str] = (), scale: float = 1.0):
        self.scale = scale

    def pieces(self, examples, tokenizer, length) -> Pieces:
        """One for each example; the target is its score, scaled."""
        targets = [np.array(example.label / self.scale, np.float32) for example in examples]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Squared error, as in the original ELECTRA code; logits float32 [texts, 1]."""
        losses = tf.square(tf.squeeze(logits, -1) - tf.cast(batch["targets"], logits.dtype))
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Scores, float32 [texts, 1]."""
        return logits * self.scale

    def predictions(self, outputs: list[np.ndarray], pieces: Pieces, examples) -> list[float]:
        """The score of each example; outputs float32 [1] of each."""
        return [float(output[0]) for output in outputs]


class MultiLabel:
    """Any number of labels; see `tagging.Tagging` for the methods.

    Args:
      labels: all labels, in the order of the model's outputs.
      absent_outputs: whether each label has two outputs, of its absence and its presence. Both are
        learnt by themselves; predictions look at the second.
    """

    of_tokens = False

    def __init__(self, labels: Sequence[str], absent_outputs: bool = False):
        self.labels, self.absent_outputs = tuple(labels), absent_outputs
        self.num_outputs = len(self.labels) * (2 if absent_outputs else 1)

    def pieces(self, examples, tokenizer, length) -> Pieces:
        """One for each example; the target is 1 for the labels that it has, else 0."""
        targets = [
            np.array([label in example.label for label in self.labels], np.float32)
            for example in examples
        ]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Cross-entropy of each output by itself; logits float32 [texts, outputs].

        The sum over the labels; with outputs of absence the mean over all outputs
        (`finetune/classification/classification_tasks.py:HOC` of BioELECTRA's code).
        """
        targets = tf.cast(batch["targets"], logits.dtype)
        if self.absent_outputs:
            targets = tf.reshape(tf.stack([1.0 - targets, targets], axis=-1), tf.shape(logits))
            # Rounded as there: where an output is sure, and wrong, a loss of 20 is the most.
            present = tf.sigmoid(logits)
            losses = -targets * tf.math.log(present + 1e-9)
            losses -= (1.0 - targets) * tf.math.log(1.0 - present + 1e-9)
            losses = tf.reduce_mean(losses, axis=-1)
        else:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, logits)
            losses = tf.reduce_sum(losses, axis=-1)
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Probabilities, float32 [texts, outputs]."""
        return tf.sigmoid(logits)

    def present(self, outputs):
        """The probability that each label is there: [..., outputs] -> [..., labels]."""
        return outputs[..., 1::2] if self.absent_outputs else outputs

    def absent(self, outputs: np.ndarray) -> np.ndarray:
        """Whether each label is predicted to be absent: [texts, outputs] -> bool [texts, labels].

        With outputs of absence they decide, and may contradict those of presence.
        """
        return outputs[:, ::2] > 0.5 if self.absent_outputs else outputs <= 0.5

    def predictions(
        self, outputs: list[np.ndarray], pieces: Pieces, examples
    ) -> list[tuple[str, ...]]:
        """The labels of each that are more probable than not; outputs float32 [outputs] of each."""
        return [
            tuple(label for label, p in zip(self.labels, self.present(row), strict=True) if p > 0.5)
            for row in outputs
        ]
