"""Pretraining examples as a `tf.data` pipeline whose order is a function of seed and step."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfbio.records import DataError, Manifest, Shard, parse_example, read_manifest, read_shard

FEATURES = ("input_ids", "input_mask", "segment_ids")


def find_examples(
    folders: list[str], sequence_lengths: list[int], vocab_size: int
) -> dict[int, tuple[str, Manifest]]:
    """The folder of examples for each sequence length, and its manifest.

    Raises:
      DataError: if a folder holds no complete examples, or examples of another vocabulary, or if
        there is none for a length.
    """
    found = {}
    for folder in folders:
        manifest = read_manifest(folder, "examples")
        found[manifest.settings["sequence_length"]] = (folder, manifest)
    for length in sequence_lengths:
        if length not in found:
            raise DataError(
                f"the settings ask for examples of length {length}, but --examples gives "
                f"{sorted(found) or 'none'}: make them with "
                f"`python -m data_prep.examples --sequence_length={length}`."
            )
        folder, manifest = found[length]
        words = manifest.settings["vocab_size"]
        if words != vocab_size:
            raise DataError(
                f"{folder} was made with a vocabulary of {words} tokens, the settings say "
                f"{vocab_size}: give --set encoder.vocab_size={words}, or other examples."
            )
    data = {length: found[length] for length in sequence_lengths}
    if len({manifest.settings["vocab_sha256"] for _, manifest in data.values()}) > 1:
        raise DataError("the folders of --examples were made with different vocabularies.")
    return data


def training_dataset(
    folder: str, manifest: Manifest, batch_size: int, seed: int, first_step: int, last_step: int
) -> tf.data.Dataset:
    """The batches of the steps from `first_step` up to, not including, `last_step`.

    Each epoch reads the shards in an order, and the examples of a shard in an order, that depend
    on seed and epoch alone. So a run that continues at any step sees exactly the batches it would
    have seen, and skips no more than a part of one shard to get there.

    Returns:
      A dataset of dicts of `FEATURES`, int32 [batch_size, sequence_length] each.
    """
    shards = _non_empty(manifest.shards_of("train"), folder, "training")
    plan = _plan(shards, seed, start=first_step * batch_size, end=last_step * batch_size)
    files, seeds, skips = zip(*plan, strict=True)
    largest = max(shard.records for shard in shards)

    def read(file: tf.Tensor, shuffle_seed: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
        # Not `Dataset.shuffle`: its order is its own. The shard is permuted whole, in memory.
        def permuted(shard: tf.Tensor) -> tf.data.Dataset:
            shard = tf.random.experimental.stateless_shuffle(shard, shuffle_seed)
            return tf.data.Dataset.from_tensor_slices(shard[skip:])

        path = tf.strings.join([folder, file], separator="/")
        return tf.data.TFRecordDataset(path).batch(largest).flat_map(permuted)

    order = (list(files), np.array(seeds, np.int32), np.array(skips, np.int64))
    records = tf.data.Dataset.from_tensor_slices(order).flat_map(read)
    return _batches(records, batch_size, manifest)


def held_out_dataset(folder: str, manifest: Manifest, batch_size: int) -> tf.data.Dataset:
    """All whole batches of the held-out examples, always in the same order.

    Raises:
      DataError: if there are fewer held-out examples than one batch.
    """
    shards = _non_empty(manifest.shards_of("heldout"), folder, "held-out")
    available = sum(shard.records for shard in shards)
    if available < batch_size:
        raise DataError(
            f"{folder} has {available} held-out examples, fewer than one batch of {batch_size}: "
            "make examples with a larger --held_out_fraction, or give a smaller train_batch_size."
        )
    files = [str(Path(folder) / shard.file) for shard in shards]
    return _batches(tf.data.TFRecordDataset(files), batch_size, manifest)


def word_counts(folder: str, manifest: Manifest) -> np.ndarray:
    """int64 [vocab_size]: how often each token occurs in the first shard, which is a fair sample.

    The examples of all shards are shuffled together when they are made.
    """
    shard = _non_empty(manifest.shards_of("train"), folder, "training")[0]
    counts = np.zeros([manifest.settings["vocab_size"]], np.int64)
    for record in read_shard(folder, shard):
        example = parse_example(record)
        np.add.at(counts, np.array(example["input_ids"])[np.array(example["input_mask"]) == 1], 1)
    return counts


def _non_empty(shards: list[Shard], folder: str, split: str) -> list[Shard]:
    shards = [shard for shard in shards if shard.records]
    if not shards:
        raise DataError(f"{folder} has no {split} examples: see the counts in its manifest.json.")
    return shards


def _plan(
    shards: list[Shard], seed: int, start: int, end: int
) -> Iterator[tuple[str, tuple[int, int], int]]:
    """(file, seed of its permutation, examples to skip) for the examples `start` to `end`."""
    epoch_size = sum(shard.records for shard in shards)
    for epoch in range(start // epoch_size, -(-end // epoch_size)):
        random = np.random.default_rng([seed, epoch])
        position = epoch * epoch_size
        for index in random.permutation(len(shards)):
            shuffle_seed = tuple(random.integers(2**31, size=2))
            skip = max(0, start - position)
            if skip < shards[index].records and position < end:
                yield shards[index].file, shuffle_seed, skip
            position += shards[index].records


def _batches(records: tf.data.Dataset, batch_size: int, manifest: Manifest) -> tf.data.Dataset:
    length = manifest.settings["sequence_length"]
    spec = {name: tf.io.FixedLenFeature([length], tf.int64) for name in FEATURES}

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.io.parse_example(serialized, spec)
        return {name: tf.cast(values, tf.int32) for name, values in batch.items()}

    return (
        records.batch(batch_size, drop_remainder=True)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )
