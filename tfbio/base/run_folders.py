"""Finds the results in the folder of a run."""

from __future__ import annotations

import json
import os


def chosen(folder: str) -> str:
    """Returns the run that a sweep chose as the best, or `folder` itself if it holds no sweep.

    Args:
      folder: the folder of a run or of a sweep; the latter has a `sweep.json`.

    Returns:
      The path of the run, `folder` with the name under "chosen" in `sweep.json`.

    Raises:
      ValueError: `sweep.json` is not JSON.
      KeyError: `sweep.json` has no "chosen".
    """
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return os.path.join(folder, json.load(file)["chosen"])
