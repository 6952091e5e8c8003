"""Restores the weights of a checkpoint, whichever program wrote it."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from tfbio.base import file_paths
from tfbio.base.messages import first_line
from tfbio.models.encoder import Encoder
from tfbio.models.initial_weights import restored_weights
from tfbio.objectives.distillation import Student
from tfbio.objectives.electra import Electra
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training.checkpointing import CheckpointError, find_newest
from tfbio.weights import (
    hugging_face_weights,
    tensorflow1_checkpoint,
    tensorflow1_weights,
)
from tfbio.weights.checkpoint_settings import pretraining_config, read_settings
from tfbio.weights.checkpoint_source import Source, newest_weights, run_of, source_of

# The modules that restore the weights of models from elsewhere.
_READERS = {
    Source.HUGGING_FACE: hugging_face_weights,
    Source.TENSORFLOW1: tensorflow1_weights,
}


def restore_model(folder: str, model: tf.Module, optimizer: tf.Module | None = None) -> None:
    """Restores a pretraining model's weights from a checkpoint, whichever program wrote it.

    Returns nothing. Of a run's checkpoints the newest is taken. The variables of `model` get the
    values of the checkpoint. If that has no generator, the one of `model` stays as it is. So does
    the discriminator's head if the checkpoint holds only an encoder, and the linear map of a
    student.

    Args:
      folder: a run's `--model_dir`, the prefix of a checkpoint, or the folder of a model from
        elsewhere.
      model: `Electra` or `MaskedLanguageModel`, of the same shape.
      optimizer: an optimizer to restore, with its averages and its step; None for none. Models of
        `transformers` have none, and it stays as it is.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged, or of another shape.
      SchemaError: the run's `config.json` cannot be used.
      HuggingFaceError: a tensor of a model of `transformers` is missing or of another shape, or its
        generator has embeddings of its own and that of `model` has not.
      WeightFileError: a file of weights of `transformers` is missing or damaged.
      TensorFlow1Error: a tensor of a TensorFlow 1 checkpoint is missing or of another shape.
    """
    source = source_of(folder)
    if source is not Source.RUN:
        if source is Source.TENSORFLOW1 and optimizer is not None:
            tensorflow1_weights.load(tensorflow1_checkpoint.find_one(folder), model, optimizer)
        elif isinstance(model, Electra):
            _READERS[source].restore_electra(folder, model)
        else:
            _READERS[source].restore_masked_language_model(folder, model)
        return
    path: str | None = folder
    if not file_paths.at(f"{folder}.index").is_file():
        path = find_newest(folder, repair=False)
    if path is None:
        raise CheckpointError(f"{folder} holds no checkpoint: run run_pretraining.py first.")
    had = pretraining_config(read_settings(folder), run_of(folder))
    tree = tf.train.Checkpoint(model=_saved_parts(model, had))
    if optimizer is not None:
        optimizer._create_all_weights(model.trainable_variables)
        tree = tf.train.Checkpoint(model=model, optimizer=optimizer)
    _read(path, tree, "the settings")


def _saved_parts(model: tf.Module, had: PretrainingConfig) -> tf.Module | tf.train.Checkpoint:
    """Returns the model, or those of its parts that a run with other settings has saved."""
    names = []
    if isinstance(model, Electra) and model.config.has_generator and not had.has_generator:
        names = ["encoder"]
        if had.objective == "electra":
            names += ["discriminator_dense", "discriminator_output"]
    elif isinstance(model, Student):
        # All but the linear map, which begins anew.
        names = ["encoder", "head"]
        if model.sentence_pair_head is not None:
            names.append("sentence_pair_head")
    if not names:
        return model
    return tf.train.Checkpoint(**{name: getattr(model, name) for name in names})


def restore_encoder(
    folder: str,
    encoder: Encoder,
    head: Mapping[str, tf.Module] | None = None,
    new_tokens: int = 0,
) -> None:
    """Restores an encoder's weights from a checkpoint, whichever program wrote it.

    Returns nothing. Of a run's checkpoints the newest is taken, and of an ELECTRA the
    discriminator. The variables of `encoder`, and of `head`, get the values of the checkpoint.

    Args:
      folder: a run's `--model_dir`, a trial of a fine-tuning run, a model of `transformers`, or a
        checkpoint of TensorFlow 1.
      encoder: an encoder of the same shape.
      head: name of the attribute -> layer, those of the head of a `TaskModel` of the same shape as
        the trial's, to restore them too; None for none. They stay as they are if the weights are
        from elsewhere.
      new_tokens: the number of tokens that `encoder` has more than the checkpoint. Their
        embeddings, which are the last ones, stay as they are.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged, or of another shape.
      HuggingFaceError: a tensor of a model of `transformers` is missing or of another shape.
      WeightFileError: a file of weights of `transformers` is missing or damaged.
      TensorFlow1Error: a tensor of a TensorFlow 1 checkpoint is missing or of another shape.
    """
    if new_tokens:
        size = encoder.config.vocab_size - new_tokens
        with restored_weights():
            saved = Encoder(dataclasses.replace(encoder.config, vocab_size=size))
        restore_encoder(folder, saved, head)
        for variable, value in zip(encoder.variables, saved.variables, strict=True):
            if variable is encoder.embeddings.word:
                value = tf.concat([value, variable[size:]], axis=0)
            variable.assign(value)
        return
    if (source := source_of(folder)) is not Source.RUN:
        _READERS[source].restore_encoder(folder, encoder)
        return
    path = newest_weights(folder)
    # The tree that the trainers save: Checkpoint(model=Electra), or that of a TaskModel.
    tree = tf.train.Checkpoint(model=tf.train.Checkpoint(encoder=encoder, **(head or {})))
    _read(path, tree, f"an encoder of {encoder.config}")


def _text_head(settings: dict) -> str:
    """Returns `text_head` of the run that the settings are of; "" if it has none."""
    task_type = settings.get("trained_on", {}).get("task_type", "")
    return settings.get(task_type, {}).get("text_head", "")


def restore_pooler(folder: str, pooler: tf.Module) -> None:
    """Restores a `TaskModel`'s pooler from a checkpoint's weights, whichever program wrote it.

    Returns nothing. Leaves the pooler as it is if the checkpoint has none.

    Args:
      folder: a folder or checkpoint that `restore_encoder` takes. A pooler is in a BERT or ALBERT
        from elsewhere, in a pretraining run with `sentence_pair_head`, and in a trial with
        `text_head` "tanh".
      pooler: the pooler of a `TaskModel` whose `text_layer` is "tanh"; its variables are assigned.

    Raises:
      CheckpointError: the weights are damaged, or of another shape.
      HuggingFaceError: a tensor of a model of `transformers` is missing or of another shape.
      WeightFileError: a file of weights of `transformers` is missing or damaged.
      TensorFlow1Error: a tensor of a TensorFlow 1 checkpoint is missing or of another shape.
      SchemaError: the run's `config.json` cannot be used.
    """
    if (source := source_of(folder)) is not Source.RUN:
        _READERS[source].restore_pooler(folder, pooler)
        return
    settings, model = read_settings(folder), tf.train.Checkpoint(pooler=pooler)
    if settings.get("sentence_pair_head"):
        model = tf.train.Checkpoint(sentence_pair_head=model)
    elif _text_head(settings) != "tanh":
        return
    _read(newest_weights(folder), tf.train.Checkpoint(model=model), "the pooler")


def _read(path: str, tree: tf.train.Checkpoint, what: str) -> None:
    """Restores all objects of a tree from a checkpoint, which may hold more than they.

    Args:
      path: the prefix of the checkpoint.
      tree: the objects, as they were saved.
      what: a name for them, for the message.

    Raises:
      CheckpointError: the checkpoint is damaged, or does not fit the objects.
    """
    try:
        tree.read(path).expect_partial().assert_existing_objects_matched()
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise CheckpointError(
            f"{path} is damaged or not complete ({first_line(error)}): copy it again, or take an "
            "older checkpoint."
        ) from error
    except (ValueError, AssertionError) as error:
        raise CheckpointError(f"{path} does not fit {what}: {first_line(error)}") from error
