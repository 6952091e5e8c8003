"""The `config.json` of a fine-tuning run: its settings, and what its models need to be used.

`runs.finetuning` writes it, see `base.schema`. Prediction, export and the report read it.
"""

from __future__ import annotations

import dataclasses
import os

from tfbio.base import schema
from tfbio.base.config import require
from tfbio.models.encoder_config import FAMILIES, EncoderConfig
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.finetuning_files import CONFIG, REMEDY, TrainedOn, read_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningSettings(FinetuningConfig):
    """`config.json`: all settings of a run, and what its models need to be used.

    A model that was fine-tuned elsewhere has the first five of these alone; the others are empty.

    Attributes:
      init_checkpoint: the encoder that fine-tuning started from, or a model from elsewhere.
      encoder: the shape of the encoder.
      lower_case: True if the encoder was trained on text in lower case.
      family: the family of `transformers` that the encoder is of, see
        `checkpoint_settings.family_of`.
      trained_on: what a model must know of the task.
      task: `--task`.
      data_set: the folder with the task's files, as an absolute path.
      data_sha256: the SHA-256 of each split's file.
      from_scratch: True if fine-tuning started from random weights.
      weights_sha256: a hash of the weights in `init_checkpoint`; "" with `from_scratch`.
      vocab_sha256: a hash of the vocabulary.
    """

    init_checkpoint: str
    encoder: EncoderConfig
    lower_case: bool
    family: str
    trained_on: TrainedOn
    task: str = ""
    data_set: str = ""
    data_sha256: dict[str, str] = dataclasses.field(default_factory=dict)
    from_scratch: bool = False
    weights_sha256: str = ""
    vocab_sha256: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.family in FAMILIES,
            f"family must be one of {', '.join(FAMILIES)}, not {self.family!r}",
        )


def read_settings(folder: str | os.PathLike) -> FinetuningSettings:
    """Reads the `config.json` of a run.

    Raises:
      SchemaError: there is none, or it is not as a fine-tuning run writes it.
    """
    content, path = read_config(folder), os.path.join(folder, CONFIG)
    return schema.parse(FinetuningSettings, content, path, REMEDY)
