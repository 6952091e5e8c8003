"""Fine-tunes a model that several devices share: the steps are those of `finetuner.Finetuner`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs.finetuner import Finetuner
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.mesh_inference import MeshInference, on_mesh
from tfbio.task_types.task_type import TaskType
from tfbio.training.mesh import MeshStrategy


class MeshFinetuner(MeshInference, Finetuner):
    """A fine-tuner whose model and optimizer are divided over a mesh of devices.

    Its own model and optimizer are whole and in this process. Between two calls they have the
    newest weights, so that checkpoints do not depend on the mesh.

    Args:
      config, encoder_config, task_type, pad_id, num_steps: see `Finetuner`.
      strategy: has the mesh.

    Attributes:
      on_mesh: the `Finetuner` whose variables are the mesh's.

    Raises:
      UsageError: the encoder does not divide by the devices.
    """

    on_mesh: Finetuner

    def __init__(
        self,
        config: FinetuningConfig,
        encoder_config: EncoderConfig,
        task_type: TaskType,
        pad_id: int,
        num_steps: int,
        strategy: MeshStrategy,
    ):
        Finetuner.__init__(self, config, encoder_config, task_type, pad_id, num_steps, strategy)
        self.mesh = strategy.mesh
        with self.mesh.scope():
            self.on_mesh = Finetuner(
                config,
                on_mesh(encoder_config, strategy),
                task_type,
                pad_id,
                num_steps,
                tf.distribute.get_strategy(),
            )

    def begin(self, features: Features, order: np.ndarray, seed: int) -> None:
        """Sets the windows to learn from, and gives the mesh the weights; see `Finetuner.begin`."""
        super().begin(features, order, seed)
        for own, divided in self._state():
            self.mesh.assign(divided, own)

    def _take_steps(self, num_steps: int) -> tf.Tensor:
        total = super()._take_steps(num_steps)
        for own, divided in self._state():
            self.mesh.collect(divided, own)
        return total

    def _train_step(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        with self.mesh.tracing():
            loss = self.on_mesh._train_step(batch, self.mesh.put(seed))
        return tf.constant(self.mesh.gather(loss))

    def _state(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Returns each variable, the optimizer's too, with that of the mesh."""
        of_optimizer = zip(
            self.optimizer.variables(), self.on_mesh.optimizer.variables(), strict=True
        )
        return [*self._pairs(), *of_optimizer]


def make_finetuner(
    config: FinetuningConfig,
    encoder_config: EncoderConfig,
    task_type: TaskType,
    pad_id: int,
    num_steps: int,
    strategy: tf.distribute.Strategy,
) -> Finetuner:
    """Makes the fine-tuner for a strategy: a `MeshFinetuner` for that of a mesh.

    Args:
      config, encoder_config, task_type, pad_id, num_steps, strategy: see `Finetuner`.

    Raises:
      UsageError: the encoder does not divide by the devices of the mesh.
    """
    make = MeshFinetuner if isinstance(strategy, MeshStrategy) else Finetuner
    return make(config, encoder_config, task_type, pad_id, num_steps, strategy)
