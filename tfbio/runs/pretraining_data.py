"""Reads pretraining examples by a `tf.data` pipeline whose order depends on seed and step alone.

The examples are those of `data_prep.examples`, or TFRecords of the original ELECTRA code.
"""

import itertools
import os
from collections.abc import Callable, Collection, Iterator

import numpy as np
import tensorflow as tf

from tfbio.base import file_paths
from tfbio.base.errors import DataError, UserError
from tfbio.base.example_records import LABELLED_OBJECTIVES, ExampleFormat
from tfbio.base.manifests import Manifest, read_manifest
from tfbio.base.shards import Shard, read_shard
from tfbio.base.tf_example import parse_example
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import original_examples

# For each phase the folder of its examples and its manifest.
Data = list[tuple[str, Manifest]]

# The number of examples in which words are counted: a second or two of work.
_COUNTED = 10_000
# Batches that are parsed at a time, and that wait for the step.
_PARALLEL = 4
# A host that has every batch to itself.
ALONE = tf.distribute.InputContext()


def find_examples(
    folders: list[str],
    sequence_lengths: list[int],
    vocab_size: int,
    may_be_padded: bool = False,
    unread_lengths: Collection[int] = (),
) -> Data:
    """Finds the folder of pretraining data, examples, for each phase of a run.

    Args:
      folders: paths of folders of examples; also folders, or glob patterns, of TFRecords that the
        original ELECTRA code made. Those of one length are in the order of their phases.
      sequence_lengths: the length of each phase, in tokens.
      vocab_size: the size of the vocabulary in the settings.
      may_be_padded: True if the vocabulary of the examples may be smaller than that.
      unread_lengths: further lengths, of which folders may be given and are not read.

    Returns:
      A list with a pair for each phase: the path of the folder and its `Manifest`.

    Raises:
      DataError: a folder holds no complete examples, or examples of another vocabulary, or some
        are of cased and others of uncased text, or there are not as many folders of a length as
        phases, or one of no phase; or TFRecords are missing or damaged, or have no vocabulary.
    """
    by_length: dict[int, Data] = {}
    for folder in folders:
        files = original_examples.files_in(folder)
        if files:
            folder, manifest = original_examples.find(files, vocab_size)
        else:
            manifest = read_manifest(folder, "examples")
        of_length = by_length.setdefault(manifest.settings["sequence_length"], [])
        of_length.append((folder, manifest))
    for length in dict.fromkeys(sequence_lengths):
        if length not in by_length:
            raise DataError(
                f"the settings ask for examples of length {length}, but --examples gives "
                f"{sorted(by_length) or 'none'}: make them with "
                f"`python -m data_prep.examples --sequence_length={length}`."
            )
        given, phases = len(by_length[length]), sequence_lengths.count(length)
        if given != phases:
            raise DataError(
                f"--examples gives {given} of length {length}, and the settings have {phases} "
                "phase(s) of it: give one for each, in order, and the steps at which the later "
                "ones begin, such as --set corpus_switch_steps=[264000]."
            )
    if unused := sorted(by_length.keys() - {*sequence_lengths, *unread_lengths}):
        raise DataError(
            f"--examples gives examples of length {unused[0]}, which no phase of the settings has: "
            "leave them out, or give it as sequence_length or final_sequence_length."
        )
    data = [by_length[length].pop(0) for length in sequence_lengths]
    for folder, manifest in data:
        words = manifest.settings["vocab_size"]
        if words > vocab_size or (words < vocab_size and not may_be_padded):
            raise DataError(
                f"{folder} was made with a vocabulary of {words} tokens, the settings say "
                f"{vocab_size}: give --set encoder.vocab_size={words}, or other examples."
            )
    _require_one_vocabulary(data)
    return data


