"""Finds the settings of published ways to fine-tune, such as BioELECTRA's authors'."""

from __future__ import annotations

from tfbio.base import recipes
from tfbio.base.config import ConfigError

# How others fine-tuned: a folder for each protocol, with a file for each task. The files beside
# these folders have the settings of one task.
PROTOCOLS = recipes.FOLDER / "finetuning"


def find_protocol(hparams: str, task: str) -> str:
    """Finds the settings that one of the protocols, such as "authors", has for a fine-tuning task.

    Args:
      hparams: the name of a protocol, a folder in `PROTOCOLS`, or of a file there, such as
        "sentence_roles"; or the argument `hparams` of `config.load`.
      task: the task's name.

    Returns:
      The path of the JSON file; `hparams` itself if it is no name, or is a file.

    Raises:
      ConfigError: there is no protocol of this name, or it has no settings for the task; or there
        is no file of this path, but a protocol that is called like it.
    """
    names = sorted(path.name for path in PROTOCOLS.iterdir() if path.is_dir())
    files = {path.stem: path for path in PROTOCOLS.glob("*.json")}
    if not recipes.is_name(hparams):
        recipes.require_path(hparams, [*names, *files])
        return hparams
    if hparams in files:
        return str(files[hparams])
    if hparams not in names:
        raise ConfigError(
            f"--hparams={hparams}: no such file or protocol; the protocols are {', '.join(names)}."
        )
    path = PROTOCOLS / hparams / f"{task}.json"
    if not path.is_file():
        tasks = ", ".join(sorted(path.stem for path in path.parent.glob("*.json")))
        raise ConfigError(f"--hparams={hparams} has no settings for {task}, but for {tasks}.")
    return str(path)
