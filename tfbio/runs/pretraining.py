"""The pretraining run: model, step, evaluation, checkpoints, progress.

`pretrain` is what `run_pretraining.py` calls. The loop is orbit's; one training step is
`Trainer._replica_train_step`, and everything random in it is keyed by seed and step.
"""

import dataclasses
import json
import math
import os
import signal
import sys
from collections.abc import Callable

import numpy as np
import orbit
import tensorflow as tf
import tf_keras as keras

from tfbio.base import storage
from tfbio.base.cli import UsageError, UserError
from tfbio.base.example_records import LABELLED_OBJECTIVES
from tfbio.base.manifests import Manifest, verify
from tfbio.models import randomness
from tfbio.objectives import accumulation, masking
from tfbio.objectives.electra import Electra, ElectraMetrics
from tfbio.objectives.masked_language_model import MaskedLanguageModel, MaskedLanguageModelMetrics
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import pretraining_data
from tfbio.runs.progress import Progress, without_orbit_lines
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer
from tfbio.training import distribution, monitoring, optimization
from tfbio.weights import checkpoints

# The second number of the seeds, so that no two purposes share a stream of random numbers.
TRAINING_STREAM, EVALUATION_STREAM = 0, 1


class Trainer(orbit.StandardTrainer, orbit.StandardEvaluator):
    """One training step and one evaluation step, under any strategy."""

    def __init__(
        self,
        config: PretrainingConfig,
        encoder: FastTokenizer,
        strategy: tf.distribute.Strategy,
    ):
        orbit.StandardTrainer.__init__(self, train_dataset=None)
        orbit.StandardEvaluator.__init__(self, eval_dataset=None)
        self.config, self.strategy = config, strategy
        self.mask_id, self.begins_word = encoder.mask_id, encoder.begins_word
        self.special_ids = [encoder.cls_id, encoder.sep_id, encoder.pad_id]
        with strategy.scope():
            keras.utils.set_random_seed(config.seed)
            if config.objective == "electra":
                self.model, make_metrics = Electra(config), ElectraMetrics
            else:
                self.model, make_metrics = MaskedLanguageModel(config), MaskedLanguageModelMetrics
            alone = config.generator_warmup_steps
            rate = optimization.WarmupLinearDecay(
                config.learning_rate, config.num_train_steps - alone, config.num_warmup_steps
            )
            self.optimizer = optimization.Adam(
                optimization.GeneratorWarmup(alone, rate) if alone else rate,
                beta_1=config.adam_beta_1,
                beta_2=config.adam_beta_2,
                epsilon=config.adam_epsilon,
                weight_decay_rate=config.weight_decay_rate,
            )
            # Here, and not in the first step: several replicas cannot make variables in a graph.
            self.optimizer._create_all_weights(self.model.trainable_variables)
            self.train_metrics, self.eval_metrics = make_metrics(), make_metrics()
            self.tokens = keras.metrics.Sum("tokens")
            self.gradient_norm = keras.metrics.Mean("gradient_norm")
            self.logged = [*self.train_metrics.all, self.tokens, self.gradient_norm]
            # Steps that were skipped (see `optimization.Adam`) since the start, and the last one.
            self.skipped_steps, self.last_skipped_step = _counter(strategy), _counter(strategy)
            self.eval_batches = _counter(strategy)
        self._jit_compile = config.run.jit_compile
        if isinstance(strategy, tf.distribute.TPUStrategy):
            self._jit_compile = False  # it always does
        elif self._jit_compile and strategy.num_replicas_in_sync > 1:
            raise UserError("run.jit_compile works on one device or on a TPU, not on several.")
        if config.run.parallel_parts > 1 and strategy.num_replicas_in_sync > 1:
            raise UserError("run.parallel_parts works on one device, not on several.")
        self._parts = config.run.gradient_accumulation_steps, config.run.parallel_parts
        # Of a replica; 0: gradients are clipped as a whole.
        self._groups = 0
        if config.gradient_clip_groups > 1:
            self._groups = config.gradient_clip_groups // strategy.num_replicas_in_sync
        # Whether the next loop of steps is of `generator_warmup_steps`.
        self._generator_alone = False

    @property
    def global_step(self) -> tf.Variable:
        """int64 []: the steps done so far."""
        return self.optimizer.iterations

    def train_loop_begin(self) -> None:
        """See orbit."""
        for metric in self.logged:
            metric.reset_state()
        if self.config.generator_warmup_steps:
            step = int(self.global_step.numpy())
            self._generator_alone = step < self.config.generator_warmup_steps

    def create_train_loop_fn(self) -> Callable:
        """See orbit. Steps of the generator alone have a graph of their own."""
        # Each is traced when it is first called, and sees then what `train_loop_begin` has set.
        loops = [orbit.StandardTrainer.create_train_loop_fn(self) for _ in range(2)]
        return lambda *arguments: loops[self._generator_alone](*arguments)

    def train_step(self, iterator) -> None:
        """See orbit."""
        step = self._replica_train_step
        if self._jit_compile:
            step = tf.function(step, jit_compile=True)
        self.strategy.run(step, args=(next(iterator),), options=distribution.STATIC_SHAPES)

    # Graph code as it stands: looking for Python's `if` and `for` in it only makes starting slower.
    @tf.autograph.experimental.do_not_convert
    def _replica_train_step(self, batch: dict[str, tf.Tensor]) -> None:
        step = tf.identity(self.global_step)  # which the optimizer counts on
        mask_seed, model_seed = self.seeds(TRAINING_STREAM, step)
        masked = self.mask(batch, mask_seed, step)
        if self._generator_alone:
            variables = self.model.generator_variables
        else:
            variables = self.model.trainable_variables

        def gradients_of(
            batch: dict[str, tf.Tensor], masked: masking.MaskedBatch, part: accumulation.Part
        ) -> list[tf.Tensor]:
            output, gradients = self.model.gradients(variables, batch, masked, model_seed, part)
            self.train_metrics.update(batch, masked, output, part)
            return gradients

        max_norm = self.config.max_gradient_norm
        step_parts = (gradients_of, batch, masked, variables, *self._parts)
        if self._groups:
            gradients = accumulation.sum_of_clipped_groups(*step_parts, self._groups, max_norm)
        else:
            gradients = accumulation.sum_over_parts(*step_parts)
        # Clipped groups are not clipped again: so many together have no larger norm.
        norm = optimization.apply_clipped(
            self.optimizer, gradients, variables, self.config.gradient_clip_groups * max_norm
        )
        self.tokens.update_state(tf.cast(batch["input_mask"], tf.float32))
        self.gradient_norm.update_state(norm)
        skipped = ~tf.math.is_finite(norm)
        self.skipped_steps.assign_add(tf.cast(skipped, tf.int64))
        self.last_skipped_step.assign(tf.where(skipped, step, self.last_skipped_step))

    def train_loop_end(self) -> dict[str, tf.Tensor]:
        """See orbit."""
        return {metric.name: metric.result() for metric in self.logged} | {
            "learning_rate": self.optimizer.learning_rate(self.global_step),
            "skipped_steps": tf.identity(self.skipped_steps),
        }

    def eval_begin(self) -> None:
        """See orbit."""
        for metric in self.eval_metrics.all:
            metric.reset_state()
        self.eval_batches.assign(0)

    def eval_step(self, iterator) -> None:
        """See orbit."""
        self.strategy.run(
            self._replica_eval_step, args=(next(iterator),), options=distribution.STATIC_SHAPES
        )
        self.eval_batches.assign_add(1)

    @tf.autograph.experimental.do_not_convert
    def _replica_eval_step(self, batch: dict[str, tf.Tensor]) -> None:
        # Keyed by the batch and not by the step: every evaluation hides the same tokens.
        mask_seed, model_seed = self.seeds(EVALUATION_STREAM, self.eval_batches)
        # And as many at every evaluation, however many a schedule hides by then.
        masked = self.mask(batch, mask_seed, None)

        def update(
            batch: dict[str, tf.Tensor], masked: masking.MaskedBatch, part: accumulation.Part
        ) -> list[tf.Tensor]:
            output = self.model(batch, masked, seed=model_seed, training=False, part=part)
            self.eval_metrics.update(batch, masked, output, part)
            return []

        accumulation.sum_over_parts(update, batch, masked, [], *self._parts)

    def eval_end(self) -> dict[str, tf.Tensor]:
        """See orbit."""
        return {metric.name: metric.result() for metric in self.eval_metrics.all}

    def seeds(self, stream: int, number: tf.Tensor) -> list[tf.Tensor]:
        """What keys a batch's masks, and what keys its samples and dropout; int32 [2] each.

        Args:
          stream: `TRAINING_STREAM` or `EVALUATION_STREAM`.
          number: int64 [], the step, or the batch of an evaluation.
        """
        return randomness.split(randomness.fold_in([self.config.seed, stream], number), 2)

    def mask(
        self, batch: dict[str, tf.Tensor], seed: tf.Tensor, step: tf.Tensor | None
    ) -> masking.MaskedBatch:
        """Hides tokens of the global batch, int32 [B, L] each, or of a replica's share of it.

        Args:
          batch: see `Electra`.
          seed: int32 [2], see `seeds`.
          step: int64 [], see `masking.scheduled_prob`; None in evaluation, for its highest.
        """
        config = self.config
        return masking.mask_tokens(
            batch["input_ids"],
            batch["input_mask"],
            special_ids=self.special_ids,
            mask_id=self.mask_id,
            limit=config.max_predictions(batch["input_ids"].shape[1]),
            mask_prob=config.most_masked if step is None else masking.scheduled_prob(config, step),
            mask_token_prob=config.mask_token_prob,
            random_token_prob=config.random_token_prob,
            vocab_size=config.encoder.vocab_size,
            unit=config.mask_unit,
            begins_word=self.begins_word,
            with_replacement=config.mask_with_replacement,
            seed=seed,
        )


