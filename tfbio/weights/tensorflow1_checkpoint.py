"""Finds and opens the checkpoints of TensorFlow 1, and lists the tensors in them."""

from __future__ import annotations

import os
import re

import tensorflow as tf

from tfbio.base import file_paths, json_files, messages
from tfbio.base.errors import UserError
from tfbio.weights import weight_files

# The variable that counts the steps.
STEP = "global_step"
# The scope of ALBERT's shared layer; published models have one group of one layer.
SHARED_LAYER = "bert/encoder/transformer/group_0/inner_group_0"


class TensorFlow1Error(UserError):
    """An error for a file that is no TensorFlow 1 checkpoint, or one of another model."""


def find(path: str) -> str | None:
    """Finds a TensorFlow 1 checkpoint, and returns its prefix.

    Args:
      path: the prefix itself, or the path of a folder. If the checkpoints in it differ in their
        number, such as `model.ckpt-0` and `model.ckpt-1000`, the one with the highest number is
        taken.

    Returns:
      The prefix, such as "electra/model.ckpt-1000", or None if there is no checkpoint, if
      TensorFlow 2 wrote it, or if the folder holds a run of tfbio or the weights in the format of
      `transformers`.

    Raises:
      TensorFlow1Error: the file is damaged or no checkpoint, or the folder holds several of
        different names.
    """
    prefix = path
    if not file_paths.at(f"{path}.index").is_file():
        stated = json_files.read_object_or_empty(file_paths.at(path, "config.json"))
        is_of_transformers = "model_type" in stated and any(
            file_paths.at(path, name).is_file() for name in weight_files.NAMES
        )
        if "encoder" in stated or is_of_transformers:  # the first: a run of tfbio
            return None
        names = [file.name.removesuffix(".index") for file in file_paths.at(path).glob("*.index")]
        if not names:
            return None
        stems = sorted({re.sub(r"-\d+$", "", name) for name in names})
        if len(stems) > 1:
            raise TensorFlow1Error(
                f"{path} holds several checkpoints, {' and '.join(stems)}: give one of them, such "
                f"as {os.path.join(path, stems[0])}."
            )
        prefix = os.path.join(path, max(names, key=lambda name: (len(name), name)))
    # A name that only TensorFlow 2 writes.
    return None if "_CHECKPOINTABLE_OBJECT_GRAPH" in shapes_in(prefix) else prefix


def find_one(path: str) -> str:
    """Finds a TensorFlow 1 checkpoint that must be there, and returns its prefix.

    Args:
      path: see `find`.

    Raises:
      TensorFlow1Error: there is none, or another error of `find`.
    """
    prefix = find(path)
    if prefix is None:
        raise TensorFlow1Error(f"{path} holds no checkpoint of TensorFlow 1.")
    return prefix


def open_checkpoint(prefix: str) -> tf.train.CheckpointReader:
    """Opens a TensorFlow 1 checkpoint, to read its tensors by their names.

    Args:
      prefix: the prefix of the checkpoint, such as "electra/model.ckpt-1000".

    Returns:
      A reader, whose `get_tensor(name)` returns a numpy array and whose
      `get_variable_to_shape_map()` returns a dict, name -> list of sizes.

    Raises:
      TensorFlow1Error: it is damaged, or no checkpoint.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        reader.get_variable_to_shape_map()  # fails if a name is no text
        return reader
    except (tf.errors.OpError, ValueError) as error:
        reason = messages.first_line(error)
        raise TensorFlow1Error(f"{prefix} is no checkpoint: {reason}") from error


def shapes_in(prefix: str) -> dict[str, list[int]]:
    """Lists the shapes of the tensors in a TensorFlow 1 checkpoint.

    Args:
      prefix: the prefix of the checkpoint, such as "electra/model.ckpt-1000".

    Returns:
      Name of a tensor -> its shape, a list of sizes; [] for a scalar.

    Raises:
      TensorFlow1Error: it is damaged, or no checkpoint.
    """
    return open_checkpoint(prefix).get_variable_to_shape_map()


def has_state(path: str) -> bool:
    """Returns True if `path` is a TensorFlow 1 checkpoint from which training can continue.

    Released checkpoints have no step or no averages; ALBERT's have the averages of LAMB. All other
    paths give False.

    Args:
      path: the prefix of a checkpoint, or the path of a folder.

    Raises:
      TensorFlow1Error: the checkpoint cannot be read, or the folder holds several.
    """
    prefix = find(path)
    if prefix is None:
        return False
    names = shapes_in(prefix)
    has_averages = any(name.endswith("/adam_m") for name in names)
    return STEP in names and has_averages and f"{SHARED_LAYER}/LayerNorm/gamma" not in names


def scope_of(prefix: str, shapes: dict[str, list[int]]) -> str:
    """Tells whether a TensorFlow 1 checkpoint has its encoder's tensors under "bert" or "electra".

    Args:
      prefix: the prefix of the checkpoint, for the message.
      shapes: name of a tensor -> sizes, the result of `shapes_in`.

    Returns:
      The scope, "bert" (also ALBERT's) or "electra".

    Raises:
      TensorFlow1Error: there is no such scope.
    """
    for scope in ("bert", "electra"):
        if f"{scope}/embeddings/word_embeddings" in shapes:
            return scope
    raise TensorFlow1Error(
        f"{prefix} holds no bert/embeddings/word_embeddings, nor electra's: it is of another model."
    )
