"""The Transformer encoder of BERT, ELECTRA, RoBERTa and ALBERT.

Why an own layer and not Model Garden's: its `Einsum` products are slow on a CPU. Here every
product is a plain matrix product on `[batch * length, hidden]`, with one product for query, key
and value, and the passes over memory between the products are few. Tests hold it equal to Model
Garden's `BertEncoderV2` and to Hugging Face's `ElectraModel`.

All randomness is explicit: `seed`, an int32 tensor of shape [2], keys every dropout mask of a
call, and `seed=None` means no dropout (evaluation). A step that is run again with the same seed
gives the same numbers.
"""

import math

import tensorflow as tf
import tf_keras as keras

from tfbio.models import target, tpu_layers
from tfbio.models.activations import ACTIVATIONS
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.randomness import dropout, split

# Added to the attention scores of padding, as in BERT; finite, so that bfloat16 can hold it.
MASKED_SCORE = -10000.0


class Embeddings(keras.layers.Layer):
    """Token, position and segment embeddings, summed and normalised (BERT, section 3.2)."""

    def __init__(self, config: EncoderConfig, name: str = "embeddings"):
        super().__init__(name=name)
        size, deviation = config.embedding_size, config.initializer_range
        self.word = _weight(self, "word_embeddings", [config.vocab_size, size], deviation)
        self.position = _weight(
            self, "position_embeddings", [config.max_position_embeddings, size], deviation
        )
        self.segment = _weight(
            self, "token_type_embeddings", [config.type_vocab_size, size], deviation
        )
        self.layer_norm = LayerNorm(size, config.layer_norm_eps)
        self.position_offset = config.position_offset
        self.dropout_prob = config.hidden_dropout_prob

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        position_ids: tf.Tensor | None = None,
        seed=None,
    ) -> tf.Tensor:
        """int32 [batch, length] each -> [batch * length, embedding_size].

        Without `position_ids`, positions count from 0.
        """
        batch, length = shape_of(input_ids)
        words = tf.gather(tf.convert_to_tensor(self.word), input_ids)
        first = self.position_offset
        positions = tf.convert_to_tensor(self.position)[first : first + length]
        if position_ids is not None:
            positions = tf.gather(positions, position_ids)
        embedded = tf.reshape(words + positions, [batch * length, -1])
        if self.segment.shape[0] == 1:
            # RoBERTa's only one is that of every token.
            embedded += tf.convert_to_tensor(self.segment)
        else:
            # A product with the one-hot segments: the gradient of a gather from two rows is a slow
            # scatter of the whole batch into them.
            segments = tf.reshape(segment_ids, [-1])
            segments = tf.one_hot(segments, self.segment.shape[0], dtype=words.dtype)
            embedded += tf.matmul(segments, self.segment)
        return dropout(self.layer_norm(embedded), self.dropout_prob, seed)


