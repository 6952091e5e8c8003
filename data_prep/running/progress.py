"""Shows how many steps of a Beam pipeline are finished."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from data_prep.running import work_folder


@contextmanager
def shown(work: Path, steps: Mapping[str, int | str]) -> Iterator[None]:
    """Shows the progress of a Beam pipeline on stderr while the `with` block runs; yields nothing.

    A thread shows it: as a bar on a terminal, else as a line every ten seconds if it has changed.

    Args:
      work: the path of the working folder, which the thread watches.
      steps: how many steps there will be, by the prefix of their names. A string is a glob pattern
        of files in the working folder; there are as many steps as files.
    """
    stop = threading.Event()
    display = _Display(work, steps)

    def watch() -> None:
        while not stop.wait(0.5 if display.is_bar else 10):
            display.update()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
        display.update()
    finally:
        stop.set()
        thread.join()
        display.close()


class _Display:
    """Bar or lines that say how many steps are finished.

    Attributes:
      is_bar: True if stderr is a terminal.
    """

    def __init__(self, work: Path, steps: Mapping[str, int | str]):
        from tqdm import tqdm

        self.is_bar = sys.stderr.isatty()
        self._work, self._steps, self._printed = work, steps, ""
        self._bar = tqdm(disable=not self.is_bar, unit="step")

    def update(self) -> None:
        """Counts the finished steps, and shows their number if it has changed."""
        done = {prefix: len(work_folder.step_files(self._work, prefix)) for prefix in self._steps}
        totals = {
            prefix: len(list(self._work.glob(total))) if isinstance(total, str) else total
            for prefix, total in self._steps.items()
        }
        text = ", ".join(f"{prefix} {n}/{totals[prefix]}" for prefix, n in done.items())
        self._bar.total = sum(totals.values())
        self._bar.set_description(text, refresh=False)
        self._bar.update(sum(done.values()) - self._bar.n)
        if not self.is_bar and text != self._printed:
            print(f"progress: {text}", file=sys.stderr, flush=True)
        self._printed = text

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()
