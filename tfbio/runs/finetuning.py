"""Fine-tuning: a head on a pretrained encoder, trained and scored once for each seed.

`finetune` is what `run_finetuning.py` calls. All trials use one model and its graphs.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import json
import math
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
import tqdm

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.base.config import ConfigError
from tfbio.formats.task_examples import Example
from tfbio.models.encoder_config import EncoderConfig
from tfbio.planning import finetuning_cost
from tfbio.runs.finetuner import Finetuner, training_order
from tfbio.task_types import packing, predictions, types
from tfbio.task_types.inference import has_fixed_shapes
from tfbio.task_types.task import SPLITS, Task
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.types import FinetuningConfig
from tfbio.text import tokenization, vocabularies
from tfbio.training import distribution
from tfbio.training.progress import Count
from tfbio.training.summaries import Summaries
from tfbio.weights import checkpoints, hugging_face, weight_files

# Settings that do not tell one trial from another: with others, finished trials stay valid.
NOT_IN_A_TRIAL = ("comment", "run", "seed", "num_trials", "init_checkpoint", "data_set")


def finetune(
    config: FinetuningConfig,
    *,
    task: Task,
    data_dir: str,
    init_checkpoint: str,
    output_dir: str,
    strategy: tf.distribute.Strategy,
    from_scratch: bool = False,
    overwrite: bool = False,
    show_test: bool = True,
) -> dict:
    """Runs every trial that `output_dir` does not hold yet, and sums them up.

    Writes into `output_dir`: `config.json`, the vocabulary; for each trial `trial_SEED/` with
    `scores.json`, the predictions on dev and test (see `predictions`) and the weights
    (`model.index`, `model.data-*`), which appears when the trial is complete; `scores.json`;
    TensorBoard logs in `logs/`.

    Args:
      config: all settings.
      task: one of `tasks.TASKS`.
      data_dir: folder with the task's files.
      init_checkpoint: the model folder of a pretraining run, a `trial_SEED` of a fine-tuning run
        (whose head is kept if both answer questions), a folder of Hugging Face's, or a
        TensorFlow 1 checkpoint.
      output_dir: made if need be.
      strategy: where to compute; the batches must divide by its replicas.
      from_scratch: take only the encoder's shape and the vocabulary from `init_checkpoint`.
      overwrite: remove what a run with other settings left in `output_dir`.
      show_test: print the scores on the test set; they are written in any case.

    Returns:
      What `scores.json` holds: task, metric, init, examples (of dev and test, how many were used of
      how many there are), trials, and mean, standard deviation (None for a single trial) and median
      of the metric on the test set over the trials. A trial has its seed,
      the step whose weights it kept, the scores on dev at each evaluation, and those of the weights
      kept on dev and test.

    Raises:
      DivergedError: a loss is no longer a number.
      UserError: the task, its data, the checkpoint or the settings cannot be used, or
        `output_dir` holds a run with other settings.
    """
    data_sha256 = {split: storage.sha256_of(path) for split, path in task.files(data_dir).items()}
    every = _examples(task, data_dir, tuple(data_sha256.values()))
    examples = _drawn(every, config)
    used = {split: [len(examples[split]), len(every[split])] for split in ("dev", "test")}
    for split, (count, total) in used.items():
        if count < total:
            print(f"{count} of {total} {split} examples are used (max_{split}_examples).")
    task_type = types.make(task.task_type, task.labels, config)
    pretrained = checkpoints.read_settings(init_checkpoint)
    encoder_config = checkpoints.read_encoder_config(init_checkpoint, not from_scratch)
    vocabulary = vocabularies.find_vocabulary(checkpoints.run_of(init_checkpoint))
    trained_on = _trained_on(task, examples["train"])
    tokenizer = load_tokenizer(
        vocabulary, encoder_config, pretrained["lower_case"], task_type, trained_on
    )
    check(config, task_type, encoder_config, tokenizer, init_checkpoint, strategy)
    rows = max(encoder_config.vocab_size, tokenizer.rows)
    if rows > tokenizer.rows:
        unused = rows - tokenizer.rows
        print(f"{unused} of the encoder's {rows} embeddings are of no token, and stay unused.")
    encoder_config = dataclasses.replace(encoder_config, vocab_size=rows)
    settings = {
        **types.settings_of(task.task_type, config),
        "task": task.name,
        "data_set": os.path.abspath(data_dir),
        "data_sha256": data_sha256,
        "init_checkpoint": init_checkpoint,
        "from_scratch": from_scratch,
        "weights_sha256": "" if from_scratch else _weights_sha256(init_checkpoint),
        "encoder": dataclasses.asdict(encoder_config),
        "lower_case": pretrained["lower_case"],
        "family": checkpoints.family_of(pretrained),
        "vocab_sha256": vocabularies.sha256_of(vocabulary),
        "trained_on": trained_on,
    }
    _prepare_output_dir(output_dir, settings, overwrite)
    vocabularies.copy_vocabulary(vocabulary, output_dir)

    seeds = range(config.seed, config.seed + config.num_trials)
    missing = [seed for seed in seeds if not os.path.isdir(_trial_dir(output_dir, seed))]
    for seed in seeds:
        if seed not in missing:
            print(f"{_trial_dir(output_dir, seed)} is complete and is reused.", flush=True)
    if missing:
        distribution.set_precision(config.run.precision, strategy)
        distribution.optimize_for(config.run.optimize_for, strategy)
        # What the windows depend on; the rest as it is by default.
        shape = FinetuningConfig(
            sequence_length=config.sequence_length,
            max_dev_examples=config.max_dev_examples,
            max_test_examples=config.max_test_examples,
            **{task.task_type: task_type.settings},
        )
        hashes = tuple(data_sha256.values())
        features, trained = _features(task, data_dir, hashes, tokenizer, shape)
        _say_how_long(features, examples, config.sequence_length, task_type.of_tokens)
        num_steps = _num_steps(config, trained)
        pad_id = tokenizer.pad_id
        finetuner = Finetuner(config, encoder_config, task_type, pad_id, num_steps, strategy)
        print(
            f"{task.name}: {num_steps} steps of {config.train_batch_size} examples for each of "
            f"{len(missing)} seed(s), from "
            f"{'random weights' if from_scratch else init_checkpoint}.",
            flush=True,
        )
        with_head = not from_scratch and task_type.continues_head(pretrained)
        shown = SPLITS[1:] if show_test else ("dev",)
        try:
            for seed in missing:
                finetuner.initialize(seed, "" if from_scratch else init_checkpoint, with_head)
                _run_trial(finetuner, task, trained, examples, features, output_dir, seed, shown)
        except KeyboardInterrupt as interrupt:
            complete = sum(os.path.isdir(_trial_dir(output_dir, seed)) for seed in seeds)
            raise KeyboardInterrupt(
                f"{complete} of {len(seeds)} trials are complete and kept, and the same command "
                "makes the others, each from its start"
            ) from interrupt
    return _sum_up(task, settings, used, output_dir, seeds, show_test)


def dry_run(
    config: FinetuningConfig,
    *,
    task: Task,
    data_dir: str,
    init_checkpoint: str,
    from_scratch: bool = False,
    device: str = "",
) -> str:
    """Describes what `finetune` would take, by the arguments that it has; writes nothing.

    Args:
      device: one of `devices.DEVICES`; "": all.

    Raises:
      UserError: see `finetune`; or there is no such device.
    """
    examples = _drawn(task.examples(data_dir), config)
    task_type = types.make(task.task_type, task.labels, config)
    encoder_config = checkpoints.read_encoder_config(init_checkpoint, not from_scratch)
    tokenizer = load_tokenizer(
        vocabularies.find_vocabulary(checkpoints.run_of(init_checkpoint)),
        encoder_config,
        checkpoints.read_settings(init_checkpoint)["lower_case"],
        task_type,
        _trained_on(task, examples["train"]),
    )
    strategy = tf.distribute.get_strategy()
    check(config, task_type, encoder_config, tokenizer, init_checkpoint, strategy)
    features = {
        split: task_type.features(members, tokenizer, config.sequence_length)
        for split, members in examples.items()
    }
    trained = features["train"]
    if task.augment:
        more = task.augment(examples["train"])
        trained = task_type.features(more, tokenizer, config.sequence_length)
    counts = {split: len(members) for split, members in examples.items()}
    steps = _num_steps(config, trained)
    found = finetuning_cost.report(config, encoder_config, trained, features, counts, steps, device)
    return f"{task.name}\n{found}"


def _num_steps(config: FinetuningConfig, trained: packing.Features) -> int:
    """Returns the steps of a trial."""
    num_used = min(config.max_train_examples or math.inf, len(trained.input_ids))
    if config.count_whole_batches:
        num_used = math.ceil(num_used / config.train_batch_size) * config.train_batch_size
    return max(1, int(num_used * config.num_train_epochs / config.train_batch_size))


# The runs of a sweep have the same examples and tokenizer, and mostly the same windows. A hash is
# an argument so that a file that was changed is read again.


@functools.lru_cache(maxsize=1)
def _examples(task: Task, data_dir: str, data_sha256: tuple[str, ...]) -> dict[str, list[Example]]:
    """The examples of each split."""
    return task.examples(data_dir)


def _drawn(
    examples: dict[str, list[Example]], config: FinetuningConfig
) -> dict[str, list[Example]]:
    """Draws `max_dev_examples` and `max_test_examples`, in their order; others stay as they are."""
    most = {"dev": config.max_dev_examples, "test": config.max_test_examples}
    drawn = dict(examples)
    for split, count in most.items():
        if 0 < count < len(examples[split]):
            # Not by the trial's seed: scores on other examples could not be compared.
            chosen = np.random.default_rng(0).choice(len(examples[split]), count, replace=False)
            drawn[split] = [examples[split][number] for number in sorted(chosen)]
    return drawn


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Path, sha256: str, lower_case: bool, markers: tuple[str, ...], segments: int
) -> tokenization.Tokenizer:
    return tokenization.load_tokenizer(vocabulary, lower_case, markers, segments)


@functools.lru_cache(maxsize=1)
def _features(
    task: Task,
    data_dir: str,
    data_sha256: tuple[str, ...],
    tokenizer: tokenization.Tokenizer,
    config: FinetuningConfig,
) -> tuple[dict[str, packing.Features], packing.Features]:
    """The windows of each split, and those to train on."""
    task_type = types.make(task.task_type, task.labels, config)

    def features_of(members: list[Example]) -> packing.Features:
        return task_type.features(members, tokenizer, config.sequence_length)

    examples = _drawn(_examples(task, data_dir, data_sha256), config)
    features = {split: features_of(members) for split, members in examples.items()}
    if task.augment:
        return features, features_of(task.augment(examples["train"]))
    return features, features["train"]


def _trained_on(task: Task, examples: list[Example]) -> dict:
    """What `predict` must know of the task and its data, which may not be at hand then."""
    task_type = types.TYPES[task.task_type]
    known = {
        "task_type": task.task_type,
        "labels": list(task.labels),
        "new_text": task_type.new_text,
    }
    return {**known, **task_type.learnt_from(examples, task.entity_type)}


def load_tokenizer(
    vocabulary: str | os.PathLike,
    encoder_config: EncoderConfig,
    lower_case: bool,
    task_type: TaskType,
    trained_on: dict,
) -> tokenization.Tokenizer:
    """Returns what turns the task's texts into tokens, perhaps with the markers of relations.

    Args:
      vocabulary: see `vocabularies.find_vocabulary`.
      encoder_config: of the encoder.
      lower_case: whether it was trained on text in lower case.
      task_type: of the task.
      trained_on: what a run keeps of its task.
    """
    markers = task_type.new_tokens(trained_on)
    sha256 = vocabularies.sha256_of(vocabulary)
    return _tokenizer(vocabulary, sha256, lower_case, markers, encoder_config.type_vocab_size)


def check(
    config: FinetuningConfig,
    task_type: TaskType,
    encoder_config: EncoderConfig,
    tokenizer: tokenization.Tokenizer,
    folder: str,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks that the settings, the encoder and the devices fit together.

    Args:
      config: all settings.
      task_type: of the task.
      encoder_config: of the encoder in `folder`.
      tokenizer: of the encoder.
      folder: for the messages.
      strategy: where to compute.

    Raises:
      UserError: they do not.
    """
    check_settings(config, task_type, encoder_config, folder, strategy)
    if tokenizer.vocab_size > encoder_config.vocab_size:
        raise checkpoints.CheckpointError(
            f"the vocabulary of {folder} has {tokenizer.vocab_size} tokens, but the encoder was "
            f"made for {encoder_config.vocab_size}: it is not the one it was trained with."
        )


