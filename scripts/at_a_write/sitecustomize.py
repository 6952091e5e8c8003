"""Sends a signal to a command and its workers as one of them is about to change a folder.

`scripts/kills.py` puts this folder on PYTHONPATH, and Python imports a module of this name before
anything else, in workers as well. Each opening of a file for writing, each rename and each removal
in the folder is a line of a file that all processes share. The process that writes line number
KILLS_AT sends the signal, before it does what the line says.
"""

import os
import signal
import sys

LINE = 400  # bytes; all have as many, so that a line's place is its number

_WRITES = os.O_WRONLY | os.O_RDWR
_folder = os.environ["KILLS_FOLDER"] + os.sep
_log = os.environ["KILLS_LOG"]
_at, _signal = int(os.environ["KILLS_AT"]), int(os.environ["KILLS_SIGNAL"])


def _paths(event: str, arguments: tuple) -> tuple:
    """Returns the files that an event changes."""
    if event == "open":
        path, _, flags = arguments
        return (path,) if isinstance(flags, int) and flags & _WRITES else ()
    if event == "os.rename":
        return arguments[:2]
    return arguments[:1] if event in ("os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree") else ()


def _hook(event: str, arguments: tuple) -> None:
    """Logs an event that changes the folder, and sends the signal at line KILLS_AT."""
    changed = [path for path in _paths(event, arguments) if isinstance(path, str | os.PathLike)]
    paths = [os.fspath(path) for path in changed]
    if not any(path.startswith(_folder) for path in paths):
        return
    line = " ".join([event, *(path.removeprefix(_folder) for path in paths)])
    log = os.open(_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, line.ljust(LINE - 1)[: LINE - 1].encode("ascii", "replace") + b"\n")
    number = os.lseek(log, 0, os.SEEK_CUR) // LINE
    os.close(log)
    if number == _at:
        os.killpg(os.getpgrp(), signal.Signals(_signal))


sys.addaudithook(_hook)
