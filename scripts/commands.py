"""Runs the project's commands as a user types them in its folder."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command: str) -> int:
    """Runs a command with this Python in the project's folder.

    After Ctrl-C it waits for the command, which the terminal has interrupted, too: pretraining and
    fine-tuning save then. A second Ctrl-C ends both. `subprocess.run` would kill the command after
    a quarter of a second. SIGTERM goes to the command, too, and is waited for.

    Args:
      command: what a user types after `python`.

    Returns:
      Its exit code.

    Raises:
      KeyboardInterrupt: it was interrupted.
      SystemExit: this process got SIGTERM.
    """
    told: list[int] = []
    begun: list[subprocess.Popen] = []

    def end(*_: object) -> None:
        told.append(signal.SIGTERM)
        for process in begun:
            process.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        with subprocess.Popen([sys.executable, *shlex.split(command)], cwd=ROOT) as process:
            begun.append(process)
            if told:  # before it had begun
                process.terminate()
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()
                raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if told:
        sys.exit(128 + signal.SIGTERM)
    if code == 130:  # Ctrl-C, see docs/commands.md
        raise KeyboardInterrupt
    return code
