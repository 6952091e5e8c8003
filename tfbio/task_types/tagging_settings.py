"""The settings of the tagging task type."""

from __future__ import annotations

import dataclasses

from tfbio.base.config import BaseSettings, setting
from tfbio.task_types.mlp_settings import check_mlp


@dataclasses.dataclass(frozen=True)
class TaggingSettings(BaseSettings):
    """The settings of the tagging task type; a ConfigError if one is out of its limits.

    Attributes:
      head: "linear", "lstm", "crf" or "mlp", the layers on the tokens.
      scheme: "BIO", "IO" or "BIOUL", the tags that the model learns.
      label_all_tokens: True to give all tokens of a word its tag, not the first one alone.
      segment: the segment of every token, 0 or more.
      dropout: False for no dropout before the last layer.
      early_cut: True to cut sentences too early, as the original ELECTRA code does.
      mlp_layers, mlp_size: the layers of "mlp", and the units of each; 0 for as many as the
        encoder has.
    """

    group = "tagging."
    added = {"mlp_layers": 1, "mlp_size": 0}

    head: str = setting(
        "linear",
        "linear: a dense layer on each token; lstm: a Bi-LSTM below it; crf: sequences of tags "
        "as a whole; mlp: layers with ReLU below the last one.",
        choices=("linear", "lstm", "crf", "mlp"),
    )
    scheme: str = setting(
        "BIO",
        "The tags that the model learns: BIO, the data's; IO, without B; or BIOUL, in which L "
        "is the last word of an entity and U the only one. The score is on BIO.",
        choices=("BIO", "IO", "BIOUL"),
    )
    label_all_tokens: bool = setting(
        False, "Give all tokens of a word its tag as their target, not the first one alone."
    )
    segment: int = setting(0, "The segment of every token; 1 in the original ELECTRA code.")
    dropout: bool = setting(
        True, "Dropout before the last layer; the original ELECTRA code has none."
    )
    early_cut: bool = setting(
        False,
        "Cut sentences much too early, as the original ELECTRA code does it by mistake; the "
        "words behind the cut have no target, and are predicted as O. Else nothing is cut.",
    )
    mlp_layers: int = setting(1, "With head mlp: its layers below the last one.", at_least=1)
    mlp_size: int = setting(
        0, "With head mlp: the units of each layer; 0: as many as the encoder has."
    )

    def check_together(self) -> None:
        """Raises a ConfigError if a setting of "mlp" is changed, and `head` is another."""
        check_mlp(self, "head")
