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
    """All settings of a run, and what its checkpoints need to be used.

    Attributes:
      lower_case: True if the examples are of text in lower case.
      vocab_sha256: a hash of the vocabulary.
      init_checkpoint: what the run started from, or a model from elsewhere was converted from; None
        for random weights.
      data: for each sequence length the counts of its examples, and `documents_sha256`, a hash of
        the documents that they are made of; for the model card. Empty for a converted model.
      family: the family of `transformers` that a converted model came in as; "" for one that was
        made here, see `checkpoint_settings.family_of`.
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
