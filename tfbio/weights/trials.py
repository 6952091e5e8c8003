"""The trials in the folder of a fine-tuning run: which are complete, and which is the best."""

from __future__ import annotations

import glob
import os
import re

from tfbio.base import storage
from tfbio.base.errors import UserError
from tfbio.task_types import finetuning_files
from tfbio.weights import checkpoint_source


def is_one(folder: str) -> bool:
    """Returns True if `folder` is that of a complete fine-tuning trial, with weights or without."""
    path = os.path.join(folder, finetuning_files.SCORES)
    return bool(re.search(r"trial_\d+/[^/]*$", path)) and os.path.isfile(path)


def trials_in(folder: str) -> list[str]:
    """Returns the paths of the complete trials in the folder of a fine-tuning run, by their seeds.

    A trial that is still being written is `trial_SEED.unfinished`, and is not among them.
    """
    found = filter(is_one, storage.find(os.path.join(glob.escape(folder), "trial_*")))
    return sorted(found, key=lambda trial: int(trial.rpartition("_")[2]))


def best_trial(folder: str) -> tuple[str, str]:
    """Finds the trial of a fine-tuning run with the best score on dev; of equals, the first seed.

    Where the run has its `scores.json`, trials of seeds that it had before do not count.

    Args:
      folder: the folder of the run.

    Returns:
      The path of the trial, and the reason, such as "the best dev f1 of 5 trial(s), 0.8912"; "" for
      a converted model, which has no scores.

    Raises:
      UserError: the folder holds no trial, or no scores to choose one by.
    """
    found = trials_in(folder)
    if os.path.isfile(os.path.join(folder, finetuning_files.SCORES)):
        seeds = {trial.seed for trial in finetuning_files.read_scores(folder).trials}
        found = [trial for trial in found if int(trial.rpartition("_")[2]) in seeds] or found
    scores = {trial: finetuning_files.read_trial(trial).dev for trial in found}
    if not scores:
        raise UserError(
            f"{folder} holds no trial of a fine-tuned model: give the --output_dir of a finished "
            "run_finetuning.py run, a trial_SEED in it, or a fine-tuned model of Hugging Face's."
        )
    if [*scores.values()] == [{}]:  # see `fine_tuned_writer.write_trial`
        return next(iter(scores)), ""
    metric = next(iter(next(iter(scores.values()))), "")
    if any(metric not in dev for dev in scores.values()):
        raise UserError(f"{folder} has not the same dev scores of each trial: run the run again.")
    best = max(scores, key=lambda trial: scores[trial][metric])
    return best, f"the best dev {metric} of {len(scores)} trial(s), {scores[best][metric]:.4f}"


def has_weights(trial: str) -> bool:
    """Returns True if the folder `trial` has the weights of a fine-tuning trial."""
    return os.path.isfile(os.path.join(trial, f"{checkpoint_source.TRIAL_WEIGHTS}.index"))
