"""Reads pretraining examples by a `tf.data` pipeline whose order depends on seed and step alone.

The examples are those of `data_prep.examples`, or TFRecords of the original ELECTRA code.
"""

import glob
import itertools
import math
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfbio.base import storage
from tfbio.base.example_codec import parse_example
from tfbio.base.example_records import ExampleFormat
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest
from tfbio.base.shards import DataError, Shard, read_shard

# For each sequence length the folder of its examples and its manifest.
Data = dict[int, tuple[str, Manifest]]

FEATURES = ("input_ids", "input_mask", "segment_ids")
PACKED_FEATURES = (*FEATURES, "document_ids", "position_ids")

# The names that google-research/electra's build_pretraining_dataset.py gives to its files.
_ORIGINAL = re.compile(r".*\.tfrecord-(\d+)-of-(\d+)")
# The number of examples in which words are counted: a second or two of work.
_COUNTED = 10_000
# Batches that are parsed at a time, and that wait for the step.
_PARALLEL = 4
# A host that has every batch to itself.
ALONE = tf.distribute.InputContext()
# The share of the original code's files that is held out: that code holds out none.
_ORIGINAL_HELD_OUT = 0.01


def find_examples(folders: list[str], sequence_lengths: list[int], vocab_size: int) -> Data:
    """Finds the folder of examples for each sequence length.

    Args:
      folders: folders of examples; also folders, or glob patterns, of TFRecords that the original
        ELECTRA code made, see `original_examples`.
      sequence_lengths: the lengths that a run needs.
      vocab_size: the size of the vocabulary in the settings.

    Returns:
      Sequence length -> the folder and its manifest.

    Raises:
      DataError: a folder holds no complete examples, or examples of another vocabulary, or no
        folder has a length.
    """
    by_length = {}
    for folder in folders:
        files = _original_files(folder)
        if files:
            folder, manifest = original_examples(files, vocab_size)
        else:
            manifest = read_manifest(folder, "examples")
        by_length[manifest.settings["sequence_length"]] = (folder, manifest)
    for length in sequence_lengths:
        if length not in by_length:
            raise DataError(
                f"the settings ask for examples of length {length}, but --examples gives "
                f"{sorted(by_length) or 'none'}: make them with "
                f"`python -m data_prep.examples --sequence_length={length}`."
            )
        folder, manifest = by_length[length]
        words = manifest.settings["vocab_size"]
        if words != vocab_size:
            raise DataError(
                f"{folder} was made with a vocabulary of {words} tokens, the settings say "
                f"{vocab_size}: give --set encoder.vocab_size={words}, or other examples."
            )
    data = {length: by_length[length] for length in sequence_lengths}
    if len({manifest.settings["vocab_sha256"] for _, manifest in data.values()}) > 1:
        raise DataError("the folders of --examples were made with different vocabularies.")
    return data


def original_examples(files: list[str], vocab_size: int) -> tuple[str, Manifest]:
    """Makes a manifest for TFRecords of the original ELECTRA code, which have none.

    All files are read once, to count their records. One file in a hundred, the last ones, is held
    out if there are two or more. The vocabulary is `vocab.txt` in the files' folder or the one
    above, where that code has it; it is taken for an uncased one.

    Args:
      files: the TFRecord files.
      vocab_size: the size of the vocabulary in the settings; no token may be beyond it.

    Returns:
      The folder of the files, and the manifest.

    Raises:
      DataError: a file is damaged, or of another form, or there is no vocabulary.
    """
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    held_out = math.ceil(_ORIGINAL_HELD_OUT * len(files)) if len(files) > 1 else 0
    shards = []
    for number, file in enumerate(files):
        split = "heldout" if number >= len(files) - held_out else "train"
        name = os.path.relpath(os.path.abspath(file), folder)
        shards.append(Shard(name, _count_records(file), os.path.getsize(file), "", split))
    filled = next((shard for shard in shards if shard.records), None)
    if filled is None:
        raise DataError(f"{folder}: the TFRecord files hold no examples.")
    example = parse_example(next(read_shard(folder, filled)))
    if set(example) != set(FEATURES) or len({len(values) for values in example.values()}) > 1:
        raise DataError(
            f"{folder}/{filled.file} does not hold examples of the original ELECTRA code, which "
            f"have {', '.join(FEATURES)}, but {', '.join(sorted(example)) or 'nothing'}."
        )
    largest = max(max(parse_example(record)["input_ids"]) for record in read_shard(folder, filled))
    if largest >= vocab_size:
        raise DataError(
            f"{folder} was made with a larger vocabulary than the {vocab_size} tokens of the "
            f"settings, for it has token {largest}: give its size by --set encoder.vocab_size."
        )
    vocab = next(
        (p for p in (Path(folder, "vocab.txt"), Path(folder).parent / "vocab.txt") if p.is_file()),
        None,
    )
    if vocab is None:
        raise DataError(
            f"{folder} has no vocab.txt, nor has the folder above it: put the vocabulary there "
            "that the examples were made with."
        )
    settings = {
        "sequence_length": len(example["input_ids"]),
        "vocab_size": vocab_size,
        "vocab_sha256": storage.sha256_of(vocab),
        "vocab_file": str(vocab),
        "lower_case": True,
    }
    return folder, Manifest("examples", settings, {}, shards)


