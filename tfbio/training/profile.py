"""Traces some steps of a run for TensorBoard."""

import tensorflow as tf


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
