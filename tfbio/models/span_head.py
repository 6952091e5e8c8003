"""Scores answers in spans with ELECTRA's head, in which the score of an end depends on the start.

The head is that of `finetune/qa/qa_tasks.py:QATask.get_prediction_module` of
google-research/electra, as its configuration has it by default (`joint_prediction`,
`answerable_classifier` and `answerable_uses_start_logits`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from tfbio.models.activations import gelu
from tfbio.models.layers import precise_dtype, shape_of
from tfbio.models.segments import segment_max

# The size of the layers below the scores of ends, and of questions without an answer.
_HIDDEN_SIZE = 512
# Taken from the scores of tokens that no answer can have; the original code's.
_MASKED_SCORE = 1000.0


class TrainingLogits(NamedTuple):
    """The logits in training of ELECTRA's head for answers, `SpanHead`, for its losses.

    Attributes:
      start: float32 [tokens], each token as the start of the answer.
      end: float32 [tokens], each token as the end of an answer that starts at the true start.
      no_answer: float32 [windows], that the question has no answer.
    """

    start: tf.Tensor
    end: tf.Tensor
    no_answer: tf.Tensor


class SpanHead(keras.layers.Layer):
    """ELECTRA's head for answers: scores starts of spans, ends for a start, and "no answer".

    The scores of ends come from the vectors of the token and of the start, side by side, through a
    layer of 512 units. The start is the true one in training, and each of the best `beam_size`
    starts in turn in prediction. "No answer" is scored from the vector of [CLS] beside the mean of
    all vectors, weighted by the probability of each token as a start.

    Args:
      size: the size of the encoder's vectors.
      beam_size: the number of starts for which ends are scored in prediction.

    Attributes:
      beam_size: the number of starts.
      start, end_hidden, end, no_answer_hidden, no_answer: Keras `Dense` layers, in
        `precise_dtype`.
    """

    def __init__(self, size: int, beam_size: int):
        super().__init__(name="span_head", dtype=precise_dtype())
        self.beam_size = beam_size

        def dense(
            name: str,
            inputs: int,
            outputs: int,
            activation: Callable[[tf.Tensor], tf.Tensor] | None = None,
        ) -> keras.layers.Dense:
            layer = keras.layers.Dense(outputs, activation, name=name, dtype=precise_dtype())
            layer.build([None, inputs])
            return layer

        self.start = dense("start", size, 1)
        self.end_hidden = dense("end_hidden", 2 * size, _HIDDEN_SIZE)
        self.end = dense("end", _HIDDEN_SIZE, 1)
        self.no_answer_hidden = dense("no_answer_hidden", 2 * size, _HIDDEN_SIZE, gelu)
        self.no_answer = dense("no_answer", _HIDDEN_SIZE, 1)

    def call(
        self, vectors: tf.Tensor, batch: dict[str, tf.Tensor], is_training: bool
    ) -> TrainingLogits | tf.Tensor:
        """Scores a batch: tokens as starts and ends of answers, and windows for "no answer".

        Args:
          vectors: float32 [tokens, size], those of all rows laid end to end.
          batch: int32 `document_ids` (the number of a token's window, from 1; 0 for padding),
            `position_ids` (counted in the window) and `segment_ids`, [rows, row_length] each;
            `first`, int32 [windows], each window's first token in `vectors`; in training `targets`,
            int32 [windows, 3], which begin with the true start's place in its window.
          is_training: True to score ends for the true starts, else for the best ones.

        Returns:
          In training `TrainingLogits`: `start` and `end`, float32 [tokens] each, and `no_answer`,
          float32 [windows]. Else float32 [tokens, 2 + beam_size]: the score of the token as a
          start; that of "no answer" of its window; and for each of the best starts, the best first
          and of equals the first token, the logarithm of the probability that it is the end. All
          scores are logits.
        """
        window = tf.reshape(batch["document_ids"], [-1])  # 0 for padding
        (count,) = shape_of(batch["first"])
        # The context, with the last [SEP]; and [CLS], which stands for "not here".
        is_first = tf.reshape(batch["position_ids"], [-1]) == 0
        may_be = (tf.reshape(batch["segment_ids"], [-1]) > 0) | is_first
        masked = -_MASKED_SCORE * tf.cast(~(may_be & (window > 0)), vectors.dtype)

        start = tf.squeeze(self.start(vectors), -1) + masked
        probabilities = tf.exp(log_softmax(start, window, count))
        weighted = tf.math.unsorted_segment_sum(
            probabilities[:, tf.newaxis] * vectors, window, count + 1
        )[1:]
        both = tf.concat([tf.gather(vectors, batch["first"]), weighted], axis=1)
        no_answer = tf.squeeze(self.no_answer(self.no_answer_hidden(both)), -1)

        # A product of vectors side by side is the sum of two products.
        size = vectors.shape[-1]
        of_start, of_end = tf.split(self.end_hidden.kernel, [size, size])
        of_tokens = tf.matmul(vectors, of_end) + tf.convert_to_tensor(self.end_hidden.bias)
        own_window = tf.maximum(window - 1, 0)

        def ends(starts: tf.Tensor) -> tf.Tensor:
            """Scores ends, float32 [tokens], for a start of each window, int32 [windows]."""
            of_starts = tf.matmul(tf.gather(vectors, starts), of_start)
            hidden = gelu(of_tokens + tf.gather(of_starts, own_window))
            return tf.squeeze(self.end(hidden), -1) + masked

        if is_training:
            return TrainingLogits(start, ends(batch["first"] + batch["targets"][:, 0]), no_answer)

        (tokens,) = shape_of(window)
        places = tf.range(tokens)

        def follow(
            number: tf.Tensor, left: tf.Tensor, scored: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            best = tf.math.unsorted_segment_max(left, window, count + 1)
            candidates = tf.where(left == tf.gather(best, window), places, tokens - 1)
            chosen = tf.math.unsorted_segment_min(candidates, window, count + 1)
            chosen = tf.minimum(chosen, tokens - 1)  # a window may have no token
            left = tf.where(places == tf.gather(chosen, window), left.dtype.min, left)
            scored = scored.write(number, log_softmax(ends(chosen[1:]), window, count))
            return number + 1, left, scored

        # One after the other: the hidden layers of all starts together are large.
        _, _, scored = tf.while_loop(
            lambda number, *_: number < self.beam_size,
            follow,
            (tf.constant(0), start, tf.TensorArray(vectors.dtype, self.beam_size)),
            parallel_iterations=1,
            maximum_iterations=self.beam_size,
        )
        of_window = tf.gather(no_answer, own_window)
        columns = tf.concat([tf.stack([start, of_window]), scored.stack()], axis=0)
        return tf.transpose(tf.ensure_shape(columns, [2 + self.beam_size, None]))


def log_softmax(logits: tf.Tensor, window: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """Computes the log-softmax of a span head's logits over the tokens of each window.

    Args:
      logits: float32 [tokens].
      window: int32 [tokens], the number of the window from 1; 0 for padding, which is one window.
      count: the number of windows, an int or int32 []; some may have no token.

    Returns:
      float32 [tokens], the logarithms (base e) of probabilities.
    """
    highest = tf.stop_gradient(segment_max(logits, window, count + 1))
    shifted = logits - tf.gather(highest, window)
    total = tf.math.unsorted_segment_sum(tf.exp(shifted), window, count + 1)
    # The total of a window is at least 1, that of its highest token. Without a token it is 0, which
    # has no logarithm.
    return shifted - tf.gather(tf.math.log(tf.maximum(total, 1.0)), window)
