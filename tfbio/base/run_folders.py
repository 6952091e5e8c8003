"""Finds what a run left in its folder."""

from __future__ import annotations

import json
import os


def chosen(folder: str) -> str:
    """Of a sweep's `output_dir` the folder that was chosen, of another folder itself."""
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return os.path.join(folder, json.load(file)["chosen"])
