"""One trial of fine-tuning: trains with one seed, scores dev and test, and writes both."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Sequence
from typing import cast

import tensorflow as tf
import tqdm

from tfbio.base import json_files, storage
from tfbio.base.errors import UserError
from tfbio.formats import hoc
from tfbio.formats.task_examples import Example, LabelledText
from tfbio.runs.finetuner import Finetuner
from tfbio.runs.finetuning_data import training_order
from tfbio.task_types import finetuning_files
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.task_types.task import Task
from tfbio.training import checkpointing, distribution
from tfbio.training.best_weights import BestWeights
from tfbio.training.checkpointing import Checkpointer, NotFiniteError
from tfbio.training.mesh import MeshStrategy
from tfbio.training.preemption import Preemption
from tfbio.training.profile import Profile
from tfbio.training.progress_bar import Count
from tfbio.training.summaries import Summaries
from tfbio.training.trainer import Figures, Trainer, naming_remedy
from tfbio.weights import checkpoint_source


class DivergedError(UserError):
    """The `UserError` of a fine-tuning trial whose loss, or a weight, is no longer a number."""


class StoppedError(Exception):
    """The exception of a trial whose process was told to end; the trial's progress is saved."""


@dataclasses.dataclass(kw_only=True)
class Trial:
    """A trial of fine-tuning; `run` trains, scores and writes it, or goes on with a stopped one.

    Attributes:
      finetuner: the model with its optimizer, whose weights `run` sets.
      task: the task.
      examples: "train", "dev" and "test" -> a list of their examples.
      features: the same splits -> the windows of their examples.
      trained: the windows to train on.
      init_checkpoint: the path of the folder with the encoder's weights; "" for random ones.
      with_head: True if the head starts from there, too.
      output_dir: the path of the run's folder.
      seed: the trial's seed.
      shown: the splits whose scores are printed.
      preemption: says when the process is to end.
    """

    finetuner: Finetuner
    task: Task
    examples: dict[str, list[Example]]
    features: dict[str, Features]
    trained: Features
    init_checkpoint: str
    with_head: bool
    output_dir: str
    seed: int
    shown: tuple[str, ...]
    preemption: Preemption

    def __post_init__(self) -> None:
        self._config, self._task_type = self.finetuner.config, self.finetuner.task_type
        # Of several workers, one alone writes and prints.
        self._is_chief = self.finetuner.strategy.extended.should_checkpoint
        self._calibration: float | None = None
        self._watch = _Stopwatch()
        # Made when the first figure is written.
        logs = os.path.join(self.output_dir, "logs", f"trial_{self.seed}")
        self._logs = logs if self._is_chief else ""
        self._curves: dict[str, Summaries] = {}

    def run(self) -> None:
        """Trains, scores and writes the trial, whose folder appears when all of it is written.

        The test set is scored once, with the weights that are kept. Returns nothing; the folder
        `trial_SEED` holds the weights, the predictions and `scores.json`, see `TrialScores`.

        Raises:
          DivergedError: the loss, or a weight when a checkpoint is due, is no longer a number.
          UserError: memory ran out, or the workers see different checkpoints in `output_dir`.
          StoppedError: the process was told to end.
          CheckpointError: the trial was stopped, and its newest checkpoint is damaged; or the
            encoder's weights cannot be read.
        """
        best: BestWeights | None = None
        if self._config.eval_every_steps:
            best = BestWeights(self.finetuner.model, self._config.early_stopping_patience)
        saves = self._restore_or_initialize(best)
        with contextlib.ExitStack() as block:
            for split in ("train", "dev", "test"):
                folder = os.path.join(self._logs, split) if self._logs else ""
                self._curves[split] = block.enter_context(Summaries(folder))
            self._train(saves, best)
            if best:
                best.restore()
            train_seconds = self._watch.seconds
            step = best.step if best else self.finetuner.num_steps
            unfinished = ""
            if self._is_chief:
                trial_dir = finetuning_files.trial_dir(self.output_dir, self.seed)
                unfinished = storage.unfinished_folder(trial_dir)
                os.makedirs(unfinished)
            scores: dict[str, dict[str, float]] = {}
            # Dev first, which calibrates the others.
            splits = ("dev", "test", "train") if self._config.run.predict_train else ("dev", "test")
            for split in splits:
                predicted, scores[split] = self._predict(split, until_told_to_end=True)
                if self._is_chief:
                    self._write_predictions(unfinished, split, predicted)
                self._curves[split].write(step, scores[split])
        name = self._task_type.calibration_name
        trial = TrialScores(
            seed=self.seed,
            step=step,
            evaluations=best.evaluations if best else [],
            **scores,
            calibration={name: self._calibration} if name else {},
            train_seconds=round(train_seconds, 1),
            seconds=round(self._watch.seconds, 1),
        )
        if self._is_chief:
            self._complete(unfinished, trial)

    # --- Training --------------------------------------------------------------------------------

    def _restore_or_initialize(self, best: BestWeights | None) -> Checkpointer:
        """Gives the model the weights of the newest checkpoint, or else its first ones.

        Raises:
          UserError: the workers see different checkpoints.
        """
        folder = finetuning_files.checkpoints_dir(self.output_dir, self.seed)
        finetuner, strategy = self.finetuner, self.finetuner.strategy
        newest = checkpointing.find_newest(folder, repair=self._is_chief)
        finetuner.initialize(self.seed, "" if newest else self.init_checkpoint, self.with_head)
        if self._is_chief:
            os.makedirs(folder, exist_ok=True)
            checkpointing.remove_half_written(folder)
        saves = Checkpointer(
            finetuner.model,
            finetuner.optimizer,
            folder,
            keep=1,
            writes=self._is_chief,
            watch=self._watch,
            **({"best": best.state} if best else {}),
        )
        if newest:
            with strategy.scope():
                saves.restore(newest)
        step = int(finetuner.step.numpy())
        distribution.require_same_step(strategy, step, f"--output_dir={self.output_dir}")
        if newest:
            self._say(f"seed {self.seed} continues at step {step}.")
        elif self._is_chief:
            shutil.rmtree(self._logs, ignore_errors=True)  # of a trial without a checkpoint
        return saves

    def _train(self, saves: Checkpointer, best: BestWeights | None) -> None:
        """Takes the steps that are left.

        Raises:
          DivergedError: the loss, or a weight, is no longer a number.
          UserError: memory ran out.
          StoppedError: the process was told to end.
        """
        config, finetuner = self._config, self.finetuner
        order = training_order(
            len(self.trained.input_ids),
            config.max_train_examples,
            finetuner.num_steps,
            config.train_batch_size,
            self.seed,
        )
        finetuner.begin(self.trained, order, self.seed)
        step = int(finetuner.step.numpy())
        try:
            with self._count("", finetuner.num_steps, "steps", first=step) as count:
                trainer = Trainer(
                    steps_per_loop=config.run.steps_per_loop,
                    eval_every=config.eval_every_steps or finetuner.num_steps,
                    save_every=config.run.save_checkpoints_steps,
                    checkpointer=saves,
                    preemption=self.preemption,
                    profile=Profile("", None),
                    curves=self._curves["train"],
                    eval_curves=self._curves["dev"],
                    on_trained=lambda figures: self._show(count, figures),
                    on_evaluated=self._show_scores,
                    best=best,
                )
                evaluate = self._evaluate if best else None
                with naming_remedy(self._against_large_steps()):
                    step = trainer.fit(step, finetuner.num_steps, finetuner.train, evaluate)
            saves.save()
        except NotFiniteError as error:
            # The loss of the last step was that of the weights before it.
            raise DivergedError(f"seed {self.seed}: {error}") from error
        if self.preemption.sent:
            raise StoppedError(f"seed {self.seed} is at step {step}, which is saved")

    def _against_large_steps(self) -> str:
        """Says what to do where memory ran out in a step."""
        config, size = self._config, self._config.train_batch_size
        if (
            config.gradient_clip_groups > 1
            or self.finetuner.fixed_shapes
            or isinstance(self.finetuner.strategy, MeshStrategy)
        ):
            # None of these goes with run.gradient_accumulation_steps.
            return f"give a train_batch_size below {size}, and another --output_dir"
        parts = config.run.gradient_accumulation_steps
        return (
            f"give --set run.gradient_accumulation_steps=N with N above {parts} that divides the "
            f"train_batch_size {size}, and the same command otherwise, which goes on from what is "
            "saved; --dry_run estimates the memory"
        )

    def _show(self, count: Count, figures: Figures) -> None:
        """Shows the progress of training.

        Raises:
          DivergedError: the loss is no longer a number.
        """
        step = int(self.finetuner.step.numpy())
        if not tf.math.is_finite(figures["loss"]):
            raise DivergedError(
                f"the loss is {figures['loss']} at step {step} of seed {self.seed}: try a lower "
                "learning_rate, or a higher warmup_proportion."
            )
        count.at(step, f"loss {figures['loss']:.3f}")

    def _evaluate(self) -> Figures:
        """Returns the scores on dev of the current weights."""
        _, scores = self._predict("dev")
        return scores

    def _show_scores(self, scores: Figures) -> None:
        """Prints the first score of an evaluation on dev."""
        metric, value = next(iter(scores.items()))
        step = int(self.finetuner.step.numpy())
        with tqdm.tqdm.external_write_mode():
            self._say(f"seed {self.seed} | step {step} | dev {metric} {value:.4f}")

    # --- Scores ----------------------------------------------------------------------------------

    def _predict(
        self, split: str, until_told_to_end: bool = False
    ) -> tuple[list, dict[str, float]]:
        """Predicts a split; returns the predictions, and their scores. Dev calibrates the others.

        Raises:
          UserError: memory ran out.
          StoppedError: the process was told to end, and `until_told_to_end` is true.
        """
        examples, features, task_type = self.examples[split], self.features[split], self._task_type
        with self._count(f", {split}", len(features.input_ids), "windows") as count:

            def done(windows: int) -> None:
                count.at(windows)
                if until_told_to_end and self.preemption.sent:
                    raise StoppedError(f"seed {self.seed} is trained, which is saved")

            size = self._config.run.eval_batch_size
            with naming_remedy(
                f"give --set run.eval_batch_size=N with N below {size}, and the same command "
                "otherwise, which goes on from what is saved"
            ):
                outputs = self.finetuner.predict(features, done=done)
        predicted = task_type.predictions(outputs, features, examples)
        if split == "dev":
            self._calibration = task_type.calibrate(examples, predicted)
        predicted = task_type.calibrated(predicted, self._calibration)
        scores = self.task.score(examples, predicted)
        more = task_type.more_scores(self.task.score, examples, predicted, features, outputs)
        return predicted, {**scores, **more}

    # --- Files -----------------------------------------------------------------------------------

    def _write_predictions(self, folder: str, split: str, predicted: list) -> None:
        """Writes the predictions for a split, and says what they are where that is shown."""
        examples = self.examples[split]
        self._task_type.write_predictions(folder, split, examples, predicted, self.task.entity_type)
        if self.task.name == "hoc":
            path = os.path.join(folder, f"{split}_hallmarks.tsv")
            hoc.write(path, cast(Sequence[LabelledText], examples), predicted)
        if split in self.shown:
            self._say(f"seed {self.seed}, {split}: {self._task_type.describe(examples, predicted)}")

    def _complete(self, unfinished: str, scores: TrialScores) -> None:
        """Writes the weights and the scores, and gives the folder its name."""
        weights = os.path.join(unfinished, checkpoint_source.TRIAL_WEIGHTS)
        tf.train.Checkpoint(model=self.finetuner.model).write(weights)
        json_files.write(os.path.join(unfinished, finetuning_files.SCORES), scores)
        os.rename(unfinished, finetuning_files.trial_dir(self.output_dir, self.seed))
        shutil.rmtree(finetuning_files.checkpoints_dir(self.output_dir, self.seed))
        metric, by_split = next(iter(scores.test)), dataclasses.asdict(scores)
        figures = ", ".join(
            f"{split} {metric} {by_split[split][metric]:.4f}" for split in self.shown
        )
        self._say(f"seed {self.seed}: {figures} ({scores.seconds:.0f} s)")

    # --- Lines and progress ----------------------------------------------------------------------

    def _say(self, line: str) -> None:
        """Prints a line, if this process is the one that does."""
        if self._is_chief:
            print(line, flush=True)

    def _count(self, name: str, total: int, unit: str, first: int = 0) -> Count:
        """Returns what shows progress, if this process is the one that does."""
        return Count(f"seed {self.seed}{name}", total if self._is_chief else None, unit, first)


class _Stopwatch(tf.train.experimental.PythonState):
    """Counts the seconds of a trial, over all processes that worked on it."""

    def __init__(self) -> None:
        self._before, self._start = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Returns the seconds so far."""
        return self._before + time.monotonic() - self._start

    def serialize(self) -> str:
        return str(self.seconds)

    def deserialize(self, string_value: bytes) -> None:
        self._before, self._start = float(string_value), time.monotonic()
