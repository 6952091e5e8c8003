"""A model of a task and its predictions, on any number of devices."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbio.models import target
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.task_types import fixed_shapes, packing, prefetching, steps_per_call
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features
from tfbio.task_types.fixed_shapes import Shape
from tfbio.task_types.task_type import TaskType
from tfbio.training import distribution, onednn

# Batches of one call, where their shape is fixed.
_PREDICTED_AT_ONCE = 8


def make_model(
    encoder_config: EncoderConfig, task_type: TaskType, config: CommonSettings
) -> TaskModel:
    """Makes the model for training and inference of a task, with random weights.

    Args:
      encoder_config: the shape of the encoder; the dropout of `config` replaces its dropout.
      task_type: the type of the task, which has the shape of the head.
      config: all settings.

    Returns:
      A `TaskModel`, an encoder with a head.
    """
    encoder_config = dataclasses.replace(
        encoder_config,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
    )
    return TaskModel(encoder_config, task_type.head_config(config.dropout_of_head))


class Inference:
    """A fine-tuning model with its inference: it computes outputs on any number of devices.

    The weights are random at first.

    Args:
      config: all settings.
      encoder_config: the shape of the encoder.
      task_type: the type of the task.
      pad_id: the id of [PAD].
      strategy: the strategy to compute with.

    Attributes:
      config, encoder_config, task_type, pad_id, strategy: as given.
      model: the `TaskModel`, made under the strategy.
    """

    def __init__(
        self,
        config: CommonSettings,
        encoder_config: EncoderConfig,
        task_type: TaskType,
        pad_id: int,
        strategy: tf.distribute.Strategy,
    ):
        self.config, self.encoder_config, self.task_type = config, encoder_config, task_type
        self.pad_id, self.strategy = pad_id, strategy
        # oneDNN's form needs a number of rows that the graph does not know.
        fixed = self.fixed_shapes
        self._form = contextlib.nullcontext if fixed else onednn.form_of_prediction(strategy)
        with strategy.scope():
            self.model = make_model(encoder_config, task_type, config)

    @property
    def fixed_shapes(self) -> bool:
        """True if the batches of this model have one of a few fixed shapes, as on a TPU."""
        return fixed_shapes.has_fixed_shapes(self.config, self.strategy)

    @property
    def _has_one_graph(self) -> bool:
        """True if one graph serves batches of all shapes: texts that come one by one have many."""
        return distribution.is_one_device(self.strategy) and not target.is_tpu()

    def predict(
        self,
        features: Features,
        with_probabilities: bool = False,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[np.ndarray]:
        """Runs inference: computes the outputs of each window, as `TaskType.outputs` defines them.

        Args:
          features: the windows, as `TaskType.features` returns them, one at least.
          with_probabilities: True for `TaskType.probabilities` beside them, if the type has these.
          done: a function that is called after each batch with the number of windows that are done.

        Returns:
          For each window, in the order of the features, an array [tokens, ...] if the task type's
          `of_tokens` is True, else [outputs]: float32, or int32 for the numbers of tags; with
          probabilities float32 [tokens, 2], the output and its probability.
        """
        with_probabilities = with_probabilities and self.task_type.has_probabilities
        if self.fixed_shapes:
            return self._predict_fixed(features, with_probabilities, done)
        lengths = features.lengths
        batches = self._prediction_batches(features)
        outputs: list[np.ndarray] = [np.empty(0)] * len(lengths)

        step = self._predict_step  # made here, once: the threads below share it

        def compute(number: int) -> list[tuple[packing.Part, np.ndarray]]:
            parts = batches[number]()
            batch = self._distribute(parts)
            if self._has_one_graph and not tf.config.functions_run_eagerly():
                # Calls take the graph that there is already for arrays of this rank.
                specs = {x: tf.TensorSpec([None] * y.shape.rank, y.dtype) for x, y in batch.items()}
                step.get_concrete_function(specs, with_probabilities)
            found = step(batch, with_probabilities)
            results = distribution.all_results(self.strategy, found)
            return [(part, values.numpy()) for part, values in zip(parts, results, strict=True)]

        for number, computed in enumerate(self._each(compute, len(batches))):
            for part, values in computed:
                for number_in_part, window in enumerate(part.windows):
                    if self.task_type.of_tokens:
                        first = part.arrays["first"][number_in_part]
                        outputs[window] = values[first : first + lengths[window]]
                    else:
                        outputs[window] = values[number_in_part]
            done(len(lengths) * (number + 1) // len(batches))
        return outputs

    def _prediction_batches(self, features: Features) -> list[Callable[[], list[packing.Part]]]:
        """Returns a function for each batch, which makes its parts."""
        lengths, replicas = features.lengths, self.strategy.num_replicas_in_sync
        count = math.ceil(len(lengths) / self.config.run.eval_batch_size)
        size = math.ceil(len(lengths) / count / replicas) * replicas
        packer = self._packer(features, size)
        if self._has_one_graph and not packer.padded_length:
            return packer.short_row_batches()
        # Every batch has long and short windows alike, so that one shape serves nearly all.
        order = np.argsort(-lengths, kind="stable")

        def make(number: int) -> list[packing.Part]:
            chosen = order[number::count]
            chosen = np.pad(chosen, (0, size - len(chosen)), mode="edge")
            # And so has every replica's share.
            return packer.batch(
                np.concatenate([chosen[replica::replicas] for replica in range(replicas)])
            )

        return [partial(make, number) for number in range(count)]

    def _each(self, compute: Callable[[int], Any], number_of_batches: int) -> Iterator[Any]:
        """Yields what a function makes of the number of each batch, in their order.

        On one CPU it works on two batches at the same time: where the operations of one leave a
        core idle, those of the other go on. The results do not depend on it.
        """
        # Several workers have to meet at the same batch, and a mesh traces one graph at a time.
        if distribution.is_one_device(self.strategy, "CPU"):
            with futures.ThreadPoolExecutor(2) as pool:
                yield from pool.map(compute, range(number_of_batches))
        else:
            yield from map(compute, range(number_of_batches))

    @tf.function
    @tf.autograph.experimental.do_not_convert
    def _predict_step(
        self, batch: dict[str, tf.Tensor], with_probabilities: bool = False
    ) -> tf.Tensor:
        return self.strategy.run(
            self._replica_outputs,
            args=(batch, with_probabilities),
            options=distribution.STATIC_SHAPES,
        )

    @tf.autograph.experimental.do_not_convert
    def _replica_outputs(
        self, batch: dict[str, tf.Tensor], with_probabilities: bool = False
    ) -> tf.Tensor:
        with self._form():
            logits = self.model(batch)
        found = self.task_type.outputs(logits, batch)
        if with_probabilities:
            shares = self.task_type.probabilities(logits, batch)
            return tf.stack([tf.cast(found, tf.float32), shares], axis=1)
        return found

    def _predict_fixed(
        self, features: Features, with_probabilities: bool, done: Callable[[int], None]
    ) -> list[np.ndarray]:
        """Does what `predict` does, with one shape for all data and many batches in a call.

        Rows take as many windows as they hold.
        """
        replicas = self.strategy.num_replicas_in_sync
        packer = fixed_shapes.prediction_packer(features, self.config, replicas, self.pad_id)
        (shape,) = packer.shapes
        number_of_calls = math.ceil(len(features.lengths) / _PREDICTED_AT_ONCE)  # or fewer
        sizes = [_PREDICTED_AT_ONCE] * number_of_calls
        calls = steps_per_call.calls(packer.predict_batches(), sizes, _PREDICTED_AT_ONCE)
        outputs: list[np.ndarray] = [np.empty(0)] * len(features.lengths)
        count_done = 0
        for call in prefetching.ahead(calls):
            count = tf.constant(len(call.batches))
            found = self._predict_batches(call.arrays, count, shape, packer.token_arrays).numpy()
            if self.task_type.has_probabilities and not with_probabilities:
                found = found[..., 0].astype(np.int32)
            for values, batch in zip(found, call.batches, strict=True):
                for window, replica, first, number in zip(
                    batch.texts, batch.replica, batch.first, batch.number, strict=True
                ):
                    own = slice(first, first + packer.lengths[window])
                    outputs[window] = values[replica, own if self.task_type.of_tokens else number]
                count_done += len(batch.texts)
            done(count_done)
        return outputs

    @tf.function
    @tf.autograph.experimental.do_not_convert
    def _predict_batches(
        self,
        arrays: dict[str, tf.Tensor],
        count: tf.Tensor,
        shape: Shape,
        token_arrays: tuple[str, ...],
    ) -> tf.Tensor:
        """Predicts many batches.

        Tags come with their probabilities, wanted or not: so one graph serves scores and texts.

        Args:
          arrays: see `steps_per_call.Call`.
          count: int32 [], how many batches there are.
          shape: of all batches.
          token_arrays: see `fixed_shapes.FixedShapePacker`.

        Returns:
          float32 [batches, replicas, ...].
        """
        outputs = partial(
            self._replica_outputs, with_probabilities=self.task_type.has_probabilities
        )

        def body(index: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            batch = self._batch_of(arrays, index, shape, token_arrays)
            each = self.strategy.run(outputs, args=(batch,), options=distribution.STATIC_SHAPES)
            each = tf.stack(self.strategy.experimental_local_results(each))
            return index + 1, found.write(index, each)

        start = tf.constant(0), tf.TensorArray(tf.float32, count)
        return tf.while_loop(lambda index, _: index < count, body, start)[1].stack()

    def _batch_of(
        self,
        arrays: dict[str, tf.Tensor],
        index: tf.Tensor,
        shape: Shape,
        token_arrays: tuple[str, ...],
    ) -> dict[str, tf.Tensor]:
        """Returns one of the batches of a call, a part for each replica."""

        def of_replica(context: tf.distribute.experimental.ValueContext) -> dict[str, tf.Tensor]:
            part = {
                name: array[index, context.replica_id_in_sync_group]
                for name, array in arrays.items()
            }
            return {
                name: array[:, : shape.row_length] if name in token_arrays else array
                for name, array in part.items()
            }

        return self.strategy.experimental_distribute_values_from_function(of_replica)

    def _packer(self, features: Features, batch_size: int, parts: int = 0) -> packing.Packer:
        return packing.Packer(
            features,
            batch_size,
            parts or self.strategy.num_replicas_in_sync,
            self.pad_id,
            padded_length=0 if self.config.run.pack else self.config.sequence_length,
        )

    def _distribute(self, parts: list[packing.Part]) -> dict[str, tf.Tensor]:
        """Gives each replica its part of a batch."""
        tensors = [
            {name: tf.constant(array) for name, array in part.arrays.items()} for part in parts
        ]
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tensors[context.replica_id_in_sync_group]
        )
