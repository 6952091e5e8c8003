"""Finds the recipes in `hparams/` by their names: `--hparams=base` is `hparams/base.json`.

The folder lies beside the packages, in a checkout as in an installation from a wheel.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection
from pathlib import Path

from tfbio.base.config import ConfigError

FOLDER = Path(__file__).resolve().parents[2] / "hparams"


def find_recipe(hparams: str) -> str:
    """Finds the recipe for pretraining that `--hparams` names.

    Args:
      hparams: the name of a recipe, such as "base"; or the argument `hparams` of `config.load`.

    Returns:
      The path of the JSON file; `hparams` itself if it is no name, or is a file.

    Raises:
      ConfigError: there is no recipe of this name; or no file of this path, but a recipe that is
        called like it.
    """
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    if not is_name(hparams):
        require_path(hparams, names)
        return hparams
    if hparams not in names:
        near = difflib.get_close_matches(hparams, names, n=1)
        hint = f"did you mean {near[0]}?" if near else "docs/pipeline.md lists the recipes."
        raise ConfigError(f"--hparams={hparams}: no such file or recipe; {hint}")
    return str(FOLDER / f"{hparams}.json")


def is_name(hparams: str) -> bool:
    """Returns True if a value of `--hparams` is a name, and not JSON, a path or a file."""
    return bool(re.fullmatch(r"[A-Za-z][\w-]*", hparams)) and not os.path.isfile(hparams)


def require_path(hparams: str, names: Collection[str]) -> None:
    """Checks that `--hparams` is not the path of a recipe in a folder that is elsewhere.

    Users type `hparams/base.json`, as in a checkout, where there is no such folder.

    Args:
      hparams: a path or inline JSON.
      names: the names of the recipes.

    Raises:
      ConfigError: there is no such path, but a recipe that is called like the file or its folder.
        The error says the name to write.
    """
    if not hparams.endswith(".json") or os.path.lexists(hparams):
        return
    for part in (Path(hparams).stem, Path(hparams).parent.name):
        if near := difflib.get_close_matches(part, names, n=1, cutoff=0.8):
            raise ConfigError(
                f"--hparams={hparams}: no such file; write --hparams={near[0]} for the recipe of "
                "that name."
            )
