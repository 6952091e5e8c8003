"""Finds the results in the folder of a run."""

from __future__ import annotations

import json
import os


def chosen(folder: str) -> str:
    """Returns the run that a sweep chose as the best, or `folder` itself if it holds no sweep."""
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return os.path.join(folder, json.load(file)["chosen"])