def _counter(strategy: tf.distribute.Strategy) -> tf.Variable:
    """int64 [], 0 at first; replicas set it to the same."""
    aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
    if isinstance(strategy, tf.distribute.TPUStrategy):
        # Each core its own copy: the first one's would be sent to all the others.
        aggregation = tf.VariableAggregation.NONE
    return tf.Variable(tf.constant(0, tf.int64), trainable=False, aggregation=aggregation)


def pretrain(
    config: PretrainingConfig,
    example_folders: list[str],
    model_dir: str,
    strategy: tf.distribute.Strategy,
    init_checkpoint: str = "",
    profile_steps: tuple[int, int] | None = None,
) -> None:
    """Trains until `config.num_train_steps`, from the newest checkpoint in `model_dir` if any.

    Writes into `model_dir`: `config.json`, the vocabulary (`vocab.txt`, `vocab.model`, or
    `vocab.json` and `merges.txt`), checkpoints `ckpt-STEP`, and TensorBoard logs `logs/train` and
    `logs/heldout`.

    Args:
      config: all settings.
      example_folders: made by `data_prep.examples`, one for each sequence length of the settings.
      model_dir: made if need be. All folders may be on `gs://`, see `storage`.
      strategy: where to compute; the batch must divide by its replicas.
      init_checkpoint: the `model_dir` of another run, or what others saved (see `checkpoints`),
        whose weights a new run starts with; its steps and its optimizer's averages are not taken
        over. "": new weights.
      profile_steps: the first and the last step of a TensorBoard trace in `logs`, see
        `monitoring.Profile`.

    Raises:
      UserError: if the examples do not fit the settings, or `model_dir` holds another run.
      DataError: if a shard of the examples is missing or damaged.
      CheckpointError: if the newest checkpoint is.
    """
    for folder in (model_dir, init_checkpoint, *example_folders):
        try:
            tf.io.gfile.exists(folder)
        except tf.errors.UnimplementedError as error:
            raise UserError(
                f"{folder}: TensorFlow knows no such addresses: give a local folder or gs://."
            ) from error
        except tf.errors.OpError as error:
            raise UserError(f"{folder} cannot be reached ({error.message}).") from error
    replicas, groups = strategy.num_replicas_in_sync, config.gradient_clip_groups
    if groups > 1 and groups % replicas:
        raise UsageError(
            f"gradient_clip_groups {groups} does not divide by {replicas} devices: give {replicas} "
            "(each clips the gradient of its examples), or 1 (that of all is clipped)."
        )
    names = ("gradient_accumulation_steps", "parallel_parts")
    parts = {f"run.{x}": getattr(config.run, x) for x in names if getattr(config.run, x) > 1}
    if groups > 1:
        parts["gradient_clip_groups"] = groups
    in_parts = math.prod(parts.values())  # over all devices where there are groups
    if config.train_batch_size % (in_parts if groups > 1 else replicas * in_parts):
        divided = " and ".join(f"{name}={number}" for name, number in parts.items())
        raise UsageError(
            f"train_batch_size {config.train_batch_size} does not divide by {replicas} devices"
            + (f" with {divided}." if divided else ".")
        )
    # Of several workers, one alone writes and prints.
    is_chief = strategy.extended.should_checkpoint

    def say(line: str) -> None:
        if is_chief:
            print(line, flush=True)

    precision = distribution.set_precision(config.run.precision, strategy)
    distribution.optimize_for(config.run.optimize_for, strategy)
    data = find_data(config, example_folders)
    newest = checkpoints.find_newest(model_dir, repair=is_chief)
    if is_chief:
        checkpoints.remove_half_written(model_dir)
    settings = _settings(config, data, init_checkpoint)
    if newest is None:
        if init_checkpoint:
            checkpoints.require_same_model(init_checkpoint, settings)
        for folder, manifest in data.values():
            # All bytes, once. Of a run that goes on, sizes were looked at above.
            verify(folder, manifest, full=True)
    vocab = _prepare_model_dir(settings, data, model_dir, newest is None, is_chief)
    trainer = Trainer(config, load_fast_tokenizer(vocab, settings["lower_case"]), strategy)
    checkpoint = tf.train.Checkpoint(model=trainer.model, optimizer=trainer.optimizer)
    # Makes this variable, which one of several workers alone would make later, and wait for others.
    _ = checkpoint.save_counter
    logs = os.path.join(model_dir, "logs")
    manager = None
    if is_chief:
        manager = tf.train.CheckpointManager(
            checkpoint,
            model_dir,
            max_to_keep=config.run.keep_checkpoint_max,
        )
    elif newest:
        checkpoint.restore(newest).assert_existing_objects_matched()
    counts = pretraining_data.word_counts(*data[config.sequence_length])
    counts[trainer.special_ids] = 0  # never hidden
    shares = counts[counts > 0] / counts.sum()
    frequencies_loss = -float(np.sum(shares * np.log(shares)))
    peak = distribution.peak(strategy, precision)
    progress = Progress(config, trainer.global_step, frequencies_loss, peak, silent=not is_chief)

    def save() -> None:
        """Unless this step is saved already."""
        step = int(trainer.global_step.numpy())
        # Steps after an update that made them so are skipped, and no loss tells it.
        for variable in trainer.model.trainable_variables:
            if not np.isfinite(variable.numpy()).all():
                raise UserError(
                    f"{variable.name} is not finite at step {step}: nothing of it is saved; try, "
                    "with another --model_dir, a lower learning_rate or a longer warm-up."
                )
        if is_chief and not (manager.latest_checkpoint or "").endswith(f"-{step}"):
            manager.save(checkpoint_number=step)

    def end_if_many_are_skipped(output: dict) -> None:
        if output["skipped_steps"] >= config.run.max_skipped_steps:
            saved = model_dir
            if is_chief:
                last_step = int(trainer.last_skipped_step.numpy())
                saved = _save_batch(config, data, last_step, model_dir)
            raise UserError(
                f"{output['skipped_steps']} steps gave gradients that are not finite; the batch of "
                f"the last is saved in {saved}: try run.precision=float32 or, with another "
                "--model_dir, a lower learning_rate or a longer warm-up."
            )

    with without_orbit_lines():
        controller = orbit.Controller(
            global_step=trainer.global_step,
            trainer=trainer,
            evaluator=trainer,
            strategy=strategy,
            steps_per_loop=config.run.steps_per_loop,
            checkpoint_manager=manager,  # restores; without an interval, it saves nothing by itself
            summary_dir=os.path.join(logs, "train") if is_chief else None,
            eval_summary_dir=os.path.join(logs, "heldout") if is_chief else None,
            train_actions=[progress.trained, end_if_many_are_skipped],
            eval_actions=[progress.evaluated],
        )
    step = int(trainer.global_step.numpy())
    if step >= config.num_train_steps:
        say(f"{model_dir}: complete, {step} steps were trained before; nothing to do.")
        return
    profile = monitoring.Profile(logs, profile_steps if is_chief else None)
    if profile_steps and step >= profile_steps[0]:
        say(f"warning: step {profile_steps[0]} of --profile_steps was done before: no trace.")
    say(
        f"{'continuing at step ' + str(step) if step else 'starting'}: "
        f"{config.num_train_steps} steps of {config.train_batch_size} examples on {replicas} "
        f"device(s) in {precision}; encoder of "
        f"{count_parameters(trainer.model.encoder) / 1e6:.1f} M parameters.",
    )
    alone = config.generator_warmup_steps
    if step < alone:
        say(
            f"until step {alone} the generator learns alone: the discriminator, with the "
            "embeddings that they share, stays as it is."
        )
    if newest is None:
        if config.frequency_biases:
            with strategy.scope():
                trainer.model.set_frequency_biases(counts)
        # After them, for a discriminator without a generator gets a new one that may have them.
        if init_checkpoint:
            checkpoints.restore_model(init_checkpoint, trainer.model)
    if config.run.jit_compile or isinstance(strategy, tf.distribute.TPUStrategy):
        say("compiling the training step ...")
    progress.start()
    phase_start = 0
    try:
        with monitoring.Preemption(strategy, lambda: what_is_saved(model_dir)) as preemption:
            for sequence_length, phase_end in config.phases():
                if step < phase_end and not preemption.sent:
                    phase = (*data[sequence_length], phase_start, phase_end)
                    _train_phase(controller, trainer, preemption, profile, save, *phase)
                    step = phase_end
                phase_start = phase_end
            save()
    finally:
        profile.close()
        progress.close()
    step = int(trainer.global_step.numpy())
    if step < config.num_train_steps:
        name = "Ctrl-C" if preemption.signal == signal.SIGINT else preemption.signal.name
        say(f"stopped by {name} at step {step}, which is saved: the same command continues.")
        sys.exit(128 + preemption.signal)
    say(f"done: checkpoints and logs in {model_dir} (tensorboard --logdir={model_dir}/logs).")


