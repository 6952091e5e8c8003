"""Checks of the paths that flags name, before TensorFlow is imported, which takes seconds.

Of addresses in an object store nothing is asked here: what reads and writes there does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tfbio.base import storage
from tfbio.base.cli import UsageError, UserError

# What may lie in a new folder: a vocabulary and unfinished files of a run that was killed before it
# had written its settings, and what its user, the shell or a file system has put there.
_LEFTOVERS = re.compile(
    r"\..*|.*\.(tmp|log|out)|logs|lost\+found|merges\.txt|vocab\.(txt|json)|tokenizer\S*"
    r"|\S+\.model"
)


def require_checkpoint(flag: str, path: str) -> None:
    """Checks that there is a model.

    Args:
      flag: its name, for the message.
      path: a folder, or the prefix of a checkpoint.

    Raises:
      UserError: there is neither.
    """
    if not storage.is_remote(path) and not any(map(os.path.exists, (path, f"{path}.index"))):
        raise UserError(
            f"--{flag}={path}: there is no such folder or checkpoint here; give the folder of a "
            "run, or of a model that was downloaded (names of a hub are not looked up)."
        )


def require_remote(tpu: str, flag: str, folders: Sequence[str]) -> None:
    """Refuses folders that a TPU on other machines cannot see.

    Args:
      tpu: its name or address.
      flag: the flag that gives the folders.
      folders: their paths.

    Raises:
      UsageError: one is not on gs://.
    """
    for folder in folders:
        if not folder.startswith("gs://"):
            raise UsageError(
                f"--{flag}={folder}: the machines of --tpu={tpu} read and write it themselves, so "
                "give a folder on gs:// (only --tpu=local, a TPU of this machine, sees its files)."
            )


def require_output(flag: str, path: str, is_folder: bool = True) -> None:
    """Checks that an output can be what it is to be.

    Args:
      flag: the flag that names it.
      path: where it is to go.
      is_folder: whether it is a folder, else a file.

    Raises:
      UserError: a file is in the way of a folder, or a folder in that of a file.
    """
    if storage.is_remote(path):
        return
    target = Path(os.path.abspath(path))
    if not is_folder and target.is_dir():
        raise UserError(f"--{flag}={path} is a folder, expected a file.")
    folder = target if is_folder else target.parent
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not there.is_dir():
        raise UserError(f"--{flag}={path}: {there} is a file, expected a folder.")


def require_own(flag: str, folder: str, command: str, is_own: Callable[[str, dict], bool]) -> None:
    """Checks that an output folder is new or empty, or holds what the command itself wrote.

    Args:
      flag: the flag that names it.
      folder: its path.
      command: for the message.
      is_own: tells the command's work from others' by the name of a file or folder in `folder`, and
        the settings in its `config.json`, if there is one.

    Raises:
      UserError: it cannot be a folder, or holds something else, which would be lost or mixed up.
    """
    require_output(flag, folder)
    path = Path(folder)
    if storage.is_remote(folder) or not path.is_dir():
        return
    try:
        settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        settings = {}
    settings = settings if isinstance(settings, dict) else {}
    for name in sorted(entry.name for entry in path.iterdir()):
        if not _LEFTOVERS.fullmatch(name) and not is_own(name, settings):
            raise UserError(
                f"--{flag}={folder} holds {name}, which is not of a run of {command}: give a new "
                "folder, or an empty one."
            )
