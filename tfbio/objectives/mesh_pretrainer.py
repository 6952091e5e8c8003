"""Pretrains a model that several devices share: the steps are those of `pretrainer.Pretrainer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import tensorflow as tf
import tf_keras as keras

from tfbio.models import sharding
from tfbio.objectives import mesh_limits
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretrainer import EVALUATION_STREAM, TRAINING_STREAM, Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer
from tfbio.training.mesh import MeshStrategy

Batch = dict[str, tf.Tensor]


class MeshPretrainer(Pretrainer):
    """A pretrainer whose model and optimizer are divided over a mesh of devices.

    Its own model and optimizer are whole and in this process: they have the weights at first, and
    again after `collect`, and are what checkpoints save and restore. So a checkpoint does not
    depend on the mesh. Masks are drawn in this process, too.

    Args:
      config: all settings.
      tokenizer: see `Pretrainer`.
      strategy: has the mesh.

    Attributes:
      mesh: the mesh.
      on_mesh: the pretrainer whose variables are the mesh's.

    Raises:
      UsageError: the settings do not go with the mesh, see `mesh_limits.check`.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        tokenizer: FastTokenizer,
        strategy: MeshStrategy,
    ):
        self.mesh = mesh = strategy.mesh
        mesh_limits.check(config, mesh.shape)
        super().__init__(config, tokenizer, strategy)
        words = sharding.padded_words(config.encoder.vocab_size, mesh.shape.model)
        encoder = dataclasses.replace(config.encoder, vocab_size=words)
        with mesh.scope():
            self.on_mesh = Pretrainer(
                dataclasses.replace(config, encoder=encoder),
                tokenizer,
                tf.distribute.get_strategy(),
            )
        self._train_mask = _graph(self._masked_for_training)
        self._eval_mask = _graph(self._masked_for_evaluation)
        # The steps of the generator alone have another graph.
        self._train_steps = {
            alone: _graph(
                self._with_masks(partial(self.on_mesh.replica_train_step, generator_alone=alone))
            )
            for alone in (False, True)
        }
        self._eval_step = _graph(self._with_masks(self.on_mesh.replica_eval_step))

    def spread(self) -> None:
        """Gives the mesh the weights and averages of this process; returns nothing."""
        for own, divided in self._pairs():
            self.mesh.assign(divided, own)

    def collect(self) -> None:
        """Gives this process the weights and averages of the mesh; returns nothing."""
        for own, divided in self._pairs():
            self.mesh.collect(divided, own)

    def train(self, num_steps: int | tf.Tensor) -> dict[str, tf.Tensor]:
        """Pretrains the model by some steps; see `Pretrainer.train`."""
        self._reset(self.on_mesh.logged)
        if self._batches is None:
            self._batches = iter(self._train_dataset)
        for _ in range(int(num_steps)):
            batch = next(self._batches)
            masked = self._train_mask(batch, self.step)
            self._train_steps[self.generator_alone](*self._placed(batch, masked))
            self.step.assign_add(1)
        skipped = self.mesh.gather(self.on_mesh.skipped_steps)
        self.skipped_steps.assign(skipped)
        self.last_skipped_step.assign(self.mesh.gather(self.on_mesh.last_skipped_step))
        return self._results(self.on_mesh.logged) | {
            "learning_rate": self.optimizer.learning_rate(self.step),
            "skipped_steps": tf.constant(skipped),
        }

    def evaluate(self) -> dict[str, tf.Tensor]:
        """Evaluates the model on all batches of `eval_dataset`; see `Pretrainer.evaluate`."""
        self._reset(self.on_mesh.eval_metrics.all)
        for number, batch in enumerate(self.eval_dataset):
            self.mesh.assign(self.on_mesh.eval_batches, tf.constant(number, tf.int64))
            masked = self._eval_mask(batch, tf.constant(number, tf.int64))
            self._eval_step(*self._placed(batch, masked))
        return self._results(self.on_mesh.eval_metrics.all)

    def _pairs(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Returns each variable of this process with that of the mesh."""
        own = [*self.model.variables, *self.optimizer.variables()]
        divided = [*self.on_mesh.model.variables, *self.on_mesh.optimizer.variables()]
        return list(zip(own, divided, strict=True))

    def _placed(self, batch: Batch, masked: MaskedBatch) -> tuple[Batch, MaskedBatch]:
        """Returns a batch and its masks on the mesh."""
        return tf.nest.map_structure(self.mesh.put_rows, (batch, masked))

    def _masked_for_training(self, batch: Batch, step: tf.Tensor) -> MaskedBatch:
        return self.mask(batch, self.seeds(TRAINING_STREAM, step)[0], step)

    def _masked_for_evaluation(self, batch: Batch, number: tf.Tensor) -> MaskedBatch:
        return self.mask(batch, self.seeds(EVALUATION_STREAM, number)[0], None)

    def _with_masks(self, step: Callable[..., None]) -> Callable[[Batch, MaskedBatch], None]:
        """Returns a step that takes its masks, in place of drawing them."""

        def masked_step(batch: Batch, masked: MaskedBatch) -> None:
            with self.mesh.tracing():
                step(batch, masked=masked)

        return masked_step

    def _reset(self, metrics: list[keras.metrics.Metric]) -> None:
        for metric in metrics:
            for variable in metric.variables:
                self.mesh.assign(variable, tf.zeros(variable.shape, variable.dtype))

    def _results(self, metrics: list[keras.metrics.Metric]) -> dict[str, tf.Tensor]:
        return {metric.name: tf.constant(self.mesh.gather(metric.result())) for metric in metrics}


def _graph(function: Callable) -> Callable:
    """Returns a graph of code that is graph code already."""
    return tf.function(tf.autograph.experimental.do_not_convert(function))
