"""One model and its steps, which fine-tune trial after trial.

Everything random is keyed by the trial's seed and the step, so a trial gives the same scores
whether others ran before it or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base.cli import UserError
from tfbio.models import randomness
from tfbio.models.encoder_config import EncoderConfig
from tfbio.task_types import fixed_shapes, packing
from tfbio.task_types.inference import Inference, make_model
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.types import FinetuningConfig
from tfbio.training import distribution, optimization
from tfbio.weights import checkpoints

# The second number of the seeds, so that no two purposes share a stream of random numbers.
DROPOUT_STREAM, ORDER_STREAM, SUBSET_STREAM = 0, 1, 2
# Steps between two log lines, and two points of the curves.
LOG_EVERY = 50


class DivergedError(UserError):
    """The loss is no longer a number."""


def layer_multiplier(depth: int, num_layers: int, decay: float, exponent: str) -> float:
    """The share of the learning rate that an encoder's variable gets; the head gets all of it.

    With n layers, the original ELECTRA code (model/optimization.py, `_get_layer_lrs`) gives layer
    i, 0 the lowest, decay^(n+1-i), and the embeddings decay^(n+2). BioELECTRA's fork shifts the
    exponent by one: decay^(n-i) and decay^(n+1).

    Args:
      depth: 0 for the embeddings, 1 to `num_layers` for the layers, from below.
      num_layers: layers of the encoder.
      decay: in (0, 1].
      exponent: "electra" or "bioelectra".
    """
    return decay ** (num_layers + {"electra": 2, "bioelectra": 1}[exponent] - depth)


def training_order(num_examples: int, num_used: int, num_steps: int, batch_size: int, seed: int):
    """The examples of every step: a function of its arguments alone.

    Each epoch is a new permutation; the next one follows without a gap, so every batch is full.

    Args:
      num_examples: in the training set.
      num_used: draw so many of them by the seed; 0 for all.
      num_steps: batches.
      batch_size: examples in a batch.
      seed: of the trial.

    Returns:
      int64 array [num_steps * batch_size] of indices.
    """
    used = np.arange(num_examples)
    if 0 < num_used < num_examples:
        generator = np.random.default_rng([seed, SUBSET_STREAM])
        used = generator.choice(used, num_used, replace=False)
    needed = num_steps * batch_size
    generator = np.random.default_rng([seed, ORDER_STREAM])
    epochs = [generator.permutation(used) for _ in range(math.ceil(needed / len(used)))]
    return np.concatenate(epochs)[:needed]


class Finetuner(Inference):
    """Trains a model as well as predicting with it; `initialize` begins a trial.

    Args:
      config: all settings.
      encoder_config: the shape of the encoder.
      task_type: what is learnt.
      pad_id: of [PAD].
      num_steps: of a trial.
      strategy: where to compute; the batches must divide by its replicas.
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
        # The windows that the shapes of training batches were chosen for, and the shapes.
        self._chosen: tuple[packing.Features, list[fixed_shapes.Shape]] | None = None
        with strategy.scope():
            self.optimizer = optimization.Adam(
                optimization.SCHEDULES[config.schedule](
                    # Not rounded, as in the original ELECTRA code.
                    config.learning_rate,
                    num_steps,
                    num_steps * config.warmup_proportion,
                ),
                beta_1=config.adam_beta_1,
                beta_2=config.adam_beta_2,
                epsilon=config.adam_epsilon,
                weight_decay_rate=config.weight_decay_rate,
                lr_multiplier=self._multipliers(),
                bias_correction=config.adam_bias_correction,
            )
            # Now, and not in the first step: a graph that makes variables does not run on several
            # devices.
            self.optimizer._create_all_weights(self.model.trainable_variables)

    def _multipliers(self):
        """A function from a variable to its share of the learning rate."""
        encoder, config = self.model.encoder, self.config
        shares = {}
        for variable in self.model.trainable_variables:
            share = 1.0
            if any(variable is own for own in encoder.trainable_variables):
                share = layer_multiplier(
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
        """Gives every variable its value at the start of a trial.

        Args:
          seed: of the trial; draws the head's weights, and the encoder's where it starts so.
          init_checkpoint: folder with the encoder's weights; "" for random ones.
          with_head: whether the head starts from there, too.
        """
        keras.utils.set_random_seed(seed)
        fresh = make_model(self.encoder_config, self.task_type, self.config)
        for variable, value in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(value.numpy())
        if init_checkpoint:
            encoder, head = self.model.encoder, self.model.head if with_head else None
            before = checkpoints.read_encoder_config(init_checkpoint).vocab_size
            # More, where markers have none; those stay random.
            new_tokens = max(0, encoder.config.vocab_size - before)
            checkpoints.restore_encoder(init_checkpoint, encoder, head, new_tokens)
            if self.model.head_config.text_layer == "tanh":
                checkpoints.restore_pooler(init_checkpoint, self.model.pooler)
        for variable in self.optimizer.variables():
            variable.assign(tf.zeros_like(variable))

    def train(
        self,
        features: packing.Features,
        order: np.ndarray,
        seed: int,
        log: Callable[[int, float, float], None],
        done: Callable[[int], None] = lambda step: None,
    ) -> None:
        """Trains on the windows of `order`, from where the trial stands.

        Args:
          features: see `Tagging.features`.
          order: see `training_order`; or a part of it, and the next part in the next call.
          seed: of the trial.
          log: called as log(step, loss, learning rate) every `LOG_EVERY` steps and at the end.
          done: called after a step with its number; where shapes are fixed, as often as `log`.

        Raises:
          DivergedError: if the loss, or a weight, is no longer a number.
        """
        take_steps = self._take_fixed_steps if self.fixed_shapes else self._take_steps
        step = int(self.optimizer.iterations.numpy())
        for steps, loss in take_steps(
            features, order.reshape(-1, self.config.train_batch_size), step, tf.constant(seed), done
        ):
            step += steps
            if not math.isfinite(loss):
                raise DivergedError(
                    f"the loss is {loss} at step {step} of seed {seed}: try a lower "
                    "learning_rate, or a higher warmup_proportion."
                )
            log(step, loss, float(self.optimizer.learning_rate(self.optimizer.iterations)))
        # The loss of the last step was that of the weights before it.
        for variable in self.model.trainable_variables:
            if not np.isfinite(variable.numpy()).all():
                raise DivergedError(
                    f"{variable.name} is not finite after step {step} of seed {seed}: try a lower "
                    "learning_rate, or a higher warmup_proportion."
                )

    def _take_steps(
        self,
        features: packing.Features,
        batches: np.ndarray,
        before: int,
        seed: tf.Tensor,
        done: Callable[[int], None],
    ) -> Iterator[tuple[int, float]]:
        """Takes a step for each batch, int64 [steps, examples].

        Yields:
          The number of steps since the last time, and their mean loss.
        """
        replicas = self.strategy.num_replicas_in_sync
        parts = max(replicas, self.config.gradient_clip_groups)
        packer = self._packer(features, self.config.train_batch_size, parts)
        total = tf.Variable(0.0)
        steps = 0
        for step, chosen in enumerate(batches, start=before + 1):
            batch = self._distribute(_grouped(packer.batch(chosen), replicas))
            total.assign_add(self._train_step(batch, seed))
            steps += 1
            done(step)
            if step % LOG_EVERY == 0 or step == before + len(batches):
                yield steps, float(total.numpy()) / steps
                total.assign(0.0)
                steps = 0

    def _take_fixed_steps(
        self,
        features: packing.Features,
        batches: np.ndarray,
        before: int,
        seed: tf.Tensor,
        done: Callable[[int], None],
    ) -> Iterator[tuple[int, float]]:
        """Does what `_take_steps` does, with batches of fixed shapes and many steps in a call."""
        packer = self._training_packer(features, batches)
        ends = range(before + LOG_EVERY - before % LOG_EVERY, before + len(batches), LOG_EVERY)
        sizes = np.diff([before, *ends, before + len(batches)])
        # The next call's batches are packed while the device works on this one's.
        calls = fixed_shapes.calls(map(packer.train_batch, batches), sizes, LOG_EVERY)
        for call in fixed_shapes.ahead(calls):
            steps = len(call.batches)
            numbers = [batch.shape for batch in call.batches] + [0] * (LOG_EVERY - steps)
            total = self._train_steps(
                call.arrays,
                tf.constant(numbers),
                tf.constant(steps),
                seed,
                packer.shapes,
                packer.of_tokens,
            )
            loss = float(total) / steps
            before += steps
            done(before)
            yield steps, loss

    def _training_packer(
        self, features: packing.Features, batches: np.ndarray
    ) -> fixed_shapes.Packer:
        """Returns what makes training batches, int64 [steps, examples], of fixed shapes."""
        size, replicas = self.config.train_batch_size, self.strategy.num_replicas_in_sync
        if self._chosen is None or self._chosen[0] is not features:
            shapes = fixed_shapes.training_shapes(features.lengths, self.config, replicas)
            self._chosen = features, shapes
        shapes = self._chosen[1]
        needed = max(
            fixed_shapes.deal(features.lengths[chosen], shapes[0].rows).row_length
            for chosen in batches
        )
        if needed > shapes[-1].row_length:  # not seen in the sample, nor expected: one more shape
            shapes.append(fixed_shapes.Shape(shapes[0].rows, fixed_shapes.rounded(needed)))
        return fixed_shapes.Packer(features, shapes, replicas, self.pad_id, size)

    def train_to_best(
        self,
        features: packing.Features,
        order: np.ndarray,
        seed: int,
        log: Callable[[int, float, float], None],
        evaluate: Callable[[int], dict[str, float]],
        done: Callable[[int], None] = lambda step: None,
    ) -> tuple[int, list[dict]]:
        """As `train`, with the settings' evaluations, early stopping and choice of the weights.

        Args:
          features, order, seed, log, done: see `train`.
          evaluate: step -> the scores on the development set, of which the first decides.

        Returns:
          The step of the weights that the model is left with; and the step and scores of each
          evaluation.
        """
        if not self.config.eval_every_steps:
            self.train(features, order, seed, log, done)
            return self.num_steps, []
        evaluations, values, weights = [], [], []
        size = self.config.eval_every_steps * self.config.train_batch_size
        for part in np.split(order, range(size, len(order), size)):
            self.train(features, part, seed, log, done)
            step = int(self.optimizer.iterations.numpy())
            scores = evaluate(step)
            evaluations.append({"step": step, **scores})
            values.append(next(iter(scores.values())))
            best = int(np.argmax(values))  # the first of equals
            not_better = len(values) - 1 - best
            if not_better == 0:
                weights = self.model.get_weights()
            elif not_better == self.config.early_stopping_patience:
                break
        self.model.set_weights(weights)
        return evaluations[best]["step"], evaluations

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
        of_tokens: tuple[str, ...],
    ) -> tf.Tensor:
        """Takes many steps.

        Args:
          arrays: see `fixed_shapes.Call`.
          numbers: int32 [most steps], the shape of each batch.
          steps: int32 [], how many batches there are.
          seed: of the trial.
          shapes: that batches have.
          of_tokens: see `fixed_shapes.Packer`.

        Returns:
          float32 [], the sum of the losses.
        """

        def take_step(index: tf.Tensor, shape: fixed_shapes.Shape) -> tf.Tensor:
            batch = self._batch_of(arrays, index, shape, of_tokens)
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
        seed = randomness.fold_in(tf.stack([seed, DROPOUT_STREAM]), self.optimizer.iterations)
        groups, max_norm = self.config.gradient_clip_groups, self.config.max_gradient_norm
        if groups == 1:
            loss, gradients = self._gradients(batch, seed)
        else:
            loss, gradients = self._clipped_gradients(batch, seed)
        variables = self.model.trainable_variables
        # Clipped groups are not clipped again: so many together have no larger norm.
        norm = optimization.apply_clipped(self.optimizer, gradients, variables, groups * max_norm)
        # A step that changed nothing must not pass for one that did.
        return tf.where(tf.math.is_finite(norm), loss, norm)

    def _gradients(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns a replica's share of the loss, float32 [], and its gradients."""
        with tf.GradientTape() as tape:
            logits = self.model(batch, seed=seed)
            losses, weights = self.task_type.losses(logits, batch)
            if "real" in batch:
                losses, weights = losses * batch["real"], weights * batch["real"]
            loss = tf.reduce_sum(losses)
            if self.config.loss_reduction == "mean":
                # Over the global batch, of which a replica has its share.
                replica = tf.distribute.get_replica_context()
                loss /= replica.all_reduce("SUM", tf.reduce_sum(weights))
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def _clipped_gradients(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Does what `_gradients` does, with the gradient of each group clipped by itself."""

        def of_group(part: dict[str, tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
            loss, gradients = self._gradients(part, seed)
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
            return [loss, *tf.clip_by_global_norm(gradients, self.config.max_gradient_norm)[0]]

        if "groups" not in batch:  # a replica's examples are one
            loss, *gradients = of_group(batch, seed)
            return loss, gradients
        batch = dict(batch)
        count = batch.pop("groups").shape[0]

        def add_group(index: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
            part = {name: array[index] for name, array in batch.items()}
            own = of_group(part, randomness.fold_in(seed, index))
            return [index + 1, *(a + b for a, b in zip(sums, own, strict=True))]

        zeros = [tf.zeros(variable.shape) for variable in self.model.trainable_variables]
        _, loss, *gradients = tf.while_loop(
            lambda index, *_: index < count,
            add_group,
            [tf.constant(0), tf.constant(0.0), *zeros],
            parallel_iterations=1,
            maximum_iterations=count,
        )
        return loss, gradients


def _grouped(parts: list[packing.Part], replicas: int) -> list[packing.Part]:
    """Stacks the parts of a replica, where it has several; "groups" says how many."""
    count = len(parts) // replicas
    if count == 1:
        return parts
    found = []
    for first in range(0, len(parts), count):
        own = parts[first : first + count]
        arrays = {name: np.stack([p.arrays[name] for p in own]) for name in own[0].arrays}
        arrays["groups"] = np.arange(count, dtype=np.int32)
        found.append(packing.Part(arrays, np.concatenate([part.windows for part in own])))
    return found
