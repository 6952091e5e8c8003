"""Finds the newest checkpoint in a folder, and tells which program wrote it.

A checkpoint may be of a run of tfbio, of `transformers` or of TensorFlow 1.
`checkpoint_settings` reads its settings and `checkpoint_weights` its weights.
"""

import enum
import functools
import glob
import os

import tensorflow as tf

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.weights import hugging_face_settings, tensorflow1_settings

# The name of the weights in the folder of a fine-tuning run's trial.
TRIAL_WEIGHTS = "model"


class CheckpointError(UserError):
    """An error for a checkpoint that is missing, damaged, or of another model than asked for."""


class Source(enum.Enum):
    """The program that wrote the weights in a folder.

    Attributes:
      RUN: tfbio, in a run of pretraining or a trial of fine-tuning.
      HUGGING_FACE: `transformers`, or a program that writes its format.
      TENSORFLOW1: google-research's electra, bert or albert.
    """

    RUN = "a run of tfbio"
    HUGGING_FACE = "transformers"
    TENSORFLOW1 = "TensorFlow 1"


def source_of(folder: str) -> Source:
    """Returns which program wrote the weights in a folder.

    Args:
      folder: a folder with weights, or the prefix of a checkpoint.

    Returns:
      A member of `Source`: TENSORFLOW1 if there is such a checkpoint, else HUGGING_FACE if its
      `config.json` has a model_type, and RUN for everything else, also for a folder without
      weights.

    Raises:
      TensorFlow1Error: the files of a checkpoint cannot be read, or the folder holds several of
        TensorFlow 1.
    """
    if tensorflow1_settings.find(folder) is not None:
        return Source.TENSORFLOW1
    return Source.HUGGING_FACE if hugging_face_settings.is_one(folder) else Source.RUN


def run_of(folder: str) -> str:
    """Returns the folder with the settings and the vocabulary of the weights in `folder`.

    Args:
      folder: the folder of a pretraining run or of a model of `transformers`, which hold both; a
        trial of a fine-tuning run, where both are one folder above; or the prefix of a checkpoint,
        where both are beside it.

    Returns:
      `folder` itself, or the folder above; "." if the path names none. The files need not exist.

    Raises:
      TensorFlow1Error: a file of a checkpoint cannot be read.
    """
    if storage.at(f"{folder}.index").is_file():
        return os.path.dirname(folder) or "."
    is_trial = storage.at(folder, f"{TRIAL_WEIGHTS}.index").is_file()
    if is_trial and tensorflow1_settings.find(folder) is None:
        return os.path.dirname(folder.rstrip("/")) or "."
    return folder


def newest_weights(folder: str) -> str:
    """Returns the prefix of the newest checkpoint in `folder`, such as "out/model/ckpt-1000".

    Args:
      folder: the `--model_dir` of a pretraining run, a trial of a fine-tuning run, a folder with
        checkpoints of TensorFlow 1, or the prefix of a checkpoint.

    Raises:
      CheckpointError: there is no checkpoint, or the list of checkpoints is damaged.
      TensorFlow1Error: a checkpoint of TensorFlow 1 cannot be read, or there are several.
    """
    if (prefix := tensorflow1_settings.find(folder)) is not None:
        return prefix
    if storage.at(f"{folder}.index").is_file():
        return folder
    if run_of(folder) != folder:
        return os.path.join(folder, TRIAL_WEIGHTS)
    _, existing = _list(folder)
    if not existing:
        raise CheckpointError(
            f"{folder} holds no checkpoint: run run_pretraining.py first (to fine-tune, the folder "
            "trial_SEED of a run_finetuning.py run will also do)."
        )
    return existing[-1]


def _list(folder: str) -> tuple[object | None, list[str]]:
    """Reads TensorFlow's list of a run's checkpoints.

    Returns:
      The list (`CheckpointState`), or None if there is no checkpoint; and the prefixes of the
      checkpoints that exist, the newest last.

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
                "the line 'model_checkpoint_path: \"ckpt-N\"', or give another --model_dir."
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
    """Returns the prefix of a run's newest checkpoint, after reading all of it once.

    If the newest one in the list was removed, the function prints so and takes the one before it.

    Args:
      folder: the run's `--model_dir`.
      repair: True to correct TensorFlow's list of checkpoints, the file `checkpoint`.

    Returns:
      The prefix, such as "out/model/ckpt-1000", or None if there is no checkpoint.

    Raises:
      CheckpointError: the checkpoint is damaged, or all were removed, or their list is damaged.
    """
    state, existing = _list(folder)
    if state is None:
        return None
    path = existing[-1]
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)  # checks its checksum
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        remedy = f"to start anew, remove {path}.* and {os.path.join(folder, 'checkpoint')}"
        if len(existing) > 1:
            remedy = f"remove {path}.*, and the run continues from {existing[-2]}"
        raise CheckpointError(f"{path} is damaged ({first_line(error)}): {remedy}.") from error
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


def remove_half_written(folder: str) -> None:
    """Removes the parts of a checkpoint that TensorFlow left when its process was killed.

    The parts may be as large as the checkpoint. No other process may be writing there. Returns
    nothing, and does nothing where there are no parts.

    Args:
      folder: a run's `--model_dir`.
    """
    for pattern in ("ckpt-*_temp/*", "checkpoint.tmp*"):
        for path in storage.find(os.path.join(glob.escape(folder), pattern)):
            storage.at(path).unlink(missing_ok=True)
    if not storage.is_remote(folder):
        for path in glob.glob(os.path.join(glob.escape(folder), "ckpt-*_temp")):
            os.rmdir(path)


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, which must not be empty or blank."""
    return str(error).strip().splitlines()[0]
