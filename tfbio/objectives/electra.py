"""ELECTRA: a generator fills in masked tokens, a discriminator tells which tokens it replaced.

Clark et al. (2020), "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than
Generators", sections 2 and 3; the details are those of the original code.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models import randomness, target
from tfbio.models.activations import ACTIVATIONS
from tfbio.models.encoder import Encoder
from tfbio.models.layers import Dense
from tfbio.objectives import accumulation, output_weight_gradients
from tfbio.objectives.accumulation import Part, share_of_mean
from tfbio.objectives.cross_entropy import most_likely
from tfbio.objectives.masked_language_model import MaskedLanguageModelHead, masked_loss
from tfbio.objectives.masking import MaskedBatch, replace_tokens
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training.gradients import differentiate
from tfbio.training.mesh import whole

# Words whose probabilities `sample` cumulates at once.
_SAMPLING_BLOCK = 128


class ElectraOutput(NamedTuple):
    """The results of a forward pass, which `Electra.call` describes with their shapes."""

    loss: tf.Tensor
    generator_loss: tf.Tensor
    discriminator_loss: tf.Tensor
    generator_logits: tf.Tensor
    discriminator_logits: tf.Tensor
    corrupted_ids: tf.Tensor
    is_replaced: tf.Tensor


class _Generated(NamedTuple):
    """The generator's float32 loss [], float32 logits [B, N, V] and int32 corrupted_ids [B, L]."""

    loss: tf.Tensor
    logits: tf.Tensor
    corrupted_ids: tf.Tensor


class _Discriminated(NamedTuple):
    """The discriminator's float32 loss [], float32 logits [B, L] and int32 is_replaced [B, L]."""

    loss: tf.Tensor
    logits: tf.Tensor
    is_replaced: tf.Tensor


