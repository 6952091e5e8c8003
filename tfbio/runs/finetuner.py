"""One model and its steps, which fine-tune trial after trial.

Everything random is keyed by the trial's seed and the step, so a trial gives the same scores
whether others ran before it or not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.models import randomness
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.initial_weights import restored_weights
from tfbio.task_types import fixed_shapes, packing, prefetching, row_placement, steps_per_call
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.inference import Inference, make_model
from tfbio.task_types.task_type import TaskType
from tfbio.training import distribution, optimization
from tfbio.training.gradients import Gradient, apply_clipped, differentiate, sum_in_turn
from tfbio.training.trainer import Figures
from tfbio.weights import checkpoint_settings, checkpoint_weights

# The second number of the seed of dropout. `finetuning_data` has two more, so that no two purposes
# share a stream of random numbers.
_DROPOUT_STREAM = 0


class Finetuner(Inference):
    """A model with its optimizer, which fine-tuning trains trial after trial, and which predicts.

    A trial calls `initialize`, which gives the model its first weights, then `begin`, and then
    `train` again and again.

    Args:
      config: all settings.
      encoder_config: the shape of the encoder.
      task_type: the type of the task, which has the head and the loss.
      pad_id: the id of [PAD].
      num_steps: the steps of a trial.
      strategy: where to compute; the batches must divide by its replicas.

    Attributes:
      num_steps: the steps of a trial.
      optimizer: Adam, with the schedule of the settings.
      config, encoder_config, task_type, pad_id, strategy: the arguments.
      model: the `TaskModel` that is trained.
      fixed_shapes: True if batches have one of a few shapes, as a TPU needs.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        encoder_config: EncoderConfig,
        task_type: TaskType,
        pad_id: int,
        num_steps: int,
        strategy: tf.distribute.Strategy,
    ):
        super().__init__(config, encoder_config, task_type, pad_id, strategy)
        self.num_steps = num_steps
        self._replicas = strategy.num_replicas_in_sync
        # Of a replica's examples in a step, worked on one after the other.
        self._parts = config.parts(self._replicas)
        # The windows that the shapes of training batches were chosen for, and the shapes.
        self._chosen: tuple[Features, list[fixed_shapes.Shape]] | None = None
        with strategy.scope():
            self.optimizer = optimization.Adam(
                optimization.SCHEDULES[config.schedule](
                    # Not rounded, as in the original ELECTRA code.
                    config.learning_rate,
                    num_steps,
                    num_steps * config.warmup_proportion,
                ),
                betas=(config.adam_beta_1, config.adam_beta_2),
                epsilon=config.adam_epsilon,
                weight_decay_rate=config.weight_decay_rate,
                lr_multiplier=self._multipliers(),
                bias_correction=config.adam_bias_correction,
            )
            # Now, and not in the first step: a graph that makes variables does not run on several
            # devices.
            self.optimizer._create_all_weights(self.model.trainable_variables)

    @property
    def step(self) -> tf.Variable:
        """The optimizer steps of fine-tuning done so far in a trial, a variable int64 []."""
        return self.optimizer.iterations

    def _multipliers(self) -> Callable[[tf.Variable], float]:
        """Returns a function from a variable to its share of the learning rate."""
        encoder, config = self.model.encoder, self.config
        shares = {}
        for variable in self.model.trainable_variables:
            share = 1.0
            if any(variable is own for own in encoder.trainable_variables):
                share = optimization.layer_multiplier(
                    encoder.layer_depth(variable),
                    len(encoder.transformer_layers),
                    config.layerwise_lr_decay,
                    config.layerwise_lr_exponent,
                )
            # The optimizer sees the copy of each replica.
            for copy in (variable, *self.strategy.experimental_local_results(variable)):
                shares[copy.ref()] = share
        return lambda variable: shares[variable.ref()]

    def initialize(self, seed: int, init_checkpoint: str, with_head: bool = False) -> None:
        """Gives a fine-tuner's model and optimizer their values at the start of a trial.

        Returns nothing. The optimizer's averages and its step become 0.

        Args:
          seed: the trial's seed; draws the head's weights, and the encoder's where it starts so.
          init_checkpoint: the path of the folder with the encoder's weights; "" for random ones.
          with_head: True if the head starts from there, too.

        Raises:
          UserError: the weights cannot be read, or are of another shape.
        """
        encoder, new_tokens = self.model.encoder, 0
        if init_checkpoint:
            before = checkpoint_settings.read_encoder_config(init_checkpoint).vocab_size
            # More, where markers have none; those stay random.
            new_tokens = max(0, encoder.config.vocab_size - before)
        keras.utils.set_random_seed(seed)
        is_restored = init_checkpoint and not new_tokens
        with restored_weights() if is_restored else contextlib.nullcontext():
            fresh = make_model(self.encoder_config, self.task_type, self.config)
        for variable, value in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(value.numpy())
        if init_checkpoint:
            head = self.model.head_layers if with_head else None
            checkpoint_weights.restore_encoder(init_checkpoint, encoder, head, new_tokens)
            if self.model.head_config.text_layer == "tanh":
                checkpoint_weights.restore_pooler(init_checkpoint, self.model.pooler)
        for variable in self.optimizer.variables():
            variable.assign(tf.zeros_like(variable))

    def begin(self, features: Features, order: np.ndarray, seed: int) -> None:
        """Sets the windows that the fine-tuner learns from, and their order; returns nothing.

        Args:
          features: the windows to train on, see `TaskType.features`.
          order: int64 [steps * train_batch_size], the number of the window at each place of the
            batches of all steps of the trial; see `finetuning_data.training_order`.
          seed: the trial's seed, which keys dropout.
        """
        self._seed = tf.constant(seed)
        self._batches = order.reshape(-1, self.config.train_batch_size)
        if self.fixed_shapes:
            packer = self._packer_of_shapes = self._fixed_packer(features, self._batches)
            left = self._batches[int(self.step.numpy()) :]
            # The next batches are packed while the device works on these.
            self._packed = prefetching.ahead(
                map(packer.train_batch, left), self.config.run.steps_per_loop
            )
        else:
            self._training_packer = self._packer(
                features, self.config.train_batch_size, self._parts * self._replicas
            )

    def train(self, num_steps: int) -> Figures:
        """Takes the next steps of fine-tuning, on the windows that `begin` set.

        Args:
          num_steps: how many, `run.steps_per_loop` at most.

        Returns:
          A dict of two floats: "loss", the mean of the steps' losses, and "learning_rate", that of
          the next step.
        """
        take_steps = self._take_fixed_steps if self.fixed_shapes else self._take_steps
        return {
            "loss": float(take_steps(num_steps)) / num_steps,
            "learning_rate": float(self.optimizer.learning_rate(self.step)),
        }

    def _take_steps(self, num_steps: int) -> tf.Tensor:
        """Takes steps, each in a call of its own; returns the sum of their losses, float32 []."""
        step = int(self.step.numpy())
        total = tf.constant(0.0)
        for chosen in self._batches[step : step + num_steps]:
            parts = _stacked(self._training_packer.batch(chosen), self._replicas)
            total += self._train_step(self._distribute(parts), self._seed)
        return total

    def _take_fixed_steps(self, num_steps: int) -> tf.Tensor:
        """Does what `_take_steps` does, with batches of fixed shapes and all steps in one call."""
        most = self.config.run.steps_per_loop
        call = next(steps_per_call.calls(self._packed, [num_steps], most))
        numbers = [batch.shape for batch in call.batches] + [0] * (most - num_steps)
        return self._train_steps(
            call.arrays,
            tf.constant(numbers),
            tf.constant(num_steps),
            self._seed,
            self._packer_of_shapes.shapes,
            self._packer_of_shapes.token_arrays,
        )

    def _fixed_packer(
        self, features: Features, batches: np.ndarray
    ) -> fixed_shapes.FixedShapePacker:
        """Returns what makes training batches, int64 [steps, examples], of fixed shapes."""
        size, replicas = self.config.train_batch_size, self._replicas
        if self._chosen is None or self._chosen[0] is not features:
            shapes = fixed_shapes.training_shapes(features.lengths, self.config, replicas)
            self._chosen = features, shapes
        shapes = [*self._chosen[1]]  # a shape more, below, is this trial's alone
        needed = max(
            row_placement.deal(features.lengths[chosen], shapes[0].rows).row_length
            for chosen in batches
        )
        if needed > shapes[-1].row_length:  # not seen in the sample, nor expected: one more shape
            shapes.append(fixed_shapes.Shape(shapes[0].rows, fixed_shapes.rounded(needed)))
        return fixed_shapes.FixedShapePacker(features, shapes, replicas, self.pad_id, size)

    @tf.function
    @tf.autograph.experimental.do_not_convert
    def _train_step(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        losses = self.strategy.run(
            self._replica_train_step, args=(batch, seed), options=distribution.STATIC_SHAPES
        )
        return self.strategy.reduce("SUM", losses, axis=None)

    @tf.function
    @tf.autograph.experimental.do_not_convert
    def _train_steps(
        self,
        arrays: dict[str, tf.Tensor],
        numbers: tf.Tensor,
        steps: tf.Tensor,
        seed: tf.Tensor,
        shapes: tuple[fixed_shapes.Shape, ...],
        token_arrays: tuple[str, ...],
    ) -> tf.Tensor:
        """Takes many steps.

        Args:
          arrays: see `steps_per_call.Call`.
          numbers: int32 [most steps], the shape of each batch.
          steps: int32 [], how many batches there are.
          seed: of the trial.
          shapes: that batches have.
          token_arrays: see `fixed_shapes.FixedShapePacker`.

        Returns:
          float32 [], the sum of the losses.
        """

        def take_step(index: tf.Tensor, shape: fixed_shapes.Shape) -> tf.Tensor:
            batch = self._batch_of(arrays, index, shape, token_arrays)
            losses = self.strategy.run(
                self._replica_train_step, args=(batch, seed), options=distribution.STATIC_SHAPES
            )
            return self.strategy.reduce("SUM", losses, axis=None)

        def body(index: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            branches = [partial(take_step, index, shape) for shape in shapes]
            # A branch for each shape, and in each what a device compiles.
            loss = branches[0]() if len(shapes) == 1 else tf.switch_case(numbers[index], branches)
            return index + 1, total + loss

        start = tf.constant(0), tf.constant(0.0)
        return tf.while_loop(lambda index, _: index < steps, body, start)[1]

    @tf.autograph.experimental.do_not_convert
    def _replica_train_step(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        seed = randomness.fold_in(tf.stack([seed, _DROPOUT_STREAM]), self.step)
        groups, max_norm = self.config.gradient_clip_groups, self.config.max_gradient_norm
        if groups > 1:
            loss, gradients = self._clipped_gradients(batch, seed)
        elif self._parts > 1:
            loss, gradients = self._accumulated_gradients(batch, seed)
        else:
            loss, gradients = self._gradients(batch, seed)
        variables = self.model.trainable_variables
        # Clipped groups are not clipped again: so many together have no larger norm.
        norm = apply_clipped(self.optimizer, gradients, variables, groups * max_norm)
        # A step that changed nothing must not pass for one that did.
        return tf.where(tf.math.is_finite(norm), loss, norm)

    def _gradients(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[Gradient]]:
        """Returns a replica's share of the loss, float32 [], and its gradients."""

        def forward() -> tuple[tf.Tensor, tf.Tensor]:
            loss, weight = self._loss(batch, seed)
            if self.config.loss_reduction == "mean":
                loss /= _over_replicas(weight)
            return loss, loss

        return differentiate(forward, self.model.trainable_variables)

    def _accumulated_gradients(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Does what `_gradients` does, for one part of the examples after the other."""

        def of_part(part: dict[str, tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
            def forward() -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
                loss, weight = self._loss(part, seed)
                return loss, (loss, weight)

            told, gradients = differentiate(forward, self.model.trainable_variables)
            return [*told, *(tf.convert_to_tensor(gradient) for gradient in gradients)]

        loss, weight, *gradients = self._sum_over_parts(of_part, batch, seed, numbers=2)
        if self.config.loss_reduction == "mean":
            # Only now is it known of how many.
            total = _over_replicas(weight)
            loss, gradients = loss / total, [gradient / total for gradient in gradients]
        return loss, gradients

    def _clipped_gradients(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Does what `_gradients` does, with the gradient of each group clipped by itself."""

        def of_group(part: dict[str, tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
            loss, gradients = self._gradients(part, seed)
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
            return [loss, *tf.clip_by_global_norm(gradients, self.config.max_gradient_norm)[0]]

        if self._parts == 1:  # a replica's examples are one group
            loss, *gradients = of_group(batch, seed)
        else:
            loss, *gradients = self._sum_over_parts(of_group, batch, seed, numbers=1)
        return loss, gradients

    def _loss(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of the losses, and that of their weights; float32 [] each."""
        logits = self.model(batch, seed=seed)
        losses, weights = self.task_type.losses(logits, batch)
        if "real" in batch:
            losses, weights = losses * batch["real"], weights * batch["real"]
        return tf.reduce_sum(losses), tf.reduce_sum(weights)

    def _sum_over_parts(
        self,
        function: Callable[[dict[str, tf.Tensor], tf.Tensor], list[tf.Tensor]],
        batch: dict[str, tf.Tensor],
        seed: tf.Tensor,
        numbers: int,
    ) -> list[tf.Tensor]:
        """Calls a function on each part of a replica's examples in turn, and sums what it returns.

        Args:
          function: takes a part and its seed, int32 [2]; returns numbers, float32 [] each, and a
            gradient for each variable.
          batch: the parts, [parts, ...] each.
          seed: int32 [2], of the step.
          numbers: how many numbers there are.
        """

        def of_part(index: tf.Tensor) -> list[tf.Tensor]:
            part = {name: array[index] for name, array in batch.items()}
            return function(part, randomness.fold_in(seed, index))

        zeros = [tf.constant(0.0) for _ in range(numbers)]
        zeros += [tf.zeros(variable.shape) for variable in self.model.trainable_variables]
        return sum_in_turn(of_part, range(self._parts), zeros)


def _over_replicas(weight: tf.Tensor) -> tf.Tensor:
    """Returns the sum over all replicas, float32 []: of the global batch each has its share.

    It is above 0: a batch without a target, such as after an early cut, has a loss of 0 over it.
    """
    total = tf.distribute.get_replica_context().all_reduce("SUM", weight)
    return tf.maximum(total, 1e-30)


def _stacked(parts: list[packing.Part], replicas: int) -> list[packing.Part]:
    """Stacks the parts of each replica, where it has several: arrays [parts, ...]."""
    count = len(parts) // replicas
    if count == 1:
        return parts
    stacked = []
    for first in range(0, len(parts), count):
        group = parts[first : first + count]
        arrays = {name: np.stack([p.arrays[name] for p in group]) for name in group[0].arrays}
        stacked.append(packing.Part(arrays, np.concatenate([part.windows for part in group])))
    return stacked
