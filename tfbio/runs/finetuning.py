"""Fine-tuning: a head on a pretrained encoder, trained and scored once for each seed.

`finetune` is what `run_finetuning.py` calls. All trials use one model and its graphs.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
from typing import Any

from tfbio.base import file_paths, json_files, storage
from tfbio.base.errors import UserError
from tfbio.formats.task_examples import Example
from tfbio.models.initial_weights import restored_weights
from tfbio.planning import finetuning_cost
from tfbio.runs import finetuning_data, finetuning_folder
from tfbio.runs.finetuning_checks import check
from tfbio.runs.finetuning_run import Run
from tfbio.runs.mesh_finetuner import make_finetuner
from tfbio.runs.trial import StoppedError, Trial
from tfbio.task_types import finetuning_files, types
from tfbio.task_types.finetuning_config import RunConfig
from tfbio.task_types.finetuning_files import RunScores, trial_dir
from tfbio.task_types.task import SPLITS
from tfbio.text import vocabularies
from tfbio.training import distribution
from tfbio.training.precision import Precision
from tfbio.training.preemption import Preemption
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    hugging_face_settings,
)

_MANY_UNKNOWN = 0.01  # a share of tokens; of real texts and their encoder's vocabulary it is less


def finetune(run: Run) -> dict[str, Any]:
    """Runs fine-tuning: every trial that `output_dir` does not hold yet, and the summary of all.

    Writes into `output_dir`: `config.json`, the vocabulary, TensorBoard's `logs/`; for each trial
    `trial_SEED/` with `scores.json`, the predictions on dev and test (see `prediction_files`) and
    the weights (`model.index`, `model.data-*`), which appears when the trial is complete; until
    then `trial_SEED.checkpoints/`, from which a stopped trial goes on; and `scores.json`.

    Args:
      run: the task, the data and the settings.

    Returns:
      A dict, the content of `scores.json`: the strings "task", "metric" and "init"; "examples", two
      ints (used and all) for "dev" and "test"; "trials", for each seed a dict of the fields of
      `TrialScores`, such as "test", metric -> fraction; and "mean", "std" (None for a single seed)
      and "median" of the metric on the test set, fractions.

    Raises:
      DivergedError: a loss is no longer a number.
      UserError: the task, its data, the checkpoint or the settings cannot be used, or `output_dir`
        holds a run with other settings.
      SystemExit: the process was told to end; what is done is saved.
    """
    data_sha256 = _sha256_of_files(run)
    every = finetuning_data.read_examples(run.task, run.data_dir, tuple(data_sha256.values()))
    examples = finetuning_data.draw(every, run.config)
    used = {split: [len(examples[split]), len(every[split])] for split in ("dev", "test")}
    for split, (count, total) in used.items():
        if count < total:
            run.say(f"{count} of {total} {split} examples are used (max_{split}_examples).")
    start = _Start(run, examples)
    if start.unused_embeddings:
        rows = start.encoder_config.vocab_size
        unused = start.unused_embeddings
        run.say(f"{unused} of the encoder's {rows} embeddings are of no token, and stay unused.")
    settings = _settings(run, start, data_sha256)
    missing, chosen = finetuning_folder.prepare(run, settings, start.vocabulary)
    for seed in run.seeds:
        if seed not in missing:
            folder = trial_dir(run.output_dir, seed)
            run.say(f"{folder} is complete and is reused.")
            of_train = os.path.join(folder, start.task_type.predictions_file("train"))
            if run.config.run.predict_train and not os.path.exists(of_train):
                run.say(
                    f"{of_train} is missing, and run.predict_train makes it only with a trial that "
                    f"is trained: remove {folder} to train it anew."
                )
    if missing:
        _run_trials(run, start, examples, data_sha256, missing, chosen)
    return _sum_up(run, used)


def dry_run(run: Run, device: str = "") -> str:
    """Prepares a fine-tuning run as `finetune` does, but only returns an estimate; writes nothing.

    Args:
      run: the task, the data and the settings.
      device: one of `devices.ON_ONE_HOST`; "": all.

    Returns:
      Text on label bias, windows, FLOPs, memory and minutes, see `finetuning_cost.report`.

    Raises:
      UserError: the task, its data, the checkpoint, the settings or the device cannot be used.
    """
    examples = finetuning_data.draw(run.task.examples(run.data_dir), run.config)
    start = _Start(run, examples)
    features, trained = finetuning_data.encode_examples(
        run.task, examples, start.tokenizer, run.config
    )
    counts = {split: len(members) for split, members in examples.items()}
    steps = finetuning_data.count_steps(run.config, trained)
    report = finetuning_cost.report(
        run.config, start.encoder_config, trained, features, counts, steps, device
    )
    bias = start.task_type.describe_bias(examples["train"], features["train"])
    return "\n".join(filter(None, (run.task.name, bias, report)))


# --- Before the first step -----------------------------------------------------------------------


class _Start:
    """The task type, encoder and tokenizer that a run starts from.

    Args:
      run: the run.
      examples: of each split.

    Attributes:
      task_type: the type of the task.
      pretrained: the settings of what trained the encoder.
      vocabulary: the path of the encoder's vocabulary.
      tokenizer: the encoder's, with the markers of relations if the task has them.
      trained_on: what the run keeps of its task.
      encoder_config: the encoder's shape, with an embedding for each token.
      unused_embeddings: how many embeddings are of no token.

    Raises:
      UserError: the settings, the encoder and the devices do not fit together.
    """

    def __init__(self, run: Run, examples: dict[str, list[Example]]):
        folder, config = run.init_checkpoint, run.config
        self.task_type = types.make(run.task.task_type, run.task.labels, config)
        self.pretrained = checkpoint_settings.read_settings(folder)
        self.vocabulary = vocabularies.find_vocabulary(checkpoint_source.run_of(folder))
        self.trained_on = finetuning_data.describe_task(run.task, examples["train"])
        shape = checkpoint_settings.read_encoder_config(folder, not run.from_scratch)
        self.tokenizer = finetuning_data.load_tokenizer(
            self.vocabulary, shape, self.pretrained["lower_case"], self.task_type, self.trained_on
        )
        check(config, self.task_type, shape, self.tokenizer, folder, run.strategy)
        rows = max(shape.vocab_size, self.tokenizer.rows)
        self.encoder_config = dataclasses.replace(shape, vocab_size=rows)
        self.unused_embeddings = rows - self.tokenizer.rows


def _sha256_of_files(run: Run) -> dict[str, str]:
    """Returns the hash of each split's file."""
    files = run.task.files(run.data_dir)
    return {split: storage.sha256_of(path) for split, path in files.items()}


