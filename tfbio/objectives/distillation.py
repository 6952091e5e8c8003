"""Knowledge distillation: a masked language model, the student, also learns from a teacher.

bio-lm (Lewis et al., 2020, section 7.1), which follows DistilBERT (Sanh et al., 2019, section 3):
the loss is a weighted sum of the one on masked tokens, of the divergence of the student's words
from the teacher's, and of the cosine distance between the last hidden states. The teacher is a
masked language model that does not change, without dropout. `runs.teachers` loads it.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfbio.models import target
from tfbio.models.layers import Dense, precise_dtype
from tfbio.objectives import accumulation, adversarial
from tfbio.objectives.accumulation import Part
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.masked_language_model import (
    MaskedLanguageModel,
    MaskedLanguageModelMetrics,
    MaskedLanguageModelOutput,
    masked_loss,
)
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig


class _Counted(NamedTuple):
    """The positions that a loss of distillation counts; N of each of B examples.

    Attributes:
      positions: int32 [B, N].
      weights: float32 [B, N], 1 for a position that counts, else 0.
      total: float32 [], the sum of the weights over the global batch.
    """

    positions: tf.Tensor
    weights: tf.Tensor
    total: tf.Tensor


class Teacher:
    """The teacher of a distillation: a masked language model whose weights stay as they are.

    It is no Keras layer, so a student that has it neither trains nor saves its weights.

    Args:
      model: the masked language model. Its weights are frozen.

    Attributes:
      config: the settings of its encoder.
    """

    def __init__(self, model: MaskedLanguageModel):
        model.trainable = False
        self._model, self.config = model, model.config.encoder

    def encode(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the teacher's last hidden states of masked text, without dropout.

        Args:
          batch, positions: see `MaskedLanguageModel.encode`.
          masked: the batch with masked tokens.

        Returns:
          Float [B, L, hidden_size] of the teacher, or [B, N, hidden_size], without a gradient.
        """
        return tf.stop_gradient(self._model.encode(batch, masked, positions=positions))

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Computes the teacher's scores of all words at some positions.

        Args:
          hidden: float [B, N, hidden_size], the teacher's hidden states there, of static shape.

        Returns:
          float32 [B, N, V], without a gradient.
        """
        table = self._model.encoder.embeddings.word
        return tf.stop_gradient(self._model.head(hidden, table))


class Student(MaskedLanguageModel):
    """The student of a distillation: a masked language model that also learns from a teacher.

    Args:
      config: all settings.
      teacher: a masked language model with the same vocabulary.

    Attributes:
      teacher: the `Teacher`, which is no part of the student's weights.
      alignment: a `Dense` from the student's hidden_size to the teacher's, the linear map before
        the cosine loss; None without that loss, and where the sizes are the same.
    """

    def __init__(self, config: PretrainingConfig, teacher: MaskedLanguageModel):
        super().__init__(config)
        self.teacher = Teacher(teacher)
        self.alignment = None
        # After the student's own weights, which are drawn in the order in which they are made.
        own, taught = config.encoder.hidden_size, self.teacher.config.hidden_size
        if config.distillation.cosine_weight and own != taught:
            self.alignment = Dense(own, taught, config.encoder.initializer_range, "alignment")

    def call(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        training: bool = False,
        part: Part | None = None,
        output_weights: tf.Tensor | None = None,
    ) -> MaskedLanguageModelOutput:
        """Computes the student's logits and the losses of distillation on a batch.

        Call it in a replica's context.

        Args:
          batch, masked, seed, training, part, output_weights: see `MaskedLanguageModel.call`. Both
            models see the same masked text.

        Returns:
          A `MaskedLanguageModelOutput`. Every loss is these examples' share of a mean over the
          global batch.
        """
        part = part or accumulation.whole(batch, masked)
        settings = self.config.distillation
        used = [
            settings.kl_positions if settings.kl_weight else "",
            settings.cosine_positions if settings.cosine_weight else "",
        ]
        encoded = masked.positions
        if "all" in used or not target.leaves_rows_out():
            encoded = None

        def at(positions: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
            """Takes hidden states at positions; if only the masked ones were encoded, at these."""
            return hidden if encoded is not None else tf.gather(hidden, positions, batch_dims=1)

        dropout_seed = part.dropout_seed(seed) if training else None
        hidden = self.encode(batch, masked, dropout_seed, positions=encoded)
        if output_weights is None:
            output_weights = self.encoder.embeddings.word
        logits = self.head(at(masked.positions, hidden), output_weights)
        mlm_loss = masked_loss(logits, masked, part)
        loss = settings.mlm_weight * mlm_loss
        kl_loss = cosine_loss = None
        taught = self.teacher.encode(batch, masked, encoded) if settings.has_teacher else None
        if settings.kl_weight:
            counted = _counted(settings.kl_positions, batch, masked, part)
            compared = logits
            if settings.kl_positions == "all":
                compared = self.head(at(counted.positions, hidden), output_weights)
            expected = self.teacher.logits(at(counted.positions, taught))
            divergence = kl_divergence(compared, expected, settings.temperature)
            kl_loss = accumulation.share_of_mean(divergence, counted.weights, counted.total)
            loss += settings.kl_weight * kl_loss
        if settings.cosine_weight:
            counted = _counted(settings.cosine_positions, batch, masked, part)
            own, other = (_rows(at(counted.positions, states)) for states in (hidden, taught))
            distance = cosine_distance(self._aligned(own), other)
            weights = tf.reshape(counted.weights, [-1])
            cosine_loss = accumulation.share_of_mean(distance, weights, counted.total)
            loss += settings.cosine_weight * cosine_loss
        return MaskedLanguageModelOutput(
            loss, logits, mlm_loss, kl_loss=kl_loss, cosine_loss=cosine_loss
        )

    def _aligned(self, rows: tf.Tensor) -> tf.Tensor:
        """Maps hidden states to the teacher's size: [N, hidden_size] -> [N, teacher's]."""
        return rows if self.alignment is None else self.alignment(rows)


class DistillationMetrics(MaskedLanguageModelMetrics):
    """The averages of a distillation's losses, and of the student's accuracy, that are logged.

    Args:
      settings: the weights of the losses.

    Attributes:
      losses: the means "loss", "mlm_loss", of masked tokens, and where there is one, "kl_loss" and
        "cosine_loss", without their weights.
    """

    def __init__(self, settings: DistillationConfig) -> None:
        super().__init__()
        self.add_loss("mlm_loss")
        if settings.kl_weight:
            self.add_loss("kl_loss")
        if settings.cosine_weight:
            self.add_loss("cosine_loss")


def kl_divergence(logits: tf.Tensor, teacher_logits: tf.Tensor, temperature: float) -> tf.Tensor:
    """Computes the Kullback-Leibler divergence of a student's words from the teacher's.

    Both logits are divided by the temperature T, and the divergence is multiplied by T^2, which
    keeps the gradient's size (Hinton et al., 2015, section 2), as in DistilBERT's code.

    Args:
      logits, teacher_logits: float [..., V], of one dtype; the teacher's are not differentiated.
      temperature: T, above 0.

    Returns:
      Float [...] of that dtype.
    """
    each = adversarial.divergence(teacher_logits / temperature, logits / temperature)
    return temperature**2 * each


def cosine_distance(hidden: tf.Tensor, teacher_hidden: tf.Tensor) -> tf.Tensor:
    """Computes one minus the cosine between hidden states of a student and of its teacher.

    DistilBERT's code takes it as PyTorch's `CosineEmbeddingLoss` with target 1.

    Args:
      hidden, teacher_hidden: any float dtype [..., size].

    Returns:
      Float [...] in `precise_dtype`, in [0, 2].
    """
    first, second = (
        tf.nn.l2_normalize(tf.cast(x, precise_dtype()), axis=-1) for x in (hidden, teacher_hidden)
    )
    return 1.0 - tf.reduce_sum(first * second, axis=-1)


def _counted(
    positions: str, batch: dict[str, tf.Tensor], masked: MaskedBatch, part: Part
) -> _Counted:
    """Returns the positions that a loss counts, "masked" or "all", as the settings say."""
    if positions == "masked":
        return _Counted(masked.positions, masked.weights, part.masked)
    rows, length = batch["input_ids"].shape
    every = tf.tile(tf.range(length)[tf.newaxis], [rows, 1])
    return _Counted(every, tf.cast(batch["input_mask"], tf.float32), part.tokens)


def _rows(hidden: tf.Tensor) -> tf.Tensor:
    """Lays the hidden states of examples end to end: [B, N, size] -> [B * N, size]."""
    return tf.reshape(hidden, [-1, hidden.shape[-1]])
