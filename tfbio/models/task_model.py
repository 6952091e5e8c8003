"""An encoder with a head for a task."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfbio.models import entity_pooling, randomness
from tfbio.models.activations import gelu
from tfbio.models.bi_lstm import BiLSTM
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import ENTITY_POOLINGS, HeadConfig
from tfbio.models.layers import precise_dtype, shape_of
from tfbio.models.mlp import MLP
from tfbio.models.span_head import SpanHead, TrainingLogits


class TaskModel(keras.layers.Layer):
    """The model of a task to fine-tune: an encoder, and a dense layer for each token or text on it.

    With `pooling` "first" the head for texts is the original ELECTRA code's
    (finetune/classification/classification_tasks.py): the output for [CLS] as it is, without
    BERT's tanh layer, then dropout, then a dense layer. With `text_layer` "tanh" that layer is
    there (BERT's `pooled_output`, modeling.py and run_classifier.py of google-research/bert), and
    with "gelu" that of Hugging Face's `ElectraForSequenceClassification`. "mean" takes the mean
    over all tokens. "mention", "mention_mean" and "entity_start" are the two entities of a relation
    (Gu et al., 2021, sections 5.2 and 6.5): the maximum or the mean over the tokens of each, or the
    tokens that mark where they start, side by side. With "mlp" an `MLP` is on what is pooled.

    Tokens may go through a Bi-LSTM before dropout or pooling, of which "first" takes the last
    states; or their logits may be a CRF's emissions, whose transitions start at 0 (Gu et al., 2021,
    section 5.2 and Table 10, which say no more of either). With `token_layer` "mlp" an `MLP` is on
    each token (Shin et al., 2020, Tables 1 and 2).

    Args:
      encoder_config: the settings of the encoder.
      head_config: the settings of the head.

    Attributes:
      encoder: the `Encoder`.
      head_config: the settings of the head.
      lstm: a `BiLSTM`; None without.
      pooler: the dense layer "tanh" or "gelu" below the last one; None without.
      mlp: an `MLP` below the last layer; None without.
      head: the last layer, a Keras `Dense`; or a `SpanHead`.
      transitions: the CRF's, a float32 variable [num_outputs, num_outputs]; None without.
    """

    def __init__(self, encoder_config: EncoderConfig, head_config: HeadConfig):
        super().__init__(name="task_model")
        # Keras draws initial weights in the order in which layers are made.
        self.encoder = Encoder(encoder_config)
        self.head_config = head_config
        size = encoder_config.hidden_size
        self.lstm = BiLSTM(size) if head_config.token_layer == "lstm" else None
        self.pooler = self.mlp = None
        if head_config.has_mlp:
            self.mlp = _make_mlp(encoder_config, head_config)
        elif head_config.text_layer != "linear":
            self.pooler = _make_pooler(encoder_config, head_config.text_layer)
        if head_config.beam_size:
            self.head = SpanHead(size, head_config.beam_size)
        else:
            self.head = _make_last_layer(size, head_config)
        self.transitions = None
        if head_config.token_layer == "crf":
            # float32 in the sums, too, whatever the encoder computes in.
            self.transitions = self.add_weight(
                "transitions",
                [head_config.num_outputs, head_config.num_outputs],
                "float32",
                "zeros",
                experimental_autocast=False,
            )

    @property
    def of_tokens(self) -> bool:
        """True if this model of a task computes logits of each token, False if of each text."""
        return self.head_config.of_tokens

    @property
    def _reads_first_alone(self) -> bool:
        """True if the encoder's output for the first token of each text is all that is read."""
        of_texts = not self.of_tokens and self.head_config.pooling == "first"
        return of_texts and self.lstm is None

    @property
    def head_layers(self) -> dict[str, keras.layers.Layer]:
        """The layers that a task's head may take from another task's, by their attributes' names.

        They are the last layer, and the `MLP` below it where there is one.
        """
        return {"head": self.head, **({} if self.mlp is None else {"mlp": self.mlp})}

    def call(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor] | TrainingLogits:
        """Computes the logits of a batch for the model's task.

        Args:
          batch: as `packing.fill` makes it: int32 `input_ids`, `segment_ids`, `position_ids` and
            `document_ids` (the text's number, from 1; 0 for padding), [rows, row_length] each;
            `first`, int32 [texts], each text's first token when the rows are laid end to end; with
            pooling by entities also `entities`, int32 [texts, 2, most tokens], the places of the
            tokens of each text's two entities, as in `first`; or in its place
            `entities_of_tokens`, int32 [rows, row_length, 2], the number of the text in whose first
            or second entity a token is, or 0, and `real`, float32 [texts], 1 for texts and 0 for
            padding (see `FixedShapePacker`); with ELECTRA's head for answers and a seed also
            `targets`, see `SpanHead.call`.
          seed: int32 [2], keys all dropout; None for evaluation, in which ELECTRA's head for
            answers does not look at the targets.

        Returns:
          float32 [rows * row_length, num_outputs] for tokens, [texts, num_outputs] for texts. With
          a CRF a pair of them and of its transitions, float32 [num_outputs, num_outputs]. With
          ELECTRA's head for answers `TrainingLogits` (float32 `start` and `end` [tokens],
          `no_answer` [texts]) if there is a seed, else float32 [tokens, 2 + beam_size]; tokens are
          rows * row_length.
        """
        encoder_seed = head_seed = None
        if seed is not None:
            encoder_seed, head_seed = randomness.split(seed, 2)
        document_ids = batch["document_ids"]
        of_first = self._reads_first_alone
        output = self.encoder(
            batch["input_ids"],
            tf.cast(document_ids > 0, tf.int32),
            batch["segment_ids"],
            document_ids,
            batch["position_ids"],
            seed=encoder_seed,
            rows=batch["first"] if of_first else None,
        )
        output = tf.cast(output, precise_dtype())
        if self.lstm is not None:
            output = self.lstm(output, document_ids)
        vectors = tf.reshape(output, [-1, output.shape[-1]])
        if isinstance(self.head, SpanHead):  # which has no dropout of its own
            return self.head(vectors, batch, is_training=seed is not None)
        if not self.of_tokens and not of_first:
            vectors = self._pool(vectors, batch)
        logits = self.head_logits(vectors, head_seed)
        if self.transitions is not None:
            return logits, tf.convert_to_tensor(self.transitions)
        return logits

    def head_logits(self, vectors: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Computes the logits of a task's tokens or texts from their vectors.

        These are the layers of the head above the Bi-LSTM and the pooling, without a `SpanHead`.

        Args:
          vectors: float32 [n, size], of tokens, or of texts as pooling gives them.
          seed: int32 [2], keys the dropout; None for evaluation.

        Returns:
          float32 [n, num_outputs].
        """
        if self.pooler is not None:
            vectors = self.pooler(vectors)
        if self.mlp is not None:
            vectors = self.mlp(vectors, self.head_config.dropout_prob, seed)
        return self.head(randomness.dropout(vectors, self.head_config.dropout_prob, seed))

    def _pool(self, vectors: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Turns vectors of tokens, [tokens, size], into [texts, size] or [texts, 2 * size]."""
        pooling = self.head_config.pooling
        if pooling in ENTITY_POOLINGS:
            return entity_pooling.pool(vectors, batch, mean=pooling == "mention_mean")
        if pooling == "first":
            assert self.lstm is not None
            return self.lstm.last_states(vectors, batch["document_ids"], batch["first"])
        (texts,) = shape_of(batch["first"])
        text = tf.reshape(batch["document_ids"], [-1]) - 1  # that of padding, -1, is left out
        return tf.math.unsorted_segment_mean(vectors, text, texts)


def _make_pooler(encoder_config: EncoderConfig, activation: str) -> keras.layers.Layer:
    """Makes the layer between the output for [CLS] and the last one, "tanh" or "gelu"."""
    size, deviation = encoder_config.hidden_size, encoder_config.initializer_range
    pooler = keras.layers.Dense(
        size,
        {"tanh": "tanh", "gelu": gelu}[activation],
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=deviation),
        name="pooler",
        dtype=precise_dtype(),
    )
    pooler.build([None, size])
    return pooler


def _make_mlp(encoder_config: EncoderConfig, head_config: HeadConfig) -> MLP:
    """Makes the hidden layers between the tokens, or what is pooled, and the last layer."""
    size = encoder_config.hidden_size
    return MLP(
        _pooled_size(size, head_config),
        head_config.mlp_layers,
        head_config.mlp_size or size,
        encoder_config.initializer_range,
    )


def _make_last_layer(size: int, head_config: HeadConfig) -> keras.layers.Layer:
    """Makes the layer of the logits, which are precise whatever the encoder computes in."""
    head = keras.layers.Dense(head_config.num_outputs, name="head", dtype=precise_dtype())
    if head_config.has_mlp:
        inputs = head_config.mlp_size or size
    else:
        inputs = _pooled_size(size, head_config)
    head.build([None, inputs])
    return head


def _pooled_size(size: int, head_config: HeadConfig) -> int:
    """Returns the size of a token's or a text's vector, of an encoder's hidden size."""
    of_entities = not head_config.of_tokens and head_config.pooling in ENTITY_POOLINGS
    return size * (2 if of_entities else 1)
