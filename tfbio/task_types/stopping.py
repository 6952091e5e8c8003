"""Finds when a fine-tuning run had its best weights, so that others end there: `--stop_as`.

bio-lm chose on one of the ten folds of GAD and EU-ADR when to stop, and reports the other nine
(Lewis et al., 2020, section 5.2).
"""

from __future__ import annotations

import statistics

from tfbio.base import run_folders
from tfbio.base.errors import UsageError
from tfbio.task_types import finetuning_config, finetuning_files

# The settings that it decides.
SETTINGS = ("num_train_epochs", "eval_every_steps", "early_stopping_patience")


def settings_like(folder: str, task: str) -> list[str]:
    """Returns the settings of a run that ends where a fine-tuning run had its best weights.

    It has as many epochs as that one's trials had seen by then (their median), after which the
    learning rate is 0, and no evaluations in training.

    Args:
      folder: the output folder of a finished run with evaluations in training, or of a sweep, which
        stands for the run that it chose.
      task: the name of the task, which must be that of the run.

    Returns:
      "name=value" for each of `SETTINGS`, as `config.load` takes them.

    Raises:
      SchemaError: there is no finished run.
      UserError: the sweep's own file is damaged.
      UsageError: it is of another task, or ended or evaluated in a way that does not tell.
    """
    given = f"--stop_as={folder}"
    folder = run_folders.chosen(folder)
    settings = finetuning_config.read_settings(folder)
    trials = finetuning_files.read_scores(folder).trials
    if settings.task != task:
        raise UsageError(f"{given} is a run of {settings.task}: give one of {task}.")
    # One evaluation, that at the end, leaves nothing to choose.
    if settings.early_stopping_patience or not all(len(x.evaluations) > 1 for x in trials):
        raise UsageError(
            f"{given} does not tell how long to train: give a run with early_stopping_patience 0 "
            "and eval_every_steps above 0, small enough for two evaluations at least."
        )
    # The last evaluation is at the end of the run.
    shares = [trial.step / trial.evaluations[-1]["step"] for trial in trials]
    epochs = settings.num_train_epochs * statistics.median(shares)
    return [f"{name}={value}" for name, value in zip(SETTINGS, (epochs, 0, 0), strict=True)]
