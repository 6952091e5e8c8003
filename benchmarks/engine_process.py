"""Keeps each engine of a benchmark in a process of its own, which computes only when asked to.

So whatever else the machine does, it does to all engines that take turns, and the peak memory of
one engine is that of its process. A request and an answer are a line of JSON each.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.child_process import ROOT
from tfbio.base.errors import UserError


class Engine:
    """A process that answers requests.

    Args:
      module: what `python -m` runs, such as "benchmarks.pretraining".
      arguments: of its command line.
      root: of the checkout whose code runs.
    """

    def __init__(self, module: str, *arguments: str, root: Path = ROOT):
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(root), *([before] if before else [])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": path},
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # as asked above
        self._requests, self._answers = self.process.stdin, self.process.stdout

    def ask(self, request: Any) -> Any:
        """Sends a request and waits for its answer.

        Raises:
          UserError: the process has ended.
        """
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the next line says
            self._requests.write(f"{json.dumps(request)}\n")
            self._requests.flush()
        line = self._answers.readline()
        if not line:
            raise UserError(
                f"an engine ended with exit code {self.process.wait()}; see what it said above."
            )
        return json.loads(line)

    def answers(self) -> Iterator[Any]:
        """Yields all answers of a process that needs no requests; it may end early."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        for line in self._answers:
            yield json.loads(line)
        self.process.wait()

    def end(self) -> None:
        """Ends the process, which has no more requests."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self.process.wait()


def serve(answer: Callable[[Any], Any]) -> None:
    """Answers each request on stdin with `answer`, until there are no more."""
    for line in sys.stdin:
        tell(answer(json.loads(line)))


def tell(answer: Any) -> None:
    """Prints an answer."""
    print(json.dumps(answer), flush=True)
