"""What the stages hand to each other: TFRecord shards, and a manifest that vouches for them.

A folder of data holds shards (`train-00003-of-00016.tfrecord`) and one `manifest.json`,
written last, which names every shard with its size, number of records and SHA-256 and keeps the
settings that made them. A folder without a manifest is unfinished, and is never read.

Shards are ordinary TFRecord files of ordinary `tf.train.Example`s, so `tf.data` reads them. They
are written and read here without TensorFlow (`google-crc32c` and `protobuf` do the work, and a
test holds the bytes equal to TensorFlow's): importing it costs 7 seconds and 0.7 GB in each of
the worker processes that prepare data.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import struct
import typing
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import google_crc32c

from tfbio.base import cli, storage

if TYPE_CHECKING:
    import numpy as np

MANIFEST = "manifest.json"

# The command that makes each kind of data: errors name it as the remedy.
COMMANDS = {
    "documents": "python -m data_prep.documents",
    "vocabulary": "python -m data_prep.vocabulary",
    "examples": "python -m data_prep.examples",
    "sentence_roles": "python -m data_prep.sentence_roles",
}


# The objectives whose examples have a label.
LABELLED_OBJECTIVES = ("next_sentence", "sentence_order")


class DataError(cli.UserError):
    """Data that is missing, unfinished, damaged, or of another kind than asked for."""


@dataclasses.dataclass(frozen=True)
class Document:
    """One text of an article: its abstract or its full text.

    Attributes:
      id: what it is known under: its article's id, such as "pmid:123", of an abstract, and the
        same with the part that it is, such as "pmid:123#body", of another text. No two are equal.
      source: base name of the file that it was read from.
      title: its article's title, which is not among the sentences; "" of another abstract.
      sentences: its sentences, in order.
      sections: for each sentence the NLM category of its section, in upper case (BACKGROUND,
        OBJECTIVE, METHODS, RESULTS, CONCLUSIONS, UNASSIGNED), or "" where there are no sections;
        in a full text, the titles of the sections around it.
    """

    id: str
    source: str
    title: str
    sentences: list[str]
    sections: list[str]

    @property
    def article(self) -> str:
        """The id of its article, all of whose texts are held out together, or none."""
        return article_of(self.id)

    def serialize(self) -> bytes:
        """The document as a serialized `tf.train.Example` of bytes features."""
        fields = {
            "id": [self.id],
            "source": [self.source],
            "title": [self.title],
            "sentences": self.sentences,
            "sections": self.sections,
        }
        return serialize_example({k: [x.encode() for x in v] for k, v in fields.items()})

    @classmethod
    def parse(cls, record: bytes) -> Document:
        """Inverse of `serialize`.

        Raises:
          DataError: the record is no document.
        """
        try:
            fields = {k: [x.decode() for x in v] for k, v in parse_example(record).items()}
            return cls(
                id=fields["id"][0],
                source=fields["source"][0],
                title=fields["title"][0],
                sentences=fields["sentences"],
                sections=fields["sections"],
            )
        except (LookupError, ValueError, AttributeError) as error:
            raise DataError(f"a record is no document ({error!r:.100})") from error


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of records: its name, what it holds, its size, hash, and part of the data."""

    file: str
    records: int
    bytes: int
    sha256: str
    split: str = ""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a finished stage wrote: the settings it had, what it counted, and its files.

    `problems` has one sentence for each input that was left out because it was bad.
    """

    kind: str
    settings: dict[str, Any]
    counts: dict[str, Any]
    shards: list[Shard]
    problems: list[str] = dataclasses.field(default_factory=list)

    def shards_of(self, split: str) -> list[Shard]:
        """The shards of one split, in order."""
        return [shard for shard in self.shards if shard.split == split]


def article_of(document_id: str) -> str:
    """The id of the article that a document is a text of."""
    return document_id.partition("#")[0]


def is_held_out(article: str, fraction: float) -> bool:
    """Whether an article belongs to the held-out part: a pure function of its id.

    Pretraining's held-out text and the test articles of tasks made from the same documents are
    chosen by this one rule, so that no model is pretrained on the text that it is tested on.
    """
    return hash_fraction(f"held-out {article}") < fraction


def hash_fraction(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, whatever the machine or the run."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


# --- Manifests ---------------------------------------------------------------------------------


def read_manifest(folder: str | os.PathLike, kind: str) -> Manifest:
    """Reads the manifest of a folder of data, after checking that its files are all there.

    Args:
      folder: the folder that a stage wrote.
      kind: what must be in it: "documents", "examples" or "sentence_roles".

    Raises:
      DataError: no such folder, no manifest, another kind, a file missing or of another size.
    """
    folder = storage.at(folder)
    remedy = f"make it with `{COMMANDS[kind]}`"
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder} with {kind}: {remedy}.")
    if not (folder / MANIFEST).is_file():
        raise DataError(
            f"{folder} has no {MANIFEST}, so it holds no finished {kind}: {remedy}, "
            "or run the command that was interrupted again."
        )
    manifest = load_manifest(folder / MANIFEST, kind)
    verify(folder, manifest)
    return manifest


def load_manifest(path: str | os.PathLike, kind: str) -> Manifest:
    """Reads one manifest file without looking at the files that it names.

    Raises:
      DataError: it cannot be read, or is of another kind.
    """
    try:
        content = json.loads(storage.at(path).read_text(encoding="utf-8"))
        shards = [Shard(**shard) for shard in content.pop("shards")]
        manifest = Manifest(**content, shards=shards)
        for value in (manifest, *shards):
            _check_types(value)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        raise DataError(
            f"{path} is not a manifest that this version can read: {storage.reason(error)}."
        ) from error
    if manifest.kind != kind:
        raise DataError(
            f"{path} describes {manifest.kind}, but {kind} were expected: give the folder that "
            f"`{COMMANDS[kind]}` wrote."
        )
    return manifest


def _check_types(value: Manifest | Shard) -> None:
    """Raises a ValueError if a field is of another type than it is declared as."""
    for name, kind in typing.get_type_hints(type(value)).items():
        kind = typing.get_origin(kind) or kind
        if type(getattr(value, name)) is not kind:
            raise ValueError(f"{name} is {getattr(value, name)!r:.60}, not {kind.__name__}")


def write_manifest(path: str | os.PathLike, manifest: Manifest) -> None:
    """Writes a manifest, whole or not at all."""
    write_text(path, json.dumps(dataclasses.asdict(manifest), indent=1, sort_keys=True) + "\n")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file (UTF-8, no translation of line ends), whole or not at all."""
    with storage.written_whole(path) as stream:
        stream.write(text.encode())


