"""Runs the commands that a benchmark needs, each in a process of its own, and measures them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Cost(NamedTuple):
    """The cost of a command, with all processes that it waited for.

    Attributes:
      wall: seconds on the clock.
      cpu: seconds of processors.
      megabytes: the most resident memory of its largest process, in MiB.
    """

    wall: float
    cpu: float
    megabytes: float


def cost_of(
    command: Sequence[str],
    stdout: int | IO[str] = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
) -> Cost:
    """Runs a command to its end, in the repository, and measures it.

    Args:
      command: the program and its arguments.
      stdout: where its output goes.
      env: its environment; None: that of this process.

    Raises:
      CalledProcessError: it failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=stdout, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_tfbio(*arguments: str) -> None:
    """Runs `tfbio` with arguments; what it prints goes to stderr, apart from a benchmark's tables.

    Raises:
      CalledProcessError: it failed.
    """
    command = [sys.executable, "-m", "tfbio", *arguments]
    subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr)
