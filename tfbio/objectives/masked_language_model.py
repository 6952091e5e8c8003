"""Masked language model: the encoder fills in masked tokens.

Devlin et al. (2019), "BERT", section 3.1, task 1, without next-sentence prediction: RoBERTa's,
BioM-BERT's and bio-lm's objective. ELECTRA's generator (`electra.py`) has the same head.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models.activations import ACTIVATIONS
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import Dense, LayerNorm
from tfbio.objectives import accumulation, output_weight_gradients
from tfbio.objectives.accumulation import Part
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig


class MaskedLanguageModelOutput(NamedTuple):
    """The results of a forward pass; B examples, N masked tokens, V words.

    Attributes:
      loss: float32 [], these examples' share of the mean over all masked tokens.
      logits: float32 [B, N, V].
    """

    loss: tf.Tensor
    logits: tf.Tensor


class MaskedLanguageModel(keras.layers.Layer):
    """The masked language model: an encoder, and a head whose output weights are its embeddings.

    Args:
      config: all settings.

    Attributes:
      config: all settings.
      encoder: the `Encoder`.
      head: the `MaskedLanguageModelHead`.
      sentence_pair_head: a `SentencePairHead` if `config.sentence_pair_head` is set; else None.
    """

    def __init__(self, config: PretrainingConfig):
        super().__init__(name="masked_language_model")
        self.config = config
        self.encoder = Encoder(config.encoder)
        self.head = MaskedLanguageModelHead(config.encoder)
        self.sentence_pair_head = None
        if config.sentence_pair_head:
            self.sentence_pair_head = SentencePairHead(config.encoder)

    def call(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        training: bool = False,
        part: Part | None = None,
        output_weights: tf.Tensor | None = None,
    ) -> MaskedLanguageModelOutput:
        """Computes the masked language model's logits and loss on a batch.

        Call it in a replica's context.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each, of static shape;
            where examples hold several documents, also `document_ids` and `position_ids`.
          masked: the batch with masked tokens: `input_ids`, int32 [B, L], `positions` and `ids`,
            int32 [B, N], and `weights`, float32 [B, N].
          seed: int32 [2], keys the dropout.
          training: True for dropout.
          part: which of the replica's examples these are; None: all.
          output_weights: any float dtype [V, embedding_size]; None: the token embeddings.

        Returns:
          A named tuple of `loss`, float32 [], these examples' share of the mean over the global
          batch's masked tokens, and `logits`, float32 [B, N, V].
        """
        part = part or accumulation.whole(batch, masked)
        context = {name: values for name, values in batch.items() if name != "input_ids"}
        dropout_seed = part.dropout_seed(seed) if training else None
        hidden = self.encoder(masked.input_ids, **context, seed=dropout_seed)
        if output_weights is None:
            output_weights = self.encoder.embeddings.word
        logits = self.head(hidden, masked.positions, output_weights)
        return MaskedLanguageModelOutput(masked_loss(logits, masked, part), logits)

    def gradients(
        self,
        variables: list[tf.Variable],
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        part: Part | None = None,
    ) -> tuple[MaskedLanguageModelOutput, list[output_weight_gradients.Gradient]]:
        """Computes the masked language model's output in training, and the gradients of its loss.

        Args:
          variables: the variables to differentiate with respect to.
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each; where examples hold
            several documents, also `document_ids` and `position_ids`.
          masked: the batch with masked tokens, int32 [B, L] and [B, N] and float32 [B, N].
          seed: int32 [2], keys the dropout.
          part: which of the replica's examples these are; None: all.

        Returns:
          A pair of the output, a named tuple of `loss`, float32 [], and `logits`, float32
          [B, N, V], and a list of a gradient for each variable: a tensor of its shape and dtype, or
          a `tf.IndexedSlices` of it; None where the loss does not depend on it.
        """

        def forward(output_weights: tf.Tensor) -> tuple[tf.Tensor, MaskedLanguageModelOutput]:
            output = self(batch, masked, seed, True, part, output_weights)
            return output.loss, output

        table = self.encoder.embeddings.word
        return output_weight_gradients.with_output_weights(forward, table, variables)

    def set_frequency_biases(self, counts: np.ndarray) -> None:
        """Sets the masked language model's output biases to the words' log frequencies.

        Returns nothing.

        Args:
          counts: int [V], how often each word occurs; each counts once more.
        """
        self.head.set_frequency_biases(counts)


class MaskedLanguageModelMetrics:
    """The averages of a masked language model's loss and accuracy that are logged.

    The figures are of training or of held-out text.

    Attributes:
      loss: the mean of the loss, named "loss".
      accuracy: the share of masked tokens that are predicted, named "accuracy".
      all: the list of both; each is a Keras metric whose result is float32 [].
    """

    def __init__(self) -> None:
        self.loss = keras.metrics.Mean("loss")
        self.accuracy = keras.metrics.Mean("accuracy")
        self.all = [self.loss, self.accuracy]

    def update(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        output: MaskedLanguageModelOutput,
        part: Part,
    ) -> None:
        """Adds a batch, or a part of it, to the masked language model's metrics; returns nothing.

        Call it in a replica's context.

        Args:
          batch: int32 [B, L] each, by name; not read.
          masked: the batch with masked tokens; its `ids`, int32 [B, N], and `weights`, float32
            [B, N], are read.
          part: which of the replica's examples these are; its `shares` is read.
          output: the output of `MaskedLanguageModel` for them: `loss`, float32 [], and `logits`,
            float32 [B, N, V].
        """
        self.loss.update_state(output.loss * part.shares)
        predicted = most_likely(output.logits)
        self.accuracy.update_state(predicted == masked.ids, masked.weights)


class MaskedLanguageModelHead(keras.layers.Layer):
    """The masked language model's head, which scores all words at the masked positions only.

    ELECTRA's generator has it, too. Its output weights are token embeddings, which `call` is given.

    Args:
      config: the settings of the encoder whose output the head sees.

    Attributes:
      dense: a `Dense` from hidden_size to embedding_size.
      activation: the function after it, of a tensor.
      layer_norm: a `LayerNorm` of embedding_size.
      output_bias: the variable float32 [vocab_size], 0 at first.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__(name="generator_predictions")
        self.dense = Dense(
            config.hidden_size,
            config.embedding_size,
            config.initializer_range,
            "generator_predictions/dense",
        )
        self.activation = ACTIVATIONS[config.hidden_act]
        self.layer_norm = LayerNorm(
            config.embedding_size, config.layer_norm_eps, "generator_predictions/LayerNorm"
        )
        self.output_bias = self.add_weight(
            "generator_predictions/output_bias", [config.vocab_size], initializer="zeros"
        )

    def call(
        self, hidden: tf.Tensor, positions: tf.Tensor, word_embeddings: tf.Variable
    ) -> tf.Tensor:
        """Computes a masked language model's logits: the scores of all words at masked positions.

        Args:
          hidden: any float dtype [B, L, hidden_size], the encoder's output.
          positions: int32 [B, N], of static shape.
          word_embeddings: any float dtype [V, embedding_size], the output weights.

        Returns:
          float32 [B, N, V].
        """
        batch, count = positions.shape
        rows = tf.reshape(tf.gather(hidden, positions, batch_dims=1), [batch * count, -1])
        rows = self.layer_norm(self.activation(self.dense(rows)))
        logits = tf.matmul(rows, tf.cast(word_embeddings, rows.dtype), transpose_b=True)
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), tf.cast(self.output_bias, tf.float32))
        return tf.reshape(logits, [batch, count, -1])

    def set_frequency_biases(self, counts: np.ndarray) -> None:
        """Sets the biases of a masked language model's head to the words' log frequencies.

        Returns nothing.

        Args:
          counts: int [V], how often each word occurs; each counts once more.
        """
        share = (counts + 1.0) / (counts.sum() + len(counts))
        self.output_bias.assign(np.log(share))


