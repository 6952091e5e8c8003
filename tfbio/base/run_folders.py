"""Finds the results in the folder of a run."""

from __future__ import annotations

import os

from tfbio.base import json_files
from tfbio.base.errors import UserError


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