def _require_one_vocabulary(data: Data) -> None:
    """Raises DataError if examples have different vocabularies, or are of cased and uncased text.

    WordPiece with few capital letters, and SentencePiece, go with both. Byte-level BPE keeps
    capital letters, whatever its examples say.
    """
    if len({manifest.settings["vocab_sha256"] for _, manifest in data}) > 1:
        raise DataError("the folders of --examples were made with different vocabularies.")
    folders = {manifest.settings["lower_case"]: folder for folder, manifest in data}
    if len(folders) > 1 and not file_paths.at(folders[True], "vocab.json").is_file():
        raise DataError(
            f"--examples gives {folders[True]}, whose text is in lower case, and {folders[False]}, "
            "made with --nolower_case: make all with one of --lower_case and --nolower_case."
        )


def training_dataset(
    folder: str,
    manifest: Manifest,
    batch_size: int,
    seed: int,
    first_step: int,
    last_step: int,
    context: tf.distribute.InputContext = ALONE,
) -> tf.data.Dataset:
    """Reads the pretraining data of the steps from `first_step` to before `last_step`, in batches.

    In each epoch the order of the shards, and of the examples in a shard, depends on seed and epoch
    alone. So a run that continues at any step sees exactly the batches it would have seen, and
    skips no more than a part of one shard to get there. Each of several hosts reads all examples,
    as any can be in its rows of a batch, but decodes its rows only.

    Args:
      folder: the path of the folder of the examples, which all hosts can read.
      manifest: the manifest of the examples.
      batch_size: the examples of the global batch, a multiple of the hosts.
      seed: keys the order.
      first_step: the step at which a run begins or continues.
      last_step: the step at which it ends.
      context: the number of this host, and of all.

    Returns:
      A dataset of dicts of "input_ids", "input_mask" (1 for a token, 0 for padding) and
      "segment_ids" (0 or 1); where examples are packed also "document_ids" (from 1; 0 for padding)
      and "position_ids"; int32 [batch_size / hosts, sequence_length] each. Of sentence pairs also
      "label" (0 or 1), int32 [batch_size / hosts].

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

        path = tf.strings.join([folder.rstrip("/"), file], separator="/")
        return tf.data.TFRecordDataset(path).batch(largest).map(permuted)

    order = (list(files), np.array(seeds, np.int32), np.array(skips, np.int64))
    shards_in_order = tf.data.Dataset.from_tensor_slices(order).flat_map(read)
    # Not a batch of single records, each of which costs as much to hand on as to read.
    batches = shards_in_order.rebatch(batch_size, drop_remainder=True).take(last_step - first_step)
    return _batches(batches, batch_size, manifest, context)


def held_out_shards(folder: str, manifest: Manifest, batch_size: int) -> list[Shard]:
    """Returns the `Shard`s of the held-out pretraining data, which have a batch at least.

    Args:
      folder, manifest: the path of the folder of the examples, and its manifest.
      batch_size: the examples of a batch.

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
    return shards


def held_out_dataset(
    folder: str,
    manifest: Manifest,
    batch_size: int,
    context: tf.distribute.InputContext = ALONE,
) -> tf.data.Dataset:
    """Reads the held-out pretraining data in whole batches, always in the same order.

    Args:
      folder, manifest, batch_size, context: see `training_dataset`.

    Returns:
      A dataset of dicts like that of `training_dataset`, int32 [batch_size / hosts, length] each.

    Raises:
      DataError: there are fewer held-out examples than one batch.
    """
    shards = held_out_shards(folder, manifest, batch_size)
    files = [os.path.join(folder, shard.file) for shard in shards]
    records = tf.data.TFRecordDataset(files).batch(batch_size, drop_remainder=True)
    return _batches(records, batch_size, manifest, context)


