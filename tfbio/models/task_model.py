"""An encoder with a head for a task."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfbio.models import randomness
from tfbio.models.activations import gelu
from tfbio.models.batches import ENTITY_POOLINGS
from tfbio.models.bi_lstm import BiLSTM
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import precise_dtype, shape_of
from tfbio.models.span_head import SpanHead, TrainingLogits


class TaskModel(keras.layers.Layer):
    """An encoder and a dense layer, on each token or on one vector for a text.

    With `pooling` "first" the head for texts is the original ELECTRA code's
    (finetune/classification/classification_tasks.py): the output for [CLS] as it is, without
    BERT's tanh layer, then dropout, then a dense layer. With `text_head` "tanh" that layer is there
    (BERT's `pooled_output`, modeling.py and run_classifier.py of google-research/bert), and with
    "gelu" that of Hugging Face's `ElectraForSequenceClassification`. "mean" takes the mean over all
    tokens. "mention" and "entity_start" are the two entities of a relation (Gu et al., 2021,
    section 6.5): the maximum over the tokens of each, or the tokens that mark where they start,
    side by side.

    Tokens may go through a Bi-LSTM before dropout, or their logits may be a CRF's emissions, whose
    transitions start at 0 (Gu et al., 2021, section 5.2 and Table 10, which say no more of either).

    Args:
      encoder_config: of the encoder.
      num_outputs: logits of a token or text.
      of_tokens: whether tokens have logits, or texts.
      dropout_prob: before the dense layer.
      pooling: "first", "mean", "mention" or "entity_start"; of texts.
      tagging_head: "linear", "lstm" or "crf"; of tokens.
      text_head: "linear", "tanh" or "gelu"; of texts, with pooling "first".
      beam_size: 0; or that of ELECTRA's head for answers, see `SpanHead`.
    """

    def __init__(
        self,
        encoder_config: EncoderConfig,
        num_outputs: int,
        of_tokens: bool,
        dropout_prob: float,
        pooling: str = "first",
        tagging_head: str = "linear",
        text_head: str = "linear",
        beam_size: int = 0,
    ):
        super().__init__(name="task_model")
        self.encoder = Encoder(encoder_config)
        self.of_tokens, self.dropout_prob, self.pooling = of_tokens, dropout_prob, pooling
        self.lstm = BiLSTM(encoder_config.hidden_size) if tagging_head == "lstm" else None
        self.pooler = None
        if text_head != "linear":
            size, deviation = encoder_config.hidden_size, encoder_config.initializer_range
            self.pooler = keras.layers.Dense(
                size,
                {"tanh": "tanh", "gelu": gelu}[text_head],
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=deviation),
                name="pooler",
                dtype=precise_dtype(),
            )
            self.pooler.build([None, size])
        # Logits are precise whatever the encoder computes in.
        if beam_size:
            self.head = SpanHead(encoder_config.hidden_size, beam_size)
        else:
            self.head = keras.layers.Dense(num_outputs, name="head", dtype=precise_dtype())
            of_entities = not of_tokens and pooling in ENTITY_POOLINGS
            self.head.build([None, encoder_config.hidden_size * (2 if of_entities else 1)])
        self.transitions = None
        if tagging_head == "crf":
            # float32 in the sums, too, whatever the encoder computes in.
            self.transitions = self.add_weight(
                "transitions",
                [num_outputs, num_outputs],
                "float32",
                "zeros",
                experimental_autocast=False,
            )

    def call(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor] | TrainingLogits:
        """The logits of a batch.

        Args:
          batch: as `packing.fill` makes it.
          seed: int32 [2], keys all dropout; None for evaluation, in which ELECTRA's head for
            answers does not look at the targets.

        Returns:
          float32 [rows * row_length, num_outputs] for tokens, [texts, num_outputs] for texts; with
          a CRF also its transitions, float32 [num_outputs, num_outputs]. With ELECTRA's head for
          answers see `SpanHead`.
        """
        encoder_seed = head_seed = None
        if seed is not None:
            encoder_seed, head_seed = randomness.split(seed, 2)
        document_ids = batch["document_ids"]
        output = self.encoder(
            batch["input_ids"],
            tf.cast(document_ids > 0, tf.int32),
            batch["segment_ids"],
            document_ids,
            batch["position_ids"],
            seed=encoder_seed,
        )
        output = tf.cast(output, precise_dtype())
        if self.lstm is not None:
            output = self.lstm(output, document_ids)
        vectors = tf.reshape(output, [-1, output.shape[-1]])
        if isinstance(self.head, SpanHead):  # which has no dropout of its own
            return self.head(vectors, batch, is_training=seed is not None)
        if not self.of_tokens:
            vectors = self._pool(vectors, batch)
        if self.pooler is not None:
            vectors = self.pooler(vectors)
        logits = self.head(randomness.dropout(vectors, self.dropout_prob, head_seed))
        if self.transitions is not None:
            return logits, tf.convert_to_tensor(self.transitions)
        return logits

    def _pool(self, vectors: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """[tokens, size] -> [texts, size], or [texts, 2 * size]."""
        if "entities_of_tokens" in batch:
            return _pool_entities(vectors, batch)
        if self.pooling in ENTITY_POOLINGS:
            entities = tf.reduce_max(tf.gather(vectors, batch["entities"]), axis=2)
            return tf.reshape(entities, [entities.shape[0], 2 * vectors.shape[-1]])
        if self.pooling == "first":
            return tf.gather(vectors, batch["first"])
        (texts,) = shape_of(batch["first"])
        text = tf.reshape(batch["document_ids"], [-1]) - 1  # that of padding, -1, is left out
        return tf.math.unsorted_segment_mean(vectors, text, texts)


def _pool_entities(vectors: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Takes the maxima over entities of any number of tokens; see `fixed_shapes.Packer`."""
    (texts,) = shape_of(batch["real"])
    first, second = (
        tf.math.unsorted_segment_max(vectors, tf.reshape(ids, [-1]) - 1, texts)
        for ids in tf.unstack(batch["entities_of_tokens"], axis=-1)
    )
    # The maximum over no token is none.
    real = batch["real"][:, tf.newaxis] > 0
    return tf.where(real, tf.concat([first, second], axis=1), 0.0)
