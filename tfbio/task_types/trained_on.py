"""The facts about its task in a model's `config.json`, read without TensorFlow."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from tfbio.base import json_files
from tfbio.base.run_folders import CONFIG

# What to do where one of these files is not as a run wrote it.
REMEDY = "give the --output_dir of a finished run_finetuning.py run, or run it again"


@dataclasses.dataclass(frozen=True)
class TrainedOn:
    """The facts about the task that a model was trained on, for use without the task's files.

    They are `trained_on` in the model's `config.json`.

    Attributes:
      task_type: the name of the task type, one of `types.TYPES`.
      labels: all labels, in the order of the model's outputs.
      new_text: what the model takes in prediction, "documents", "texts" or "questions".
      markers: True if the texts have markers about the entities of a relation.
      pairs: True if the examples are pairs of texts; None if that is not known.
      entity_type: the type of entities whose tags name none; "" if that is not known.
      words: the rule by which a text is cut into words, "symbols", "punctuation" or "blanks"; "" if
        words do not matter.
    """

    task_type: str
    labels: list[str]
    new_text: str
    markers: bool = False
    pairs: bool | None = None
    entity_type: str = ""
    words: str = ""


def read_config(folder: str | os.PathLike) -> dict[str, Any]:
    """Reads a run's `config.json`, which must say what its models were trained on (`trained_on`).

    Args:
      folder: the path of the output folder of a fine-tuning run.

    Returns:
      Its content, name -> value; the values are not checked.

    Raises:
      SchemaError: there is no such file, it cannot be read or is no JSON object, or `trained_on` is
        missing.
    """
    path = os.path.join(folder, CONFIG)
    content = json_files.read_object(path, REMEDY)
    if "trained_on" not in content:
        raise json_files.SchemaError(f"{path} is not of a fine-tuning run: {REMEDY}.")
    return content


def read_trained_on(folder: str | os.PathLike) -> TrainedOn:
    """Reads the facts about the task that a run's models were trained on, from its `config.json`.

    Args:
      folder: the path of the output folder of a fine-tuning run.

    Returns:
      The `TrainedOn`.

    Raises:
      SchemaError: there is no `config.json`, or it is not as a fine-tuning run writes it.
    """
    path = os.path.join(folder, CONFIG)
    return json_files.parse(TrainedOn, read_config(folder)["trained_on"], path, REMEDY)
