"""The settings of an encoder: its shape, its dropout and its initial weights."""

import dataclasses
import math

from tfbio.base.config import BaseSettings, require, setting

# Exact (erf) and with a hyperbolic tangent, by the names that Hugging Face gives them.
HIDDEN_ACTS = ("gelu", "gelu_new")
# Settings of an `EncoderConfig` in which the same model may differ.
TRAINING_ONLY = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "scaled_initializer",
)
# The families of `transformers` whose encoders an `Encoder` can be.
FAMILIES = ("bert", "electra", "roberta", "albert", "megatron-bert")
# No encoder like BERT has more weights: one of the sizes is a mistake.
_MOST_WEIGHTS = 10 * 10**9


@dataclasses.dataclass(frozen=True)
class EncoderConfig(BaseSettings):
    """The settings of an encoder: its shape, dropout and initial weights, by BERT's names.

    Devlin et al. (2019).

    Attributes:
      group: "encoder.", the start of the names of the settings.
      vocab_size: the number of tokens in the vocabulary.
      embedding_size: the size of the embeddings.
      hidden_size: the size of the layers' outputs, a multiple of `num_attention_heads`.
      num_hidden_layers: the number of layers.
      num_attention_heads: the number of heads in each layer's attention.
      intermediate_size: the size of the feed-forward layers.
      max_position_embeddings: the number of rows of the position embeddings.
      type_vocab_size: the number of segments.
      hidden_dropout_prob: dropout of the embeddings and the layers' outputs, in [0, 1).
      attention_probs_dropout_prob: dropout of attention, in [0, 1).
      initializer_range: the standard deviation of the initial weights.
      scaled_initializer: True if the weights before each residual start smaller, as Megatron-LM's.
      layer_norm_eps: added to the variance in layer normalization.
      hidden_act: the activation, "gelu" or "gelu_new".
      position_offset: the row of the position embeddings for the first token; RoBERTa: 2.
      share_layers: True if all layers are one, as in ALBERT.
      layer_norm_first: True if layer normalization comes before each sub-layer, as in Megatron-LM's
        BERT; False if it comes after the residual, as in BERT.

    Raises:
      ConfigError: a value is out of its range, two do not go together, or the encoder would have
        more than 10 billion weights.
    """

    group = "encoder."
    added = {"layer_norm_first": False, "scaled_initializer": False}

    vocab_size: int = setting(30522, "The number of tokens in the vocabulary.", at_least=1)
    embedding_size: int = setting(
        128,
        "ELECTRA-small and ALBERT embed tokens in fewer dimensions than the layers work in.",
        at_least=1,
    )
    hidden_size: int = setting(256, "The size of the layers' outputs.", at_least=1)
    num_hidden_layers: int = setting(12, "The number of layers.", at_least=1)
    num_attention_heads: int = setting(4, "Heads of attention in each layer.", at_least=1)
    intermediate_size: int = setting(1024, "The size of the feed-forward layers.", at_least=1)
    max_position_embeddings: int = setting(512, "The most tokens of an example.", at_least=1)
    type_vocab_size: int = setting(2, "Segments: 2 tell the texts of a pair apart.", at_least=1)
    hidden_dropout_prob: float = setting(
        0.1, "Dropout of the embeddings and the layers' outputs.", below=1
    )
    attention_probs_dropout_prob: float = setting(
        0.1, "The share of attention weights that dropout sets to 0.", below=1
    )
    initializer_range: float = setting(
        0.02,
        "Standard deviation of the truncated normal distribution that weights are drawn from.",
    )
    scaled_initializer: bool = setting(
        False,
        "true: the matrices whose products are added to a residual, the last one of attention and "
        "of the feed-forward layers, start with initializer_range / sqrt(2 * num_hidden_layers), "
        "as in Megatron-LM and BioMegatron (Shoeybi et al., 2020, section 4.2).",
    )
    layer_norm_eps: float = setting(
        1e-12, "Added to the variance in layer normalization. RoBERTa: 1e-5.", above=0, below=1
    )
    hidden_act: str = setting(
        "gelu", "The activation, by Hugging Face's name. ALBERT: gelu_new.", choices=HIDDEN_ACTS
    )
    position_offset: int = setting(
        0,
        "The row of the position embeddings for the first token. RoBERTa: 2, the rows before it "
        "are not used, and max_position_embeddings counts them (514 for 512 tokens).",
    )
    share_layers: bool = setting(
        False, "true: all layers are one, as in ALBERT (Lan et al., 2020, section 3.1)."
    )
    layer_norm_first: bool = setting(
        False,
        "true: layer normalization comes before each sub-layer, and once after the last layer, but "
        "not after the embeddings, as in Megatron-LM's BERT and BioMegatron (Shoeybi et al., 2019, "
        "section 5.3, figure 7b). false: after each residual, as in BERT.",
    )

    def check_together(self) -> None:
        """Checks the settings of an encoder against each other, and returns nothing.

        Raises:
          ConfigError: hidden_size is no multiple of num_attention_heads, position_offset is not
            below max_position_embeddings, or there would be more than 10 billion weights.
        """
        self._check_size()
        require(
            self.hidden_size % self.num_attention_heads == 0,
            f"encoder.hidden_size ({self.hidden_size}) must be a multiple of "
            f"encoder.num_attention_heads ({self.num_attention_heads})",
        )
        require(
            self.position_offset < self.max_position_embeddings,
            f"encoder.position_offset ({self.position_offset}) must be less than "
            f"encoder.max_position_embeddings ({self.max_position_embeddings})",
        )

    def _check_size(self) -> None:
        """Raises a ConfigError that names the largest size if there are too many weights."""
        sizes = (
            "vocab_size",
            "hidden_size",  # before embedding_size, which a BERT has from it
            "embedding_size",
            "num_hidden_layers",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        )
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        layers = 1 if self.share_layers else self.num_hidden_layers
        layer = self.hidden_size * (4 * self.hidden_size + 2 * self.intermediate_size)
        largest = max(sizes, key=lambda name: getattr(self, name))
        require(
            rows * self.embedding_size + layers * layer <= _MOST_WEIGHTS,
            f"the encoder would have more than {_MOST_WEIGHTS / 1e9:.0f} billion parameters: look "
            f"at its sizes, of which encoder.{largest} is the largest, {getattr(self, largest)}",
        )

    @property
    def residual_initializer_range(self) -> float:
        """The standard deviation of the initial weights before each residual, a float.

        It is `initializer_range`, with `scaled_initializer` divided by the root of the number of
        residuals (Shoeybi et al., 2020, section 4.2).
        """
        residuals = 2 * self.num_hidden_layers if self.scaled_initializer else 1
        return self.initializer_range / math.sqrt(residuals)

    @property
    def max_sequence_length(self) -> int:
        """The length in tokens of the longest input that the encoder can have, an int."""
        return self.max_position_embeddings - self.position_offset

    @property
    def has_projection(self) -> bool:
        """True if a dense layer stands between an encoder's embeddings and layers, as in ALBERT."""
        return self.share_layers or self.embedding_size != self.hidden_size
