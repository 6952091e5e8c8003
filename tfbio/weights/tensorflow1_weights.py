"""Restores and writes the weights of checkpoints of TensorFlow 1.

Those of google-research's electra, bert and albert are read, and those of electra written. With the
optimizer's averages, training continues there, or here, where it stopped. `tensorflow1_checkpoint`
finds the checkpoints, and `tensorflow1_settings` reads the models' settings.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import messages
from tfbio.models.encoder import Encoder
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.training import optimization
from tfbio.weights import weight_names
from tfbio.weights.tensorflow1_checkpoint import (
    STEP,
    TensorFlow1Error,
    find_one,
    open_checkpoint,
    scope_of,
    shapes_in,
)
from tfbio.weights.tensorflow1_settings import (
    DISCRIMINATOR_SCOPE,
    GENERATOR_SCOPE,
    PAIR_HEAD,
    WORD_HEAD,
)

# The averages of Adam: the suffix of their names in checkpoints -> the slot of our optimizer.
_SLOTS = {"adam_m": "m", "adam_v": "v"}


def load(
    prefix: str,
    model: Electra | MaskedLanguageModel,
    optimizer: optimization.Adam | None = None,
) -> None:
    """Restores a model's weights from a TensorFlow 1 checkpoint, and an optimizer's averages.

    Returns nothing. With the averages goes the step, the optimizer's `iterations`. Prints a line if
    the classifier of sentence pairs has averages, and `model` does not train it.

    Args:
      prefix: the prefix of the checkpoint, such as "electra/model.ckpt-1000".
      model: a model of the same shape, whose variables are assigned.
      optimizer: the model's optimizer, if training is to continue; None for the weights alone.

    Raises:
      TensorFlow1Error: a tensor is missing, damaged or of another shape. Nothing is changed then.
    """
    named = _tensors(model, optimizer)
    _assign(prefix, named)
    averages = f"{PAIR_HEAD}/output_weights/adam_m"
    left_out = averages in shapes_in(prefix) and not any(averages in x.names for x in named)
    if optimizer is not None and left_out:
        lost = "the optimizer's averages of the classifier of sentence pairs are"
        if getattr(model, "sentence_pair_head", None) is None:
            lost = "the classifier of sentence pairs, and the optimizer's averages of it, are"
        messages.say(
            f"{prefix}: {lost} left out; --set sentence_pair_head=true --set "
            "sentence_pair_loss=true keep and train all of it."
        )


def restore_encoder(path: str, encoder: Encoder) -> None:
    """Restores an encoder's weights from a TensorFlow 1 checkpoint; returns nothing.

    Args:
      path: the prefix of a checkpoint, or its folder.
      encoder: an encoder of the same shape, whose variables are assigned.

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape, or there is no checkpoint. Nothing
        is changed then.
    """
    prefix = find_one(path)
    scope = scope_of(prefix, shapes_in(prefix))
    _assign(prefix, _of_encoder(encoder, scope))


def restore_pooler(path: str, pooler: keras.layers.Dense) -> None:
    """Restores the weights of BERT's or ALBERT's pooler from a TensorFlow 1 checkpoint.

    Returns nothing. Leaves `pooler` as it is if the checkpoint has none.

    Args:
      path: the prefix of a checkpoint, or its folder.
      pooler: a layer of the same shape: kernel float32 [hidden, hidden], bias float32 [hidden].

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape, or there is no checkpoint.
    """
    prefix, named = find_one(path), weight_names.of_pooler(pooler, "bert")
    if named[0].names[0] in shapes_in(prefix):
        _assign(prefix, named)


def restore_electra(path: str, model: Electra) -> None:
    """Restores an ELECTRA's weights from a TensorFlow 1 checkpoint; returns nothing.

    The checkpoint may also be of a BERT, for the discriminator. If it has no generator, or no head
    of the discriminator, that part of `model` stays as it is.

    Args:
      path: the prefix of a checkpoint, or its folder.
      model: a model of the same shape, whose variables are assigned.

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape, or there is no checkpoint. Nothing
        is changed then.
    """
    prefix = find_one(path)
    shapes = shapes_in(prefix)
    if f"{GENERATOR_SCOPE}/dense/kernel" in shapes:
        load(prefix, model)
        return
    named = _of_encoder(model.encoder, scope_of(prefix, shapes))
    if f"{DISCRIMINATOR_SCOPE}/dense/kernel" in shapes:
        named += weight_names.of_discriminator_head(model)
    _assign(prefix, named)


def restore_masked_language_model(path: str, model: MaskedLanguageModel) -> None:
    """Restores a masked language model's weights from a TensorFlow 1 checkpoint.

    Returns nothing. The checkpoint is of a BERT or ALBERT.

    Args:
      path: the prefix of a checkpoint, or its folder.
      model: a model of the same shape, whose variables are assigned.

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape, or there is no checkpoint. Nothing
        is changed then.
    """
    load(find_one(path), model)


def _assign(prefix: str, named: list[weight_names.Named]) -> None:
    """Assigns tensors to variables; several tensors of one variable are joined at the last axis.

    Raises:
      TensorFlow1Error: a tensor is missing, damaged or of another shape. Nothing is changed then.
    """
    reader = open_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    values = []
    for variable, names in named:
        for name in names:
            if name not in shapes:
                raise TensorFlow1Error(
                    f"{prefix} holds no {name}: it is of another model, or smaller."
                )
        try:
            parts = [reader.get_tensor(name) for name in names]
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise TensorFlow1Error(
                f"{prefix} is damaged or not complete ({messages.first_line(error)}): get it again."
            ) from error
        value = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
        if names[0].startswith(f"{PAIR_HEAD}/output_weights"):
            value = value.T  # the only kernel that is [outputs, inputs] there; so are its averages
        if value.shape != tuple(variable.shape):
            raise TensorFlow1Error(
                f"{prefix}: {' + '.join(names)} has shape {list(value.shape)}, the model's is "
                f"{variable.shape.as_list()}."
            )
        values.append((variable, value))
    for variable, value in values:
        variable.assign(value)


def write(prefix: str, model: Electra, optimizer: optimization.Adam | None = None) -> None:
    """Writes an ELECTRA's weights as a TensorFlow 1 checkpoint, which the original code reads.

    Returns nothing. The files are `PREFIX.index` and `PREFIX.data-*`.

    Args:
      prefix: the prefix of the checkpoint to write, such as "electra/model.ckpt-1000"; its folder
        must exist.
      model: the model.
      optimizer: the model's optimizer, whose averages and step are written, too. Without it, that
        code can fine-tune the weights, but cannot continue pretraining.

    Raises:
      tf.errors.OpError: the files cannot be written.
    """
    tensors: dict[str, np.ndarray] = {}
    for variable, names in _tensors(model, optimizer):
        parts = [variable.numpy()]
        if len(names) > 1:
            parts = np.split(variable.numpy(), len(names), axis=-1)
        tensors |= zip(names, parts, strict=True)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )


def _of_encoder(encoder: Encoder, scope: str) -> list[weight_names.Named]:
    """Returns the variables of an encoder with the names of their tensors."""
    if not encoder.config.share_layers:
        return weight_names.of_encoder(encoder, scope)
    return [
        weight_names.Named(variable, [weight_names.original_albert_name(name) for name in names])
        for variable, names in weight_names.of_encoder(encoder, "albert")
    ]


def _of_masked_language_model(model: MaskedLanguageModel) -> list[weight_names.Named]:
    """Returns the variables with their names; but for the layers, BERT and ALBERT have the same."""
    names = _of_encoder(model.encoder, "bert")
    names += weight_names.of_word_head(
        model.head, f"{WORD_HEAD}/transform", f"{WORD_HEAD}/output_bias"
    )
    if model.sentence_pair_head is not None:
        pooler = weight_names.of_sentence_pair_head(
            model.sentence_pair_head, "bert/pooler/dense", PAIR_HEAD
        )
        for variable, (name,) in pooler:
            name = name.replace(f"{PAIR_HEAD}/kernel", f"{PAIR_HEAD}/output_weights")
            name = name.replace(f"{PAIR_HEAD}/bias", f"{PAIR_HEAD}/output_bias")
            names.append(weight_names.Named(variable, [name]))
    return names


def _tensors(
    model: Electra | MaskedLanguageModel, optimizer: optimization.Adam | None
) -> list[weight_names.Named]:
    """Returns each variable of model and optimizer with the names of its tensors."""
    if isinstance(model, Electra):
        weights = weight_names.of_electra(model)
    else:
        weights = _of_masked_language_model(model)
    if optimizer is None:
        return weights
    trainable = {id(variable) for variable in model.trainable_variables}
    optimizer._create_all_weights(model.trainable_variables)
    averages = [
        weight_names.Named(
            optimizer.get_slot(variable, ours), [f"{name}/{theirs}" for name in names]
        )
        for variable, names in weights
        if id(variable) in trainable
        for theirs, ours in _SLOTS.items()
    ]
    return [*weights, *averages, weight_names.Named(optimizer.iterations, [STEP])]