def _weights_sha256(run: Run) -> str:
    """Returns the hash of the weights that the run starts from; "" for new ones."""
    folder = "" if run.from_scratch else run.init_checkpoint
    return folder and checkpoint_source.sha256_of_weights(folder)


def _settings(run: Run, start: _Start, data_sha256: dict[str, str]) -> RunConfig:
    """Returns the content of `config.json`."""
    return json_files.extended(
        RunConfig,
        run.config,
        task=run.task.name,
        data_set=os.path.abspath(run.data_dir),
        data_sha256=data_sha256,
        init_checkpoint=file_paths.absolute(run.init_checkpoint),
        from_scratch=run.from_scratch,
        weights_sha256=_weights_sha256(run),
        encoder=start.encoder_config,
        lower_case=start.pretrained["lower_case"],
        family=hugging_face_settings.family_of(start.pretrained),
        vocab_sha256=vocabularies.sha256_of(start.vocabulary),
        trained_on=start.trained_on,
    )


# --- Trials --------------------------------------------------------------------------------------


def _run_trials(
    run: Run,
    start: _Start,
    examples: dict[str, list[Example]],
    data_sha256: dict[str, str],
    missing: list[int],
    chosen: Precision,
) -> None:
    """Runs the trials of the seeds `missing` in the chosen precision, which is set.

    Raises:
      SystemExit: the process was told to end.
    """
    config, task = run.config, run.task
    distribution.optimize_for(config.run.optimize_for, run.strategy)
    hashes = tuple(data_sha256.values())
    features, trained = finetuning_data.encode(task, run.data_dir, hashes, start.tokenizer, config)
    count = sum(map(len, examples.values()))
    if said := start.task_type.describe_lengths(
        [*features.values()], count, config.sequence_length
    ):
        run.say(said)
    unknown = finetuning_data.unknown_share(features["train"], start.tokenizer)
    if unknown == 1:
        raise UserError(
            f"no word of the training set is known to the vocabulary {start.vocabulary}: give "
            "another --init_checkpoint, with the vocabulary of its pretraining."
        )
    if unknown > _MANY_UNKNOWN:
        run.say(
            f"warning: {unknown:.1%} of the training set's tokens are unknown to the vocabulary "
            f"{start.vocabulary}."
        )
    with restored_weights():  # each trial has its own
        finetuner = make_finetuner(
            config,
            start.encoder_config,
            start.task_type,
            start.tokenizer.pad_id,
            finetuning_data.count_steps(config, trained),
            run.strategy,
        )
    run.say(
        f"{task.name}: {finetuner.num_steps} steps of {config.train_batch_size} examples for each "
        f"of {len(missing)} seed(s), from "
        f"{'random weights' if run.from_scratch else run.init_checkpoint}, on "
        f"{distribution.devices_of(run.strategy)} in {chosen}."
    )
    if finetuner.num_steps == 1 and config.schedule != "slanted_triangular":
        run.say(
            "warning: the only step has a learning rate of 0, to which the schedule falls, so "
            "nothing is learnt: give more num_train_epochs, or a smaller train_batch_size."
        )
    with Preemption(run.strategy, lambda: _what_is_complete(run)) as preemption:
        try:
            for seed in missing:
                Trial(
                    finetuner=finetuner,
                    task=task,
                    examples=examples,
                    features=features,
                    trained=trained,
                    init_checkpoint="" if run.from_scratch else run.init_checkpoint,
                    with_head=not run.from_scratch
                    and start.task_type.continues_head(start.pretrained),
                    output_dir=run.output_dir,
                    seed=seed,
                    shown=SPLITS[1:] if run.show_test else ("dev",),
                    preemption=preemption,
                ).run()
        except StoppedError as stopped:
            run.say(f"stopped by {preemption.signal_name}: {stopped}; {_what_is_complete(run)}.")
            sys.exit(128 + preemption.signal)
    distribution.wait_for_all(run.strategy)  # the last trial is written


