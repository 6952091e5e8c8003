"""The head of a task on an encoder: what a task type wants, and `TaskModel` makes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """The shape of a head.

    Attributes:
      num_outputs: logits of a token or text.
      of_tokens: True if each token has logits, False if each text has.
      dropout_prob: the dropout before the last layer.
      pooling: the way to a text's vector: "first", "mean", "mention" or "entity_start"; of texts.
      text_layer: the layer below the last one: "linear" (none), "tanh" or "gelu"; of texts, with
        pooling "first".
      token_layer: "linear" (none), "lstm" (a `BiLSTM` below the last layer) or "crf" (a CRF on the
        logits); of tokens.
      beam_size: 0; or the number of starts that ELECTRA's head for answers, `SpanHead`, takes.
    """

    num_outputs: int
    of_tokens: bool
    dropout_prob: float = 0.0
    pooling: str = "first"
    text_layer: str = "linear"
    token_layer: str = "linear"
    beam_size: int = 0
