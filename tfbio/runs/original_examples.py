"""Finds and parses the TFRecords of the original ELECTRA code, which have no manifest."""

from __future__ import annotations

import glob
import math
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from tfbio.base import file_paths, storage
from tfbio.base.errors import DataError
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.base.shards import Shard, read_shard
from tfbio.base.tf_example import parse_example
from tfbio.text import wordpiece
from tfbio.text.vocabularies import is_cased

FEATURES = ("input_ids", "input_mask", "segment_ids")
# The names that google-research/electra's build_pretraining_dataset.py gives to its files.
_ORIGINAL = re.compile(r".*\.tfrecord-(\d+)-of-(\d+)")
# The share of the original code's files that is held out: that code holds out none.
_ORIGINAL_HELD_OUT = 0.01


def find(files: list[str], vocab_size: int) -> tuple[str, Manifest]:
    """Makes a manifest for TFRecords of the original ELECTRA code, which have none.

    All files are read once, to count their records. One file in a hundred, the last ones, is held
    out. The vocabulary is `vocab.txt` in the files' folder or the one above, where that code has
    it; its tokens tell whether it is a cased one.

    Args:
      files: the TFRecord files, two at least.
      vocab_size: the size of the vocabulary in the settings; no token may be beyond it.

    Returns:
      The folder of the files, and the manifest.

    Raises:
      DataError: there is one file alone, a file is damaged, or of another form, or there is no
        vocabulary.
      VocabularyError: the vocabulary cannot be used.
    """
    if len(files) == 1:
        raise DataError(
            f"{files[0]} is the only file of examples: give two files or more, of which the last "
            "is held out."
        )
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    held_out = math.ceil(_ORIGINAL_HELD_OUT * len(files))
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
    tokens = wordpiece.read_vocab(vocab)
    if len(tokens) > vocab_size:
        raise DataError(
            f"{vocab} has {len(tokens)} tokens, and the settings say {vocab_size}: give --set "
            f"encoder.vocab_size={len(tokens)}."
        )
    settings = {
        "sequence_length": len(example["input_ids"]),
        "vocab_size": vocab_size,
        "vocab_sha256": storage.sha256_of(vocab),
        "vocab_file": str(vocab),
        "lower_case": not is_cased([token for token in tokens if not token.startswith("[")]),
    }
    return folder, Manifest("examples", settings, {}, shards)


def files_in(folder: str) -> list[str]:
    """Lists the original ELECTRA code's files in a folder, or those that match a pattern, in order.

    Args:
      folder: the path of a folder, or a pattern of files such as "FOLDER/*.tfrecord-*".

    Returns:
      The paths of the files, str in the order of their numbers; none for a folder with a manifest,
      in an object store, or without such files.

    Raises:
      DataError: some of a folder's files are missing, or nothing matches the pattern.
    """

    def place(file: str) -> tuple[str, int]:
        match = _ORIGINAL.fullmatch(os.path.basename(file))
        return os.path.dirname(file), int(match[1]) if match else -1

    if file_paths.is_remote(folder):
        if glob.has_magic(folder):
            raise DataError(f"{folder}: patterns are for local files.")
        return []
    if os.path.isdir(folder):
        if os.path.exists(os.path.join(folder, MANIFEST)):
            return []
        matches = {str(path): _ORIGINAL.fullmatch(path.name) for path in Path(folder).iterdir()}
        files = [file for file, match in matches.items() if match]
        wanted = {int(match[2]) for match in matches.values() if match}
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


def parse(length: int) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    spec = {name: tf.io.FixedLenFeature([length], tf.int64) for name in FEATURES}

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.io.parse_example(serialized, spec)
        return {name: tf.cast(values, tf.int32) for name, values in batch.items()}

    return parse
