"""Keeps in a benchmark's folder the flags that its contents were made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tfbio.base.errors import UserError

_FILE = "flags.json"


def write_flags(folder: Path, flags: Mapping[str, str | int]) -> None:
    """Writes the flags to `flags.json`, next to those that another benchmark has written there.

    Args:
      folder: what is made with the flags.
      flags: the value of each, by its name without dashes.
    """
    made_with = {**_read_flags(folder), **flags}
    (folder / _FILE).write_text(json.dumps(made_with), encoding="utf-8")


def check_flags(folder: Path, flags: Mapping[str, str | int], folder_flag: str = "folder") -> None:
    """Checks that a folder was made with the flags.

    Args:
      folder: what was made before.
      flags: the value of each, by its name without dashes.
      folder_flag: the name of the flag that gives the folder, for the message.

    Raises:
      UserError: it was made with others, or it is not known with which.
    """
    made_with = _read_flags(folder)
    for name, value in flags.items():
        if name not in made_with:
            raise UserError(
                f"--{folder_flag}={folder} does not say with which --{name} it was made: give a "
                "new folder."
            )
        if made_with[name] != value:
            raise UserError(
                f"--{folder_flag}={folder} was made with another --{name}: give a new folder."
            )


def _read_flags(folder: Path) -> dict[str, str | int]:
    """Reads the flags; none where there is no such file, or no JSON in it."""
    try:
        return json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
