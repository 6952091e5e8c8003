"""Writes the figures of a run for TensorBoard."""

from collections.abc import Mapping

import tensorflow as tf


class Summaries:
    """Writes a run's figures by step as summaries, which TensorBoard shows as curves.

    It is used as `with Summaries(...) as curves:`, and the end of the block closes its file.

    Args:
      folder: the path of the folder in which TensorBoard looks for logs; "": nothing is written.

    Raises:
      tf.errors.OpError: the folder cannot be written.
    """

    def __init__(self, folder: str):
        make = tf.summary.create_file_writer if folder else tf.summary.create_noop_writer
        self._writer = make(folder) if folder else make()

    def __enter__(self) -> "Summaries":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, step: int, figures: Mapping[str, float | tf.Tensor]) -> None:
        """Writes the figures of a step as summaries, and flushes the file; returns nothing.

        Args:
          step: the steps done so far.
          figures: by name a number or a tensor [].

        Raises:
          tf.errors.OpError: the file cannot be written.
        """
        with self._writer.as_default(step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)
        self._writer.flush()
