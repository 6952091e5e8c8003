"""Shows how far a stage has come."""

import datetime
import sys
import time

import tqdm

# Seconds between two lines of progress, where there is no terminal.
SHOW_EVERY = 10.0


class Count:
    """Shows the progress of fine-tuning or prediction: a bar on a terminal, else lines.

    It is used as `with Count(...) as count:`, and the end of the block closes the bar. Lines come
    on stdout, one every ten seconds. (`data_prep` has progress by steps of its pipelines instead.)

    Args:
      name: the name of the work, shown first; also an attribute, like `total` and `unit`.
      total: the number at which it is done; None: nothing is shown.
      unit: the unit of the numbers, in the plural, such as "texts".
      first: how many were done before.

    Attributes:
      done: how many are done.
      bar: the bar of tqdm, on stderr; None where there is none.
    """

    def __init__(self, name: str, total: int | None, unit: str, first: int = 0):
        self.name, self.total, self.unit, self.done = name, total, unit, first
        self._first = first
        self._start = self._shown = time.monotonic()
        self.bar = None
        if total is not None and sys.stderr.isatty():
            self.bar = tqdm.tqdm(total=total, desc=name, unit=f" {unit}", initial=first)

    def __enter__(self) -> "Count":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def at(self, done: int, figures: str = "") -> None:
        """Sets the progress of fine-tuning or prediction, and shows it if it is time to.

        Returns nothing.

        Args:
          done: how many are done, those before the start included.
          figures: further text to show beside it.
        """
        self.done, now = done, time.monotonic()
        if self.bar is not None:
            if figures:
                self.bar.set_postfix_str(figures, refresh=False)
            self.bar.update(done - self.bar.n)
        elif self.total is not None and now - self._shown >= SHOW_EVERY:
            self._shown = now
            parts = [f"{self.name} | {done:,}/{self.total:,} {self.unit}", figures]
            if done > self._first:
                rate = (done - self._first) / (now - self._start)
                left = datetime.timedelta(seconds=round((self.total - done) / rate))
                parts += [f"{rate:,.1f} {self.unit}/s", f"{left} left"]
            print(" | ".join(filter(None, parts)), flush=True)
