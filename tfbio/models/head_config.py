"""The head of a task on an encoder: what a task type wants, and `TaskModel` makes."""

import dataclasses

# The target of a token that has none, such as [CLS] and all but the first of a word's.
NO_TARGET = -1
# The values of `pooling` that take a text's vector from its entities.
ENTITY_POOLINGS = ("mention", "mention_mean", "entity_start")


@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """The settings of the head that `TaskModel` puts on an encoder, as a task type gives them.

    Attributes:
      num_outputs: the number of logits of each token or text.
      of_tokens: True if each token has logits, False if each text has.
      dropout_prob: the dropout before the last layer, in [0, 1).
      pooling: the way to a text's vector: "first" takes the first token's, "mean" the mean of all
        tokens', "mention" the maximum and "mention_mean" the mean over the tokens of each of two
        entities, "entity_start" the token that marks the start of each; of texts only.
      text_layer: the layer below the last one: "linear" (none), "tanh" or "gelu", with pooling
        "first", or "mlp" (an `MLP`); of texts only.
      mlp_layers, mlp_size: the layers of the MLP, and the units of each; 0 for as many as the
        encoder has.
      token_layer: "linear" (none); "lstm", a `BiLSTM` on the tokens, of which pooling "first" takes
        the last state of both directions; or, of tokens only, "mlp", an `MLP` on each token, or
        "crf", a CRF on the logits.
      beam_size: 0; or the number of starts that ELECTRA's head for answers, `SpanHead`, takes.
    """

    num_outputs: int
    of_tokens: bool
    dropout_prob: float = 0.0
    pooling: str = "first"
    text_layer: str = "linear"
    mlp_layers: int = 1
    mlp_size: int = 0
    token_layer: str = "linear"
    beam_size: int = 0

    @property
    def has_mlp(self) -> bool:
        """True if the head has an `MLP` below its last layer, on tokens or on texts."""
        return "mlp" in (self.text_layer, self.token_layer)
