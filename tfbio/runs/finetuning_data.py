"""A task's examples as a run sees them: drawn, encoded, and in the order of training."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from tfbio.base.errors import UserError
from tfbio.formats.task_examples import Example
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import types
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.task import Task
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import tokenization, vocabularies

# The second numbers of the seeds of the order and of the choice of examples; `finetuner` has
# another one. No two purposes share a stream of random numbers.
_ORDER_STREAM, _SUBSET_STREAM = 1, 2


# The runs of a sweep have the same examples and tokenizer, and mostly the same windows. A hash is
# an argument so that a file that was changed is read again.


@functools.lru_cache(maxsize=1)
def read_examples(
    task: Task, data_dir: str, data_sha256: tuple[str, ...]
) -> dict[str, list[Example]]:
    """Reads the fine-tuning data, the examples of each split, and keeps them for the next call.

    Args:
      task: the task.
      data_dir: the path of the folder with its files.
      data_sha256: the SHA-256 of each file in hexadecimal digits, so that changed files are read
        again.

    Returns:
      A dict of "train", "dev" and "test" -> a list of the examples, in the order of the file.

    Raises:
      TaskFileError: a file is missing, or a line of it cannot be used.
    """
    return task.examples(data_dir)


def draw(examples: dict[str, list[Example]], config: FinetuningConfig) -> dict[str, list[Example]]:
    """Draws the fine-tuning data that are scored, at random: the same for every seed.

    They are `max_dev_examples` of "dev" and `max_test_examples` of "test"; 0 stands for all.

    Args:
      examples: split -> its examples, with "dev" and "test".
      config: all settings.

    Returns:
      A new dict of each split -> a list of examples. Drawn examples keep their order; splits that
      are not drawn are the same lists.
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
    vocabulary: Path,
    encoder_config: EncoderConfig,
    lower_case: bool,
    task_type: TaskType,
    trained_on: TrainedOn,
) -> tokenization.Tokenizer:
    """Loads the tokenizer that encodes a task's data, for fine-tuning or for new text.

    It has the markers of relations if the task has them. The last one is kept, and returned again
    for the same arguments.

    Args:
      vocabulary: the path of the vocabulary, see `vocabularies.find_vocabulary`.
      encoder_config: the shape of the encoder.
      lower_case: True if the encoder was trained on text in lower case.
      task_type: the type of the task.
      trained_on: the facts that a run keeps of its task, see `describe_task`.

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
) -> tuple[dict[str, Features], Features]:
    """Encodes the fine-tuning data in a task's files, and keeps the windows for the next call.

    Args:
      task, data_dir, data_sha256: see `read_examples`.
      tokenizer: see `load_tokenizer`.
      config: all settings.

    Returns:
      A pair of `Features`: a dict of "train", "dev" and "test" -> the windows of its examples, of
      which `max_dev_examples` and `max_test_examples` are drawn; and the windows to train on, which
      `Task.augment` and `minority_copies` may make more than those of "train".

    Raises:
      UserError: a file cannot be used, or an example or a setting does not go with the task type.
    """
    # What the windows depend on; the rest as it is by default.
    shape = FinetuningConfig(
        sequence_length=config.sequence_length,
        max_dev_examples=config.max_dev_examples,
        max_test_examples=config.max_test_examples,
        minority_weight=config.minority_weight,
        minority_copies=config.minority_copies,
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
) -> tuple[dict[str, Features], Features]:
    examples = draw(read_examples(task, data_dir, data_sha256), config)
    return encode_examples(task, examples, tokenizer, config)


def encode_examples(
    task: Task,
    examples: dict[str, list[Example]],
    tokenizer: tokenization.Tokenizer,
    config: FinetuningConfig,
) -> tuple[dict[str, Features], Features]:
    """Encodes the fine-tuning data in examples that were read, as `encode` does from files.

    Args:
      task: the task.
      examples: split -> its examples, with "train".
      tokenizer: see `load_tokenizer`.
      config: all settings.

    Returns:
      A pair of `Features`: a dict of each split -> the windows of its examples; and the windows to
      train on, which `Task.augment` and `minority_copies` may make more than those of "train".

    Raises:
      UserError: an example or a setting does not go with the task type.
    """
    task_type = types.make(task.task_type, task.labels, config)

    def features_of(members: list[Example]) -> Features:
        return task_type.features(members, tokenizer, config.sequence_length)

    features = {split: features_of(members) for split, members in examples.items()}
    trained = features["train"]
    if _lacks_targets(trained):
        raise UserError(
            "tagging.early_cut leaves no word of the training set with sequence_length="
            f"{config.sequence_length}: give a larger --set sequence_length."
        )
    if task.augment:
        trained = features_of(task.augment(examples["train"]))
    return features, task_type.balanced(trained, config)


def unknown_share(features: Features, tokenizer: tokenization.Tokenizer) -> float:
    """Returns the share of a split's tokens that are unknown to the vocabulary, 0 to 1.

    Args:
      features: its windows.
      tokenizer: the tokenizer that made them; [CLS] and [SEP] do not count.
    """
    ids = np.concatenate(features.input_ids)
    ids = ids[(ids != tokenizer.cls_id) & (ids != tokenizer.sep_id)]
    return float(np.mean(ids == tokenizer.unk_id)) if len(ids) else 0.0


def _lacks_targets(trained: Features) -> bool:
    """Returns True if tokens have targets, and none of any window has one."""
    targets = trained.per_token.get("targets")
    return targets is not None and all((own == NO_TARGET).all() for own in targets.values)


def count_steps(config: FinetuningConfig, trained: Features) -> int:
    """Counts the steps of a trial that the fine-tuning data, the epochs and the batch size make.

    Args:
      config: all settings.
      trained: the windows to train on, of which `max_train_examples` are used if it is not 0.

    Returns:
      The number, an int, 1 at least.
    """
    num_used = min(config.max_train_examples or math.inf, len(trained.input_ids))
    if config.count_whole_batches:
        num_used = math.ceil(num_used / config.train_batch_size) * config.train_batch_size
    # Epochs that were computed from a step, as for --stop_as, may be a last bit below it.
    return max(1, int(num_used * config.num_train_epochs / config.train_batch_size + 1e-6))


def training_order(
    num_examples: int, num_used: int, num_steps: int, batch_size: int, seed: int
) -> np.ndarray:
    """Orders the fine-tuning data of a trial: returns the windows of every step.

    The order depends on the arguments alone. Each epoch is a new permutation; the next one follows
    without a gap, so every batch is full.

    Args:
      num_examples: the number of the windows to train on.
      num_used: draw so many of them by the seed; 0 for all.
      num_steps: the number of batches.
      batch_size: the windows in a batch.
      seed: the trial's seed.

    Returns:
      int64 [num_steps * batch_size], numbers of windows from 0.
    """
    used = np.arange(num_examples)
    if 0 < num_used < num_examples:
        generator = np.random.default_rng([seed, _SUBSET_STREAM])
        used = generator.choice(used, num_used, replace=False)
    needed = num_steps * batch_size
    generator = np.random.default_rng([seed, _ORDER_STREAM])
    epochs = [generator.permutation(used) for _ in range(math.ceil(needed / len(used)))]
    return np.concatenate(epochs)[:needed]


def describe_task(task: Task, examples: list[Example]) -> TrainedOn:
    """Collects from fine-tuning data the facts on a task that prediction needs later without them.

    Args:
      task: the task.
      examples: the examples of its training set.

    Returns:
      A `TrainedOn`, for `config.json` and prediction: the task type's name, the labels, the form of
      new text, whether texts have pairs or markers, the type of entities whose tags name none, and
      the rule that cuts words.
    """
    task_type = types.TYPES[task.task_type]
    learnt = task_type.learnt_from(examples, task.entity_type)
    return TrainedOn(task.task_type, list(task.labels), task_type.new_text, **learnt)
