"""Writes the figures of a run for TensorBoard."""

from collections.abc import Mapping

import tensorflow as tf


class Summaries:
    """Writes figures by step, which TensorBoard shows as curves.

    Args:
      folder: where TensorBoard looks for logs; "": nothing is written.

    Raises:
      tf.errors.OpError: the folder cannot be written.
    """

    def __init__(self, folder: str):
        make = tf.summary.create_file_writer if folder else tf.summary.create_noop_writer
        self._writer = make(folder) if folder else make()

    def write(self, step: int, figures: Mapping[str, float | tf.Tensor]) -> None:
        """Writes figures for a step to the file of events, and flushes it; returns nothing.

        Args:
          step: the step.
          figures: by name a number or a tensor [].
        """
        with self._writer.as_default(step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)
        self._writer.flush()

    def close(self) -> None:
        """Closes the file of events; returns nothing."""
        self._writer.close()
