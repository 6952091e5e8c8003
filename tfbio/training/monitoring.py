"""Shows how far a stage has come, saves a run that is told to end, and traces its steps."""

import datetime
import signal
import sys
import time
from collections.abc import Callable

import tensorflow as tf
import tqdm

from tfbio.base import cli

# Seconds between two lines of progress, where there is no terminal.
SHOW_EVERY = 10.0


class Count:
    """Shows how far something has come: a bar on a terminal, else a line every ten seconds.

    Args:
      name: of what is done.
      total: when it is done; None: nothing is shown.
      unit: of what is counted, in the plural.

    Attributes:
      done: how many are done.
    """

    def __init__(self, name: str, total: int | None, unit: str):
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self._start = self._shown = time.monotonic()
        self.bar = None
        if total is not None and sys.stderr.isatty():
            self.bar = tqdm.tqdm(total=total, desc=name, unit=f" {unit}")

    def __enter__(self) -> "Count":
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()

    def at(self, done: int, figures: str = "") -> None:
        """Shows that `done` are done, if it is time to, with further figures."""
        self.done, now = done, time.monotonic()
        if self.bar is not None:
            if figures:
                self.bar.set_postfix_str(figures, refresh=False)
            self.bar.update(done - self.bar.n)
        elif self.total is not None and now - self._shown >= SHOW_EVERY:
            self._shown = now
            parts = [f"{self.name} | {done:,}/{self.total:,} {self.unit}", figures]
            if done:
                rate = done / (now - self._start)
                left = datetime.timedelta(seconds=round((self.total - done) / rate))
                parts += [f"{rate:,.1f} {self.unit}/s", f"{left} left"]
            print(" | ".join(filter(None, parts)), flush=True)


class Preemption:
    """Notes within its `with` block that the process was sent SIGTERM or Ctrl-C, and lets it go on.

    So the run of a preempted machine, or one that a user ends, can be saved where it is, after the
    current loop of steps. A loop should take less than the machine is given to end, usually 30
    seconds: see `run.steps_per_loop`. A second Ctrl-C ends the process at once. Of several workers,
    all end where one was sent a signal, in the same place.

    Args:
      strategy: of the run.
      saved: tells what is saved, for the second Ctrl-C.

    Attributes:
      signal: what was sent last; SIGTERM if nothing was.
    """

    def __init__(self, strategy: tf.distribute.Strategy, saved: Callable[[], str]):
        self._strategy, self._sent, self.signal = strategy, False, signal.SIGTERM
        self._several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._answers = cli.answering_ctrl_c(
            lambda: "Ctrl-C: the run is saved after this loop of steps; again ends it at once",
            saved,
        )

    def __enter__(self) -> "Preemption":
        signals = [signal.SIGTERM]
        # A shell starts so what it does not wait for.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signals.append(signal.SIGINT)
        self._before = {each: signal.signal(each, self._note) for each in signals}
        self._answers.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._answers.__exit__(*error)
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @property
    def sent(self) -> bool:
        """Whether the process, or any worker's, is to end; all workers must ask equally often."""
        if self._several:
            # Asked anew each time: a signal that comes while the others answer counts then.
            return bool(self._over_workers(tf.constant(float(self._sent))))
        return self._sent

    @tf.function
    def _over_workers(self, value: tf.Tensor) -> tf.Tensor:
        values = self._strategy.run(lambda: tf.identity(value))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    def _note(self, number: int, _) -> None:
        self._sent, self.signal = True, signal.Signals(number)


class Profile:
    """Writes a trace of some steps for TensorBoard (`plugins/profile` in a folder of logs).

    Loops of steps must end at `borders`. An evaluation between two of the steps is in the trace.

    Args:
      folder: where TensorBoard looks for logs.
      steps: the first and the last, counted from 1; None: no trace.
    """

    def __init__(self, folder: str, steps: tuple[int, int] | None):
        self._folder, self._running = folder, False
        self.borders = (steps[0] - 1, steps[1]) if steps else ()

    def start_at(self, step: int) -> None:
        """Starts the trace after `step` if that is where it begins."""
        if step == min(self.borders, default=None):
            tf.profiler.experimental.start(self._folder)
            self._running = True

    def stop_at(self, step: int) -> None:
        """Writes the trace after `step` if that is where it ends."""
        if step == max(self.borders, default=None):
            self.close()

    def close(self) -> None:
        """Writes what was traced, if a run ends before the last step of its trace."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