def word_counts(folder: str, manifest: Manifest) -> np.ndarray:
    """Counts how often each token occurs in the first 10,000 examples of the pretraining data.

    They are a fair sample: the examples of all shards are shuffled together when they are made.

    Args:
      folder, manifest: the path of the folder of the examples, and its manifest.

    Returns:
      int64 [vocab_size], by the token's id.

    Raises:
      DataError: there are no training examples.
    """
    shards = _non_empty(manifest.shards_of("train"), folder, "training")
    records = itertools.chain.from_iterable(read_shard(folder, shard) for shard in shards)
    counts = np.zeros([manifest.settings["vocab_size"]], np.int64)
    form = _format(manifest)
    for record in itertools.islice(records, _COUNTED):
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
        raise DataError(
            f"{folder} has no {split} examples: make some of more documents, or with another "
            "--held_out_fraction."
        )
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
    parse = (
        original_examples.parse(manifest.settings["sequence_length"])
        if form is None
        else _parse(form)
    )
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


def _parse(form: ExampleFormat) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("input_ids", "segment_lengths")}
    if form.labelled:
        spec["label"] = tf.io.FixedLenFeature([], tf.int64)
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
        if form.labelled:
            batch["label"] = tf.cast(features["label"], tf.int32)
        return batch

    return parse


def find_data(
    config: PretrainingConfig, example_folders: list[str], init_checkpoint: str = ""
) -> Data:
    """Finds what pretraining with these settings reads, and refuses examples of other objectives.

    `pretrain` and `run_pretraining.py --dry_run` call it before they begin.

    Args:
      config: all settings.
      example_folders: paths of folders that `data_prep.examples` made.
      init_checkpoint: see `pretraining.pretrain`. Its table of tokens, or that of a teacher, may
        have rows beyond the vocabulary, as Megatron-LM's has.

    Returns:
      A list with a pair for each phase of the settings: the path of the folder of its examples and
      its `Manifest`.

    Raises:
      UserError: the examples are for another objective, or lack the labels of sentence pairs.
      DataError: a folder holds no complete examples, they are of another vocabulary, or of cased
        and uncased text, a phase has none or a length more than it has phases, a shard is missing
        or of another size, or there are fewer held-out examples than one batch.
    """
    lengths = [phase.sequence_length for phase in config.phases()]
    rows = config.encoder.vocab_size
    # With run.stop_at_step the command stays that of the whole run, of which it may not come to the
    # last phase.
    whole = (config.final_sequence_length,)
    padded = bool(init_checkpoint or config.distillation.teacher_hidden_size)
    data = find_examples(example_folders, lengths, rows, padded, unread_lengths=whole)
    objectives = set()
    for folder, manifest in data:
        held_out_shards(folder, manifest, config.train_batch_size)
        if config.sentence_pair_loss:
            _require_pairs(folder, manifest)
        objective = manifest.settings.get("objective")
        objectives.add(objective)
        # A masked language model may read pairs without learning their labels.
        if objective in LABELLED_OBJECTIVES and config.objective != "mlm":
            raise UserError(
                f"{folder} was made with --objective={objective}, for another kind of pretraining: "
                "give --set objective=mlm, and sentence_pair_head=true and sentence_pair_loss=true "
                "to learn the pairs, or make examples with --objective=electra, or full_sentences."
            )
    if config.sentence_pair_loss and len(objectives) > 1:
        raise UserError(
            "the folders of --examples were made with --objective=next_sentence and "
            "sentence_order, whose labels mean different things: make all with one of them."
        )
    return data


def _require_pairs(folder: str, manifest: Manifest) -> None:
    """Raises UserError unless all examples are pairs of segments with labels."""
    objective = manifest.settings.get("objective")
    if objective in LABELLED_OBJECTIVES:
        return
    if manifest.settings.get("packing"):
        why = "was made with --packing, which puts several documents into an example"
    elif objective == "full_sentences":
        why = "was made with --objective=full_sentences, of which an example is a single segment"
    elif objective is None:
        why = "holds examples of the original ELECTRA code"
    else:
        why = f"was made with --objective={objective}"
    raise UserError(
        f"{folder} {why}, so it has no labels of sentence pairs for sentence_pair_loss: make "
        "examples with --objective=next_sentence (BERT) or sentence_order (ALBERT), without "
        "--packing."
    )