class TransformerLayer(keras.layers.Layer):
    """Self-attention and feed-forward network, each with residual, then LayerNorm."""

    def __init__(self, config: EncoderConfig, name: str):
        super().__init__(name=name)
        size, deviation = config.hidden_size, config.initializer_range
        epsilon = config.layer_norm_eps
        self.num_heads = config.num_attention_heads
        self.hidden_dropout_prob = config.hidden_dropout_prob
        self.attention_dropout_prob = config.attention_probs_dropout_prob
        self.query_key_value = Dense(size, 3 * size, deviation, "attention/query_key_value")
        self.attention_output = Dense(size, size, deviation, "attention/output")
        self.attention_norm = LayerNorm(size, epsilon, "attention/output/LayerNorm")
        self.activation = ACTIVATIONS[config.hidden_act]
        self.intermediate = Dense(size, config.intermediate_size, deviation, "intermediate")
        self.output_dense = Dense(config.intermediate_size, size, deviation, "output")
        self.output_norm = LayerNorm(size, epsilon, "output/LayerNorm")

    def call(self, hidden: tf.Tensor, attention_bias: tf.Tensor, seeds=None) -> tf.Tensor:
        """Computes one layer (Vaswani et al., 2017, section 3.1, as BERT has it).

        Args:
          hidden: [batch * length, hidden_size].
          attention_bias: added to the scores; [batch, 1, 1 or length, length].
          seeds: int32 [3, 2], one for each dropout; None for none.

        Returns:
          [batch * length, hidden_size].
        """
        attention_seed, first_seed, second_seed = [None] * 3 if seeds is None else seeds
        context = self._attend(hidden, attention_bias, attention_seed)
        attended = dropout(self.attention_output(context), self.hidden_dropout_prob, first_seed)
        hidden = self.attention_norm(hidden + attended)
        transformed = self.output_dense(self.activation(self.intermediate(hidden)))
        transformed = dropout(transformed, self.hidden_dropout_prob, second_seed)
        return self.output_norm(hidden + transformed)

    def _attend(self, hidden: tf.Tensor, attention_bias: tf.Tensor, seed) -> tf.Tensor:
        batch, _, _, length = shape_of(attention_bias)
        size = hidden.shape[-1]
        head_size = size // self.num_heads
        projected = tf.reshape(
            self.query_key_value(hidden), [batch, length, 3 * self.num_heads, head_size]
        )
        # One transpose for all three; `split`, because the gradient of slicing is three paddings.
        query, key, value = tf.split(tf.transpose(projected, [0, 2, 1, 3]), 3, axis=1)
        query *= 1.0 / math.sqrt(head_size)
        scores = tf.matmul(query, key, transpose_b=True) + attention_bias
        weights = dropout(tf.nn.softmax(scores), self.attention_dropout_prob, seed)
        context = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return tf.reshape(context, [batch * length, size])


class Encoder(keras.layers.Layer):
    """Embeddings and a stack of Transformer layers.

    `embeddings` may be another encoder's: ELECTRA's generator works on the discriminator's
    (Clark et al., 2020, section 3.2, "weight sharing"). A projection follows where the
    embeddings' size is not the layers', and always in ALBERT, where one layer is used again and
    again: `transformer_layers` has that one alone.
    """

    def __init__(
        self, config: EncoderConfig, embeddings: Embeddings | None = None, name: str = "encoder"
    ):
        super().__init__(name=name)
        self.config = config
        self.embeddings = embeddings or Embeddings(config)
        self.projection = None
        if config.has_projection:
            # ELECTRA's has Glorot's initial weights, ALBERT's those of all other layers.
            self.projection = Dense(
                config.embedding_size,
                config.hidden_size,
                config.initializer_range if config.share_layers else None,
                "embeddings_project",
            )
        layers = 1 if config.share_layers else config.num_hidden_layers
        self.transformer_layers = [TransformerLayer(config, f"layer_{i}") for i in range(layers)]

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        document_ids: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Encodes a batch.

        Args:
          input_ids: int32 [batch, length]; in training, of static shape.
          input_mask: int32 [batch, length], 1 for tokens and 0 for padding.
          segment_ids: int32 [batch, length].
          document_ids: int32 [batch, length], for examples of several documents: tokens attend to
            those of their own document only.
          position_ids: int32 [batch, length], the place of each token in its document; without,
            each example is one.
          seed: int32 [2], keys the dropout masks; None for evaluation.

        Returns:
          [batch, length, hidden_size] in the policy's compute dtype.
        """
        batch, length = shape_of(input_ids)
        layers = self.transformer_layers
        if self.config.share_layers:
            layers = self.config.num_hidden_layers * list(layers)
        layer_seeds = None
        if seed is not None:
            seed, *seeds = split(seed, 1 + 3 * len(layers))
            layer_seeds = [seeds[i : i + 3] for i in range(0, len(seeds), 3)]
        hidden = self.embeddings(input_ids, segment_ids, position_ids, seed=seed)
        if self.projection is not None:
            hidden = self.projection(hidden)
        attended = input_mask[:, tf.newaxis, tf.newaxis, :]
        if document_ids is not None:
            queries = document_ids[:, tf.newaxis, :, tf.newaxis]
            same = tf.equal(queries, document_ids[:, tf.newaxis, tf.newaxis, :])
            attended *= tf.cast(same, tf.int32)
        attention_bias = (1.0 - tf.cast(attended, hidden.dtype)) * MASKED_SCORE
        if target.is_tpu():
            hidden = tpu_layers.run(self.config, layers, hidden, attention_bias, layer_seeds)
        else:
            for layer, seeds in zip(layers, layer_seeds or [None] * len(layers), strict=True):
                hidden = layer(hidden, attention_bias, seeds=seeds)
        return tf.reshape(hidden, [batch, length, self.config.hidden_size])

    def layer_depth(self, variable: tf.Variable) -> int:
        """0 for the embeddings and their projection, 1 to n for the layers, from below.

        A layer that is shared is the only one, and so the top one.

        Raises:
          ValueError: if the variable is not this encoder's.
        """
        for depth, layer in enumerate(self.transformer_layers, start=1):
            if any(variable is own for own in layer.variables):
                return depth
        if any(variable is own for own in self.variables):
            return 0
        raise ValueError(f"{variable.name} is not a variable of {self.name}")


class Dense(keras.layers.Layer):
    """A matrix product and a bias on [rows, inputs].

    Its weights are drawn from a truncated normal distribution of the standard `deviation`; without
    one, from Glorot's uniform, TensorFlow 1's default, which the original ELECTRA code leaves to
    `embeddings_project` (`modeling.py:BertModel`) and to the discriminator's last layer
    (`run_pretraining.py:PretrainingModel`).
    """

    def __init__(self, inputs: int, outputs: int, deviation: float | None, name: str):
        super().__init__(name=name.replace("/", "_"))
        self.kernel = _weight(self, f"{name}/kernel", [inputs, outputs], deviation)
        self.bias = self.add_weight(f"{name}/bias", [outputs], initializer="zeros")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[rows, inputs] -> [rows, outputs]."""
        return tf.nn.bias_add(tf.matmul(inputs, self.kernel), self.bias)


