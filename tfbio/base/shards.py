"""Writes and reads TFRecord shards, the files that one command writes and the next one reads.

A shard (`train-00003-of-00016.tfrecord`) is an ordinary TFRecord file, which `tf.data` can read.
This module does without TensorFlow, whose import takes 7 seconds and 0.7 GB in each worker process
of data preparation. `google-crc32c` computes the checksums, and a test compares the bytes with
TensorFlow's.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import struct
from collections.abc import Iterable, Iterator

import google_crc32c

from tfbio.base import batched, file_paths, messages, storage
from tfbio.base.errors import DataError


@dataclasses.dataclass(frozen=True)
class Shard:
    """A manifest's entry on a shard, which is a TFRecord file.

    Attributes:
      file: str, its name in the folder.
      records: int, the number of records.
      bytes: int, its size in bytes.
      sha256: str, its SHA-256 in hexadecimal; "" if it is not known.
      split: str, the split of the data that it holds, such as "train", or "".
    """

    file: str
    records: int
    bytes: int
    sha256: str
    split: str = ""


def shard_name(prefix: str, index: int, count: int) -> str:
    """Returns the file name of a shard: `train-00003-of-00016.tfrecord` for ("train", 3, 16)."""
    return f"{prefix}-{index:05d}-of-{count:05d}.tfrecord"


def write_shard(path: str | os.PathLike, records: Iterable[bytes], split: str = "") -> Shard:
    """Writes records to a shard, a TFRecord file that gets its name only when it is complete.

    Args:
      path: the file; its folder must exist.
      records: the bytes of each record.
      split: the split that the records are of, or "".

    Returns:
      The entry for the manifest, a `Shard`.

    Raises:
      OSError: the file cannot be written.
    """
    digest, size, count = hashlib.sha256(), 0, 0
    with storage.written_whole(path) as stream:
        for batch in batched.by_number(records, 64):
            framed = b"".join(
                part
                for record in batch
                for part in (_header(len(record)), record, _masked_crc(record))
            )
            stream.write(framed)
            digest.update(framed)
            size += len(framed)
            count += len(batch)
    return Shard(file_paths.at(path).name, count, size, digest.hexdigest(), split)


def read_shard(folder: str | os.PathLike, shard: Shard) -> Iterator[bytes]:
    """Yields the records of a shard, in order.

    Args:
      folder: the folder of the shard.
      shard: its entry in the manifest.

    Yields:
      The bytes of a record, whose checksums are right.

    Raises:
      DataError: the file is missing or cannot be read, a record is damaged or cut short, or the
        file has another number of records than `shard` says. Raised when the iteration comes to it.
    """
    path = file_paths.at(folder, shard.file)
    count = 0
    try:
        left = storage.size(path)
        with path.open("rb") as stream:
            while header := stream.read(12):
                size = int.from_bytes(header[:8], "little")
                left -= 12 + size + 4
                if header != _header(size) or left < 0:  # checked before memory is allocated
                    raise DataError(f"{path} is damaged or cut short at record {count}.")
                record, crc = stream.read(size), stream.read(4)
                if len(record) != size or _masked_crc(record) != crc:
                    raise DataError(f"{path} is damaged or cut short at record {count}.")
                count += 1
                yield record
    except OSError as error:
        raise DataError(f"{path} cannot be read: {messages.reason(error)}.") from error
    if count != shard.records:
        raise DataError(f"{path} holds {count} records instead of {shard.records}.")


@functools.lru_cache(maxsize=1 << 12)
def _header(length: int) -> bytes:
    """Returns the bytes that precede a record of `length` bytes."""
    packed = struct.pack("<Q", length)
    return packed + _masked_crc(packed)


def _masked_crc(data: bytes) -> bytes:
    """Returns the checksum of the TFRecord format (tensorflow/core/lib/io/record_writer.h)."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
