"""The folders of trials and the `scores.json` of a fine-tuning run.

`runs.finetuning` writes them, see `base.json_files`. Prediction, export and the report read them.
Reading this imports no TensorFlow; `config.json` is in `finetuning_config` and `trained_on`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from tfbio.base import file_paths, json_files, path_checks
from tfbio.base.config import require
from tfbio.base.errors import UserError
from tfbio.task_types.trained_on import REMEDY

SCORES = "scores.json"


@dataclasses.dataclass(frozen=True)
class TrialScores:
    """The content of one of the files of a fine-tuning trial, its `scores.json`.

    A model that was fine-tuned elsewhere has a calibration alone. Scores are name -> value, in [0,
    1] or, of correlations, in [-1, 1].

    Attributes:
      seed: the seed of the head's initial weights, the order of the examples and dropout.
      step: the step whose weights were kept.
      evaluations: for each evaluation in training "step" and the scores on the development set.
      dev: the scores on the development set of the weights that were kept.
      test: the same on the test set.
      train: the same on the training set; empty without `run.predict_train`.
      calibration: the number that was learnt from the development set beside the weights, such as a
        threshold, by the name that the task type gives it; empty for most types.
      train_seconds: the time that training took, with its evaluations, in seconds.
      seconds: the time that the trial took, in seconds.
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
    """The content of one of the files of a fine-tuning run, its `scores.json`, with all trials.

    Attributes:
      task: `--task`.
      metric: the name of the score that sums the task up.
      init: the path of the encoder that fine-tuning started from, or "random weights".
      examples: "dev" and "test" -> two numbers, the examples that were used and those of the split.
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


def read_trial(folder: str | os.PathLike) -> TrialScores:
    """Reads one of the files of a fine-tuning trial, its `scores.json`, as `TrialScores`.

    Args:
      folder: the folder of the trial.

    Raises:
      SchemaError: there is no such file, or it is not as a fine-tuning run writes it.
    """
    return json_files.read(TrialScores, os.path.join(folder, SCORES), REMEDY)


def read_scores(folder: str | os.PathLike) -> RunScores:
    """Reads one of the files of a fine-tuning run, its `scores.json`, as `RunScores`.

    Args:
      folder: the output folder of the run.

    Raises:
      SchemaError: there is no such file, or it is not as a fine-tuning run writes it.
    """
    return json_files.read(RunScores, os.path.join(folder, SCORES), REMEDY)


def trial_dir(output_dir: str, seed: int) -> str:
    """Returns the path for the files of a finished fine-tuning trial, `output_dir`/trial_SEED."""
    return os.path.join(output_dir, f"trial_{seed}")


def checkpoints_dir(output_dir: str, seed: int) -> str:
    """Returns the path for a fine-tuning trial's checkpoints, `output_dir`/trial_SEED.checkpoints.

    The folder is there until the trial is complete.
    """
    return f"{trial_dir(output_dir, seed)}.checkpoints"


def require_own_output(output_dir: str, is_sweep: bool) -> None:
    """Checks the `--output_dir` of a fine-tuning run: on this machine, and new, empty, or its own.

    It returns nothing.

    Args:
      output_dir: the path of the folder.
      is_sweep: True for a run with `--sweep`, whose folder holds one for each combination.

    Raises:
      UserError: it is an address, it is a file, it holds other files, or those of a run of the
        other kind.
    """
    if file_paths.is_remote(output_dir):
        raise UserError(
            f"--output_dir={output_dir}: fine-tuning writes to a local folder. Give one, and copy "
            "it afterwards."
        )

    def is_own(name: str, known: dict) -> bool:
        of_sweep = name in ("sweep.json", "sweep.md") or "=" in name
        if of_sweep and not is_sweep and not known:
            raise UserError(
                f"--output_dir={output_dir} holds a sweep: give its --sweep again, or another "
                "folder for a run without one."
            )
        if is_sweep and "task" in known:
            raise UserError(
                f"--output_dir={output_dir} holds a run without --sweep: give another folder for "
                "the sweep."
            )
        return of_sweep if is_sweep else "task" in known

    path_checks.require_own("output_dir", output_dir, "run_finetuning.py", is_own)
