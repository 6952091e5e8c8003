"""Computes the texts of several requests together, in one thread; the application waits for it."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

# How long the first request of a batch waits for others, in seconds. While a batch is computed the
# next requests wait anyway, so this counts only where there are few.
_WAIT = 0.005
# A batch is complete with so many characters, those of about 20 abstracts of PubMed.
_CHARACTERS = 32_000


# A text, or a pair of texts.
_Input = str | tuple[str, str]


@dataclasses.dataclass
class _Job:
    """The texts or pairs of a request, and where their results go."""

    texts: Sequence[_Input]
    future: Future

    def forget_if_cancelled(self, future: Future) -> None:
        """Lets go of the texts of a request that was given up, which waits in the queue no less."""
        if future.cancelled():
            self.texts = ()

    def characters(self) -> int:
        """Returns how many characters all texts have together."""
        parts = ((x,) if isinstance(x, str) else x for x in self.texts)
        return sum(len(text) for each in parts for text in each)


class Batcher:
    """A thread that computes the texts of requests in batches which several requests share.

    Args:
      compute: returns a result for each text, or each pair, of a list. Only this thread calls it.
      observe: is called with the number of texts of each batch.

    Example:

      batcher = Batcher(model)
      future = batcher.submit(["Imatinib inhibits BCR-ABL."])
      (entities,) = future.result()
    """

    def __init__(
        self,
        compute: Callable[[list], list],
        observe: Callable[[int], None] = lambda texts: None,
    ):
        self._compute, self._observe = compute, observe
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while the thread computes batches."""
        return self._thread.is_alive()

    def submit(self, texts: Sequence[_Input]) -> Future[list[Any]]:
        """Queues the texts of a request for the batcher's thread.

        A request that is cancelled before its batch begins is left out of it, and its texts take no
        memory any more.

        Args:
          texts: texts or pairs of texts, one at least.

        Returns:
          A future of a list with the result for each text. It raises what `compute` raised for
          these texts; the other requests of a batch are then computed alone, and get their results.
        """
        job = _Job(texts, Future())
        job.future.add_done_callback(job.forget_if_cancelled)
        self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Ends the batcher's thread when it has computed what was queued; returns nothing."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        """Computes batches until the queue has its end."""
        ended = False
        while not ended and (first := self._jobs.get()):
            jobs, ended = self._gather(first)
            jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            if jobs:
                self._observe(sum(len(job.texts) for job in jobs))
                self._answer(jobs)

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        """Returns the jobs of a batch, and whether the queue ends behind them."""
        jobs, characters = [first], first.characters()
        until = time.monotonic() + _WAIT
        while characters < _CHARACTERS:
            try:
                job = self._jobs.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            characters += job.characters()
        return jobs, False

    def _answer(self, jobs: Sequence[_Job]) -> None:
        """Computes jobs together; if that fails, each alone, so that only the bad ones fail."""
        try:
            results = self._compute([text for job in jobs for text in job.texts])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            else:
                for job in jobs:
                    self._answer([job])
            return
        first = 0
        for job in jobs:
            job.future.set_result(results[first : first + len(job.texts)])
            first += len(job.texts)