class Electra(keras.layers.Layer):
    """The model that ELECTRA pretrains: a generator and a discriminator on one block of embeddings.

    They share the whole block, token, position and segment embeddings and their LayerNorm; the
    token embeddings are also the generator's output weights. With `untied_generator` false they
    share the layers too; with `untied_generator_embeddings` not even the embeddings. With
    `uniform_generator` there is no generator.

    Args:
      config: all settings; also an attribute.
      words: the tokens of the vocabulary, which alone replace others; also an attribute. 0: one for
        each row of the token embeddings, which may have more.

    Attributes:
      encoder: the discriminator's `Encoder`.
      generator, generator_head: the generator's `Encoder` and `MaskedLanguageModelHead`; None
        without a generator.
      discriminator_dense, discriminator_output: the discriminator's head, a `Dense` from
        hidden_size to hidden_size and one to 1.

    Raises:
      ConfigError: the generator's sizes do not go together.
    """

    def __init__(self, config: PretrainingConfig, words: int = 0):
        super().__init__(name="electra")
        self.config, self.words = config, words or config.encoder.vocab_size
        shape, size = config.encoder, config.encoder.hidden_size
        self.encoder = Encoder(shape, name="discriminator")
        self.generator: Encoder | None = None
        self.generator_head: MaskedLanguageModelHead | None = None
        if not config.uniform_generator:
            self.generator = self.encoder
            if config.untied_generator:
                own = config.untied_generator_embeddings
                embeddings = None if own else self.encoder.embeddings
                self.generator = Encoder(config.generator, embeddings, name="generator")
            self.generator_head = MaskedLanguageModelHead(config.generator)
        head, deviation = "discriminator_predictions", shape.initializer_range
        self.discriminator_dense = Dense(size, size, deviation, f"{head}/dense")
        self.discriminator_output = Dense(size, 1, None, f"{head}/dense_1")

    @property
    def generator_variables(self) -> list[tf.Variable]:
        """The list of the variables of ELECTRA's generator that the discriminator does not share.

        They alone learn in `generator_warmup_steps`.

        Raises:
          AttributeError: there is no generator.
        """
        shared = {id(variable) for variable in self.encoder.trainable_variables}
        if self.generator is None or self.generator_head is None:
            raise AttributeError("this ELECTRA has no generator")
        own = self.generator.trainable_variables + self.generator_head.trainable_variables
        return [variable for variable in own if id(variable) not in shared]

    def call(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        training: bool = False,
        part: Part | None = None,
        corrupted_ids: tf.Tensor | None = None,
    ) -> ElectraOutput:
        """Computes ELECTRA's logits and both losses on a batch; call it in a replica's context.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each, of static shape;
            where examples hold several documents, also `document_ids` and `position_ids`.
          masked: the batch with masked tokens: `input_ids`, int32 [B, L], `positions` and `ids`,
            int32 [B, N], and `weights`, float32 [B, N].
          seed: int32 [2], keys the generator's samples and the dropout.
          training: True for dropout.
          part: which of the replica's examples these are; None: all.
          corrupted_ids: int32 [B, L], the tokens that the discriminator sees, in place of a sample.

        Returns:
          A named tuple. `loss`, the weighted sum of `generator_loss` and `discriminator_loss`,
          float32 [] each, is these examples' share of the global batch's mean. `generator_logits`:
          float32 [B, N, V]. `discriminator_logits`: float32 [B, L], positive for tokens that it
          takes for replaced ones. `corrupted_ids`: int32 [B, L], what the discriminator saw.
          `is_replaced`: int32 [B, L], 1 for replaced tokens, else 0.
        """
        part = part or accumulation.whole(batch, masked)
        generated = self._generate(batch, masked, seed, training, part)
        if corrupted_ids is None:
            corrupted_ids = generated.corrupted_ids
        discriminated = self._discriminate(batch, corrupted_ids, seed, training, part)
        return self._output(generated, discriminated, corrupted_ids)

    def gradients(
        self,
        variables: list[tf.Variable],
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        part: Part | None = None,
        corrupted_ids: tf.Tensor | None = None,
    ) -> tuple[ElectraOutput, list[output_weight_gradients.Gradient]]:
        """Computes ELECTRA's output in training, and the gradients of its loss.

        The generator's backward pass ends before the discriminator's forward pass begins: its
        activations are gone by then, and never take memory beside the discriminator's.

        Args:
          variables: the variables to differentiate with respect to.
          batch: int32 [B, L] each, by name as for `call`.
          masked: the batch with masked tokens, int32 [B, L] and [B, N] and float32 [B, N].
          seed, part, corrupted_ids: as for `call`; int32 [2], a `Part`, int32 [B, L].

        Returns:
          A pair of the output, as of `call`, and a list of a gradient for each variable: a tensor
          or a `tf.IndexedSlices` of its shape and dtype, or None if the loss does not depend on it.
        """
        part = part or accumulation.whole(batch, masked)

        def generate(output_weights: tf.Tensor | None) -> tuple[tf.Tensor, _Generated]:
            generated = self._generate(batch, masked, seed, True, part, output_weights)
            return self.config.generator_weight * generated.loss, generated

        if self.generator is None:
            (_, generated), first = generate(None), [None] * len(variables)
        else:
            table = self.generator.embeddings.word
            generated, first = output_weight_gradients.with_output_weights(
                generate, table, variables
            )

        if corrupted_ids is None:
            corrupted_ids = generated.corrupted_ids
        with tf.control_dependencies([g for g in tf.nest.flatten(first, True) if g is not None]):
            corrupted_ids = tf.identity(corrupted_ids)
        if target.is_tpu() and self.generator is not None:
            embeddings = self.generator.embeddings
            norm = embeddings.layer_norm
            last = embeddings.segment if norm is None else norm.beta
            corrupted_ids += _zero_after(last, variables, first)

        def discriminate() -> tuple[tf.Tensor, _Discriminated]:
            discriminated = self._discriminate(batch, corrupted_ids, seed, True, part)
            return self.config.discriminator_weight * discriminated.loss, discriminated

        discriminated, second = differentiate(discriminate, variables)
        summed = [output_weight_gradients.add(*pair) for pair in zip(first, second, strict=True)]
        return self._output(generated, discriminated, corrupted_ids), summed

    def _generate(
        self,
        batch: dict[str, tf.Tensor],
        masked: MaskedBatch,
        seed: tf.Tensor,
        training: bool,
        part: Part,
        output_weights: tf.Tensor | None = None,
    ) -> _Generated:
        config = self.config
        sample_seed, dropout_seed, _ = randomness.split(seed, 3)
        if self.generator is None or self.generator_head is None:
            logits = tf.zeros([*masked.ids.shape, config.encoder.vocab_size])
        else:
            context = {name: values for name, values in batch.items() if name != "input_ids"}
            dropout_seed = part.dropout_seed(dropout_seed) if training else None
            hidden = self.generator(masked.input_ids, **context, seed=dropout_seed)
            if output_weights is None:
                output_weights = self.generator.embeddings.word
            hidden = tf.gather(hidden, masked.positions, batch_dims=1)
            logits = self.generator_head(hidden, output_weights)
        # No gradient flows through the sample (section 2): it is an integer.
        sharpened = logits if config.temperature == 1.0 else logits / config.temperature
        if self.words < config.encoder.vocab_size:
            sharpened = sharpened[..., : self.words]
        if config.disallow_correct:
            sharpened -= 1000.0 * tf.one_hot(masked.ids, sharpened.shape[-1])
        draw = whole(part.uniform(masked.ids.shape, sample_seed))
        sampled_ids = sample(sharpened, draw)
        corrupted_ids = replace_tokens(
            batch["input_ids"], masked.positions, sampled_ids, masked.weights > 0
        )
        return _Generated(masked_loss(logits, masked, part), logits, corrupted_ids)

    def _discriminate(
        self,
        batch: dict[str, tf.Tensor],
        corrupted_ids: tf.Tensor,
        seed: tf.Tensor,
        training: bool,
        part: Part,
    ) -> _Discriminated:
        *_, dropout_seed = randomness.split(seed, 3)
        dropout_seed = part.dropout_seed(dropout_seed) if training else None
        context = {name: values for name, values in batch.items() if name != "input_ids"}
        is_replaced = tf.cast(corrupted_ids != batch["input_ids"], tf.int32)
        logits = self.discriminate(self.encoder(corrupted_ids, **context, seed=dropout_seed))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(is_replaced, tf.float32), logits)
        weights = tf.cast(batch["input_mask"], tf.float32)
        return _Discriminated(share_of_mean(losses, weights, part.tokens), logits, is_replaced)

    def _output(
        self, generated: _Generated, discriminated: _Discriminated, corrupted_ids: tf.Tensor
    ) -> ElectraOutput:
        config = self.config
        return ElectraOutput(
            loss=config.generator_weight * generated.loss
            + config.discriminator_weight * discriminated.loss,
            generator_loss=generated.loss,
            discriminator_loss=discriminated.loss,
            generator_logits=generated.logits,
            discriminator_logits=discriminated.logits,
            corrupted_ids=corrupted_ids,
            is_replaced=discriminated.is_replaced,
        )

    def set_frequency_biases(self, counts: np.ndarray) -> None:
        """Sets the output biases of ELECTRA's two heads to the base rates; returns nothing.

        The generator's are the words' log frequencies. The discriminator's is the log odds of the
        share of masked tokens, `mask_prob`.

        Args:
          counts: int [V], how often each word occurs; each counts once more.
        """
        if self.generator_head is not None:
            self.generator_head.set_frequency_biases(counts)
        masked = self.config.mask_prob
        self.discriminator_output.bias.assign([np.log(masked / (1.0 - masked))])

    def discriminate(self, hidden: tf.Tensor) -> tf.Tensor:
        """Computes the logits of ELECTRA's discriminator, which are positive for replaced tokens.

        Args:
          hidden: any float dtype [B, L, hidden_size], the encoder's output, of static shape.

        Returns:
          float32 [B, L].
        """
        batch, length, size = hidden.shape
        rows = self.discriminator_dense(tf.reshape(hidden, [batch * length, size]))
        logits = self.discriminator_output(ACTIVATIONS[self.config.encoder.hidden_act](rows))
        return tf.cast(tf.reshape(logits, [batch, length]), tf.float32)


