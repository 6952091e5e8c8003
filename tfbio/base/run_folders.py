"""Finds the folder of a run or a trial that a path stands for."""

from __future__ import annotations

import os
import re

from tfbio.base import file_paths, json_files
from tfbio.base.errors import UserError

# The name of the file with a run's settings.
CONFIG = "config.json"
_TRIAL = re.compile(r"trial_\d+")


def chosen(folder: str) -> str:
    """Returns the run folder that has a folder's results: of a sweep's, the run that it chose.

    Args:
      folder: the path of a run's folder or of a sweep's; the latter has a `sweep.json`.

    Returns:
      The path of the best run, `folder` with the name under "chosen" in `sweep.json`; or `folder`
      itself, if it holds no sweep.

    Raises:
      UserError: `sweep.json` cannot be read, or does not say which run was chosen.
    """
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    remedy = "run run_finetuning.py --sweep with this --output_dir again"
    name = json_files.read_object(path, remedy).get("chosen")
    if not isinstance(name, str):
        raise UserError(f'{path} has no "chosen": {remedy}.')
    return os.path.join(folder, name)


def followed(path: str | os.PathLike) -> str:
    """Returns the absolute path of a model's folder; of a link to a run's trial, the trial's own.

    The settings and the vocabulary of a trial are in the folder around it, and not in that around a
    link to it. A trial that was moved, and has left a link, has them around the link.

    Args:
      path: the path of the folder or checkpoint, which need not exist; an address in an object
        store stays as it is.
    """
    absolute = file_paths.absolute(path)
    if file_paths.is_remote(path) or not os.path.islink(absolute):
        return absolute
    real = os.path.realpath(absolute)

    def is_in_run(folder: str) -> bool:
        return os.path.isfile(os.path.join(os.path.dirname(folder), CONFIG))

    was_moved = is_in_run(absolute) and _TRIAL.fullmatch(os.path.basename(absolute))
    return real if is_in_run(real) and not was_moved else absolute
