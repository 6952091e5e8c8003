"""Encodes tokens with the Transformer of BERT, ELECTRA, RoBERTa, ALBERT and Megatron-LM's BERT.

Model Garden's layers are not used because their `Einsum` products are slow on a CPU. Here every
product is a plain matrix product on `[batch * length, hidden]`, with one product for query, key
and value, and the passes over memory between the products are few. Tests hold the encoder equal to
Model Garden's `BertEncoderV2` and to Hugging Face's `ElectraModel`.

All randomness is explicit: `seed`, an int32 tensor of shape [2], keys every dropout mask of a
call, and `seed=None` means no dropout (evaluation). A step that is run again with the same seed
gives the same numbers.
"""

from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from tfbio.models import target, tpu_layers
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.initial_weights import weight
from tfbio.models.layers import Dense, LayerNorm, TransformerLayer, shape_of
from tfbio.models.randomness import dropout, split

# Added to the attention scores of padding, as in BERT; finite, so that bfloat16 can hold it.
_MASKED_SCORE = -10000.0


class Perturbation(NamedTuple):
    """A change of an encoder's embeddings, with which adversarial pretraining encodes a batch.

    Attributes:
      values: float [batch, length, embedding_size], what is added to the embeddings after their
        LayerNorm, if they have one, and dropout. The sum is not differentiated with respect to the
        embeddings.
      seed: int32 [2], keys the dropout masks of the layers, in place of the call's seed; None for
        no dropout. The embeddings keep the masks of the call's seed.
    """

    values: tf.Tensor
    seed: tf.Tensor | None