def verify(folder: str | os.PathLike, manifest: Manifest, full: bool = False) -> None:
    """Checks that every shard is there with its size, and with `full` also its SHA-256.

    Raises:
      DataError: names the first shard that is missing or damaged.
    """
    remedy = f"make it again with `{COMMANDS[manifest.kind]} --overwrite`"

    def check(shard: Shard) -> None:
        path = storage.at(folder, shard.file)
        if not path.is_file():
            raise DataError(f"{path} is missing, although the manifest names it: {remedy}.")
        size = path.stat().st_size
        if size != shard.bytes:
            raise DataError(f"{path} has {size} bytes instead of {shard.bytes}: {remedy}.")
        # Examples of the original ELECTRA code come without hashes.
        if full and shard.sha256 and sha256_of(path) != shard.sha256:
            raise DataError(f"{path} is damaged (its SHA-256 differs): {remedy}.")

    # Threads: hashing leaves the interpreter's lock, and a remote file system answers late.
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(check, manifest.shards):
            pass


def sha256_of(path: str | os.PathLike) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with storage.at(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# --- Shards ------------------------------------------------------------------------------------


def shard_name(prefix: str, index: int, count: int) -> str:
    """The usual name of a shard: `train-00003-of-00016.tfrecord`."""
    return f"{prefix}-{index:05d}-of-{count:05d}.tfrecord"


def write_shard(path: str | os.PathLike, records: Iterable[bytes], split: str = "") -> Shard:
    """Writes records to a TFRecord file, which appears under its name only when complete."""
    digest, size, count = hashlib.sha256(), 0, 0
    with storage.written_whole(path) as stream:
        for batch in _batched(records, 64):
            framed = b"".join(
                part
                for record in batch
                for part in (_header(len(record)), record, _masked_crc(record))
            )
            stream.write(framed)
            digest.update(framed)
            size += len(framed)
            count += len(batch)
    return Shard(storage.at(path).name, count, size, digest.hexdigest(), split)


def read_shard(folder: str | os.PathLike, shard: Shard) -> Iterator[bytes]:
    """Yields the records of a shard.

    Raises:
      DataError: a record is damaged, or the file ends before all records were read.
    """
    path = storage.at(folder, shard.file)
    count = 0
    try:
        left = storage.size(path)
        with path.open("rb") as stream:
            while header := stream.read(12):
                size = int.from_bytes(header[:8], "little")
                left -= 12 + size + 4
                if header != _header(size) or left < 0:  # before memory is taken for it
                    raise DataError(f"{path} is damaged or cut short at record {count}.")
                record, crc = stream.read(size), stream.read(4)
                if len(record) != size or _masked_crc(record) != crc:
                    raise DataError(f"{path} is damaged or cut short at record {count}.")
                count += 1
                yield record
    except OSError as error:
        raise DataError(f"{path} cannot be read: {storage.reason(error)}.") from error
    if count != shard.records:
        raise DataError(f"{path} holds {count} records instead of {shard.records}.")


def read_documents(
    folder: str | os.PathLike, shards: Iterable[Shard] | None = None
) -> Iterator[Document]:
    """Yields the documents of a folder, or of some of its shards.

    Raises:
      DataError: as `read_manifest` and `read_shard`.
    """
    for shard in read_manifest(folder, "documents").shards if shards is None else shards:
        for number, record in enumerate(read_shard(folder, shard)):
            try:
                yield Document.parse(record)
            except DataError as error:
                path = storage.at(folder, shard.file)
                remedy = f"make it again with `{COMMANDS['documents']}`"
                raise DataError(f"{path}, record {number}: {error}: {remedy}.") from error


def _batched(records: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    records = iter(records)
    while batch := list(itertools.islice(records, size)):
        yield batch


@functools.lru_cache(maxsize=1 << 12)
def _header(length: int) -> bytes:
    """What precedes a record of so many bytes."""
    packed = struct.pack("<Q", length)
    return packed + _masked_crc(packed)


def _masked_crc(data: bytes) -> bytes:
    """The checksum of the TFRecord format (tensorflow/core/lib/io/record_writer.h)."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


# --- tf.train.Example --------------------------------------------------------------------------


def serialize_example(features: Mapping[str, list[bytes] | list[int]]) -> bytes:
    """A serialized `tf.train.Example`; the same features always give the same bytes.

    Args:
      features: for each name a list of bytes, or of integers (any iterable of them).
    """
    example = _example_class()()
    for name, values in features.items():
        values = list(values)
        feature = example.features.feature[name]
        is_bytes = bool(values) and isinstance(values[0], bytes)
        kind = feature.bytes_list if is_bytes or not values else feature.int64_list
        kind.value.extend(values)
        kind.SetInParent()
    return example.SerializeToString(deterministic=True)


def parse_example(record: bytes) -> dict[str, list]:
    """The features of a serialized `tf.train.Example`, as lists.

    Raises:
      DataError: the record is not a `tf.train.Example`.
    """
    from google.protobuf.message import DecodeError

    try:
        example = _example_class().FromString(record)
    except DecodeError as error:
        raise DataError(f"a record is not a tf.train.Example: {error}.") from error
    features = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        features[name] = list(getattr(feature, kind).value) if kind else []
    return features


@functools.cache
def _example_class() -> type:
    """The message class of `tf.train.Example` (tensorflow/core/example/example.proto).

    It is built in a pool of its own, so that it does not meet TensorFlow's where both are loaded.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    field_type = descriptor_pb2.FieldDescriptorProto

    def message(parent, name: str):
        added = parent.add()
        added.name = name
        return added

    def field(parent, name: str, number: int, type_: int, repeated=False, type_name=None):
        label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
        parent.field.add(
            name=name, number=number, type=type_, label=label, type_name=type_name or None
        )

    for name, type_ in (
        ("BytesList", field_type.TYPE_BYTES),
        ("FloatList", field_type.TYPE_FLOAT),
        ("Int64List", field_type.TYPE_INT64),
    ):
        field(message(file.message_type, name), "value", 1, type_, repeated=True)

    feature = message(file.message_type, "Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), 1):
        type_name = ".t." + name.title().replace("_", "")
        field(feature, name, number, field_type.TYPE_MESSAGE, type_name=type_name)
        feature.field[-1].oneof_index = 0

    features = message(file.message_type, "Features")
    entry = message(features.nested_type, "FeatureEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, field_type.TYPE_STRING)
    field(entry, "value", 2, field_type.TYPE_MESSAGE, type_name=".t.Feature")
    field(features, "feature", 1, field_type.TYPE_MESSAGE, True, ".t.Features.FeatureEntry")

    example = message(file.message_type, "Example")
    field(example, "features", 1, field_type.TYPE_MESSAGE, type_name=".t.Features")

    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def bytes_features(record: bytes, names: Iterable[str]) -> list[list[bytes]]:
    """Some bytes features of a serialized `tf.train.Example`, in a quarter of the time of all."""
    features = _example_class().FromString(record).features.feature
    return [list(features[name].bytes_list.value) for name in names]


# --- Pretraining examples ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ExampleFormat:
    """How pretraining examples stand in their records; all of one folder have the same size.

    A record is a `tf.train.Example`. All numbers are little-endian:

      input_ids: bytes; uint16, or int32 where the vocabulary has more than 65,536 tokens; as many
        as the sequence is long, [PAD] after the last token.
      segment_lengths: bytes, uint16; the length of the first and of the second segment of each
        document in the example, with their special tokens; zeros after the last.
      label: int64, only where the objective has one.

    Attributes:
      sequence_length: tokens in an example.
      vocab_size: number of ids.
      documents: how many documents an example may hold that are kept apart.
      labelled: whether there is a label.
    """

    sequence_length: int
    vocab_size: int
    documents: int
    labelled: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ExampleFormat:
        """The format of a folder of examples, from the settings in its manifest."""
        return cls(
            sequence_length=settings["sequence_length"],
            vocab_size=settings["vocab_size"],
            documents=settings["documents_per_example"],
            labelled=settings["objective"] in LABELLED_OBJECTIVES,
        )

    @property
    def id_type(self) -> str:
        """The NumPy type of the ids."""
        return "<u2" if self.vocab_size <= 1 << 16 else "<i4"

    @property
    def row_type(self) -> np.dtype:
        """An example as a NumPy record, with its features in the order of their names."""
        import numpy as np

        fields = [("input_ids", self.id_type, (self.sequence_length,))]
        if self.labelled:
            fields.append(("label", "u1"))
        return np.dtype([*fields, ("segment_lengths", "<u2", (2 * self.documents,))])

    def serialize(self, rows: np.ndarray) -> Iterator[bytes]:
        """Yields the record of each row: rows of `row_type` -> `tf.train.Example`s.

        The features' sizes never change, so all records are one template with other numbers in
        the same places.
        """
        import numpy as np

        zeros, ones = (
            np.frombuffer(serialize_example(self._features(byte)), np.uint8) for byte in (0, 1)
        )
        places = np.flatnonzero(zeros != ones)
        for start in range(0, len(rows), 4096):
            block = rows[start : start + 4096]
            records = np.tile(zeros, (len(block), 1))
            records[:, places] = block.view(np.uint8).reshape(len(block), -1)
            size, data = records.shape[1], records.tobytes()
            for at in range(0, len(data), size):
                yield data[at : at + size]

    def _features(self, byte: int) -> dict[str, list]:
        """Features of which every byte is the same, and so is the label."""
        features = {}
        for name in self.row_type.names:
            size = self.row_type[name].itemsize
            features[name] = [byte] if name == "label" else [bytes([byte]) * size]
        return features
