"""Finds what a run left in its folder."""

from __future__ import annotations

import json
import os


def chosen(folder: str) -> str:
    """Returns the folder that a sweep chose; `folder` itself if it is not of a sweep."""
    path = os.path.join(folder, "sweep.json")
    if not os.path.isfile(path):
        return folder
    with open(path, encoding="utf-8") as file:
        return os.path.join(folder, json.load(file)["chosen"])
