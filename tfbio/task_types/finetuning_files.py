"""The JSON files of a fine-tuning run: `scores.json`, and what `config.json` says of the task.

`runs.finetuning` writes them, see `base.schema`. Prediction, export and the report read them.
Reading this imports no TensorFlow; the settings in `config.json` are in `finetuning_settings`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from tfbio.base import schema
from tfbio.base.config import require

CONFIG, SCORES = "config.json", "scores.json"
# What to do where one of these files is not as a run wrote it.
REMEDY = "give the --output_dir of a finished run_finetuning.py run, or run it again"


@dataclasses.dataclass(frozen=True)
class TrainedOn:
    """The facts about its task that a model needs when the task's files are not at hand.

    Attributes:
      task_type: the name of the task type, one of `types.TYPES`.
      labels: all labels, in the order of the model's outputs.
      new_text: what the model takes in prediction, "documents", "texts" or "questions".
      markers: True if the texts have markers about the entities of a relation.
      pairs: True if the examples are pairs of texts; None if that is not known.
      entity_type: the type of entities whose tags name none; "" if that is not known.
      words: the rule by which a text is cut into words, "punctuation" or "blanks"; "" if words do
        not matter.
    """

    task_type: str
    labels: list[str]
    new_text: str
    markers: bool = False
    pairs: bool | None = None
    entity_type: str = ""
    words: str = ""


@dataclasses.dataclass(frozen=True)
class TrialScores:
    """`scores.json` of a trial. A model that was fine-tuned elsewhere has a calibration alone.

    Attributes:
      seed: fixes the head's initial weights, the order of the examples and dropout.
      step: the step whose weights were kept.
      evaluations: the step and the scores on the development set at each evaluation.
      dev: the scores of the weights that were kept on the development set, by their names.
      test: the same on the test set.
      train: the same on the training set; empty without `run.predict_train`.
      calibration: what was learnt from the development set beside the weights, by the name that the
        task type gives it; empty for most types.
      train_seconds: the time that training took, with its evaluations.
      seconds: the time that the trial took.
    """

    seed: int = 0
    step: int = 0
    evaluations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    dev: dict[str, float] = dataclasses.field(default_factory=dict)
    test: dict[str, float] = dataclasses.field(default_factory=dict)
    train: dict[str, float] = dataclasses.field(default_factory=dict)
    calibration: dict[str, float | None] = dataclasses.field(default_factory=dict)
    train_seconds: float = 0.0
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class RunScores:
    """`scores.json` of a run: its trials, and the test scores over them.

    Attributes:
      task: `--task`.
      metric: the name of the score that sums the task up.
      init: the encoder that fine-tuning started from, or "random weights".
      examples: for "dev" and "test" how many examples were used, and of how many.
      trials: the scores of each trial, in the order of the seeds.
      mean: the mean of the metric on the test set over the trials.
      std: its standard deviation (of the sample, n - 1); None for a single trial.
      median: its median.

    Raises:
      ConfigError: `examples` is of other splits or lengths, or a trial lacks the test metric.
    """

    task: str
    metric: str
    init: str
    examples: dict[str, list[int]]
    trials: list[TrialScores]
    mean: float
    std: float | None
    median: float

    def __post_init__(self) -> None:
        require(
            self.examples.keys() == {"dev", "test"}
            and all(len(x) == 2 for x in self.examples.values()),
            "examples must have two numbers, used and all, for dev and test",
        )
        require(
            bool(self.trials) and all(self.metric in trial.test for trial in self.trials),
            f"trials must have the test {self.metric} of each trial",
        )


def read_config(folder: str | os.PathLike) -> dict[str, Any]:
    """Reads the `config.json` of a run, name -> value; the values are not checked.

    Raises:
      SchemaError: there is none, or it is not of a fine-tuning run.
    """
    path = os.path.join(folder, CONFIG)
    content = schema.read_object(path, REMEDY)
    if "trained_on" not in content:
        raise schema.SchemaError(f"{path} is not of a fine-tuning run: {REMEDY}.")
    return content


def read_trained_on(folder: str | os.PathLike) -> TrainedOn:
    """Reads what a run's models know of their task, a `TrainedOn`, from its `config.json`.

    Raises:
      SchemaError: there is no `config.json`, or it is not as a fine-tuning run writes it.
    """
    path = os.path.join(folder, CONFIG)
    return schema.parse(TrainedOn, read_config(folder)["trained_on"], path, REMEDY)


def read_trial(folder: str | os.PathLike) -> TrialScores:
    """Reads the `scores.json` of a trial as `TrialScores`.

    Raises:
      SchemaError: there is none, or it is not as a fine-tuning run writes it.
    """
    return schema.read(TrialScores, os.path.join(folder, SCORES), REMEDY)


def read_scores(folder: str | os.PathLike) -> RunScores:
    """Reads the `scores.json` of a run as `RunScores`.

    Raises:
      SchemaError: there is none, or it is not as a fine-tuning run writes it.
    """
    return schema.read(RunScores, os.path.join(folder, SCORES), REMEDY)
