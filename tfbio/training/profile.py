"""Traces some steps of a run for TensorBoard."""

import tensorflow as tf


class Profile:
    """Writes a profile of a pretraining run: a trace of some steps, which TensorBoard shows.

    The trace is in `plugins/profile` of the folder. Loops of steps must end at `borders`. An
    evaluation between two of the steps is in the trace.

    Args:
      folder: the path of the folder in which TensorBoard looks for logs.
      steps: the first and the last, counted from 1; None: no trace.
      writes: False for a worker that leaves the trace to another: it only has the same `borders`.

    Attributes:
      borders: the steps done before the trace and at its end, (first - 1, last); () without a
        trace. All workers of a run need the same ones, as each loop begins with what they do
        together (see `preemption.Preemption.sent`).
    """

    def __init__(self, folder: str, steps: tuple[int, int] | None, writes: bool = True):
        self._folder, self._writes, self._running = folder, writes, False
        self.borders = (steps[0] - 1, steps[1]) if steps else ()

    def start_at(self, step: int) -> None:
        """Starts the trace after `step` if that is where it begins; returns nothing.

        Args:
          step: the steps done so far.

        Raises:
          tf.errors.AlreadyExistsError: TensorFlow traces already.
        """
        if self._writes and step == min(self.borders, default=None):
            tf.profiler.experimental.start(self._folder)
            self._running = True

    def stop_at(self, step: int) -> None:
        """Writes the trace of the profile after `step` if that is where it ends; returns nothing.

        Args:
          step: the steps done so far.
        """
        if step == max(self.borders, default=None):
            self.close()

    def close(self) -> None:
        """Writes the trace of the profile if a run ends before its last step; returns nothing."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
