"""Writes `config.json` and `scores.json` of runs; what is not given is empty."""

import shutil
import statistics
from pathlib import Path

import tensorflow as tf

from tfbio.base import json_files
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.task_types import finetuning_config, types
from tfbio.task_types.finetuning_config import RunConfig
from tfbio.task_types.finetuning_files import SCORES, RunScores, TrialScores
from tfbio.task_types.trained_on import CONFIG, TrainedOn


def write_scores(folder, trials, *, task, metric="f1", init="work/model", examples=None):
    """Writes the scores of a run.

    Args:
      folder: of the run.
      trials: for each trial some of the fields of `TrialScores`.
      task: `--task`.
      metric: a score that every trial has on the test set.
      init: `--init_checkpoint`.
      examples: see `RunScores`.
    """
    trials = [TrialScores(**trial) for trial in trials]
    values = [trial.test[metric] for trial in trials]
    scores = RunScores(
        task=task,
        metric=metric,
        init=init,
        examples=examples or {"dev": [0, 0], "test": [0, 0]},
        trials=trials,
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        median=statistics.median(values),
    )
    json_files.write(Path(folder, SCORES), scores)


def write_settings(folder, *, task_type="classification", labels=(), init="work/model", **settings):
    """Writes the settings of a run.

    Args:
      folder: of the run.
      task_type: its name.
      labels: of the task.
      init: `--init_checkpoint`.
      **settings: other fields of `RunConfig`.
    """
    known = TrainedOn(task_type, list(labels), types.TYPES[task_type].new_text)
    rest = {"trained_on": known, "encoder": EncoderConfig(), "lower_case": True}
    rest |= {"family": "electra", **settings}
    settings = RunConfig(init_checkpoint=init, **rest)
    finetuning_config.write(Path(folder, CONFIG), settings)


def write_pretraining_settings(folder, config, **settings):
    """Writes the settings of a pretraining run.

    Args:
      folder: of the run.
      config: a `PretrainingConfig`.
      **settings: other fields of `PretrainingSettings`.
    """
    rest = {"lower_case": True, "vocab_sha256": "", **settings}
    written = json_files.extended(PretrainingSettings, config, **rest)
    json_files.write(Path(folder, CONFIG), written)


def write_run(folder, config, model, vocab_file):
    """Writes the folder of a pretraining run, as a run leaves it but for the optimizer.

    Args:
      folder: of the run, which is made.
      config: a `PretrainingConfig`.
      model: the pretraining model with its weights.
      vocab_file: a `vocab.txt`.

    Returns:
      The folder, a string.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    tf.train.Checkpoint(model=model).write(str(folder / "ckpt-1"))
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    write_pretraining_settings(folder, config)
    shutil.copy(vocab_file, folder)
    return str(folder)
