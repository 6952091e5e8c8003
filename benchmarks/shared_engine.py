"""Shares texts out among processes, each of which has an engine of its own.

An engine with threads waits for the slowest of them at the end of each operation; processes do not
wait for each other.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from benchmarks.prediction_data import Span, Texts

Annotate = Callable[[Texts], list[list[Span]]]
_own: Annotate  # the engine of a process that `SharedEngine` has started


class SharedEngine:
    """Annotates texts in several processes, which stay until the engine is not used any more.

    Args:
      make: makes the engine of a process; a function of a module, perhaps with `functools.partial`.
      processes: how many, each with an equal share of the texts, of all lengths.
      threads: of each process.
    """

    def __init__(self, make: Callable[[], Annotate], processes: int, threads: int):
        # Not forked: libraries that have threads do not work in a process that was.
        context = multiprocessing.get_context("spawn")
        self._pools = [
            ProcessPoolExecutor(1, context, _begin, (make, threads)) for _ in range(processes)
        ]

    def __del__(self) -> None:
        for pool in self._pools:
            pool.shutdown()

    def __call__(self, texts: Texts) -> list[list[Span]]:
        """Returns for each text the spans of its entities."""
        parts = [slice(number, None, len(self._pools)) for number in range(len(self._pools))]
        pairs = zip(self._pools, parts, strict=True)
        answers = [pool.submit(_annotate, texts.part(part)) for pool, part in pairs]
        found: list[list[Span]] = [[] for _ in texts.texts]
        for part, answer in zip(parts, answers, strict=True):
            found[part] = answer.result()
        return found


def _begin(make: Callable[[], Annotate], threads: int) -> None:
    """Makes the engine of this process."""
    global _own
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow reads it when it is imported
    _own = make()


def _annotate(texts: Texts) -> list[list[Span]]:
    """Returns what the engine of this process finds."""
    return _own(texts)
