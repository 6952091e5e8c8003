"""Checks that the settings of fine-tuning, the encoder and the devices fit together."""

from __future__ import annotations

import tensorflow as tf

from tfbio.base.config import ConfigError
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UserError
from tfbio.models import sharding
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.fixed_shapes import has_fixed_shapes
from tfbio.task_types.task_type import TaskType
from tfbio.text import tokenization
from tfbio.training.checkpointing import CheckpointError
from tfbio.training.mesh import MeshStrategy


def check(
    config: FinetuningConfig,
    task_type: TaskType,
    encoder_config: EncoderConfig,
    tokenizer: tokenization.Tokenizer,
    folder: str,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks that the settings of fine-tuning go with the encoder, its vocabulary and the devices.

    Returns nothing. A fine-tuned model is checked so, too, before it predicts for new text.

    Args:
      config: all settings.
      task_type: the type of the task.
      encoder_config: the shape of the encoder in `folder`.
      tokenizer: the encoder's tokenizer.
      folder: the path of the encoder, for the messages.
      strategy: where to compute.

    Raises:
      CheckpointError: the vocabulary has more tokens than the encoder has embeddings.
      ConfigError: a setting does not go with the encoder, the devices or batches of fixed shapes.
      UserError: batches of fixed shapes are asked for with several workers.
    """
    check_settings(config, task_type, encoder_config, folder, strategy)
    if tokenizer.vocab_size > encoder_config.vocab_size:
        raise CheckpointError(
            f"the vocabulary of {folder} has {tokenizer.vocab_size} tokens, but the encoder was "
            f"made for {encoder_config.vocab_size}: it is not the one it was trained with."
        )


def check_settings(
    config: FinetuningConfig,
    task_type: TaskType,
    encoder_config: EncoderConfig,
    folder: str,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks that the settings of fine-tuning go with the encoder and the devices, as `check` does.

    Returns nothing. It needs no vocabulary, so that all settings of a sweep are checked at once.

    Args:
      config: all settings.
      task_type: the type of the task.
      encoder_config: the shape of the encoder in `folder`.
      folder: the path of the encoder, for the messages.
      strategy: where to compute.

    Raises:
      ConfigError: a setting does not go with the encoder, the devices or batches of fixed shapes.
      UserError: batches of fixed shapes are asked for with several workers.
    """
    if config.sequence_length > encoder_config.max_sequence_length:
        raise ConfigError(
            f"sequence_length {config.sequence_length} is more than the "
            f"{encoder_config.max_sequence_length} positions of the encoder in {folder}."
        )
    task_type.check_encoder(encoder_config, folder)
    _check_division(config, strategy.num_replicas_in_sync)
    if isinstance(strategy, MeshStrategy):
        sharding.check(encoder_config, strategy.mesh.shape.model)
        _check_mesh(config, task_type.head_config(0.0), strategy.mesh.shape)
    if has_fixed_shapes(config, strategy):
        _check_fixed_shapes(config, strategy)


def _check_division(config: FinetuningConfig, replicas: int) -> None:
    """Checks that batches divide by the devices and the parts of a step."""
    for name, size in _batch_sizes(config).items():
        if size % replicas:
            raise ConfigError(f"{name} {size} does not divide by {replicas} devices.")
    parts = config.run.gradient_accumulation_steps
    if config.train_batch_size % (replicas * parts):
        raise ConfigError(
            f"train_batch_size {config.train_batch_size} does not divide by {replicas} devices "
            f"with run.gradient_accumulation_steps={parts}."
        )
    groups = config.gradient_clip_groups
    if groups > 1 and groups % replicas:
        raise ConfigError(f"gradient_clip_groups {groups} does not divide by {replicas} devices.")


def _batch_sizes(config: FinetuningConfig) -> dict[str, int]:
    """Returns the sizes of batches by the names of their settings.

    That of prediction is first: for new text it is the size of training, too, which nobody set.
    """
    return {
        "run.eval_batch_size": config.run.eval_batch_size,
        "train_batch_size": config.train_batch_size,
    }


def _check_mesh(config: FinetuningConfig, head: HeadConfig, shape: MeshShape) -> None:
    """Checks what does not go with a mesh of devices."""
    for name, size in _batch_sizes(config).items():
        # A mesh computes it, too, but all of it on each device.
        if size % shape.data:
            raise ConfigError(
                f"{name} {size} does not divide by the {shape.data} parts of --mesh={shape}."
            )
    if head.token_layer in ("lstm", "crf") or head.beam_size:
        name = "electra" if head.beam_size else head.token_layer
        raise ConfigError(
            f"--mesh={shape} does not compute a head of the form {name}: choose another head, or "
            "leave out --mesh."
        )
    found = {
        "gradient_clip_groups": config.gradient_clip_groups,
        "run.gradient_accumulation_steps": config.run.gradient_accumulation_steps,
    }
    for name, value in found.items():
        if value != 1:
            raise ConfigError(
                f"{name} = {value} does not go with --mesh={shape}: give --set {name}=1."
            )
    if config.run.optimize_for == "tpu":
        # Its loop over the layers is an operation that no mesh can divide.
        raise ConfigError(
            f"run.optimize_for = tpu does not go with --mesh={shape}: give --set "
            "run.optimize_for=auto."
        )
    if config.run.fixed_shapes == "always":
        raise ConfigError(f"run.fixed_shapes = always does not go with --mesh={shape}: give never.")


def _check_fixed_shapes(config: FinetuningConfig, strategy: tf.distribute.Strategy) -> None:
    """Checks what does not go with batches of fixed shapes."""
    remedy = "batches of fixed shapes, which a TPU needs: give 1, or run.fixed_shapes = never."
    if config.gradient_clip_groups > 1:
        # There the devices get as many tokens each, and not as many examples.
        raise ConfigError(
            f"gradient_clip_groups {config.gradient_clip_groups} does not go with {remedy}"
        )
    if config.run.gradient_accumulation_steps > 1:
        raise ConfigError(
            f"run.gradient_accumulation_steps {config.run.gradient_accumulation_steps} does not "
            f"go with {remedy}"
        )
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise UserError(
            "run.fixed_shapes = always does not go with --strategy=multi_worker: give never."
        )
