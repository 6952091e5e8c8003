"""The `config.json` of a fine-tuning run: its settings, and what its models need to be used.

`runs.finetuning` writes it, see `base.schema`. Prediction, export and the report read it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from tfbio.base import schema, storage
from tfbio.base.config import require
from tfbio.models.encoder_config import FAMILIES, EncoderConfig
from tfbio.task_types.finetuning_files import CONFIG, REMEDY, TrainedOn, read_config
from tfbio.task_types.types import TYPES, FinetuningConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningSettings(FinetuningConfig):
    """`config.json`: all settings of a run, and what its models need to be used.

    The file has the settings of the run's own task type alone, so that a run does not depend on
    which others there are.

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

    Raises:
      ConfigError: a setting is out of its limits, or the family is unknown.
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
    """Reads the `config.json` of a run as `FinetuningSettings`.

    Raises:
      SchemaError: there is none, or it is not as a fine-tuning run writes it.
    """
    return parse(read_config(folder), os.path.join(folder, CONFIG), REMEDY)


def parse(content: dict[str, Any], path: str | os.PathLike, remedy: str) -> FinetuningSettings:
    """Returns the `FinetuningSettings` in a `config.json`; other types' are at their defaults.

    Args:
      content: the JSON object.
      path: of the file, for the message.
      remedy: what to do where it is not as it should be, as the end of a sentence.

    Raises:
      SchemaError: it is not as a fine-tuning run writes it.
    """
    trained_on = content.get("trained_on")
    own = trained_on.get("task_type") if isinstance(trained_on, dict) else ""
    others = {
        name: dataclasses.asdict(each.Settings()) for name, each in TYPES.items() if name != own
    }
    return schema.parse(FinetuningSettings, others | content, path, remedy)


def write(path: str | os.PathLike, settings: FinetuningSettings) -> None:
    """Writes a run's `config.json`, with the settings of its own task type alone.

    Args:
      path: of the file.
      settings: all settings of the run.
    """
    own = settings.trained_on.task_type
    content = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name == own or name not in TYPES
    }
    storage.write_text(path, json.dumps(content, indent=2) + "\n")