def _zero_after(
    last: tf.Variable,
    variables: list[tf.Variable],
    computed: list[output_weight_gradients.Gradient],
) -> tf.Tensor | int:
    """Returns a zero, int32 [], that takes a backward pass: XLA drops control dependencies.

    It is 1 where the gradient of `last`, which comes last, overflows; such a step is skipped.
    It is a plain 0, which waits for nothing, if `last` is not one of the variables.
    """
    for variable, gradient in zip(variables, computed, strict=True):
        if variable is last and gradient is not None:
            return tf.cast(tf.reduce_sum(gradient) > gradient.dtype.max, tf.int32)
    return 0


class ElectraMetrics:
    """The averages of ELECTRA's losses and accuracies that are logged, in training and evaluation.

    Attributes:
      all: the list of every Keras metric; each has a float32 [] result and the name of its figure.
      losses: the list of the means "loss", "generator_loss" and "discriminator_loss".
      generator_accuracy, discriminator_accuracy: the shares of tokens, named so, that each gets
        right.
      precision, recall, auc: "discriminator_precision", "discriminator_recall" and
        "discriminator_auc", of replaced tokens.
    """

    def __init__(self) -> None:
        self.losses = [
            keras.metrics.Mean(name) for name in ("loss", "generator_loss", "discriminator_loss")
        ]
        self.generator_accuracy = keras.metrics.Mean("generator_accuracy")
        self.discriminator_accuracy = keras.metrics.Mean("discriminator_accuracy")
        # The share of replaced tokens among those that it calls so, and the share that it calls so
        # among the replaced tokens.
        self.precision = keras.metrics.Precision(name="discriminator_precision")
        self.recall = keras.metrics.Recall(name="discriminator_recall")
        self.auc = keras.metrics.AUC(name="discriminator_auc", from_logits=True)
        of_discriminator = [self.discriminator_accuracy, self.precision, self.recall, self.auc]
        self.all = [*self.losses, self.generator_accuracy, *of_discriminator]

    def update(
        self, batch: dict[str, tf.Tensor], masked: MaskedBatch, output: ElectraOutput, part: Part
    ) -> None:
        """Adds a batch, or a part, to ELECTRA's metrics, in a replica's context; returns nothing.

        Args:
          batch: int32 [B, L] each, by name; `input_mask` is read.
          masked: the batch with masked tokens; int32 `ids` and float32 `weights`, [B, N], are read.
          output: the output of `Electra` for them.
          part: which examples these are; its `shares` is read.
        """
        for metric in self.losses:
            metric.update_state(getattr(output, metric.name) * part.shares)
        predicted = most_likely(output.generator_logits)
        self.generator_accuracy.update_state(predicted == masked.ids, masked.weights)
        tokens, is_replaced = batch["input_mask"], output.is_replaced
        called_replaced = tf.cast(output.discriminator_logits > 0, tf.int32)
        self.discriminator_accuracy.update_state(called_replaced == is_replaced, tokens)
        self.precision.update_state(is_replaced, called_replaced, tokens)
        self.recall.update_state(is_replaced, called_replaced, tokens)
        self.auc.update_state(is_replaced, output.discriminator_logits, tokens)