def find_data(
    config: PretrainingConfig, example_folders: list[str]
) -> dict[int, tuple[str, Manifest]]:
    """The folder of examples for each sequence length of the settings, and its manifest.

    Raises:
      UserError: if the examples do not fit the settings.
      DataError: if a shard is missing or of another size.
    """
    lengths = [length for length, _ in config.phases()]
    data = pretraining_data.find_examples(example_folders, lengths, config.encoder.vocab_size)
    for folder, manifest in data.values():
        objective = manifest.settings.get("objective")
        if objective in LABELLED_OBJECTIVES:
            raise UserError(
                f"{folder} was made with --objective={objective}, for another kind of pretraining: "
                "make examples with --objective=electra, or full_sentences."
            )
    return data


def count_parameters(layer: keras.layers.Layer) -> int:
    """Number of trainable parameters."""
    return sum(variable.shape.num_elements() for variable in layer.trainable_variables)


def _train_phase(
    controller: orbit.Controller,
    trainer: Trainer,
    preemption: monitoring.Preemption,
    profile: monitoring.Profile,
    save: Callable[[], None],
    folder: str,
    manifest: Manifest,
    phase_start: int,
    phase_end: int,
) -> None:
    """Trains on one sequence length from the current step to `phase_end`; evaluates, and saves.

    Ends sooner, between two loops of steps, where the process is to end. No loop has steps both
    of the generator alone and after, nor steps both in a trace and out of it.
    """
    config, strategy = trainer.config, trainer.strategy
    step = int(trainer.global_step.numpy())
    steps = step - phase_start, phase_end - phase_start

    def training(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return pretraining_data.training_dataset(
            folder, manifest, config.train_batch_size, config.seed, *steps, context
        )

    def held_out(context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = pretraining_data.held_out_dataset(
            folder, manifest, config.train_batch_size, context
        )
        return batches.take(config.run.num_eval_batches)

    trainer.train_dataset = distribution.distribute_dataset(strategy, training)
    trainer.eval_dataset = distribution.distribute_dataset(strategy, held_out)
    every, loop = config.run.eval_every_steps, config.run.steps_per_loop
    save_every = config.run.save_checkpoints_steps
    with without_orbit_lines():
        while step < phase_end and not preemption.sent:
            end = min(phase_end, (step // every + 1) * every)
            borders = (step + loop, end, config.generator_warmup_steps, *profile.borders)
            before, loop_end = step, min(border for border in borders if border > step)
            profile.start_at(step)
            controller.train(loop_end, checkpoint_at_completion=False)
            step = int(trainer.global_step.numpy())
            profile.stop_at(step)
            if step == end:
                controller.evaluate()
            # Last, so that a run which is killed does not lack the evaluation of a saved step.
            if step // save_every > before // save_every:
                save()


def _save_batch(
    config: PretrainingConfig,
    data: dict[int, tuple[str, Manifest]],
    step: int,
    model_dir: str,
) -> str:
    """Writes the examples of a step, as a .npz file; returns its path."""
    phase_start = 0
    for sequence_length, phase_end in config.phases():
        if phase_start <= step < phase_end:
            examples, first = data[sequence_length], step - phase_start
        phase_start = phase_end
    dataset = pretraining_data.training_dataset(
        *examples, config.train_batch_size, config.seed, first, first + 1
    )
    path = os.path.join(model_dir, f"skipped_step_{step}.npz")
    with storage.written_whole(path) as stream:
        np.savez(stream, **next(dataset.as_numpy_iterator()))
    return path


def _settings(
    config: PretrainingConfig, data: dict[int, tuple[str, Manifest]], init_checkpoint: str
) -> dict:
    """What `config.json` says of a run."""
    _, manifest = next(iter(data.values()))
    return {
        **dataclasses.asdict(config),
        "lower_case": manifest.settings["lower_case"],
        "vocab_sha256": manifest.settings["vocab_sha256"],
        "init_checkpoint": init_checkpoint or None,
        # For the model card.
        "data": {
            str(length): {
                "documents_sha256": own.settings.get("documents_sha256"),
                **own.counts,
            }
            for length, (_, own) in data.items()
        },
    }


def _prepare_model_dir(
    settings: dict,
    data: dict[int, tuple[str, Manifest]],
    model_dir: str,
    is_new: bool,
    is_chief: bool,
) -> str | os.PathLike:
    """Checks the settings of a run that goes on; writes `config.json` and the vocabulary.

    Returns:
      The path of a vocabulary.
    """
    path = os.path.join(model_dir, "config.json")
    # A start that failed before its first checkpoint binds nobody to its settings.
    before = checkpoints.read_settings(model_dir) if storage.at(path).exists() else {}
    if "task" in before:
        raise UserError(
            f"{model_dir} holds a run of run_finetuning.py: give another --model_dir, or a new one."
        )
    if not is_new:
        _require_same_settings(before, settings, model_dir)
    folder, manifest = next(iter(data.values()))
    found = manifest.settings.get("vocab_file") or vocabularies.find_vocabulary(folder)
    if is_chief:
        storage.at(model_dir).mkdir(parents=True, exist_ok=True)
        vocabularies.copy_vocabulary(found, model_dir)
        storage.write_text(path, json.dumps(settings, indent=2) + "\n")
    return found


def _require_same_settings(before: dict, settings: dict, model_dir: str) -> None:
    """Refuses to continue a run with settings that it did not begin with."""
    differing = {}
    # What only changes the speed may change when a run is continued. The counts of the data are
    # not compared: an earlier version did not write them.
    for name in settings.keys() - {"comment", "run", "data"}:
        # A setting that is newer than the run had what is now its default.
        had = before.get(name, getattr(PretrainingConfig(), name, None))
        if settings[name] != had:
            differing[name] = had
    if differing.keys() == {"num_train_steps"}:
        had, wanted = differing["num_train_steps"], settings["num_train_steps"]
        if wanted > had:
            # It had another learning rate at each of its steps than a run of so many has.
            raise UserError(
                f"{model_dir} holds a run of {had} steps, whose learning rate falls to 0 until "
                f"then: let it end, and train on with --init_checkpoint={model_dir}, --set "
                f"num_train_steps={wanted - had} and another --model_dir."
            )
    if differing:
        name = min(differing)
        raise UserError(
            f"{model_dir} holds a run with {name} = {differing[name]}, these settings say "
            f"{settings[name]}: give another --model_dir, or the settings it had (in "
            f"{os.path.join(model_dir, 'config.json')})."
        )


def what_is_saved(model_dir: str) -> str:
    """Says at which step the same command continues a run."""
    newest = tf.train.latest_checkpoint(model_dir)
    if newest is None:
        return "no step is saved, and the same command begins anew"
    return f"step {newest.rpartition('-')[2]} is saved, and the same command continues there"
