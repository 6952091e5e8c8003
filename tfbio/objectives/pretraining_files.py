"""The JSON file of a pretraining run, `config.json`, as a dataclass; see `base.schema`.

`runs.pretraining` and `export.conversion` write it; `weights.checkpoint_settings` reads it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tfbio.base.config import require
from tfbio.models.encoder_config import FAMILIES
from tfbio.objectives.pretraining_config import PretrainingConfig

CONFIG = "config.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings(PretrainingConfig):
    """All settings of a run, and the facts that its checkpoints need to be used.

    It has the fields of `PretrainingConfig`, and these.

    Attributes:
      lower_case: True if the examples are of text in lower case.
      vocab_sha256: a hash of the vocabulary.
      init_checkpoint: what the run started from, or a model from elsewhere was converted from; None
        for random weights.
      data: for each sequence length, as text, the counts of its examples, and `documents_sha256`, a
        hash of the documents that they are made of; for the model card. Empty for a converted
        model.
      family: the family of `transformers` that a converted model came in as, one of
        `encoder_config.FAMILIES`; "" for one that was made here.

    Raises:
      ConfigError: a setting is out of its range, two do not go together, or `family` is not known.
    """

    lower_case: bool
    vocab_sha256: str
    init_checkpoint: str | None = None
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    family: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.family in ("", *FAMILIES),
            f'family must be "" or one of {", ".join(FAMILIES)}, not {self.family!r}',
        )
