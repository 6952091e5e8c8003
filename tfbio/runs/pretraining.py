"""Runs pretraining: settings, data, checkpoints, progress and the phases of training.

`run_pretraining.py` calls `pretrain`. The loop is `training.trainer.Trainer.fit`; one step is
`objectives.pretrainer.Pretrainer.replica_train_step`.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Collection

import numpy as np
import tensorflow as tf

from tfbio.base import messages, storage
from tfbio.base.errors import UserError
from tfbio.base.manifests import Manifest, verify
from tfbio.models import initial_weights, layers
from tfbio.objectives import division, mesh_limits
from tfbio.objectives.mesh_pretrainer import MeshPretrainer
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_phases import Phase
from tfbio.runs import pretraining_data, pretraining_folder, teachers
from tfbio.runs.pretraining_data import Data
from tfbio.runs.pretraining_progress import Progress
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import checkpointing, devices, distribution
from tfbio.training.checkpointing import Checkpointer
from tfbio.training.mesh import MeshStrategy
from tfbio.training.precision import Precision, set_precision
from tfbio.training.preemption import Preemption
from tfbio.training.profile import Profile
from tfbio.training.summaries import Summaries
from tfbio.training.trainer import Figures, Trainer, naming_remedy
from tfbio.weights import checkpoint_weights, same_model


def pretrain(
    config: PretrainingConfig,
    example_folders: list[str],
    model_dir: str,
    strategy: tf.distribute.Strategy,
    init_checkpoint: str = "",
    profile_steps: tuple[int, int] | None = None,
    teacher: str = "",
) -> None:
    """Pretrains a text encoder until `config.last_step`, from the newest checkpoint if any.

    Writes into `model_dir`: `config.json`, the vocabulary (`vocab.txt`, `vocab.model`, or
    `vocab.json` and `merges.txt`), checkpoints `ckpt-STEP`, and TensorBoard logs `logs/train` and
    `logs/heldout`. Returns nothing, and prints progress.

    Args:
      config: all settings.
      example_folders: paths of folders that `data_prep.examples` made, one for each phase of the
        settings.
      model_dir: the path of the run's folder, made if need be. All folders may be on `gs://`, see
        `storage`.
      strategy: where to compute; the batch must divide by its replicas.
      init_checkpoint: the `model_dir` of another run, or a checkpoint of other software (see
        `checkpoint_weights`), whose weights a new run starts with; its steps and its optimizer's
        averages are not taken over. "": new weights.
      profile_steps: the first and the last step of a TensorBoard trace in `logs`, see
        `profile.Profile`.
      teacher: the folder or checkpoint of the masked language model that a student learns from, see
        `teachers.with_sizes`; "": there is none.

    Raises:
      UsageError: the batch does not divide by the devices and the parts of a step, or the settings
        do not go with the mesh.
      UserError: the examples or the teacher do not fit the settings, `model_dir` holds another run,
        the teacher is not the one that the run began with, the workers see different checkpoints in
        `model_dir`, or `run.max_skipped_steps` steps were skipped, as their gradients were not
        finite; or memory ran out.
      DataError: a shard of the examples is missing or damaged, or there are fewer held-out examples
        than one batch.
      CheckpointError: the newest checkpoint is damaged, or `init_checkpoint` cannot be used.
      SystemExit: a signal ended the run early; the step is saved.
    """
    _check_reachable(model_dir, init_checkpoint, teacher, *example_folders)
    config = teachers.with_sizes(config, teacher)
    is_mesh = isinstance(strategy, MeshStrategy)
    if is_mesh:
        mesh_limits.check(config, strategy.mesh.shape)
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    division.check(config, strategy.num_replicas_in_sync, compiles=is_tpu)
    distribution.optimize_for(config.run.optimize_for, strategy)
    data = pretraining_data.find_data(config, example_folders, init_checkpoint)
    # One of several workers writes and prints.
    is_chief = strategy.extended.should_checkpoint
    newest = checkpointing.find_newest(model_dir, repair=is_chief)
    begun_in = pretraining_folder.precision_of(model_dir) if newest else ""
    precision = set_precision(config.run.precision, strategy, config.encoder.hidden_size, begun_in)
    settings = pretraining_folder.settings_of(config, data, init_checkpoint, teacher)
    settings["chosen_precision"] = precision.name
    if begun_in and config.run.precision == "auto":
        # A device that cannot compute in it does not change it for those that come after.
        settings["chosen_precision"] = begun_in
    taught_by = teachers.load(teacher, settings["vocab_sha256"], settings["lower_case"], strategy)
    recorded = pretraining_folder.recorded_phases(model_dir) if newest else set()
    _check_start(settings, data, "" if newest else init_checkpoint, recorded)
    vocab = pretraining_folder.require_same_run(settings, data, model_dir, newest is None)
    tokenizer = load_fast_tokenizer(vocab, settings["lower_case"])
    with _initial_weights(newest, init_checkpoint, strategy) as drawing:
        mesh = MeshPretrainer(config, tokenizer, strategy) if is_mesh else None
        pretrainer = mesh or Pretrainer(config, tokenizer, strategy, taught_by)
    pretrainer.drawing = drawing
    saves = Checkpointer(
        pretrainer.model,
        pretrainer.optimizer,
        model_dir,
        config.run.keep_checkpoint_max,
        writes=is_chief,
        keep_at=config.run.keep_checkpoints_at,
        # A run that is told to end may save before its first step.
        before_saving=mesh.collect if mesh else drawing.finish if drawing else lambda: None,
    )
    counts = pretraining_data.word_counts(*data[0])
    counts = np.pad(counts, (0, config.encoder.vocab_size - len(counts)))
    counts[pretrainer.masking.special_ids] = 0  # never masked
    if newest:
        with strategy.scope():
            saves.restore(newest)
    else:
        _initialize(pretrainer, counts, init_checkpoint)
    if mesh:
        mesh.spread()
    step = int(pretrainer.step.numpy())
    distribution.require_same_step(strategy, step, f"--model_dir={model_dir}")
    say: Callable[[str], None] = messages.say if is_chief else lambda line: None
    if step >= config.last_step:
        say(f"{model_dir}: complete, {step} steps were trained before; nothing to do.")
        return
    if is_chief:
        pretraining_folder.prepare(settings, vocab, model_dir, newest is None)
    peak = devices.peak(strategy, precision.name)
    loss = _frequencies_loss(counts)
    progress = Progress(config, pretrainer.step, loss, peak, silent=not is_chief)

    def on_trained(figures: Figures) -> None:
        progress.trained(figures)
        _end_if_many_are_skipped(figures, pretrainer, data, model_dir, is_chief)

    logs = os.path.join(model_dir, "logs")
    profile = Profile(logs, profile_steps, writes=is_chief)
    try:
        with (
            Preemption(strategy, lambda: pretraining_folder.what_is_saved(model_dir)) as preemption,
            Summaries(os.path.join(logs, "train") if is_chief else "") as curves,
            Summaries(os.path.join(logs, "heldout") if is_chief else "") as eval_curves,
        ):
            # Here, so that Ctrl-C is answered as soon as this is read.
            _say_what_begins(say, pretrainer, step, precision, profile_steps)
            progress.start()
            trainer = Trainer(
                steps_per_loop=config.run.steps_per_loop,
                eval_every=config.run.eval_every_steps,
                save_every=config.run.save_checkpoints_steps,
                checkpointer=saves,
                preemption=preemption,
                profile=profile,
                curves=curves,
                eval_curves=eval_curves,
                on_trained=on_trained,
                on_evaluated=progress.evaluated,
                save_at=config.run.keep_checkpoints_at,
            )
            with naming_remedy(_against_large_steps(config)):
                step = _train(trainer, pretrainer, data, step)
            saves.save()
    finally:
        profile.close()
        progress.close()
    if step < config.last_step:
        say(
            f"stopped by {preemption.signal_name} at step {step}, which is saved: the same command "
            "continues."
        )
        sys.exit(128 + preemption.signal)
    say(f"done: checkpoints and logs in {model_dir} (tensorboard --logdir={model_dir}/logs).")


# --- Before the first step -----------------------------------------------------------------------


def _check_reachable(*folders: str) -> None:
    """Raises UserError if a folder has an address that TensorFlow cannot open."""
    for folder in folders:
        try:
            tf.io.gfile.exists(folder)
        except tf.errors.UnimplementedError as error:
            raise UserError(
                f"{folder}: TensorFlow knows no such addresses: give a local folder or gs://."
            ) from error
        except tf.errors.OpError as error:
            raise UserError(f"{folder} cannot be reached ({error.message}).") from error


def _check_start(
    settings: dict, data: Data, init_checkpoint: str, recorded: Collection[str] = ()
) -> None:
    """Reads all new examples once, and the settings of the checkpoint that a new run starts with.

    Args:
      settings: of the run, whose `data` has a name for each phase.
      data: the examples of each phase.
      init_checkpoint: see `pretrain`; "" for a run that goes on.
      recorded: the names of the phases whose examples were read before.
    """
    if init_checkpoint:
        same_model.require_same_model(init_checkpoint, settings)
    for name, (folder, manifest) in zip(settings["data"], data, strict=True):
        if name not in recorded:
            # All bytes, once. If a run goes on, `find_data` has compared the sizes alone.
            verify(folder, manifest, full=True)


def _initial_weights(
    newest: str | None, init_checkpoint: str, strategy: tf.distribute.Strategy
) -> contextlib.AbstractContextManager[initial_weights.Drawing | None]:
    """Returns a context to make the model in, which says where its weights are from."""
    if newest:
        return initial_weights.restored_weights()
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    are_drawn = not (init_checkpoint or has_gpu) and distribution.is_one_device(strategy, "CPU")
    return initial_weights.drawn_meanwhile() if are_drawn else contextlib.nullcontext()


def _initialize(pretrainer: Pretrainer, counts: np.ndarray, init_checkpoint: str) -> None:
    """Gives a new run its weights.

    Args:
      pretrainer: has the model.
      counts: int [V], how often each word of the vocabulary occurs.
      init_checkpoint: see `pretrain`.
    """
    if pretrainer.config.frequency_biases:
        with pretrainer.strategy.scope():
            pretrainer.model.set_frequency_biases(counts)
    # After the biases: a discriminator without a generator gets a new one, which may have them.
    if init_checkpoint:
        checkpoint_weights.restore_model(init_checkpoint, pretrainer.model)


def _frequencies_loss(counts: np.ndarray) -> float:
    """Returns the loss of predicting masked tokens by how often each word occurs, int [V]."""
    shares = counts[counts > 0] / counts.sum()
    return -float(np.sum(shares * np.log(shares)))


def _say_what_begins(
    say: Callable[[str], None],
    pretrainer: Pretrainer,
    step: int,
    precision: Precision,
    profile_steps: tuple[int, int] | None,
) -> None:
    """Prints the step at which the run begins, its steps, devices and precision."""
    config, strategy = pretrainer.config, pretrainer.strategy
    if profile_steps and step >= profile_steps[0]:
        say(f"warning: step {profile_steps[0]} of --profile_steps was done before: no trace.")
    say(
        f"{'continuing at step ' + str(step) if step else 'starting'}: "
        f"{config.num_train_steps} steps of {config.train_batch_size} examples on "
        f"{distribution.devices_of(strategy)} in {precision}; encoder of "
        f"{layers.count_parameters(pretrainer.model.encoder) / 1e6:.1f} M parameters.",
    )
    if config.last_step < config.num_train_steps:
        say(f"the run ends at step {config.last_step}: run.stop_at_step.")
    if config.warmup_warning:
        say(config.warmup_warning)
    if config.adversarial.weight and precision.name == "bfloat16":
        say(
            "warning: bfloat16 rounds most of the adversarial noise away, which is smaller than "
            "its steps: --set run.precision=float32 keeps it."
        )
    if step < config.generator_warmup_steps:
        say(
            f"until step {config.generator_warmup_steps} the generator learns alone: the "
            "discriminator, with the embeddings that they share, stays as it is."
        )
    if config.run.jit_compile or isinstance(strategy, tf.distribute.TPUStrategy):
        say("compiling the training step ...")
    else:
        say("tracing the training step ...")


# --- Training ------------------------------------------------------------------------------------


def _train(trainer: Trainer, pretrainer: Pretrainer, data: Data, step: int) -> int:
    """Trains phase after phase, each on its examples; returns the steps done.

    Args:
      trainer: has the loop.
      pretrainer: takes the steps.
      data: the examples of all phases.
      step: the steps done so far.
    """
    for phase, examples in zip(pretrainer.config.phases(), data, strict=True):
        if step < phase.end and not trainer.preemption.sent:
            step = _train_phase(trainer, pretrainer, step, phase, *examples)
    return step


def _against_large_steps(config: PretrainingConfig) -> str:
    """Says what to do where memory ran out in a step or an evaluation."""
    parts = config.run.gradient_accumulation_steps
    return (
        f"give --set run.gradient_accumulation_steps=N with N above {parts}, so that a device has "
        "fewer examples at a time, and the same command otherwise, which goes on from what is "
        "saved; --dry_run names an N that fits, if any"
    )


def _train_phase(
    trainer: Trainer,
    pretrainer: Pretrainer,
    step: int,
    phase: Phase,
    folder: str,
    manifest: Manifest,
) -> int:
    """Trains on one folder of examples from `step` to a phase's end; returns the steps done.

    Raises:
      DataError: a shard was damaged after the run began.
    """
    config, strategy = pretrainer.config, pretrainer.strategy
    steps = step - phase.start, phase.steps

    def training(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return pretraining_data.training_dataset(
            folder, manifest, config.train_batch_size, config.seed, *steps, context
        )

    def held_out(context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = pretraining_data.held_out_dataset(
            folder, manifest, config.train_batch_size, context
        )
        return batches.take(config.run.num_eval_batches)

    pretrainer.train_dataset = distribution.distribute_dataset(strategy, training)
    pretrainer.eval_dataset = distribution.distribute_dataset(strategy, held_out)
    # A loop ends with the last step of the generator alone.
    stops = (config.generator_warmup_steps,)
    try:
        return trainer.fit(step, phase.end, pretrainer.train, pretrainer.evaluate, stops)
    except tf.errors.DataLossError:
        verify(folder, manifest, full=True)  # it names the shard
        raise


def _end_if_many_are_skipped(
    figures: Figures, pretrainer: Pretrainer, data: Data, model_dir: str, is_chief: bool
) -> None:
    """Ends a run that has skipped many steps since its start, and saves the batch of the last.

    Raises:
      UserError: it has.
    """
    config, skipped = pretrainer.config, int(figures["skipped_steps"])
    if skipped < config.run.max_skipped_steps:
        return
    saved = model_dir
    if is_chief:
        last_step = int(pretrainer.last_skipped_step.numpy())
        saved = _save_batch(config, data, last_step, model_dir)
    in_bfloat16 = pretrainer.model.compute_dtype == "bfloat16"
    raise UserError(
        f"{skipped} steps gave gradients that are not finite; the batch of the last is saved "
        f"in {saved}: try{' run.precision=float32 or' if in_bfloat16 else ''}, with another "
        "--model_dir, a lower learning_rate or a longer warm-up; if they are few among many, the "
        "same command goes on, and counts anew."
    )


def _save_batch(
    config: PretrainingConfig,
    data: Data,
    step: int,
    model_dir: str,
) -> str:
    """Writes the examples of a step, as a .npz file; returns its path."""
    first, examples = next(
        (step - phase.start, of_phase)
        for phase, of_phase in zip(config.phases(), data, strict=True)
        if phase.start <= step < phase.end
    )
    dataset = pretraining_data.training_dataset(
        *examples, config.train_batch_size, config.seed, first, first + 1
    )
    path = os.path.join(model_dir, f"skipped_step_{step}.npz")
    with storage.written_whole(path) as stream:
        np.savez(stream, **next(dataset.as_numpy_iterator()))
    return path
