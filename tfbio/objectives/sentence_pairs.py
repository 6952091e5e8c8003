"""Sentence pairs: a classifier of two segments, which learns beside the masked language model.

Next-sentence prediction is task 2 of Devlin et al. (2019), "BERT", section 3.1; sentence-order
prediction is the one of Lan et al. (2020), "ALBERT", section 3.1. Head and loss are the same, and
the examples tell which of the two a model learns. `masked_language_model` adds the loss to its own.

The labels are those of both original codes and of `transformers`: 0 if the second segment follows
the first one in the text; 1 if it is another document's (next sentence) or comes before the first
one (sentence order).
"""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import Dense
from tfbio.objectives.accumulation import Part

# Follows, or does not.
_LABELS = 2


class SentencePairHead(keras.layers.Layer):
    """The head for sentence pairs of a masked language model: BERT's pooler and a classifier.

    BERT's classifier is one of next sentences, ALBERT's one of sentence order. The original codes
    have no dropout here; `transformers` adds one to ALBERT's.

    Args:
      config: the settings of the encoder whose output the head sees.
      trainable: True if a loss trains the head. Else its weights go out as they came in.

    Attributes:
      pooler: a `Dense` from hidden_size to hidden_size.
      classifier: a `Dense` from hidden_size to 2.
    """

    def __init__(self, config: EncoderConfig, trainable: bool = False):
        super().__init__(name="sentence_pair", trainable=trainable)
        size, deviation = config.hidden_size, config.initializer_range
        self.pooler = Dense(size, size, deviation, "pooler")
        self.classifier = Dense(size, _LABELS, deviation, "classifier")

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """Computes a masked language model's logits for the two classes of sentence pairs.

        Args:
          hidden: any float dtype [B, n, hidden_size], the encoder's output for some tokens of each
            example. The first one, which is [CLS], is read.

        Returns:
          float32 [B, 2].
        """
        return tf.cast(self.classifier(tf.tanh(self.pooler(hidden[:, 0]))), tf.float32)


def sentence_pair_loss(logits: tf.Tensor, labels: tf.Tensor, part: Part) -> tf.Tensor:
    """Computes the sentence-pair loss of some examples: their share of a mean.

    The mean is that of the cross entropy over the examples of the global batch, or of the group
    that a `Part` belongs to. BERT's `get_next_sentence_output` and ALBERT's
    `get_sentence_order_output` take the same mean.

    Args:
      logits: float32 [B, 2], of static shape.
      labels: int32 [B], 0 if the second segment follows the first one, else 1.
      part: which examples these are; its `shares` is read.

    Returns:
      float32 [].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    # Parts are equally large, and every example has a label.
    return tf.reduce_sum(losses) / (logits.shape[0] * part.shares)


class BalancedAccuracy(keras.metrics.Metric):
    """The balanced accuracy on sentence pairs: the mean, over both labels, of the share correct.

    A model that knows nothing has 0.5, however many examples have each label. A label without
    examples does not count, as in scikit-learn's `balanced_accuracy_score`.

    Args:
      name: the name of the metric.

    Attributes:
      correct, count: the numbers of examples of each label that are classified correctly, and of
        all; float32 [2] variables.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self.correct, self.count = (
            self.add_weight(own, [_LABELS], initializer="zeros") for own in ("correct", "count")
        )

    def update_state(self, labels: tf.Tensor, predicted: tf.Tensor) -> None:
        """Adds examples to the balanced accuracy, in a replica's context; returns nothing.

        Args:
          labels, predicted: int32 [B], 0 or 1.
        """
        of_label = tf.one_hot(labels, _LABELS)
        is_correct = tf.cast(labels == predicted, tf.float32)[:, tf.newaxis]
        self.correct.assign_add(tf.reduce_sum(of_label * is_correct, axis=0))
        self.count.assign_add(tf.reduce_sum(of_label, axis=0))

    def result(self) -> tf.Tensor:
        """Computes the balanced accuracy so far: float32 [], 0 without examples."""
        shares = tf.math.divide_no_nan(self.correct, self.count)
        labels = tf.math.count_nonzero(self.count, dtype=tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(shares), labels)

    def reset_state(self) -> None:
        """Forgets the examples of the balanced accuracy; returns nothing."""
        keras.backend.batch_set_value([(each, np.zeros(_LABELS)) for each in self.variables])


class SentencePairMetrics:
    """The averages of a sentence-pair loss and its accuracies that are logged.

    Attributes:
      loss: the mean of the loss, named "sentence_pair_loss".
      accuracy: the share of examples classified correctly, named "sentence_pair_accuracy".
      balanced_accuracy: a `BalancedAccuracy`, named "sentence_pair_balanced_accuracy".
      all: the list of the three; each is a Keras metric whose result is float32 [].
    """

    def __init__(self) -> None:
        self.loss = keras.metrics.Mean("sentence_pair_loss")
        self.accuracy = keras.metrics.Mean("sentence_pair_accuracy")
        self.balanced_accuracy = BalancedAccuracy("sentence_pair_balanced_accuracy")
        self.all = [self.loss, self.accuracy, self.balanced_accuracy]

    def update(self, labels: tf.Tensor, logits: tf.Tensor, loss: tf.Tensor, part: Part) -> None:
        """Adds a batch, or a part of it, to the metrics of sentence pairs; returns nothing.

        Call it in a replica's context.

        Args:
          labels: int32 [B], 0 or 1.
          logits: float32 [B, 2].
          loss: float32 [], the result of `sentence_pair_loss`.
          part: which of the replica's examples these are; its `shares` is read.
        """
        predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
        self.loss.update_state(loss * part.shares)
        self.accuracy.update_state(labels == predicted)
        self.balanced_accuracy.update_state(labels, predicted)
