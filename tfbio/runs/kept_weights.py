"""Removes the weights of fine-tuning trials that were not chosen: `--keep_weights=best`.

Scores, predictions and logs stay, so tables, tests of significance and submissions are the same.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable

from tfbio.base import storage
from tfbio.weights import checkpoint_source, trials


def keep_best(output_dir: str, say: Callable[[str], None] = lambda line: None) -> bool:
    """Removes the weights of a fine-tuning run's trials, except for those of its best trial.

    The best trial is the one that `trials.best_trial` finds, as prediction does. If it has no
    weights, nothing is removed.

    Args:
      output_dir: the path of the folder of the run, with one complete trial or more.
      say: a function that is called with a sentence if the best trial has no weights.

    Returns:
      True if the best trial has its weights; False if an earlier command removed them.

    Raises:
      UserError: the scores of a trial cannot be read.
      OSError: a file cannot be removed.
    """
    best, _ = trials.best_trial(output_dir)
    if not trials.has_weights(best):
        # Those of another trial may be the last.
        say(
            f"{best} has no weights: an earlier command removed them, and those of other trials "
            "stay. Remove this folder and run the same command to have them."
        )
        return False
    for trial in trials.trials_in(output_dir):
        if trial != best:
            _remove(trial)
    return True


def remove_all(output_dir: str) -> None:
    """Removes the weights of all complete trials of a fine-tuning run, and returns nothing.

    Args:
      output_dir: the path of the folder of the run, which may have no trial.

    Raises:
      OSError: a file cannot be removed.
    """
    for trial in trials.trials_in(output_dir):
        _remove(trial)


def _remove(trial: str) -> None:
    """Removes the weights of a trial."""
    weights = glob.escape(os.path.join(trial, checkpoint_source.TRIAL_WEIGHTS))
    # The index first: without it there are no weights, whatever ends the process here.
    for path in (*storage.find(f"{weights}.index"), *storage.find(f"{weights}.data-*")):
        os.remove(path)