def _original_files(folder: str) -> list[str]:
    """Lists the original ELECTRA code's files in a folder, or those that match a pattern, in order.

    Raises:
      DataError: some of a folder's files are missing, or nothing matches the pattern.
    """

    def place(file: str) -> tuple[str, int]:
        match = _ORIGINAL.fullmatch(os.path.basename(file))
        return os.path.dirname(file), int(match[1]) if match else -1

    if storage.is_remote(folder):
        if glob.has_magic(folder):
            raise DataError(f"{folder}: patterns are for local files.")
        return []
    if os.path.isdir(folder):
        if os.path.exists(os.path.join(folder, MANIFEST)):
            return []
        files = [str(path) for path in Path(folder).iterdir() if _ORIGINAL.fullmatch(path.name)]
        wanted = {int(_ORIGINAL.fullmatch(os.path.basename(file))[2]) for file in files}
        if files and wanted != {len(files)}:
            raise DataError(
                f"{folder} holds {len(files)} of {max(wanted)} files of examples: add the others, "
                f"or give those there are as a pattern, '{folder}/*.tfrecord-*'."
            )
        return sorted(files, key=place)
    if glob.has_magic(folder):
        files = [file for file in glob.glob(folder) if os.path.isfile(file)]
        if not files:
            raise DataError(f"no file matches {folder}.")
        return sorted(files, key=lambda file: (*place(file), file))
    return []


def _count_records(path: str) -> int:
    """Counts the records of a TFRecord file, from their lengths.

    Raises:
      DataError: the file is no TFRecord file, or is cut short.
    """
    count, position, size = 0, 0, os.path.getsize(path)
    with open(path, "rb") as stream:
        while header := stream.read(8):
            if len(header) < 8:
                break
            # length, its checksum, the record, its checksum
            position += 16 + struct.unpack("<Q", header)[0]
            if position > size:
                break
            stream.seek(position)
            count += 1
    if position != size:
        raise DataError(f"{path} is not a TFRecord file, or is cut short after record {count}.")
    return count


