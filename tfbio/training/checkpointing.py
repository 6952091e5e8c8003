"""Saves a run's model and optimizer, and restores them."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base.cli import UserError


class NotFiniteError(UserError):
    """A weight is not a number any more."""


class Checkpointer:
    """Saves a model and its optimizer in a folder, as `ckpt-STEP`, and restores them.

    Args:
      model: the model.
      optimizer: its optimizer, whose `iterations` are the steps done so far. All of its variables
        must be there.
      folder: where the checkpoints are.
      keep: how many of the newest are kept.
      writes: whether this process writes; of several workers one does.
      others: what else of the run is saved, by name.
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
        """Restores what was saved at `path`; call it in the scope of the strategy."""
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def save(self) -> None:
        """Saves the current step, unless it is saved already.

        Raises:
          NotFiniteError: a weight is not finite.
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
