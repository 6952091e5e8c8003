"""Saves a run's model and optimizer, finds the newest checkpoint, and restores it."""

import functools
import glob
import os
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import file_paths, messages, path_checks, storage
from tfbio.base.errors import UserError

# The beginning of the names of checkpoints that are kept for good. They are not in the list of
# TensorFlow, which deletes the oldest in it.
_KEPT = "kept"


class NotFiniteError(UserError):
    """An error of saving a checkpoint: a weight is infinite or not a number; exit code 1.

    Nothing is saved.
    """


class Checkpointer:
    """Saves a run's model and optimizer as checkpoints in a folder, `ckpt-STEP`, and restores them.

    The newest are kept, and those of some steps for good, as `kept-STEP`.

    Args:
      model: the model.
      optimizer: its optimizer, whose `iterations` are the steps done so far. All of its variables
        must be there.
      folder: the path of the folder.
      keep: the number of the newest checkpoints that are kept.
      writes: True if this process writes; of several workers one does.
      keep_at: the steps whose checkpoints are kept for good.
      before_saving: called before each checkpoint, to give model and optimizer the values to save,
        where others compute with them (see `mesh_pretrainer`).
      others: further state of the run to save and restore, by name.
    """

    def __init__(
        self,
        model: keras.layers.Layer,
        optimizer: keras.optimizers.Optimizer,
        folder: str,
        keep: int,
        writes: bool = True,
        keep_at: Collection[int] = (),
        before_saving: Callable[[], None] = lambda: None,
        **others: tf.train.Checkpoint,
    ):
        self._model, self._step = model, optimizer.iterations
        self._before_saving = before_saving
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, **others)
        # Makes this variable, which the worker that writes would make later, and wait for others.
        _ = self._checkpoint.save_counter
        self._folder, self._keep_at = folder, keep_at
        self._manager = None
        if writes:
            self._manager = tf.train.CheckpointManager(self._checkpoint, folder, keep)

    def restore(self, path: str) -> None:
        """Restores the model, the optimizer and the other state from a checkpoint; returns nothing.

        Call it in the scope of the strategy. A step in `keep_at` is then kept for good, also if a
        run did not know so when it saved it.

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
        if self._manager:
            step = int(self._step.numpy())
            if not tf.io.gfile.exists(f"{self._kept(step)}.index"):
                self._keep(step)

    def save(self) -> None:
        """Writes the checkpoint of the current step, unless it is there already; returns nothing.

        It deletes the oldest checkpoints beyond `keep`, and writes the step a second time if it is
        one of `keep_at`. A process that does not write only checks the weights.

        Raises:
          NotFiniteError: a trainable weight is not finite.
          tf.errors.OpError: the folder cannot be written.
        """
        self._before_saving()
        step = int(self._step.numpy())
        # Steps after an update that made them so are skipped, and no loss tells it.
        for variable in self._model.trainable_variables:
            if not np.isfinite(variable.numpy()).all():
                raise NotFiniteError(
                    f"{variable.name} is not finite at step {step}: nothing of it is saved; try, "
                    "with another output folder, a lower learning_rate or a longer warm-up."
                )
        if self._manager and not (self._manager.latest_checkpoint or "").endswith(f"-{step}"):
            # First, so that a run which is killed does not go on behind a step that it lacks.
            self._keep(step)
            self._manager.save(checkpoint_number=step)

    def _keep(self, step: int) -> None:
        """Writes the step's checkpoint for good if it is one of `keep_at`.

        It replaces one that another run left in the folder, whose other checkpoints were removed.
        """
        if step in self._keep_at:
            self._checkpoint.write(self._kept(step))

    def _kept(self, step: int) -> str:
        """Returns the prefix of the files of a step that is kept for good."""
        return os.path.join(self._folder, f"{_KEPT}-{step}")


class CheckpointError(UserError):
    """An error of a checkpoint: missing, damaged, or not of the model asked for; exit code 1."""


def checkpoints_in(folder: str) -> tuple[Any, list[str]]:
    """Lists the checkpoints of a run, which TensorFlow lists in the file `checkpoint`.

    If the newest one in the list was removed, the function prints so once.

    Args:
      folder: the run's `--model_dir`.

    Returns:
      TensorFlow's list (a `CheckpointState`), or None if there is no checkpoint; and the prefixes
      of the checkpoints that exist, such as "out/model/ckpt-1000", the newest last.

    Raises:
      CheckpointError: the list is damaged, or all checkpoints in it were removed.
    """
    index = os.path.join(folder, "checkpoint")
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        state = None
    if state is None:
        indices = tf.io.gfile.glob(os.path.join(folder, "ckpt-*.index"))
        if len(indices) == 1 and not tf.io.gfile.exists(index):
            # The run was killed between its first checkpoint and the list.
            path = os.path.join(folder, os.path.basename(indices[0]).removesuffix(".index"))
            written = tf.io.gfile.stat(indices[0]).mtime_nsec / 1e9
            state = tf.compat.v1.train.generate_checkpoint_state_proto(
                folder, path, [path], [written], last_preserved_timestamp=written - 1
            )
            # The function made the paths relative to the folder.
            state.model_checkpoint_path, state.all_model_checkpoint_paths[0] = path, path
            return state, [path]
        if indices or tf.io.gfile.exists(index):
            raise CheckpointError(
                f"{index}, which names the newest checkpoint, is missing or damaged: write it as "
                f"the line 'model_checkpoint_path: \"ckpt-N\"', or remove {folder} to start anew."
            )
        return None, []
    newest = state.model_checkpoint_path
    known = dict.fromkeys([*state.all_model_checkpoint_paths, newest])
    existing = [path for path in known if tf.io.gfile.exists(f"{path}.index")]
    if not existing:
        raise CheckpointError(
            f"{newest} is gone, and there is no older checkpoint: to start anew, remove {index}."
        )
    if existing[-1] != newest:
        _say_once(f"{newest} is gone: the newest checkpoint left is {existing[-1]}.")
    return state, existing


@functools.cache
def _say_once(line: str) -> None:
    """Prints a line once in a process."""
    print(line, flush=True)


def find_newest(folder: str, repair: bool = True) -> str | None:
    """Finds the newest checkpoint of a run, and reads all of it once to check it.

    If the newest one in the list was removed, the function prints so and takes the one before it.

    Args:
      folder: the run's `--model_dir`.
      repair: True to correct TensorFlow's list of checkpoints, the file `checkpoint`.

    Returns:
      The prefix, such as "out/model/ckpt-1000", or None if there is no checkpoint.

    Raises:
      CheckpointError: the checkpoint is damaged, or all were removed, or their list is damaged.
      UserError: see `path_checks.require_no_pattern`.
    """
    state, existing = checkpoints_in(folder)
    if state is None:
        return None
    path = existing[-1]
    path_checks.require_no_pattern(path)  # else it would seem damaged
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)  # checks its checksum
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        remedy = f"to start anew, remove {path}.* and {os.path.join(folder, 'checkpoint')}"
        if len(existing) > 1:
            remedy = f"remove {path}.*, and the run continues from {existing[-2]}"
        raise CheckpointError(
            f"{path} is damaged ({messages.first_line(error)}): {remedy}."
        ) from error
    is_listed = path == state.model_checkpoint_path
    is_listed &= tf.io.gfile.exists(os.path.join(folder, "checkpoint"))
    if repair and not is_listed:
        times = state.all_model_checkpoint_timestamps
        times = dict(zip(state.all_model_checkpoint_paths, times, strict=False))
        tf.compat.v1.train.update_checkpoint_state(
            folder,
            path,
            existing,
            all_model_checkpoint_timestamps=[times.get(path, 0.0) for path in existing],
            last_preserved_timestamp=state.last_preserved_timestamp,
        )
    return path


def find_kept(folder: str) -> list[str]:
    """Finds the checkpoints of a folder that were kept for good.

    Args:
      folder: a run's `--model_dir`.

    Returns:
      The prefix of each, such as "out/model/kept-1000", sorted by their text.
    """
    pattern = os.path.join(glob.escape(folder), f"{_KEPT}-*.index")
    return sorted(path.removesuffix(".index") for path in storage.find(pattern))


def remove_half_written(folder: str) -> None:
    """Removes the parts of a checkpoint that TensorFlow left when its process was killed.

    The parts may be as large as the checkpoint. No other process may be writing there. Returns
    nothing, and does nothing where there are no parts.

    Args:
      folder: a run's `--model_dir`.

    Raises:
      OSError: a part cannot be removed.
    """
    for pattern in ("ckpt-*_temp/*", f"{_KEPT}-*_temp/*", "checkpoint.tmp*"):
        for path in storage.find(os.path.join(glob.escape(folder), pattern)):
            file_paths.at(path).unlink(missing_ok=True)
    if not file_paths.is_remote(folder):
        for name in ("ckpt", _KEPT):
            for path in glob.glob(os.path.join(glob.escape(folder), f"{name}-*_temp")):
                os.rmdir(path)
