"""Pretrains a model: makes its step and its evaluation, and the seeds of both.

`runs.pretraining` calls it; the losses are those of `electra`, `masked_language_model` and
`distillation`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfbio.models import initial_weights, randomness
from tfbio.objectives import accumulation, division, masking
from tfbio.objectives.distillation import DistillationMetrics, Student
from tfbio.objectives.electra import Electra, ElectraMetrics
from tfbio.objectives.masked_language_model import MaskedLanguageModel, MaskedLanguageModelMetrics
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_optimizer import make_optimizer
from tfbio.text.fast_tokenizer import FastTokenizer
from tfbio.training import distribution
from tfbio.training.gradients import apply_clipped

# The second number of the seeds, so that no two purposes share a stream of random numbers.
TRAINING_STREAM, EVALUATION_STREAM = 0, 1


class Pretrainer:
    """The pretrainer: a model with the steps that pretrain and evaluate it, under any strategy.

    All random numbers of a step are keyed by the seed and the number of the step.

    Args:
      config: all settings; also an attribute, like `strategy`.
      tokenizer: knows the special tokens and where words begin.
      strategy: where to compute; the batch must divide by its replicas.
      teacher: the teacher of a distillation, of the same vocabulary; None: there is none.

    Attributes:
      model: an `Electra`, a `MaskedLanguageModel`, or a `Student` if there is a teacher.
      optimizer: the optimizer of all its variables, an `Adam` or a `Lamb`; its `iterations` count
        the steps.
      masking: the settings of `masking.mask_tokens`.
      train_dataset: batches of int32 [B, L] each, by name (`input_ids`, `input_mask`,
        `segment_ids`; `document_ids` and `position_ids` of packed examples; `label`, [B], of
        sentence pairs). Set it before `train`.
      eval_dataset: the batches of an evaluation, of the same form. Set it before `evaluate`.
      train_metrics, eval_metrics: the model's metrics in training and in evaluation,
        `ElectraMetrics`, `MaskedLanguageModelMetrics` or `DistillationMetrics`.
      tokens, gradient_norm: Keras metrics of training: the sum of tokens without padding, and the
        mean norm of gradients before clipping.
      logged: the list of all Keras metrics of training.
      skipped_steps, last_skipped_step: the number of skipped steps since the start, and the last of
        them; int64 [] variables.
      eval_batches: the number of batches in the current evaluation, an int64 [] variable.
      drawing: the `Drawing` that the first step waits for, if who made the model has set it.
      loops: the graphs that `make_loop` has made, by its argument, a bool.
      eval_step: the graph that `make_eval_step` has made.

    Raises:
      UsageError: the batch does not divide by the devices, or a setting is of one device alone, see
        `division.check`.
      UserError: the optimizer needs a package that is not installed.
      ConfigError: the sizes of ELECTRA's generator do not go together.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        tokenizer: FastTokenizer,
        strategy: tf.distribute.Strategy,
        teacher: MaskedLanguageModel | None = None,
    ):
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        division.check(config, strategy.num_replicas_in_sync, compiles=is_tpu)
        self.config, self.strategy = config, strategy
        self.masking = masking.Masking(
            mask_id=tokenizer.mask_id,
            special_ids=[tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id],
            mask_token_prob=config.mask_token_prob,
            random_token_prob=config.random_token_prob,
            # The encoder may have more rows, see `pretraining_data.find_data`.
            vocab_size=len(tokenizer.begins_word),
            unit=config.mask_unit,
            begins_word=tokenizer.begins_word,
            with_replacement=config.mask_with_replacement,
        )
        with strategy.scope():
            keras.utils.set_random_seed(config.seed)
            self.model: keras.layers.Layer  # one of three, see above
            make_metrics: Callable[..., ElectraMetrics | MaskedLanguageModelMetrics]
            of_training = {}  # arguments of its metrics alone
            if config.objective == "electra":
                self.model = Electra(config, self.masking.vocab_size)
                make_metrics = ElectraMetrics
            elif teacher is not None:
                self.model = Student(config, teacher)
                make_metrics = partial(DistillationMetrics, config.distillation)
            else:
                self.model = MaskedLanguageModel(config)
                make_metrics = partial(MaskedLanguageModelMetrics, config.sentence_pair_loss)
                of_training["with_adversarial_loss"] = config.adversarial.weight > 0
            self.optimizer = make_optimizer(config)
            # Here, and not in the first step: several replicas cannot make variables in a graph.
            self.optimizer._create_all_weights(self.model.trainable_variables)
            self.train_metrics, self.eval_metrics = make_metrics(**of_training), make_metrics()
            self.tokens = keras.metrics.Sum("tokens")
            self.gradient_norm = keras.metrics.Mean("gradient_norm")
            self.logged = [*self.train_metrics.all, self.tokens, self.gradient_norm]
            # Steps that were skipped (see `optimization.Adam`) since the start, and the last one.
            self.skipped_steps, self.last_skipped_step = _counter(strategy), _counter(strategy)
            self.eval_batches = _counter(strategy)
        self._jit_compile = config.run.jit_compile and not is_tpu  # which always does
        self._parts = accumulation.Parts(
            config.run.gradient_accumulation_steps, config.run.parallel_parts
        )
        # Groups of a replica; 0: gradients are clipped as a whole.
        self._groups = 0
        if config.gradient_clip_groups > 1:
            self._groups = config.gradient_clip_groups // strategy.num_replicas_in_sync
        # An evaluation clips nothing: groups are further parts, with as many rows as in training.
        rounds = self._parts.rounds * max(1, self._groups)
        self._eval_parts = self._parts._replace(rounds=rounds)
        self.drawing: initial_weights.Drawing | None = None
        # Data sets and an iterator, once they are set.
        self.eval_dataset: Any = None
        self._train_dataset: Any = None
        self._batches: Any = None
        # The steps of the generator alone have another graph.
        self.loops: dict[bool, Any] = {}  # of `tf.function`s
        self.eval_step = self.make_eval_step()

    @property
    def step(self) -> tf.Variable:
        """The number of steps that the pretrainer has done so far, an int64 [] variable."""
        return self.optimizer.iterations

    @property
    def generator_alone(self) -> bool:
        """Returns True if the pretrainer's next step is one of `generator_warmup_steps`."""
        return int(self.step.numpy()) < self.config.generator_warmup_steps

    @property
    def train_dataset(self) -> tf.data.Dataset | tf.distribute.DistributedDataset | None:
        """The batches that the pretrainer trains on from its current step on; None until it is set.

        A batch is int32 [B, L] each, by name: `input_ids`, `input_mask`, `segment_ids`, and of
        packed examples `document_ids` and `position_ids`; of sentence pairs also `label`, [B]. A
        new data set is read from its beginning.
        """
        return self._train_dataset

    @train_dataset.setter
    def train_dataset(self, dataset: tf.data.Dataset | tf.distribute.DistributedDataset) -> None:
        self._train_dataset, self._batches = dataset, None

    def train(self, num_steps: int | tf.Tensor) -> dict[str, tf.Tensor]:
        """Pretrains the model by some steps on the next batches, in one call of the device.

        Args:
          num_steps: how many steps, an int or int32 [].

        Returns:
          A dict of the metrics over these steps ("loss" and the others of the model, "tokens" and
          "gradient_norm") and of the "learning_rate" of the next step, float32 [] each; and
          "skipped_steps", int64 [], the number of steps that were skipped since the start.

        Raises:
          tf.errors.OutOfRangeError: `train_dataset` has too few batches.
          TypeError: `train_dataset` is not set.
        """
        for metric in self.logged:
            metric.reset_state()
        alone = self.generator_alone
        if alone not in self.loops:
            self.loops[alone] = self.make_loop(alone)
        if self._batches is None:
            self._batches = iter(self._train_dataset)
        arguments = self._batches, tf.convert_to_tensor(num_steps, tf.int32)
        if self.drawing is not None:
            if not tf.config.functions_run_eagerly():
                self.loops[alone].get_concrete_function(*arguments)  # traced meanwhile
            self.drawing.finish()
            self.drawing = None
        self.loops[alone](*arguments)
        return {metric.name: metric.result() for metric in self.logged} | {
            "learning_rate": self.optimizer.learning_rate(self.step),
            "skipped_steps": tf.identity(self.skipped_steps),
        }

    def make_loop(self, generator_alone: bool) -> Callable[[tf.data.Iterator, tf.Tensor], None]:
        """Makes the pretrainer's loop of steps, the graph that `train` calls.

        Args:
          generator_alone: True for the steps of `generator_warmup_steps`.

        Returns:
          A `tf.function` of an iterator of batches and the number of steps, int32 []. It takes the
          steps, updates variables and metrics, and returns nothing.
        """

        @tf.autograph.experimental.do_not_convert
        def step(batch: dict[str, tf.Tensor]) -> None:
            self.replica_train_step(batch, generator_alone)

        if self._jit_compile:
            step = tf.function(step, jit_compile=True)

        @tf.function
        def loop(batches: tf.data.Iterator, num_steps: tf.Tensor) -> None:
            for _ in tf.range(num_steps):
                with tf.name_scope(""):  # names without "while/"
                    self.strategy.run(
                        step, args=(next(batches),), options=distribution.STATIC_SHAPES
                    )

        return loop

    # This is graph code already: looking for Python's `if` and `for` only makes starting slower.
    @tf.autograph.experimental.do_not_convert
    def replica_train_step(
        self,
        batch: dict[str, tf.Tensor],
        generator_alone: bool = False,
        masked: masking.MaskedBatch | None = None,
    ) -> None:
        """Takes a pretraining step on a replica's share of a batch; returns nothing.

        Updates the model, the optimizer and the metrics; call it in a replica's context.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each; of packed examples
            also `document_ids` and `position_ids`; of sentence pairs also `label`, int32 [B].
          generator_alone: True if the generator alone learns.
          masked: the batch with masked tokens, as `mask` returns it; None: masks are drawn here.
        """
        step = tf.identity(self.step)  # which the optimizer counts on
        mask_seed, model_seed = self.seeds(TRAINING_STREAM, step)
        if masked is None:
            masked = self.mask(batch, mask_seed, step)
        if generator_alone:
            variables = self.model.generator_variables
        else:
            variables = self.model.trainable_variables

        def compute(
            batch: dict[str, tf.Tensor], masked: masking.MaskedBatch, part: accumulation.Part
        ) -> tuple[Any, list[tf.Tensor]]:
            return self.model.gradients(variables, batch, masked, model_seed, part)

        # Parts that are worked on at the same time are traced once. The function updates nothing,
        # or they would wait for each other.
        at_once = self._parts.at_once > 1
        traced = tf.function(compute, autograph=False) if at_once else compute

        def gradients_of(
            batch: dict[str, tf.Tensor], masked: masking.MaskedBatch, part: accumulation.Part
        ) -> list[tf.Tensor]:
            output, gradients = traced(batch, masked, part)
            self.train_metrics.update(batch, masked, output, part)
            return gradients

        max_norm = self.config.max_gradient_norm
        step_parts = (gradients_of, batch, masked, variables, self._parts)
        if self._groups:
            gradients = accumulation.sum_of_clipped_groups(*step_parts, self._groups, max_norm)
        else:
            gradients = accumulation.sum_over_parts(*step_parts)
        # Clipped groups are not clipped again: so many together have no larger norm.
        norm = apply_clipped(
            self.optimizer, gradients, variables, self.config.gradient_clip_groups * max_norm
        )
        self.tokens.update_state(tf.cast(batch["input_mask"], tf.float32))
        self.gradient_norm.update_state(norm)
        skipped = ~tf.math.is_finite(norm)
        self.skipped_steps.assign_add(tf.cast(skipped, tf.int64))
        self.last_skipped_step.assign(tf.where(skipped, step, self.last_skipped_step))

    def evaluate(self) -> dict[str, tf.Tensor]:
        """Evaluates the pretrainer's model on all batches of `eval_dataset`.

        Returns:
          A dict of the model's metrics by name, "loss" and others, float32 [] each.

        Raises:
          TypeError: `eval_dataset` is not set.
        """
        for metric in self.eval_metrics.all:
            metric.reset_state()
        self.eval_batches.assign(0)
        batches = iter(self.eval_dataset)
        try:
            # On another machine a step may fail, as the last one does, after its call has returned.
            with tf.experimental.async_scope():
                while True:
                    self.eval_step(batches)
        except (StopIteration, tf.errors.OutOfRangeError):
            tf.experimental.async_clear_error()
        return {metric.name: metric.result() for metric in self.eval_metrics.all}

    def make_eval_step(self) -> Callable[[tf.data.Iterator], None]:
        """Makes the pretrainer's step of an evaluation, the graph that `evaluate` calls.

        Returns:
          A `tf.function` of an iterator of batches, which adds the next one to the metrics of
          evaluation and returns nothing. It raises StopIteration or tf.errors.OutOfRangeError after
          the last batch.
        """

        @tf.function
        def evaluate_next(batches: tf.data.Iterator) -> None:
            self.strategy.run(
                self.replica_eval_step, args=(next(batches),), options=distribution.STATIC_SHAPES
            )
            self.eval_batches.assign_add(1)

        return evaluate_next

    @tf.autograph.experimental.do_not_convert
    def replica_eval_step(
        self, batch: dict[str, tf.Tensor], masked: masking.MaskedBatch | None = None
    ) -> None:
        """Evaluates the pretrainer's model on a replica's share of a batch; returns nothing.

        Updates the metrics of evaluation; call it in a replica's context.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each; of packed examples
            also `document_ids` and `position_ids`; of sentence pairs also `label`, int32 [B].
          masked: see `replica_train_step`.
        """
        # Keyed by the batch and not by the step: every evaluation masks the same tokens.
        mask_seed, model_seed = self.seeds(EVALUATION_STREAM, self.eval_batches)
        if masked is None:
            # And as many at every evaluation, however many a schedule masks by then.
            masked = self.mask(batch, mask_seed, None)

        def update(
            batch: dict[str, tf.Tensor], masked: masking.MaskedBatch, part: accumulation.Part
        ) -> list[tf.Tensor]:
            output = self.model(batch, masked, seed=model_seed, training=False, part=part)
            self.eval_metrics.update(batch, masked, output, part)
            return []

        accumulation.sum_over_parts(update, batch, masked, [], self._eval_parts)

    def seeds(self, stream: int, number: tf.Tensor) -> list[tf.Tensor]:
        """Derives the pretrainer's two seeds of a batch: the first is of its masks.

        The second is of all other draws, the generator's samples and the dropout.

        Args:
          stream: `TRAINING_STREAM` (0) or `EVALUATION_STREAM` (1).
          number: int64 [], the step, or the number of the batch in an evaluation.

        Returns:
          A list of the two seeds, int32 [2] each.
        """
        return randomness.split(randomness.fold_in([self.config.seed, stream], number), 2)

    def mask(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor, step: tf.Tensor | None
    ) -> masking.MaskedBatch:
        """Masks a batch's tokens by the pretrainer's settings: the global batch's, or a replica's.

        Call it in a replica's context.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, L] each; of packed examples
            also `document_ids` and `position_ids`.
          seed: int32 [2], the first of `seeds`.
          step: int64 [], the steps done, which a growing share depends on; None in evaluation, for
            its highest share.

        Returns:
          A `MaskedBatch`: `input_ids`, int32 [B, L], masked; `positions` and original `ids`, int32
          [B, N]; `weights`, float32 [B, N], 1 for masked positions, 0 for none. N is
          `config.max_predictions(L)`.
        """
        config = self.config
        return masking.mask_tokens(
            batch["input_ids"],
            batch["input_mask"],
            self.masking,
            limit=config.max_predictions(batch["input_ids"].shape[1]),
            mask_prob=config.most_masked if step is None else masking.scheduled_prob(config, step),
            seed=seed,
        )


def _counter(strategy: tf.distribute.Strategy) -> tf.Variable:
    """Makes a variable that counts, int64 [], 0 at first; all replicas set it to the same value."""
    aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
    if isinstance(strategy, tf.distribute.TPUStrategy):
        # Each core sets its copy: the first one's would be sent to all the others.
        aggregation = tf.VariableAggregation.NONE
    return tf.Variable(tf.constant(0, tf.int64), trainable=False, aggregation=aggregation)
