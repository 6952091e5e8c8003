"""Takes the settings that `tfbio.load` is given to those that a command takes by `--set`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfbio.base import messages
from tfbio.base.config import ConfigError
from tfbio.base.errors import UserError


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Returns changed settings as `--set` takes them, "name=value" each.

    Args:
      settings: name -> value.

    Raises:
      UserError: a value is of a type that JSON lacks, and no number of NumPy.
    """
    return [
        f"{name}={value if isinstance(value, str) else json.dumps(value, default=_plain)}"
        for name, value in settings.items()
    ]


def require_run_settings(settings: Mapping[str, Any], path: str) -> None:
    """Refuses settings of a task, which an encoder without a head does not have; returns nothing.

    Args:
      settings: name -> value.
      path: the encoder's, for the message.

    Raises:
      UserError: a name is not of the group `run`.
    """
    if others := [name for name in settings if name.partition(".")[0] != "run"]:
        raise UserError(
            f"tfbio.load: {messages.quoted(others)} cannot be changed, since {path} is an encoder "
            "without a head for a task: give settings of run alone, such as run.eval_batch_size."
        )


@contextlib.contextmanager
def named_as_in_python() -> Iterator[None]:
    """Names `tfbio.load` in place of `--set` in the errors of its block, as a context manager.

    Yields:
      None, once.

    Raises:
      ConfigError: the block raises one.
    """
    try:
        yield
    except ConfigError as error:
        text = str(error)
        if not text.startswith("--set"):
            raise
        raise ConfigError(f"tfbio.load{text.removeprefix('--set')}") from error


def _plain(value: Any) -> Any:
    """Returns NumPy's number of a setting as Python's; raises a UserError for anything else."""
    if not isinstance(value, np.generic):
        raise UserError(f"tfbio.load: a setting cannot be a {type(value).__name__}.")
    return value.item()
