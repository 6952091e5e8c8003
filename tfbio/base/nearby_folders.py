"""Finds the folder that was meant where a path leads one level too high, or names no file here."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator

# Files of weights, as each program writes them: `transformers`, and TensorFlow (also of a trial).
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.index")
# Files of such a model; not those of Megatron-LM and NeMo, which are one file each.
_OF_MODEL = re.compile(r".*\.safetensors|pytorch_model.*\.bin|.*\.json|vocab\.txt")
# Folders that hold no model to start from: half-written ones, and the variables of a SavedModel.
_NO_MODEL = re.compile(r"\..*|logs|variables|trial_\d+\.(checkpoints|unfinished)")
# `ORG/NAME`, or an old name without one, such as bert-base-uncased.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z][\w.]*(-[\w.]+)+")
# The most folders that are looked into.
_MOST = 2000


def model_meant(path: str, takes_runs: bool = False) -> str:
    """Returns the end of a sentence about a path without a model: where it is, "" if unknown.

    Args:
      path: the path of a folder, of a file, or of nothing, such as a name of the Hugging Face hub.
      takes_runs: True if the folder of a fine-tuning run, with its trials, is a model, too.

    Returns:
      Such as "the model is in x/snapshots/1a2b: give that folder"; "" if `path` holds a model, or
      no folder near it does.
    """

    def holds(folder: str) -> bool:
        return _has_weights(folder) or (takes_runs and _is_run(folder))

    if os.path.isdir(path):
        return "" if holds(path) else _named(_of_cache(path) or below(path, holds))
    if os.path.isfile(path):
        return _of_file(path)
    return _of_hub(path)


def below(folder: str, holds: Callable[[str], bool]) -> list[str]:
    """Finds the folders in a folder, or else the folders in these, that hold what is looked for.

    Args:
      folder: the path of the folder.
      holds: returns True for the path of a folder that holds it.

    Returns:
      Their paths in order, those nearest to `folder` alone; [] if there is none.
    """
    level = [folder]
    for _ in range(2):
        level = [inner for each in level for inner in _folders_in(each)][:_MOST]
        if found := sorted(filter(holds, level)):
            return found
    return []


def _named(folders: list[str]) -> str:
    """Returns the end of a sentence that names folders with a model; "" if there is none."""
    if not folders:
        return ""
    if len(folders) == 1:
        return f"the model is in {folders[0]}: give that folder"
    more = ", ..." if len(folders) > 3 else ""
    return f"the model may be in {', '.join(folders[:3])}{more}: give one of these folders"


def _folders_in(folder: str) -> Iterator[str]:
    """Yields the paths of the folders in a folder that may hold a model."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir() and not _NO_MODEL.fullmatch(entry.name):
            yield os.path.join(folder, entry.name)


def _has_weights(folder: str) -> bool:
    return any(glob.glob(os.path.join(glob.escape(folder), pattern)) for pattern in _WEIGHTS)


def _is_run(folder: str) -> bool:
    """Returns True for the folder of a fine-tuning run or of a sweep."""
    names = ("trial_*/scores.json", "sweep.json")
    return any(glob.glob(os.path.join(glob.escape(folder), name)) for name in names)


def _of_cache(folder: str) -> list[str]:
    """Returns the folder of a model in the hub's cache, `models--ORG--NAME/snapshots/HASH`."""
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="utf-8") as file:
            snapshot = os.path.join(folder, "snapshots", file.read().strip())
    except (OSError, UnicodeDecodeError):
        return []
    return [snapshot] if _has_weights(snapshot) else []


def _of_file(path: str) -> str:
    """Returns the end of the sentence for a file of a model."""
    folder, name = os.path.split(path)
    if prefix := re.fullmatch(r"(.+)\.(?:index|data-\d+-of-\d+|meta)", name):
        return f"it is one file of a checkpoint: give {os.path.join(folder, prefix[1])}"
    if _OF_MODEL.fullmatch(name) and _has_weights(folder or "."):
        return f"it is one file of a model: give its folder, {folder or '.'}"
    return ""


def _of_hub(path: str) -> str:
    """Returns the end of the sentence for a path that is not there; it may be a name of the hub."""
    if not _HUB_NAME.fullmatch(path):
        return ""
    # In its cache the hub's programs name folders so.
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache/huggingface")
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    if found := _of_cache(os.path.join(hub, f"models--{path.replace('/', '--')}")):
        return f"the model of this name is in the hub's cache: give {found[0]}"
    return (
        f"if this is a name of the Hugging Face hub, `hf download {path} --local-dir=FOLDER` "
        "downloads the model: give FOLDER"
    )
