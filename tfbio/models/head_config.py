"""The head of a task on an encoder: what a task type wants, and `TaskModel` makes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """The shape of a head.

    Attributes:
      num_outputs: logits of a token or text.
      of_tokens: whether tokens have logits, or texts.
      dropout_prob: before the last layer.
      pooling: "first", "mean", "mention" or "entity_start"; of texts.
      text_layer: "linear", "tanh" or "gelu": the layer below the last one; of texts, with pooling
        "first".
      token_layer: "linear", "lstm" or "crf"; of tokens.
      beam_size: 0; or that of ELECTRA's head for answers, see `SpanHead`.
    """

    num_outputs: int
    of_tokens: bool
    dropout_prob: float = 0.0
    pooling: str = "first"
    text_layer: str = "linear"
    token_layer: str = "linear"
    beam_size: int = 0
