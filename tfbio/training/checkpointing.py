"""Saves a run's model and optimizer, and restores them."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base.cli import UserError


class NotFiniteError(UserError):
    """An infinite weight, or one that is not a number; nothing is saved."""


class Checkpointer:
    """Saves a model and its optimizer in a folder, as `ckpt-STEP`, and restores them.

    Args:
      model: the model.
      optimizer: its optimizer, whose `iterations` are the steps done so far. All of its variables
        must be there.
      folder: where the checkpoints are.
      keep: how many of the newest are kept.
      writes: True if this process writes; of several workers one does.
      others: further state of the run to save and restore, by name.
    """

    def __init__(
        self,
        model: keras.layers.Layer,
        optimizer: keras.optimizers.Optimizer,
        folder: str,
        keep: int,
        writes: bool = True,
        **others: tf.train.Checkpoint,
    ):
        self._model, self._step = model, optimizer.iterations
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, **others)
        # Makes this variable, which the worker that writes would make later, and wait for others.
        _ = self._checkpoint.save_counter
        self._manager = None
        if writes:
            self._manager = tf.train.CheckpointManager(self._checkpoint, folder, keep)

    def restore(self, path: str) -> None:
        """Sets the model, the optimizer and the other state to a checkpoint's; returns nothing.

        Call it in the scope of the strategy.

        Args:
          path: the prefix of the checkpoint's files, such as "FOLDER/ckpt-1000".

        Raises:
          tf.errors.OpError: there is no checkpoint, or it cannot be read (NotFoundError and
            others).
          IndexError: a file of it is too short.
          AssertionError: it lacks a variable.
          ValueError: a variable has another shape in it.
        """
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def save(self) -> None:
        """Writes the checkpoint of the current step, unless it is there already; returns nothing.

        It deletes the oldest checkpoints beyond `keep`. A process that does not write only checks
        the weights.

        Raises:
          NotFiniteError: a trainable weight is not finite.
          tf.errors.OpError: the folder cannot be written.
        """
        step = int(self._step.numpy())
        # Steps after an update that made them so are skipped, and no loss tells it.
        for variable in self._model.trainable_variables:
            if not np.isfinite(variable.numpy()).all():
                raise NotFiniteError(
                    f"{variable.name} is not finite at step {step}: nothing of it is saved; try, "
                    "with another output folder, a lower learning_rate or a longer warm-up."
                )
        if self._manager and not (self._manager.latest_checkpoint or "").endswith(f"-{step}"):
            self._manager.save(checkpoint_number=step)
