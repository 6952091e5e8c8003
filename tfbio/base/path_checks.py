"""Checks the paths that flags name, before TensorFlow is imported, which takes seconds.

Addresses in an object store are not checked here, but where they are read and written; all but
their characters.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tfbio.base import file_paths, json_files, nearby_folders
from tfbio.base.errors import UsageError, UserError

# Names of files that a new folder may hold: a vocabulary and unfinished files of a run that was
# killed before it wrote its settings, and files of its user, the shell or a file system.
_LEFTOVERS = re.compile(
    r"\..*|.*\.(tmp|log|out)|logs|lost\+found|merges\.txt|vocab\.(txt|json)|tokenizer\S*"
    r"|\S+\.model"
)

# What TensorFlow takes for a pattern in the path of a checkpoint, of which it then finds no file.
_PATTERN = re.compile(r"\[.+\]|\\")


def require_no_pattern(path: str, named: str = "") -> None:
    """Checks that TensorFlow does not take the path of a checkpoint for a pattern; returns nothing.

    Args:
      path: the path of a checkpoint or of the folder of some, or an address.
      named: what the message calls it, such as "--model_dir=out/a"; "" for the path.

    Raises:
      UserError: there is a backslash in the path, or something in brackets.
    """
    if _PATTERN.search(path):
        raise UserError(
            f"{named or path}: TensorFlow takes [...] and \\ in the path of a checkpoint for a "
            "pattern, and would not find its files: rename the folder, or give another."
        )


def require_checkpoint(flag: str, path: str, takes_runs: bool = False) -> None:
    """Checks that the path of a flag leads to a model's folder or checkpoint, and returns nothing.

    Args:
      flag: the name of the flag, for the message.
      path: a folder, or the prefix of a checkpoint (`path`.index exists). An address in an object
        store passes, and so does a folder without a known model in it or below.
      takes_runs: True if the folder of a fine-tuning run, with its trials, is a model, too.

    Raises:
      UserError: there is no such folder or checkpoint, or the model is in a folder below; or it is
        a checkpoint of TensorFlow, and see `require_no_pattern`.
    """
    files = (f"{glob.escape(path)}.index", os.path.join(glob.escape(path), "**", "*.index"))
    # Models of `transformers` have no such files, and any path.
    if _PATTERN.search(path) and any(glob.glob(each, recursive=True) for each in files):
        require_no_pattern(path, f"--{flag}={path}")
    if file_paths.is_remote(path) or os.path.exists(f"{path}.index"):
        return
    meant = nearby_folders.model_meant(path, takes_runs)
    if not os.path.exists(path):
        raise UserError(
            f"--{flag}={path}: there is no such folder or checkpoint here; "
            + (meant or "give the folder of a run, or of a model that was downloaded")
            + "."
        )
    if meant:
        raise UserError(f"--{flag}={path}: {meant}.")


def require_remote(tpu: str, flag: str, folders: Sequence[str]) -> None:
    """Checks that the paths of a flag are on gs://, where a TPU on other machines can read them.

    Returns nothing.

    Args:
      tpu: the name or address of the TPU, for the message.
      flag: the name of the paths' flag, for the message.
      folders: the paths.

    Raises:
      UsageError: a path does not begin with "gs://".
    """
    for folder in folders:
        if not folder.startswith("gs://"):
            raise UsageError(
                f"--{flag}={folder}: the machines of --tpu={tpu} read and write it themselves, so "
                "give a folder on gs:// (only --tpu=local, a TPU of this machine, sees its files)."
            )


def require_output(
    flag: str, path: str, is_folder: bool = True, may_be_remote: bool = False
) -> None:
    """Checks that the path of an output flag can be a folder, or a file; returns nothing.

    Args:
      flag: the name of the flag, for the message.
      path: the path, which need not exist.
      is_folder: True if it will be a folder, False if a file.
      may_be_remote: True if the command can write to an object store, whose address passes then.

    Raises:
      UserError: there is a file in place of a folder (also of one above it), or a folder in place
        of a file; or it is an address, and the command writes local files.
    """
    if file_paths.is_remote(path):
        if may_be_remote:
            return
        kind = "folder" if is_folder else "file"
        raise UserError(
            f"--{flag}={path}: this command writes local files. Give a {kind} here, and copy it "
            "afterwards."
        )
    target = Path(os.path.abspath(path))
    if not is_folder and target.is_dir():
        raise UserError(f"--{flag}={path} is a folder, expected a file.")
    folder = target if is_folder else target.parent
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        raise UserError(f"--{flag}={path}: {existing} is a file, expected a folder.")


def require_own(flag: str, folder: str, command: str, is_own: Callable[[str, dict], bool]) -> None:
    """Checks the path of an output folder, which must be new, empty or written by the same command.

    There will be checkpoints in it. Returns nothing. Logs, hidden files, vocabularies and
    half-written files may always be there.

    Args:
      flag: the name of its flag, for the message.
      folder: its path. An address in an object store passes.
      command: the command, for the message.
      is_own: returns True if the command wrote an entry of `folder`; it gets the entry's name and
        the settings in `config.json` (without that file, {}).

    Raises:
      UserError: `folder` or a folder above it is a file, or it holds something else, which would be
        lost; or see `require_no_pattern`.
    """
    require_no_pattern(folder, f"--{flag}={folder}")
    require_output(flag, folder, may_be_remote=True)
    path = Path(folder)
    if file_paths.is_remote(folder) or not path.is_dir():
        return
    settings = json_files.read_object_or_empty(path / "config.json")
    for name in sorted(entry.name for entry in path.iterdir()):
        if not _LEFTOVERS.fullmatch(name) and not is_own(name, settings):
            raise UserError(
                f"--{flag}={folder} holds {name}, which is not of a run of {command}: give a new "
                "folder, or an empty one."
            )
