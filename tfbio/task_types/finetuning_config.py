"""All settings of fine-tuning, and the `config.json` of a run, which has them."""

import dataclasses
import json
import os
from typing import Any

from tfbio.base import json_files, storage
from tfbio.base.config import require
from tfbio.base.run_folders import CONFIG
from tfbio.models.encoder_config import FAMILIES, EncoderConfig
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.trained_on import REMEDY, TrainedOn, read_config
from tfbio.task_types.types import TYPES


@dataclasses.dataclass(frozen=True)
class FinetuningConfig(CommonSettings):
    """The configuration of a fine-tuning run: `CommonSettings`, and a group for each task type.

    Attributes:
      tagging, classification, regression, multilabel, question_answering, token_multilabel: the
        `Settings` of the task type of that name.

    Raises:
      ConfigError: a setting is out of its limits, or does not go with the others.
    """

    # As if there were `tagging: Tagging.Settings = Tagging.Settings()`, and so on.
    __annotations__ = {name: each.Settings for name, each in TYPES.items()}
    vars().update({name: each.Settings() for name, each in TYPES.items()})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(FinetuningConfig):
    """The configuration of a fine-tuning run in `config.json`, and what its models need to be used.

    The file has the settings of the run's task type alone, so that a run does not depend on which
    others there are.

    A model that was fine-tuned elsewhere has the first five of these alone; the others are empty.

    Attributes:
      init_checkpoint: the path of the encoder that fine-tuning started from, or of a model from
        elsewhere.
      encoder: the shape of the encoder.
      lower_case: True if the encoder was trained on text in lower case.
      family: the family of `transformers` that the encoder is of, one of `FAMILIES`.
      trained_on: the facts about the task that a model needs.
      task: `--task`.
      data_set: the folder with the task's files, as an absolute path.
      data_sha256: "train", "dev" and "test" -> the SHA-256 of the split's file, hexadecimal.
      from_scratch: True if fine-tuning started from random weights.
      weights_sha256: a hash of the weights in `init_checkpoint`, hexadecimal; "" with
        `from_scratch`.
      vocab_sha256: a hash of the vocabulary, hexadecimal.
      chosen_precision: what the trials compute in, "float32" or "bfloat16", as `run.precision` or,
        if that is "auto", the device had it.

    Raises:
      ConfigError: a setting is out of its limits, or the family is unknown.
    """

    added = {
        "minority_weight": 1.0,
        "minority_copies": 1,
        "head_dropout_prob": 0.0,
        "chosen_precision": "float32",  # on a CPU
    }

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
    chosen_precision: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.family in FAMILIES,
            f"family must be one of {', '.join(FAMILIES)}, not {self.family!r}",
        )


def read_settings(folder: str | os.PathLike) -> RunConfig:
    """Reads the configuration of a fine-tuning run from its `config.json`, as `RunConfig`.

    Args:
      folder: the output folder of the run.

    Raises:
      SchemaError: there is no such file, or it is not as a fine-tuning run writes it.
    """
    return parse(read_config(folder), os.path.join(folder, CONFIG), REMEDY)


def parse(content: dict[str, Any], path: str | os.PathLike, remedy: str) -> RunConfig:
    """Parses the content of a fine-tuning run's `config.json`, with other task types' defaults.

    Args:
      content: the JSON object.
      path: the path of the file, for the message.
      remedy: advice for a file that is not as it should be, as the end of the error's sentence.

    Returns:
      The `RunConfig`; the groups of other task types have their defaults.

    Raises:
      SchemaError: a key is missing or unknown, or its value is of another type or out of range.
    """
    trained_on = content.get("trained_on")
    own = trained_on.get("task_type") if isinstance(trained_on, dict) else ""
    others = {
        name: dataclasses.asdict(each.Settings()) for name, each in TYPES.items() if name != own
    }
    return json_files.parse(RunConfig, others | content, path, remedy)


def write(path: str | os.PathLike, settings: RunConfig) -> None:
    """Writes the configuration of a fine-tuning run, with the settings of its task type alone.

    Args:
      path: the path of the run's `config.json`; its folder must exist.
      settings: the configuration of the run.

    Raises:
      OSError: the file cannot be written.
    """
    own = settings.trained_on.task_type
    content = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name == own or name not in TYPES
    }
    storage.write_text(path, json.dumps(content, indent=2) + "\n")
