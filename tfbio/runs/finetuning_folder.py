"""Prepares the `--output_dir` of a fine-tuning run: its `config.json` and its vocabulary.

`finetuning.finetune` prepares it, and learns which trials it lacks.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
from collections.abc import Sequence

from tfbio.base import json_files, run_folders
from tfbio.base.errors import UserError
from tfbio.runs.finetuning_run import Run
from tfbio.task_types import finetuning_config, finetuning_files
from tfbio.task_types.finetuning_config import RunConfig
from tfbio.task_types.finetuning_files import checkpoints_dir
from tfbio.text import vocabularies
from tfbio.training import distribution
from tfbio.training.precision import Precision, set_precision

# Settings that do not tell one trial from another: with others, finished trials stay valid.
NOT_IN_A_TRIAL = (
    "comment",
    "run",
    "seed",
    "num_trials",
    "init_checkpoint",
    "data_set",
    "chosen_precision",
)


def began(output_dir: str) -> bool:
    """Returns True if a fine-tuning run has prepared its folder `output_dir`."""
    return os.path.exists(os.path.join(output_dir, run_folders.CONFIG))


def prepare(
    run: Run, settings: RunConfig, vocabulary: str | os.PathLike
) -> tuple[list[int], Precision]:
    """Prepares the folder of a fine-tuning run: writes `config.json` and the vocabulary.

    It also sets the precision that the run computes in, that of the folder's trials where
    `run.precision` is "auto". All workers must call it together.

    Args:
      run: the run.
      settings: the content of `config.json`, but for `chosen_precision`.
      vocabulary: the path of the encoder's vocabulary.

    Returns:
      The seeds of the trials that are missing, and the precision.

    Raises:
      UserError: the folder holds trials of other settings or in the other precision, and
        `run.overwrite` is False; or the workers see different trials in it.
    """
    path = os.path.join(run.output_dir, run_folders.CONFIG)
    begun_in = _precision_of(run.precision_of)
    if began(run.output_dir):
        before = _settings_before(path)
        difference = _difference(before, settings)
        if before.task != settings.task and not run.overwrite:
            raise UserError(
                f"{run.output_dir} holds a run of --task={before.task}, and now it is "
                f"{settings.task}: give another --output_dir, or --overwrite to replace it."
            )
        if difference and not run.overwrite:
            raise UserError(
                f"{run.output_dir} holds a run with {difference}: give another --output_dir, or "
                "--overwrite to replace it."
            )
        if not difference:
            begun_in = before.chosen_precision
        elif run.is_chief:
            _remove_trials(run.output_dir)
    distribution.wait_for_all(run.strategy)  # all have read what was there
    precision = set_precision(
        run.config.run.precision, run.strategy, settings.encoder.hidden_size, begun_in
    )
    _require_precision(run, begun_in, precision)
    if run.is_chief:
        os.makedirs(run.output_dir, exist_ok=True)
        written = dataclasses.replace(settings, chosen_precision=precision.name)
        finetuning_config.write(path, written)
        vocabularies.copy_vocabulary(vocabulary, run.output_dir)
        for seed in filter(run.is_complete, run.seeds):
            # Of a process that was killed as it ended the trial.
            shutil.rmtree(checkpoints_dir(run.output_dir, seed), ignore_errors=True)
    distribution.wait_for_all(run.strategy)
    missing = [seed for seed in run.seeds if not run.is_complete(seed)]
    _require_same_trials(run, missing)
    return missing, precision


def _require_same_trials(run: Run, missing: Sequence[int]) -> None:
    """Checks that all workers lack the trials of the same seeds; each must call it, with its own.

    Raises:
      UserError: they do not, which all workers say.
    """
    are_missing = [int(seed in missing) for seed in run.seeds]
    if len(distribution.of_all_workers(run.strategy, are_missing)) > 1:
        raise UserError(
            f"--output_dir={run.output_dir}: the workers found different trials there: give one "
            "folder that all workers share."
        )


def _precision_of(output_dir: str) -> str:
    """Returns the precision of another run in a sweep; "" if there is none that began."""
    if not output_dir or not began(output_dir):
        return ""
    return _settings_before(os.path.join(output_dir, run_folders.CONFIG)).chosen_precision


def _require_precision(run: Run, begun_in: str, precision: Precision) -> None:
    """Removes trials that were computed in another precision, if they may be replaced.

    Raises:
      UserError: they may not.
    """
    if begun_in in ("", precision.name) or not _trials(run.output_dir):
        return
    if not run.overwrite:
        raise UserError(
            f"{run.output_dir} holds trials in {begun_in}, and now the precision is "
            f"{precision.name}: give --set run.precision={begun_in}, another --output_dir, or "
            "--overwrite to replace them."
        )
    if run.is_chief:
        _remove_trials(run.output_dir)


def _trials(output_dir: str) -> list[str]:
    """Returns the paths of the trials of a folder, complete or begun."""
    return glob.glob(os.path.join(glob.escape(output_dir), "trial_*"))


def _settings_before(path: str) -> RunConfig:
    """Reads the `config.json` in an output folder, which must be of a run of fine-tuning."""
    remedy = "give another --output_dir"
    content = json_files.read_object(path, remedy)
    if not content.get("task"):
        folder = os.path.dirname(path)
        raise UserError(f"{folder} holds another model, and no run of run_finetuning.py: {remedy}.")
    return finetuning_config.parse(content, path, remedy)


def _difference(before: RunConfig, settings: RunConfig) -> str:
    """Names the first setting that makes other trials, with both values; "" if there is none."""
    old, new = dataclasses.asdict(before), dataclasses.asdict(settings)
    for name, value in new.items():
        if name not in NOT_IN_A_TRIAL and old[name] != value:
            return f"{name} = {old[name]}, now it is {value}"
    return ""


def _remove_trials(output_dir: str) -> None:
    """Removes what a run with other settings left."""
    # The scores first: nothing may sum up trials that are no longer there.
    vocabulary = (*vocabularies.NAMES, "merges.txt")
    for pattern in (finetuning_files.SCORES, "trial_*", "logs", *vocabulary):
        for old in glob.glob(os.path.join(glob.escape(output_dir), pattern)):
            shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