def _what_is_complete(run: Run) -> str:
    """Says how many trials are complete, and what the same command does."""
    complete = sum(map(run.is_complete, run.seeds))
    return (
        f"{complete} of {len(run.seeds)} trials are complete and kept, and the same command makes "
        "the others"
    )


# --- Scores --------------------------------------------------------------------------------------


def _sum_up(run: Run, used: dict[str, list[int]]) -> dict[str, Any]:
    """Writes `scores.json` from the trials', and prints the mean if told to."""
    folders = [trial_dir(run.output_dir, seed) for seed in run.seeds]
    trials = [finetuning_files.read_trial(folder) for folder in folders]
    metric = next(iter(trials[0].test))
    values = [trial.test[metric] for trial in trials]
    scores = RunScores(
        task=run.task.name,
        metric=metric,
        init="random weights" if run.from_scratch else file_paths.absolute(run.init_checkpoint),
        examples=used,
        trials=trials,
        mean=statistics.fmean(values),
        # Of the sample (n - 1); a single trial has none.
        std=statistics.stdev(values) if len(values) > 1 else None,
        median=statistics.median(values),
    )
    summary = dataclasses.asdict(scores)
    if run.is_chief:
        path = os.path.join(run.output_dir, finetuning_files.SCORES)
        json_files.write(path, scores)
        if run.show_test:
            run.say(f"{run.task.name}: {describe_test(summary)}; see {path}")
    return summary


def describe_test(scores: dict[str, Any]) -> str:
    """Returns the line on the test scores that fine-tuning prints, "test f1 0.8912 over 1 seed(s)".

    Of several seeds it also has standard deviation and median; `scores` is `finetune`'s result.
    """
    line = f"test {scores['metric']} {scores['mean']:.4f}"
    if scores["std"] is not None:
        line += f" ± {scores['std']:.4f}, median {scores['median']:.4f},"
    return f"{line} over {len(scores['trials'])} seed(s)"
