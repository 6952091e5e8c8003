"""A task's examples as a run sees them: drawn, encoded, and in the order of training."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path

import numpy as np

from tfbio.formats.task_examples import Example
from tfbio.models.encoder_config import EncoderConfig
from tfbio.task_types import packing, types
from tfbio.task_types.finetuning_files import TrainedOn
from tfbio.task_types.task import Task
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.types import FinetuningConfig
from tfbio.text import tokenization, vocabularies

# The second numbers of the seeds of the order and of the choice of examples; `finetuner` has
# another one. No two purposes share a stream of random numbers.
ORDER_STREAM, SUBSET_STREAM = 1, 2


# The runs of a sweep have the same examples and tokenizer, and mostly the same windows. A hash is
# an argument so that a file that was changed is read again.


@functools.lru_cache(maxsize=1)
def read_examples(
    task: Task, data_dir: str, data_sha256: tuple[str, ...]
) -> dict[str, list[Example]]:
    """Reads the examples of each split, and keeps them for the next call.

    Args:
      task: the task.
      data_dir: folder with its files.
      data_sha256: their hashes, so that changed files are read again.

    Returns:
      "train", "dev" and "test" -> the examples, in the order of the file.

    Raises:
      TaskFileError: a file is missing, or a line of it cannot be used.
    """
    return task.examples(data_dir)


def draw(examples: dict[str, list[Example]], config: FinetuningConfig) -> dict[str, list[Example]]:
    """Draws `max_dev_examples` and `max_test_examples` at random, the same for every seed.

    Args:
      examples: split -> its examples.
      config: all settings; 0 stands for all examples.

    Returns:
      A new dict of the splits. Drawn examples keep their order; splits that are not drawn are the
      same lists.
    """
    most = {"dev": config.max_dev_examples, "test": config.max_test_examples}
    drawn = dict(examples)
    for split, count in most.items():
        if 0 < count < len(examples[split]):
            # Not by the trial's seed: scores on other examples could not be compared.
            chosen = np.random.default_rng(0).choice(len(examples[split]), count, replace=False)
            drawn[split] = [examples[split][number] for number in sorted(chosen)]
    return drawn


def load_tokenizer(
    vocabulary: str | os.PathLike,
    encoder_config: EncoderConfig,
    lower_case: bool,
    task_type: TaskType,
    trained_on: TrainedOn,
) -> tokenization.Tokenizer:
    """Loads the tokenizer of an encoder, with the markers of relations if the task has them.

    The last one is kept, and returned again for the same arguments.

    Args:
      vocabulary: the path of the vocabulary, see `vocabularies.find_vocabulary`.
      encoder_config: of the encoder.
      lower_case: True if it was trained on text in lower case.
      task_type: of the task.
      trained_on: what a run keeps of its task, see `describe_task`.

    Raises:
      VocabularyError: the vocabulary cannot be used.
    """
    markers = task_type.new_tokens(trained_on)
    sha256 = vocabularies.sha256_of(vocabulary)
    return _tokenizer(vocabulary, sha256, lower_case, markers, encoder_config.type_vocab_size)


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Path, sha256: str, lower_case: bool, markers: tuple[str, ...], segments: int
) -> tokenization.Tokenizer:
    return tokenization.load_tokenizer(vocabulary, lower_case, markers, segments)


def encode(
    task: Task,
    data_dir: str,
    data_sha256: tuple[str, ...],
    tokenizer: tokenization.Tokenizer,
    config: FinetuningConfig,
) -> tuple[dict[str, packing.Features], packing.Features]:
    """Encodes the examples of each split, and keeps the windows for the next call.

    Args:
      task, data_dir, data_sha256: see `read_examples`.
      tokenizer: see `load_tokenizer`.
      config: all settings.

    Returns:
      Split -> the windows of its examples, of which `max_dev_examples` and `max_test_examples` are
      drawn; and the windows to train on, which `Task.augment` may make more than those of "train".

    Raises:
      UserError: a file cannot be used, or an example or a setting does not go with the task type.
    """
    # What the windows depend on; the rest as it is by default.
    shape = FinetuningConfig(
        sequence_length=config.sequence_length,
        max_dev_examples=config.max_dev_examples,
        max_test_examples=config.max_test_examples,
        **{task.task_type: getattr(config, task.task_type)},
    )
    return _encoded(task, data_dir, data_sha256, tokenizer, shape)


@functools.lru_cache(maxsize=1)
def _encoded(
    task: Task,
    data_dir: str,
    data_sha256: tuple[str, ...],
    tokenizer: tokenization.Tokenizer,
    config: FinetuningConfig,
) -> tuple[dict[str, packing.Features], packing.Features]:
    examples = draw(read_examples(task, data_dir, data_sha256), config)
    return encode_examples(task, examples, tokenizer, config)


def encode_examples(
    task: Task,
    examples: dict[str, list[Example]],
    tokenizer: tokenization.Tokenizer,
    config: FinetuningConfig,
) -> tuple[dict[str, packing.Features], packing.Features]:
    """Encodes examples that are at hand.

    Args:
      task: the task.
      examples: split -> its examples, with "train".
      tokenizer: see `load_tokenizer`.
      config: all settings.

    Returns:
      Split -> the windows of its examples; and the windows to train on, which `Task.augment` may
      make more than those of "train".

    Raises:
      UserError: an example or a setting does not go with the task type.
    """
    task_type = types.make(task.task_type, task.labels, config)

    def features_of(members: list[Example]) -> packing.Features:
        return task_type.features(members, tokenizer, config.sequence_length)

    features = {split: features_of(members) for split, members in examples.items()}
    if task.augment:
        return features, features_of(task.augment(examples["train"]))
    return features, features["train"]


def count_steps(config: FinetuningConfig, trained: packing.Features) -> int:
    """Returns the steps of a trial, 1 at least.

    Args:
      config: all settings.
      trained: the windows to train on.
    """
    num_used = min(config.max_train_examples or math.inf, len(trained.input_ids))
    if config.count_whole_batches:
        num_used = math.ceil(num_used / config.train_batch_size) * config.train_batch_size
    return max(1, int(num_used * config.num_train_epochs / config.train_batch_size))


def training_order(
    num_examples: int, num_used: int, num_steps: int, batch_size: int, seed: int
) -> np.ndarray:
    """Returns the examples of every step: a function of its arguments alone.

    Each epoch is a new permutation; the next one follows without a gap, so every batch is full.

    Args:
      num_examples: in the training set.
      num_used: draw so many of them by the seed; 0 for all.
      num_steps: batches.
      batch_size: examples in a batch.
      seed: of the trial.

    Returns:
      int64 [num_steps * batch_size], numbers of examples from 0.
    """
    used = np.arange(num_examples)
    if 0 < num_used < num_examples:
        generator = np.random.default_rng([seed, SUBSET_STREAM])
        used = generator.choice(used, num_used, replace=False)
    needed = num_steps * batch_size
    generator = np.random.default_rng([seed, ORDER_STREAM])
    epochs = [generator.permutation(used) for _ in range(math.ceil(needed / len(used)))]
    return np.concatenate(epochs)[:needed]


def describe_task(task: Task, examples: list[Example]) -> TrainedOn:
    """Returns the facts of a task that `predict` needs, which may not have the task's data.

    Args:
      task: the task.
      examples: of its training set.

    Returns:
      The task type's name, the labels, the form of new text, and whether texts have pairs or
      markers.
    """
    task_type = types.TYPES[task.task_type]
    learnt = task_type.learnt_from(examples, task.entity_type)
    return TrainedOn(task.task_type, list(task.labels), task_type.new_text, **learnt)