def training_dataset(
    folder: str,
    manifest: Manifest,
    batch_size: int,
    seed: int,
    first_step: int,
    last_step: int,
    context: tf.distribute.InputContext = ALONE,
) -> tf.data.Dataset:
    """Reads the batches of the steps from `first_step` up to, not including, `last_step`.

    In each epoch the order of the shards, and of the examples in a shard, depends on seed and epoch
    alone. So a run that continues at any step sees exactly the batches it would have seen, and
    skips no more than a part of one shard to get there.

    Each of several hosts reads all examples, as any of them can be in its rows of a batch, but
    decodes its rows only.

    Args:
      folder: the folder of the examples, which all hosts can read.
      manifest: the manifest of the examples.
      batch_size: the examples of the global batch, a multiple of the hosts.
      seed: keys the order.
      first_step: the step at which a run begins or continues.
      last_step: the step at which it ends.
      context: the number of this host, and of all.

    Returns:
      A dataset of dicts of `FEATURES`, or of `PACKED_FEATURES` where examples are packed, int32
      [batch_size / hosts, sequence_length] each.

    Raises:
      DataError: there are no training examples.
    """
    shards = _non_empty(manifest.shards_of("train"), folder, "training")
    plan = _plan(shards, seed, start=first_step * batch_size, end=last_step * batch_size)
    files, seeds, skips = zip(*plan, strict=True)
    largest = max(shard.records for shard in shards)

    def read(file: tf.Tensor, shuffle_seed: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
        # Not `Dataset.shuffle`, whose order no seed fixes. The shard is permuted whole, in memory.
        def permuted(shard: tf.Tensor) -> tf.Tensor:
            return tf.random.experimental.stateless_shuffle(shard, shuffle_seed)[skip:]

        path = tf.strings.join([folder, file], separator="/")
        return tf.data.TFRecordDataset(path).batch(largest).map(permuted)

    order = (list(files), np.array(seeds, np.int32), np.array(skips, np.int64))
    shards_in_order = tf.data.Dataset.from_tensor_slices(order).flat_map(read)
    # Not a batch of single records, each of which costs as much to hand on as to read.
    return _batches(
        shards_in_order.rebatch(batch_size, drop_remainder=True), batch_size, manifest, context
    )


def held_out_dataset(
    folder: str,
    manifest: Manifest,
    batch_size: int,
    context: tf.distribute.InputContext = ALONE,
) -> tf.data.Dataset:
    """Reads all whole batches of the held-out examples, always in the same order.

    Args:
      folder, manifest, batch_size, context: see `training_dataset`.

    Returns:
      A dataset of dicts like that of `training_dataset`, int32 [batch_size / hosts, length] each.

    Raises:
      DataError: there are fewer held-out examples than one batch.
    """
    shards = _non_empty(manifest.shards_of("heldout"), folder, "held-out")
    available = sum(shard.records for shard in shards)
    if available < batch_size:
        raise DataError(
            f"{folder} has {available} held-out examples, fewer than one batch of {batch_size}: "
            "make examples with a larger --held_out_fraction, or give a smaller train_batch_size."
        )
    files = [os.path.join(folder, shard.file) for shard in shards]
    records = tf.data.TFRecordDataset(files).batch(batch_size, drop_remainder=True)
    return _batches(records, batch_size, manifest, context)


def word_counts(folder: str, manifest: Manifest) -> np.ndarray:
    """Counts how often each token occurs in the first examples.

    They are a fair sample: the examples of all shards are shuffled together when they are made.

    Args:
      folder, manifest: of the examples.

    Returns:
      int64 [vocab_size].

    Raises:
      DataError: there are no training examples.
    """
    shard = _non_empty(manifest.shards_of("train"), folder, "training")[0]
    counts = np.zeros([manifest.settings["vocab_size"]], np.int64)
    form = _format(manifest)
    for record in itertools.islice(read_shard(folder, shard), _COUNTED):
        example = parse_example(record)
        if form is None:
            ids, tokens = np.array(example["input_ids"]), sum(example["input_mask"])
        else:
            ids = np.frombuffer(example["input_ids"][0], form.id_type)
            tokens = np.frombuffer(example["segment_lengths"][0], "<u2").sum()
        np.add.at(counts, ids[:tokens], 1)
    return counts


def _format(manifest: Manifest) -> ExampleFormat | None:
    """Returns the layout of the examples; None: that of the original ELECTRA code."""
    return ExampleFormat.of(manifest.settings) if "objective" in manifest.settings else None


def _non_empty(shards: list[Shard], folder: str, split: str) -> list[Shard]:
    shards = [shard for shard in shards if shard.records]
    if not shards:
        raise DataError(f"{folder} has no {split} examples: see the counts in its manifest.json.")
    return shards


def _plan(
    shards: list[Shard], seed: int, start: int, end: int
) -> Iterator[tuple[str, tuple[int, int], int]]:
    """Yields (file, seed of its permutation, examples to skip) for `start` to `end`."""
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


def _batches(
    records: tf.data.Dataset,
    batch_size: int,
    manifest: Manifest,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    form = _format(manifest)
    parse = _parse_original(manifest.settings["sequence_length"]) if form is None else _parse(form)
    rows = batch_size // context.num_input_pipelines
    first = context.input_pipeline_id * rows
    batches = records.map(
        lambda batch: parse(batch[first : first + rows]),
        num_parallel_calls=_PARALLEL,
        deterministic=True,
    ).prefetch(_PARALLEL)
    # Nothing is tuned at run time: this is thousands of times faster than a step as it is, and the
    # thread that tunes can take a minute to end (see `distribution.distribute_dataset`).
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def _parse_original(length: int) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    spec = {name: tf.io.FixedLenFeature([length], tf.int64) for name in FEATURES}

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.io.parse_example(serialized, spec)
        return {name: tf.cast(values, tf.int32) for name, values in batch.items()}

    return parse


def _parse(form: ExampleFormat) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("input_ids", "segment_lengths")}
    id_type = tf.as_dtype(np.dtype(form.id_type))

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        features = tf.io.parse_example(serialized, spec)
        shape = [serialized.shape[0], form.sequence_length]
        ids = tf.ensure_shape(tf.io.decode_raw(features["input_ids"], id_type), shape)
        lengths = tf.io.decode_raw(features["segment_lengths"], tf.uint16)
        lengths = tf.cast(tf.ensure_shape(lengths, [shape[0], 2 * form.documents]), tf.int32)
        ends = tf.cumsum(lengths, axis=1)
        positions = tf.tile(tf.range(shape[1])[tf.newaxis], [shape[0], 1])
        # How many segments end before a token: segments count twice for each document.
        segments = tf.searchsorted(ends, positions, side="right")
        mask = tf.cast(positions < ends[:, -1:], tf.int32)
        batch = {
            "input_ids": tf.cast(ids, tf.int32),
            "input_mask": mask,
            "segment_ids": segments % 2 * mask,
        }
        if form.documents > 1:
            document = segments // 2 * mask
            starts = ends[:, 1::2] - lengths[:, 0::2] - lengths[:, 1::2]
            batch["document_ids"] = (document + 1) * mask
            batch["position_ids"] = (positions - tf.gather(starts, document, batch_dims=1)) * mask
        return batch

    return parse
