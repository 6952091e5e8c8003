"""Masked language model: the encoder fills in masked tokens.

Devlin et al. (2019), "BERT", section 3.1, task 1: RoBERTa's, BioM-BERT's and bio-lm's objective.
BERT and ALBERT learn sentence pairs beside it (`sentence_pairs.py`), and ALUM from perturbed
embeddings (`adversarial.py`). ELECTRA's generator (`electra.py`) has the same head.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models import target
from tfbio.models.activations import ACTIVATIONS
from tfbio.models.encoder import Encoder, Perturbation
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import Dense, LayerNorm, precise_dtype
from tfbio.objectives import accumulation, output_weight_gradients
from tfbio.objectives.accumulation import Part
from tfbio.objectives.adversarial import adversarial_loss
from tfbio.objectives.cross_entropy import cross_entropy, most_likely
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.sentence_pairs import (
    SentencePairHead,
    SentencePairMetrics,
    sentence_pair_loss,
)

# What a batch holds beside the arguments of an encoder.
_NOT_FOR_THE_ENCODER = ("input_ids", "label")


class MaskedLanguageModelOutput(NamedTuple):
    """The results of a forward pass; B examples, N masked tokens, V words.

    Attributes:
      loss: float32 [], `mlm_loss`; where there is one, `sentence_pair_loss` on top; and where there
        is one, `adversarial_loss` times its weight. Of a `distillation.Student` the weighted sum
        of the losses on masked tokens, `kl_loss` and `cosine_loss`.
      logits: float32 [B, N, V].
      mlm_loss: float32 [], these examples' share of the mean over all masked tokens.
      sentence_pair_loss: float32 [], their share of the mean over all examples; None without
        `config.sentence_pair_loss`.
      sentence_pair_logits: float32 [B, 2], or None.
      adversarial_loss: float32 [], their share of the mean over all masked tokens, without its
        weight; None in evaluation, and without `config.adversarial.weight`.
      kl_loss: float32 [], a student's: their share of the mean divergence over the positions that
        count; None without `config.distillation.kl_weight`.
      cosine_loss: float32 [], a student's: their share of the mean cosine distance over the
        positions that count; None without `config.distillation.cosine_weight`.
    """

    loss: tf.Tensor
    logits: tf.Tensor
    mlm_loss: tf.Tensor
    sentence_pair_loss: tf.Tensor | None = None
    sentence_pair_logits: tf.Tensor | None = None
    adversarial_loss: tf.Tensor | None = None
    kl_loss: tf.Tensor | None = None
    cosine_loss: tf.Tensor | None = None


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
            self.sentence_pair_head = SentencePairHead(config.encoder, config.sentence_pair_loss)

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
            where examples hold several documents, also `document_ids` and `position_ids`; for
            `config.sentence_pair_loss` also `label`, int32 [B].
          masked: the batch with masked tokens: `input_ids`, int32 [B, L], `positions` and `ids`,
            int32 [B, N], and `weights`, float32 [B, N].
          seed: int32 [2], keys the dropout.
          training: True for dropout.
          part: which of the replica's examples these are; None: all.
          output_weights: any float dtype [V, embedding_size]; None: the token embeddings.

        Returns:
          A named tuple of `loss`, float32 [], these examples' share of the mean over the global
          batch's masked tokens, and `logits`, float32 [B, N, V]. With `config.sentence_pair_loss`
          their share of the mean over its examples is added to `loss` (BERT's
          `run_pretraining.py:model_fn` and ALBERT's add the two with the same weight). In training
          with `config.adversarial.weight` the adversarial loss is added, times that weight.

        Raises:
          KeyError: `config.sentence_pair_loss` is set, and the batch has no `label`.
        """
        part = part or accumulation.whole(batch, masked)
        dropout_seed = part.dropout_seed(seed) if training else None
        if output_weights is None:
            output_weights = self.encoder.embeddings.word

        def forward(perturbation: Perturbation | None = None) -> tuple[tf.Tensor, tf.Tensor]:
            positions = masked.positions
            if not target.leaves_rows_out():
                hidden = self.encode(batch, masked, dropout_seed, perturbation)
                of_masked = tf.gather(hidden, positions, batch_dims=1)
            else:
                if self.config.sentence_pair_loss:  # which reads [CLS], at position 0
                    positions = tf.pad(positions, [[0, 0], [1, 0]])
                hidden = self.encode(batch, masked, dropout_seed, perturbation, positions)
                of_masked = hidden[:, -masked.positions.shape[1] :]
            return hidden, self.head(of_masked, output_weights)

        hidden, logits = forward()
        mlm_loss = masked_loss(logits, masked, part)
        output = MaskedLanguageModelOutput(mlm_loss, logits, mlm_loss)
        head = self.sentence_pair_head
        if head is not None and self.config.sentence_pair_loss:
            pair_logits = head(hidden)
            pair_loss = sentence_pair_loss(pair_logits, batch["label"], part)
            output = output._replace(
                loss=output.loss + pair_loss,
                sentence_pair_loss=pair_loss,
                sentence_pair_logits=pair_logits,
            )
        settings = self.config.adversarial
        if training and settings.weight:
            added = adversarial_loss(
                lambda perturbation: forward(perturbation)[1],
                logits,
                masked,
                self.config.encoder.embedding_size,
                settings,
                part,
                seed,
            )
            output = output._replace(
                loss=output.loss + settings.weight * added, adversarial_loss=added
            )
        return output

    def encode(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor | None = None,
        perturbation: Perturbation | None = None,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the masked language model's last hidden states of masked text.

        Args:
          batch: see `call`; its `input_ids` are not read.
          masked: the batch with masked tokens; its `input_ids`, int32 [B, L], are read.
          seed: int32 [2], keys the dropout; None for evaluation.
          perturbation: see `Encoder.call`; None: none.
          positions: int32 [B, N], those of each example whose hidden states are wanted; None: all.

        Returns:
          [B, L, hidden_size], or [B, N, hidden_size], in the compute dtype of Keras' policy.
        """
        context = {
            name: values for name, values in batch.items() if name not in _NOT_FOR_THE_ENCODER
        }
        examples, length = masked.input_ids.shape
        rows = None
        if positions is not None:
            rows = tf.reshape(positions + length * tf.range(examples)[:, tf.newaxis], [-1])
        hidden = self.encoder(
            masked.input_ids, **context, seed=seed, perturbation=perturbation, rows=rows
        )
        return hidden if rows is None else tf.reshape(hidden, [examples, -1, hidden.shape[-1]])

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
            several documents, also `document_ids` and `position_ids`; for
            `config.sentence_pair_loss` also `label`, int32 [B].
          masked: the batch with masked tokens, int32 [B, L] and [B, N] and float32 [B, N].
          seed: int32 [2], keys the dropout.
          part: which of the replica's examples these are; None: all.

        Returns:
          A pair of the output, as of `call`, and a list of a gradient for each variable: a tensor
          of its shape and dtype, or a `tf.IndexedSlices` of it; None where the loss does not depend
          on it.
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

    Args:
      with_sentence_pairs: True if the model has a sentence-pair loss, too.
      with_adversarial_loss: True for training with an adversarial loss; evaluation has none.

    Attributes:
      losses: the list of the means of losses, each named as the field of the output that it is of:
        "loss"; where there is another, "mlm_loss", of the words alone; and where there is one,
        "adversarial_loss", without its weight.
      accuracy: the share of masked tokens that are predicted, named "accuracy".
      sentence_pairs: a `SentencePairMetrics`, or None.
      all: the list of all; each is a Keras metric whose result is float32 [].
    """

    def __init__(
        self, with_sentence_pairs: bool = False, with_adversarial_loss: bool = False
    ) -> None:
        self.losses = [keras.metrics.Mean("loss")]
        self.accuracy = keras.metrics.Mean("accuracy")
        self.all = [*self.losses, self.accuracy]
        self.sentence_pairs = None
        if with_sentence_pairs or with_adversarial_loss:
            self.add_loss("mlm_loss")
        if with_sentence_pairs:
            self.sentence_pairs = SentencePairMetrics()
            self.all += self.sentence_pairs.all
        if with_adversarial_loss:
            self.add_loss("adversarial_loss")

    def add_loss(self, name: str) -> None:
        """Adds the mean of another loss to a masked language model's metrics; returns nothing.

        Args:
          name: the name of the mean, a field of the output.
        """
        self.losses.append(keras.metrics.Mean(name))
        self.all.append(self.losses[-1])

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
          batch: int32 by name; `label`, [B], is read where there is a sentence-pair loss.
          masked: the batch with masked tokens; its `ids`, int32 [B, N], and `weights`, float32
            [B, N], are read.
          part: which of the replica's examples these are; its `shares` is read.
          output: the output of `MaskedLanguageModel` for them, with losses, float32 [], and
            `logits`, float32 [B, N, V].
        """
        for metric in self.losses:
            metric.update_state(getattr(output, metric.name) * part.shares)
        predicted = most_likely(output.logits)
        self.accuracy.update_state(predicted == masked.ids, masked.weights)
        if self.sentence_pairs is not None:
            pairs = output.sentence_pair_logits, output.sentence_pair_loss
            self.sentence_pairs.update(batch["label"], *pairs, part)


class MaskedLanguageModelHead(keras.layers.Layer):
    """The masked language model's head, which scores all words at some positions.

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
            "generator_predictions/output_bias",
            [config.vocab_size],
            initializer="zeros",
            experimental_autocast=False,  # it is added in `precise_dtype`
        )

    def call(self, hidden: tf.Tensor, word_embeddings: tf.Variable) -> tf.Tensor:
        """Computes a masked language model's logits: the scores of all words at some positions.

        Args:
          hidden: any float dtype [B, N, hidden_size], the encoder's output at these positions, such
            as the masked ones, of static shape.
          word_embeddings: any float dtype [V, embedding_size], the output weights.

        Returns:
          float32 [B, N, V].
        """
        batch, count, size = hidden.shape
        rows = tf.reshape(hidden, [batch * count, size])
        rows = self.layer_norm(self.activation(self.dense(rows)))
        logits = tf.matmul(rows, tf.cast(word_embeddings, rows.dtype), transpose_b=True)
        dtype = precise_dtype()
        logits = tf.cast(logits, dtype) + tf.cast(self.output_bias, dtype)
        return tf.reshape(logits, [batch, count, -1])

    def set_frequency_biases(self, counts: np.ndarray) -> None:
        """Sets the biases of a masked language model's head to the words' log frequencies.

        Returns nothing.

        Args:
          counts: int [V], how often each word occurs; each counts once more.
        """
        share = (counts + 1.0) / (counts.sum() + len(counts))
        self.output_bias.assign(np.log(share))


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
    losses = cross_entropy(masked.ids, logits)
    return accumulation.share_of_mean(losses, masked.weights, part.masked)
