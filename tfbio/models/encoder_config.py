"""The settings of an encoder: its shape, its dropout and its initial weights."""

import dataclasses
import math

from tfbio.base.config import require, require_numbers, shown

# Exact (erf) and with a hyperbolic tangent, by the names that Hugging Face gives them.
HIDDEN_ACTS = ("gelu", "gelu_new")
# Settings of an `EncoderConfig` in which the same model may differ.
TRAINING_ONLY = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
# No encoder like BERT has more weights: one of the sizes is a mistake.
MOST_WEIGHTS = 10 * 10**9


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Holds the shape of a Transformer encoder, in the terms of BERT (Devlin et al., 2019)."""

    vocab_size: int = 30522
    # ELECTRA-small and ALBERT embed tokens in fewer dimensions than the layers work in.
    embedding_size: int = 128
    hidden_size: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    # Standard deviation of the truncated normal distribution that weights are drawn from.
    initializer_range: float = 0.02
    # RoBERTa: 1e-5.
    layer_norm_eps: float = 1e-12
    # One of HIDDEN_ACTS; ALBERT: gelu_new.
    hidden_act: str = "gelu"
    # The row of the position embeddings for the first token. RoBERTa: 2; it does not use the rows
    # before it, and max_position_embeddings counts them (514 for 512 tokens).
    position_offset: int = 0
    # true: all layers are one, as in ALBERT (Lan et al., 2020, section 3.1).
    share_layers: bool = False

    def __post_init__(self):
        sizes = (
            "vocab_size",
            "hidden_size",  # before embedding_size, which a BERT has from it
            "embedding_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        )
        for name in sizes:
            require(getattr(self, name) > 0, f"encoder.{name} must be at least 1")
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        layers = 1 if self.share_layers else self.num_hidden_layers
        layer = self.hidden_size * (4 * self.hidden_size + 2 * self.intermediate_size)
        largest = max(sizes, key=lambda name: getattr(self, name))
        require(
            rows * self.embedding_size + layers * layer <= MOST_WEIGHTS,
            f"the encoder would have more than {MOST_WEIGHTS / 1e9:.0f} billion parameters: look "
            f"at its sizes, of which encoder.{largest} is the largest, "
            f"{shown(getattr(self, largest))}",
        )
        require(
            self.hidden_size % self.num_attention_heads == 0,
            f"encoder.hidden_size ({self.hidden_size}) must be a multiple of "
            f"encoder.num_attention_heads ({self.num_attention_heads})",
        )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            require(0 <= getattr(self, name) < 1, f"encoder.{name} must be in [0, 1)")
        require(0 < self.layer_norm_eps < 1, "encoder.layer_norm_eps must be above 0 and below 1")
        require(
            0 <= self.initializer_range < math.inf,
            "encoder.initializer_range must be at least 0, and finite",
        )
        require(
            self.hidden_act in HIDDEN_ACTS,
            f"encoder.hidden_act must be {' or '.join(HIDDEN_ACTS)}, not {self.hidden_act!r}",
        )
        require(
            0 <= self.position_offset < self.max_position_embeddings,
            "encoder.position_offset must be at least 0 and less than "
            f"encoder.max_position_embeddings ({self.max_position_embeddings})",
        )

        require_numbers(self, "encoder.")

    @property
    def max_sequence_length(self) -> int:
        """Returns the most tokens that an input can have."""
        return self.max_position_embeddings - self.position_offset

    @property
    def has_projection(self) -> bool:
        """Returns True if a dense layer stands between embeddings and layers; ALBERT has one."""
        return self.share_layers or self.embedding_size != self.hidden_size