class Embeddings(keras.layers.Layer):
    """The first layer of an encoder: the sum of token, position and segment embeddings, normalised.

    BERT, section 3.2. With `layer_norm_first` the sum is not normalised.

    Args:
      config: the settings of the encoder.

    Attributes:
      word: the variable [vocab_size, embedding_size], float32 in a run like the other two.
      position: the variable [max_position_embeddings, embedding_size].
      segment: the variable [type_vocab_size, embedding_size].
      layer_norm: the `LayerNorm` of the sum; None with `layer_norm_first`.
      position_offset: the row of `position` for the first token, an int.
      dropout_prob: the share of the outputs that dropout zeroes, a float in [0, 1).
    """

    def __init__(self, config: EncoderConfig):
        super().__init__(name="embeddings")
        size, deviation = config.embedding_size, config.initializer_range
        # `call` casts the rows that it reads, and the output weights are cast where they multiply.
        self.word = weight(self, "word_embeddings", [config.vocab_size, size], deviation, False)
        self.position = weight(
            self, "position_embeddings", [config.max_position_embeddings, size], deviation
        )
        self.segment = weight(
            self, "token_type_embeddings", [config.type_vocab_size, size], deviation
        )
        self.layer_norm = None
        if not config.layer_norm_first:
            self.layer_norm = LayerNorm(size, config.layer_norm_eps)
        self.position_offset = config.position_offset
        self.dropout_prob = config.hidden_dropout_prob

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        position_ids: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the encoder's embeddings of a batch of examples.

        Args:
          input_ids: int32 [batch, length], the ids of tokens.
          segment_ids: int32 [batch, length], from 0.
          position_ids: int32 [batch, length]; without, positions count from 0.
          seed: int32 [2], keys the dropout; None for evaluation.

        Returns:
          [batch * length, embedding_size], example after example, in the compute dtype of Keras'
          policy (float32 or bfloat16 in a run).
        """
        batch, length = shape_of(input_ids)
        # A variable whose rows were once looked up, and not those of a tensor, is copied whenever
        # it is read (TensorFlow 2.20).
        table = tf.convert_to_tensor(self.word)
        if target.is_tpu():  # which casts all of it for the output weights in any case
            table = tf.cast(table, self.compute_dtype)
        words = tf.cast(tf.gather(table, input_ids), self.compute_dtype)
        first, positions = self.position_offset, tf.convert_to_tensor(self.position)
        if position_ids is None:
            positions = positions[first : first + length]
        else:
            # Of the whole variable: in bfloat16 the gradient of a part is added up in bfloat16.
            positions = tf.gather(positions, position_ids + first)
        embedded = tf.reshape(words + positions, [batch * length, -1])
        if self.segment.shape[0] == 1:
            # RoBERTa has one segment, that of every token.
            embedded += tf.convert_to_tensor(self.segment)
        else:
            # A product with the one-hot segments: the gradient of a gather from two rows is a slow
            # scatter of the whole batch into them.
            segments = tf.reshape(segment_ids, [-1])
            segments = tf.one_hot(segments, self.segment.shape[0], dtype=words.dtype)
            embedded += tf.matmul(segments, self.segment)
        if self.layer_norm is not None:
            embedded = self.layer_norm(embedded)
        return dropout(embedded, self.dropout_prob, seed)


class Encoder(keras.layers.Layer):
    """The Transformer encoder: embeddings and a stack of Transformer layers on them.

    A projection follows the embeddings where their size is not the layers', and always in ALBERT,
    where one layer is used again and again. With `layer_norm_first` a LayerNorm follows the last
    layer.

    Args:
      config: the settings of the encoder.
      embeddings: another encoder's: ELECTRA's generator works on the discriminator's (Clark et al.,
        2020, section 3.2, "weight sharing"). None: new ones.
      name: the name of the layer.

    Attributes:
      config: the settings of the encoder.
      embeddings: the `Embeddings`.
      projection: a `Dense` from embedding_size to hidden_size; None where there is none.
      transformer_layers: a list of `TransformerLayer`, from below; the shared one alone in ALBERT.
      final_norm: the `LayerNorm` of the last layer's output; None without `layer_norm_first`.
    """

    def __init__(
        self, config: EncoderConfig, embeddings: Embeddings | None = None, name: str = "encoder"
    ):
        super().__init__(name=name)
        self.config = config
        self.embeddings = embeddings or Embeddings(config)
        self.projection = None
        if config.has_projection:
            # ELECTRA's starts with Glorot's weights, ALBERT's with those of all other layers.
            self.projection = Dense(
                config.embedding_size,
                config.hidden_size,
                config.initializer_range if config.share_layers else None,
                "embeddings_project",
            )
        layers = 1 if config.share_layers else config.num_hidden_layers
        self.transformer_layers = [TransformerLayer(config, f"layer_{i}") for i in range(layers)]
        self.final_norm = None
        if config.layer_norm_first:
            self.final_norm = LayerNorm(
                config.hidden_size, config.layer_norm_eps, "final/LayerNorm"
            )

    def call(  # noqa: PLR0913  what a batch has, and what is wanted of it
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        document_ids: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        perturbation: Perturbation | None = None,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Encodes a batch of examples: computes the encoder's output vector of each token.

        Args:
          input_ids: int32 [batch, length], the ids of tokens; in training, of static shape.
          input_mask: int32 [batch, length], 1 for tokens and 0 for padding.
          segment_ids: int32 [batch, length], from 0.
          document_ids: int32 [batch, length], for examples of several documents the number of each
            token's: tokens attend to those of the same document only.
          position_ids: int32 [batch, length], the place of each token in its document, from 0;
            without, each example is one document.
          seed: int32 [2], keys the dropout masks; None for evaluation.
          perturbation: a change of the embeddings; None for none.
          rows: int32 [n], in training of static shape, the tokens whose output is wanted, counted
            over all examples laid end to end; None for all. If `target.leaves_rows_out()`, the last
            layer computes what follows its attention for these alone.

        Returns:
          [batch, length, hidden_size], or [n, hidden_size], in the compute dtype of Keras' policy
          (float32 or bfloat16 in a run).
        """
        batch, length = shape_of(input_ids)
        layers = self.transformer_layers
        if self.config.share_layers:
            layers = self.config.num_hidden_layers * list(layers)
        seed, layer_seeds = _seeds(seed, len(layers))
        hidden = self.embeddings(input_ids, segment_ids, position_ids, seed=seed)
        if perturbation is not None:
            change = tf.reshape(perturbation.values, [-1, hidden.shape[-1]])
            hidden = tf.stop_gradient(hidden) + tf.cast(change, hidden.dtype)
            _, layer_seeds = _seeds(perturbation.seed, len(layers))
        if self.projection is not None:
            hidden = self.projection(hidden)
        attended = input_mask[:, tf.newaxis, tf.newaxis, :]
        if document_ids is not None:
            queries = document_ids[:, tf.newaxis, :, tf.newaxis]
            same = tf.equal(queries, document_ids[:, tf.newaxis, tf.newaxis, :])
            attended *= tf.cast(same, tf.int32)
        attention_bias = (1.0 - tf.cast(attended, hidden.dtype)) * _MASKED_SCORE
        if target.is_tpu():
            hidden = tpu_layers.run(self.config, layers, hidden, attention_bias, layer_seeds)
        else:
            none = [None] * len(layers)
            *lower, (last, of_last) = zip(layers, layer_seeds or none, strict=True)
            for layer, seeds in lower:
                hidden = layer(hidden, attention_bias, seeds=seeds)
            read = rows if target.leaves_rows_out() else None
            hidden = last(hidden, attention_bias, seeds=of_last, rows=read)
        if self.final_norm is not None:
            hidden = self.final_norm(hidden)
        if rows is None:
            return tf.reshape(hidden, [batch, length, self.config.hidden_size])
        return hidden if target.leaves_rows_out() else tf.gather(hidden, rows)

    def layer_depth(self, variable: tf.Variable) -> int:
        """Returns the depth of a variable's layer in the encoder, counted from below.

        Args:
          variable: a variable of this encoder.

        Returns:
          An int: 0 for the embeddings and their projection, 1 to n for the layers. A shared layer
          is the only one and has depth 1. `final_norm` has the depth of the last layer.

        Raises:
          ValueError: the variable is not this encoder's.
        """
        for depth, layer in enumerate(self.transformer_layers, start=1):
            if any(variable is own for own in layer.variables):
                return depth
        last = [] if self.final_norm is None else self.final_norm.variables
        if any(variable is own for own in last):
            return len(self.transformer_layers)
        if any(variable is own for own in self.variables):
            return 0
        raise ValueError(f"{variable.name} is not a variable of {self.name}")


def _seeds(
    seed: tf.Tensor | None, layers: int
) -> tuple[tf.Tensor | None, list[list[tf.Tensor]] | None]:
    """Derives the seeds of an encoder's dropouts from that of a call.

    Args:
      seed: int32 [2]; None for no dropout.
      layers: the number of layers.

    Returns:
      A pair of the embeddings' seed, int32 [2], and a list of three such seeds for each layer; None
      twice for no dropout.
    """
    if seed is None:
        return None, None
    first, *others = split(seed, 1 + 3 * layers)
    return first, [others[i : i + 3] for i in range(0, len(others), 3)]
