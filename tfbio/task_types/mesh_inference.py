"""Predicts with a model that several devices share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfbio.models import sharding
from tfbio.models.encoder_config import EncoderConfig
from tfbio.task_types import packing
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features
from tfbio.task_types.inference import Inference
from tfbio.task_types.task_type import TaskType
from tfbio.training.mesh import MeshStrategy


class MeshInference(Inference):
    """An `Inference` whose model is divided over a mesh of devices.

    Its own model is whole and in this process; `predict` gives its weights to the mesh. Each window
    has a row of its own, so that all batches have one shape.

    Args:
      config, encoder_config, task_type, pad_id: see `Inference`.
      strategy: has the mesh.

    Attributes:
      mesh: the mesh.
      on_mesh: the `Inference` whose variables are the mesh's.

    Raises:
      UsageError: the encoder does not divide by the devices.
    """

    def __init__(
        self,
        config: CommonSettings,
        encoder_config: EncoderConfig,
        task_type: TaskType,
        pad_id: int,
        strategy: MeshStrategy,
    ):
        super().__init__(config, encoder_config, task_type, pad_id, strategy)
        self.mesh = strategy.mesh
        with self.mesh.scope():
            self.on_mesh = Inference(
                config,
                on_mesh(encoder_config, strategy),
                task_type,
                pad_id,
                tf.distribute.get_strategy(),
            )

    @property
    def fixed_shapes(self) -> bool:
        """False: a mesh takes its batches one by one."""
        return False

    def predict(
        self,
        features: Features,
        with_probabilities: bool = False,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[np.ndarray]:
        """Runs inference on the mesh: computes the outputs of each window; see `Inference`."""
        for own, divided in self._pairs():
            self.mesh.assign(divided, own)
        return super().predict(features, with_probabilities, done)

    def _pairs(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Returns each variable of this process with that of the mesh."""
        return list(zip(self.model.variables, self.on_mesh.model.variables, strict=True))

    def _predict_step(
        self, batch: dict[str, tf.Tensor], with_probabilities: bool = False
    ) -> tf.Tensor:
        with self.mesh.tracing():
            found = self.on_mesh._predict_step(batch, with_probabilities)
        return tf.constant(self.mesh.gather(found))

    def _packer(self, features: Features, batch_size: int, parts: int = 0) -> packing.Packer:
        length = self.config.sequence_length
        return packing.Packer(features, batch_size, parts or 1, self.pad_id, length)

    def _distribute(self, parts: list[packing.Part]) -> dict[str, tf.Tensor]:
        (part,) = parts
        return {name: self.mesh.put_rows(array) for name, array in part.arrays.items()}


def on_mesh(encoder_config: EncoderConfig, strategy: MeshStrategy) -> EncoderConfig:
    """Returns the shape of an encoder on a mesh, with `sharding.padded_words`.

    Args:
      encoder_config: the shape of the encoder.
      strategy: has the mesh.

    Raises:
      UsageError: the encoder does not divide by the devices.
    """
    parts = strategy.mesh.shape.model
    sharding.check(encoder_config, parts)
    words = sharding.padded_words(encoder_config.vocab_size, parts)
    return dataclasses.replace(encoder_config, vocab_size=words)
