"""Finds the results in the folder of a run."""

from __future__ import annotations

import json
import os


def chosen(folder: str) -> str:
    """Returns the run folder that has a folder's results: of a sweep's, the run that it chose.

    Args:
      folder: the path of a run's folder or of a sweep's; the latter has a `sweep.json`.

    Returns:
      The path of the best run, `folder` with the name under "chosen" in `sweep.json`; or `folder`
      itself, if it holds no sweep.

    Raises:
      ValueError: `sweep.json` is not JSON.
      KeyError: `sweep.json` has no "chosen".
    """
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return os.path.join(folder, json.load(file)["chosen"])
