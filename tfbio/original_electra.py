"""Checkpoints of the original ELECTRA code (google-research/electra, TensorFlow 1), in and out.

With the optimizer, training goes on there, or here, where it was left.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfbio import optimization, weight_names
from tfbio.cli import UserError
from tfbio.electra import Electra

# What that code's optimizer calls its averages, behind the name of the variable -> what ours does.
SLOTS = {"adam_m": "m", "adam_v": "v"}
STEP = "global_step"


class OriginalElectraError(UserError):
    """A checkpoint that is none, or of another model."""


def load(path: str, model: Electra, optimizer: optimization.Adam | None = None) -> None:
    """Gives `model` the weights of a checkpoint, and `optimizer` its averages and its step.

    Args:
      path: the checkpoint's prefix, such as `electra/model.ckpt-1000`.
      model: of the same shape.
      optimizer: of the model, if training is to go on.

    Raises:
      OriginalElectraError: a tensor is missing or of another shape; nothing is then changed.
    """
    try:
        reader = tf.train.load_checkpoint(path)
    except (tf.errors.OpError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise OriginalElectraError(f"{path} is no checkpoint: {reason}") from error
    shapes = reader.get_variable_to_shape_map()
    values = []
    for variable, names in _tensors(model, optimizer):
        for name in names:
            if name not in shapes:
                raise OriginalElectraError(
                    f"{path} holds no {name}: it is not ELECTRA's, or smaller."
                )
        value = reader.get_tensor(names[0])
        if len(names) > 1:
            value = np.concatenate([reader.get_tensor(name) for name in names], axis=-1)
        if value.shape != tuple(variable.shape):
            raise OriginalElectraError(
                f"{path}: {' + '.join(names)} has shape {list(value.shape)}, the model's is "
                f"{variable.shape.as_list()}."
            )
        values.append((variable, value))
    for variable, value in values:
        variable.assign(value)


def write(path: str, model: Electra, optimizer: optimization.Adam | None = None) -> None:
    """Writes a checkpoint that the original code reads.

    Args:
      path: the checkpoint's prefix; its folder must be there.
      model: whose weights.
      optimizer: of the model; without, that code can fine-tune the weights, not pretrain on.
    """
    tensors = {}
    for variable, names in _tensors(model, optimizer):
        parts = [variable.numpy()]
        if len(names) > 1:
            parts = np.split(variable.numpy(), len(names), axis=-1)
        tensors |= zip(names, parts, strict=True)
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )


def _tensors(
    model: Electra, optimizer: optimization.Adam | None
) -> list[tuple[tf.Variable, list[str]]]:
    """Each variable, and the tensors that are joined along its last axis."""
    weights = weight_names.of_electra(model)
    if optimizer is None:
        return weights
    optimizer._create_all_weights(model.trainable_variables)
    averages = [
        (optimizer.get_slot(variable, ours), [f"{name}/{theirs}" for name in names])
        for variable, names in weights
        for theirs, ours in SLOTS.items()
    ]
    return [*weights, *averages, (optimizer.iterations, [STEP])]