class SentencePairHead(keras.layers.Layer):
    """The head for sentence pairs of a masked language model that came in with one: BERT's pooler.

    Its classifier is BERT's of next sentences, or ALBERT's of sentence order. No objective here
    trains the head: its weights, which are not trainable, go out as they came in.

    Args:
      config: the settings of the encoder whose output the head sees.

    Attributes:
      pooler: a `Dense` from hidden_size to hidden_size.
      classifier: a `Dense` from hidden_size to 2.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__(name="sentence_pair", trainable=False)
        size, deviation = config.hidden_size, config.initializer_range
        self.pooler = Dense(size, size, deviation, "pooler")
        self.classifier = Dense(size, 2, deviation, "classifier")

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """Computes a masked language model's logits for the two classes of sentence pairs.

        Args:
          hidden: any float dtype [B, L, hidden_size], the encoder's output; the first token is
            read.

        Returns:
          float32 [B, 2].
        """
        return tf.cast(self.classifier(tf.tanh(self.pooler(hidden[:, 0]))), tf.float32)


def most_likely(logits: tf.Tensor) -> tf.Tensor:
    """Finds the word with a masked language model's highest score at each masked position.

    Args:
      logits: float32 [B, N, V].

    Returns:
      int32 [B, N], the numbers of the words.
    """
    # In the shape that the product has: another would be a copy on a TPU.
    rows = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(tf.argmax(rows, axis=-1, output_type=tf.int32), logits.shape[:-1])


def masked_loss(logits: tf.Tensor, masked: MaskedBatch, part: Part) -> tf.Tensor:
    """Computes a masked language model's loss on some examples: their share of a mean.

    The mean is that of the cross entropy over the masked tokens of the global batch, or of the
    group that a `Part` belongs to.

    Args:
      logits: float32 [B, N, V].
      masked: the batch with masked tokens; its `ids`, int32, and `weights`, float32, [B, N] each,
        are read.
      part: which examples these are; its `masked`, float32 [], is read.

    Returns:
      float32 [].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(masked.ids, logits)
    return accumulation.share_of_mean(losses, masked.weights, part.masked)