def precise_dtype() -> tf.DType:
    """The type of what is computed in float32 even where all else is in bfloat16.

    Under Keras' policy "float64" all is in float64: so scripts/parity.py judges other code's
    rounding, and not the sum of two.
    """
    compute_dtype = keras.mixed_precision.global_policy().compute_dtype
    return tf.float64 if compute_dtype == "float64" else tf.float32


class LayerNorm(keras.layers.Layer):
    """Layer normalisation over the last axis of [rows, size], see `precise_dtype`."""

    def __init__(self, size: int, epsilon: float, name: str = "LayerNorm"):
        super().__init__(name=name.replace("/", "_"))
        self.epsilon = epsilon
        self.gamma = self.add_weight(f"{name}/gamma", [size], initializer="ones")
        self.beta = self.add_weight(f"{name}/beta", [size], initializer="zeros")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[rows, size] -> [rows, size], of the same dtype."""
        arguments = (tf.cast(x, precise_dtype()) for x in (inputs, self.gamma, self.beta))
        return tf.cast(_layer_norm(*arguments, self.epsilon), inputs.dtype)


def _layer_norm(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """LayerNorm with its gradient in closed form, in fewer passes than TensorFlow derives."""

    @tf.custom_gradient
    def normalise(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor):
        centred = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)
        normalised = centred * scale

        def gradient(upstream: tf.Tensor):
            weighted = upstream * normalised
            from_normalised = upstream * gamma
            mean = tf.reduce_mean(from_normalised, axis=-1, keepdims=True)
            projection = tf.reduce_mean(weighted * gamma, axis=-1, keepdims=True)
            from_inputs = (from_normalised - mean - normalised * projection) * scale
            return from_inputs, tf.reduce_sum(weighted, axis=0), tf.reduce_sum(upstream, axis=0)

        return normalised * gamma + beta, gradient

    return normalise(inputs, gamma, beta)


def shape_of(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """The dimensions of a tensor, as numbers where the graph knows them."""
    known = tensor.shape.as_list()
    if None not in known:
        return known
    found = tf.shape(tensor)
    return [found[axis] if size is None else size for axis, size in enumerate(known)]


def _weight(layer: keras.layers.Layer, name: str, shape: list[int], deviation: float | None):
    if deviation is None:
        initializer = keras.initializers.GlorotUniform()
    else:
        initializer = keras.initializers.TruncatedNormal(stddev=deviation)
    return layer.add_weight(name, shape, initializer=initializer)