def sample(logits: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Samples ELECTRA's replacements: draws a word from softmax(logits) for each masked token.

    The draw is by inversion: it takes the word at which the cumulated probability passes a uniform
    number. That takes one random number where Gumbel's trick takes V, compiles under XLA, which
    `tf.random.stateless_categorical` does not, and gives the same words on any number of replicas.
    Words are cumulated in blocks, then within the block that is hit: cumulating all took an eighth
    of a small model's step on a CPU.

    Args:
      logits: float32 [B, N, V], of static shape.
      draw: float32 [B, N], uniform in [0, 1).

    Returns:
      int32 [B, N], the numbers of the words.
    """
    batch, count, words = logits.shape
    rows = batch * count
    probabilities = tf.nn.softmax(whole(tf.reshape(logits, [rows, words])))
    probabilities = tf.pad(probabilities, [[0, 0], [0, -words % _SAMPLING_BLOCK]])
    blocks = tf.reshape(probabilities, [rows, -1, _SAMPLING_BLOCK])
    sums = tf.reduce_sum(blocks, axis=-1)
    ends = tf.cumsum(sums, axis=-1)
    threshold = tf.reshape(draw, [rows, 1]) * ends[:, -1:]
    block = _first_above(ends, threshold)
    before = tf.gather(ends - sums, block, batch_dims=1)
    within = tf.cumsum(tf.gather(blocks, block, batch_dims=1), axis=-1)
    word = block * _SAMPLING_BLOCK + _first_above(within, threshold - before[:, tf.newaxis])
    return tf.reshape(tf.minimum(word, words - 1), [batch, count])


def _first_above(cumulated: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    """Finds the first element above the threshold; [rows, n], [rows, 1] -> int32 [rows]."""
    below = tf.reduce_sum(tf.cast(cumulated <= threshold, tf.int32), axis=-1)
    return tf.minimum(below, cumulated.shape[-1] - 1)  # rounding can leave none above