def check_settings(
    config: FinetuningConfig,
    task_type: TaskType,
    encoder_config: EncoderConfig,
    folder: str,
    strategy: tf.distribute.Strategy,
) -> None:
    """What `check` checks of the settings, without a vocabulary: for all of a sweep at once.

    Raises:
      UserError: they do not fit.
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise UserError(
            "--strategy=multi_worker: fine-tuning runs on one machine; give mirrored or one_device."
        )
    if config.sequence_length > encoder_config.max_sequence_length:
        raise ConfigError(
            f"sequence_length {config.sequence_length} is more than the "
            f"{encoder_config.max_sequence_length} positions of the encoder in "
            f"{folder}."
        )
    task_type.check_encoder(encoder_config, folder)
    replicas = strategy.num_replicas_in_sync
    for name, size in (
        ("train_batch_size", config.train_batch_size),
        ("run.eval_batch_size", config.run.eval_batch_size),
    ):
        if size % replicas:
            raise ConfigError(f"{name} {size} does not divide by {replicas} devices.")
    groups = config.gradient_clip_groups
    if groups > 1 and groups % replicas:
        raise ConfigError(f"gradient_clip_groups {groups} does not divide by {replicas} devices.")
    if groups > 1 and has_fixed_shapes(config, strategy):
        # There the devices get as many tokens each, and not as many examples.
        raise ConfigError(
            f"gradient_clip_groups {groups} does not go with batches of fixed shapes, which a TPU "
            "needs: give 1, or run.fixed_shapes = never."
        )


def _weights_sha256(folder: str) -> str:
    """Tells one checkpoint from another: the hash of its index, which has every tensor's."""
    if checkpoints.reader_of(folder) is hugging_face:
        return weight_files.sha256_of(folder)
    return storage.sha256_of(f"{checkpoints.newest_weights(folder)}.index")


