"""Shows how far an annotation of many files has come: one line for all processes."""

from __future__ import annotations

import datetime
import sys
import time
import zlib
from collections.abc import Sequence

from tfbio.base import file_paths
from tfbio.runs.annotated_file import Job
from tfbio.training.progress_bar import SHOW_EVERY

# Bytes of a file from which its number of documents is estimated.
_BEGINNING = 1 << 18


class AnnotationProgress:
    """Counts the files and documents of an annotation, and shows them with the time left.

    On a terminal a bar on stderr shows them, else a line on stdout every ten seconds. The time left
    is that of the bytes left at the speed so far. Until a file is done, the beginning of one says
    how many documents a byte has; where it does not, no time is shown.

    Args:
      jobs: the files to annotate.
      done: the number of files that were done before.

    Attributes:
      documents: the number of documents that this run has annotated.
    """

    def __init__(self, jobs: Sequence[Job], done: int):
        self.documents = 0
        self._files, self._total = done, done + len(jobs)
        self._bytes_left = sum(job.bytes for job in jobs)
        self._finished_bytes = self._finished_documents = 0
        self._current: dict[str, int] = {}  # the documents so far of the files in work
        self._guess = _documents_in_a_byte(jobs[0]) if jobs else 0.0
        self._start = self._shown = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            import tqdm

            form = "annotation {n_fmt}/{total_fmt} files |{bar}| {desc}"
            self._bar = tqdm.tqdm(total=self._total, initial=done, bar_format=form)

    def start(self) -> None:
        """Begins to measure the annotation, once the model is loaded; returns nothing."""
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """The seconds since `start`."""
        return time.monotonic() - self._start

    def at(self, job: Job, documents: int) -> None:
        """Sets how many documents of a file in work are annotated; returns nothing.

        Args:
          job: the file.
          documents: the number of its documents that are done.
        """
        self.documents += documents - self._current.get(job.name, 0)
        self._current[job.name] = documents
        self._show()

    def finished(self, job: Job, documents: int) -> None:
        """Counts a file of the annotation that is done; returns nothing.

        Args:
          job: the file.
          documents: the number of its documents; 0 if it was left out.
        """
        self.lost(job)
        self.documents += documents
        self._files += 1
        if documents:
            self._finished_bytes += job.bytes
            self._finished_documents += documents
        self._show()

    def lost(self, job: Job) -> None:
        """Forgets a file that was in work when its process ended, as no other one takes it."""
        self.documents -= self._current.pop(job.name, 0)
        self._bytes_left -= job.bytes

    def close(self) -> None:
        """Ends the bar; returns nothing."""
        if self._bar is not None:
            self._bar.close()

    def text(self) -> str:
        """Returns the numbers of an annotation: documents, speed and the time left."""
        rate = self.documents / max(self.elapsed, 1e-9)
        parts = [f"{self.documents:,} documents", f"{rate:,.1f} documents/s"]
        if (seconds := self._seconds_left(rate)) is not None:
            parts.append(f"{datetime.timedelta(seconds=round(seconds))} left")
        return " | ".join(parts)

    def _seconds_left(self, rate: float) -> float | None:
        density = self._guess
        if self._finished_bytes > 0:  # an empty text is a document, too
            density = self._finished_documents / self._finished_bytes
        if not density or not rate:
            return None
        return max(0.0, self._bytes_left * density - sum(self._current.values())) / rate

    def _show(self) -> None:
        now = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str(self.text(), refresh=False)
            self._bar.n = self._files
            if now - self._shown >= 0.1:
                self._shown = now
                self._bar.refresh()
        elif now - self._shown >= SHOW_EVERY:
            self._shown = now
            print(f"annotation | {self._files:,}/{self._total:,} files | {self.text()}", flush=True)


def _documents_in_a_byte(job: Job) -> float:
    """Estimates how many documents a byte of PubMed's XML has; 0 for other files."""
    try:
        with file_paths.at(job.path).open("rb") as stream:
            beginning = stream.read(_BEGINNING)
        text = beginning
        if beginning[:2] == b"\x1f\x8b":
            text = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(beginning)
    except (OSError, zlib.error):
        return 0.0
    return text.count(b"</PubmedArticle>") / max(1, len(beginning))