def _prepare_output_dir(output_dir: str, settings: dict, overwrite: bool) -> None:
    """Writes `config.json`, unless the folder holds trials with other settings."""
    path = os.path.join(output_dir, "config.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        if "task" not in before:
            raise UserError(
                f"{output_dir} holds another model, and no run of run_finetuning.py: give another "
                "--output_dir."
            )
        differing = [
            name
            for name, value in settings.items()
            if name not in NOT_IN_A_TRIAL and before.get(name) != value
        ]
        if differing and not overwrite:
            name = differing[0]
            raise UserError(
                f"{output_dir} holds a run with {name} = {before.get(name)}, now it is "
                f"{settings[name]}: give another --output_dir, or --overwrite to replace it."
            )
        if differing:
            # The scores first: nothing may sum up trials that are no longer there.
            vocabulary = (*vocabularies.NAMES, "merges.txt")
            for pattern in ("scores.json", "trial_*", "logs", *vocabulary):
                for old in glob.glob(os.path.join(glob.escape(output_dir), pattern)):
                    shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    os.makedirs(output_dir, exist_ok=True)
    storage.write_text(path, json.dumps(settings, indent=2) + "\n")


def _say_how_long(
    features: dict[str, packing.Features],
    examples: dict[str, list[Example]],
    length: int,
    of_tokens: bool,
) -> None:
    """Prints how many examples are windowed, or cut."""
    count = sum(map(len, examples.values()))
    full = sum(int((own.lengths == length).sum()) for own in features.values())
    windows = sum(len(own.input_ids) for own in features.values())
    if windows > count:
        print(f"{count} texts are seen in {windows} windows of at most {length} tokens.")
    elif full and not of_tokens:
        print(f"{full} of {count} texts fill sequence_length = {length}: the longer are cut.")


def _run_trial(
    finetuner: Finetuner,
    task: Task,
    trained: packing.Features,
    examples: dict[str, list[Example]],
    features: dict[str, packing.Features],
    output_dir: str,
    seed: int,
    shown: Sequence[str],
) -> None:
    """Trains and scores one trial, whose folder appears when all of it is written.

    The test set is scored once, with the weights that are kept. The scores on the splits `shown`
    are printed.
    """
    config, task_type, start = finetuner.config, finetuner.task_type, time.time()
    logs = os.path.join(output_dir, "logs", f"trial_{seed}")
    shutil.rmtree(logs, ignore_errors=True)  # of a trial that was interrupted
    curves = Summaries(logs)
    order = training_order(
        len(trained.input_ids),
        config.max_train_examples,
        finetuner.num_steps,
        config.train_batch_size,
        seed,
    )
    figures = ""

    def log(step: int, loss: float, learning_rate: float) -> None:
        nonlocal figures
        curves.write(step, {"loss": loss, "learning_rate": learning_rate})
        figures = f"loss {loss:.3f}"

    calibration = None

    def predict(split: str) -> tuple[list, dict[str, float]]:
        nonlocal calibration
        windows = len(features[split].input_ids)
        with Count(f"seed {seed}, {split}", windows, "windows") as count:
            outputs = finetuner.predict(features[split], done=count.at)
        predicted = task_type.predictions(outputs, features[split], examples[split])
        if split == "dev":
            calibration = task_type.calibrate(examples["dev"], predicted)
        predicted = task_type.calibrated(predicted, calibration)
        scores = task.score(examples[split], predicted)
        others = task_type.authors_scores(
            task.score, examples[split], predicted, features[split], outputs
        )
        others = {f"bioelectra_code_{name}": value for name, value in others.items()}
        return predicted, {**scores, **others}

    def write_curves(split: str, step: int, scores: dict[str, float]) -> None:
        curves.write(step, {f"{split}_{name}": value for name, value in scores.items()})

    def evaluate(step: int) -> dict[str, float]:
        _, scores = predict("dev")
        write_curves("dev", step, scores)
        metric, value = next(iter(scores.items()))
        with tqdm.tqdm.external_write_mode():
            print(f"seed {seed} | step {step} | dev {metric} {value:.4f}", flush=True)
        return scores

    with Count(f"seed {seed}", finetuner.num_steps, "steps") as count:

        def done(step: int) -> None:
            count.at(step, figures)

        step, evaluations = finetuner.train_to_best(trained, order, seed, log, evaluate, done)
    scores = {
        "seed": seed,
        "train_seconds": round(time.time() - start, 1),
        "step": step,
        "evaluations": evaluations,
    }
    unfinished = _trial_dir(output_dir, seed) + ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    # Dev first, which calibrates the others.
    for split in ("dev", "test", "train") if config.run.predict_train else ("dev", "test"):
        predicted, scores[split] = predict(split)
        task_type.write_predictions(unfinished, split, examples[split], predicted, task.entity_type)
        if task.name == "hoc":
            path = os.path.join(unfinished, f"{split}_hallmarks.tsv")
            predictions.write_hallmarks(path, examples[split], predicted)
        write_curves(split, step, scores[split])
        if split in shown:
            print(f"seed {seed}, {split}: {task_type.describe(examples[split], predicted)}")
    if task_type.calibration_name:
        scores[task_type.calibration_name] = calibration
    curves.close()
    scores["seconds"] = round(time.time() - start, 1)
    tf.train.Checkpoint(model=finetuner.model).write(
        os.path.join(unfinished, checkpoints.TRIAL_WEIGHTS)
    )
    storage.write_text(os.path.join(unfinished, "scores.json"), json.dumps(scores, indent=2) + "\n")
    os.rename(unfinished, _trial_dir(output_dir, seed))
    metric = next(iter(scores["test"]))
    figures = ", ".join(f"{split} {metric} {scores[split][metric]:.4f}" for split in shown)
    print(f"seed {seed}: {figures} ({scores['seconds']:.0f} s)", flush=True)


def _trial_dir(output_dir: str, seed: int) -> str:
    return os.path.join(output_dir, f"trial_{seed}")


def _sum_up(
    task: Task,
    settings: dict,
    used: dict[str, list[int]],
    output_dir: str,
    seeds: range,
    show_test: bool,
) -> dict:
    """Writes `scores.json` from the trials', and prints the mean if told to."""
    trials = []
    for seed in seeds:
        with open(os.path.join(_trial_dir(output_dir, seed), "scores.json")) as file:
            trials.append(json.load(file))
    metric = next(iter(trials[0]["test"]))
    values = [trial["test"][metric] for trial in trials]
    scores = {
        "task": task.name,
        "metric": metric,
        "init": "random weights" if settings["from_scratch"] else settings["init_checkpoint"],
        "examples": used,
        "trials": trials,
        "mean": statistics.fmean(values),
        # Of the sample (n - 1); a single trial has none.
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "median": statistics.median(values),
    }
    path = os.path.join(output_dir, "scores.json")
    storage.write_text(path, json.dumps(scores, indent=2) + "\n")
    if show_test:
        print(f"{task.name}: {describe_test(scores)}; see {path}", flush=True)
    return scores


def describe_test(scores: dict) -> str:
    """The scores on the test set in one line, from what `finetune` returns."""
    line = f"test {scores['metric']} {scores['mean']:.4f}"
    if scores["std"] is not None:
        line += f" ± {scores['std']:.4f}, median {scores['median']:.4f},"
    return f"{line} over {len(scores['trials'])} seed(s)"
