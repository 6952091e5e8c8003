import dataclasses
import struct
import subprocess
import sys

import pytest

from tfbio.base.document_records import Document, is_held_out, read_documents
from tfbio.base.example_codec import parse_example, serialize_example
from tfbio.base.manifests import (
    MANIFEST,
    Manifest,
    load_manifest,
    read_manifest,
    verify,
    write_manifest,
)
from tfbio.base.shards import DataError, read_shard, write_shard

DOCUMENT = Document(
    "pmid:1", "a.xml.gz", "On p\u2080 \U0001f9ec", ["It is.", "Is it?"], ["", "METHODS"]
)
EXAMPLE = {"input_ids": [2, 30521, 3, 0], "input_mask": [1, 1, 1, 0], "segment_ids": [0] * 4}


def folder_of(path, content=(b"one", b"two", b"three")):
    """A finished folder of "documents" with two shards."""
    path.mkdir(exist_ok=True)
    shards = [
        write_shard(path / "documents-00000-of-00002.tfrecord", content, "train"),
        write_shard(path / "documents-00001-of-00002.tfrecord", [], "heldout"),
    ]
    manifest = Manifest("documents", {"a": 1}, {"documents": 3}, shards)
    write_manifest(path / MANIFEST, manifest)
    return manifest


def test_what_is_written_is_read(tmp_path):
    assert Document.parse(DOCUMENT.serialize()) == DOCUMENT
    empty = dataclasses.replace(DOCUMENT, title="", sentences=[], sections=[])
    assert Document.parse(empty.serialize()) == empty
    assert parse_example(serialize_example(EXAMPLE)) == EXAMPLE

    manifest = folder_of(tmp_path / "d")
    assert read_manifest(tmp_path / "d", "documents") == manifest
    verify(tmp_path / "d", manifest, full=True)
    (train,) = manifest.shards_of("train")
    assert list(read_shard(tmp_path / "d", train)) == [b"one", b"two", b"three"]
    assert not list(tmp_path.glob("**/*.tmp"))


def test_bytes_are_those_that_tensorflow_writes_and_reads(tmp_path):
    import tensorflow as tf

    serialized = [DOCUMENT.serialize(), serialize_example(EXAMPLE)]
    shard = write_shard(tmp_path / "ours", serialized)
    theirs = str(tmp_path / "theirs")
    with tf.io.TFRecordWriter(theirs) as writer:
        for record in serialized:
            writer.write(record)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()

    read = [x.numpy() for x in tf.data.TFRecordDataset(str(tmp_path / "ours"))]
    assert read == serialized == list(read_shard(tmp_path, shard))
    example = tf.train.Example.FromString(read[0])
    assert example.SerializeToString(deterministic=True) == read[0]
    assert example.features.feature["sentences"].bytes_list.value == [b"It is.", b"Is it?"]
    spec = {name: tf.io.FixedLenFeature([4], tf.int64) for name in EXAMPLE}
    parsed = tf.io.parse_single_example(read[1], spec)
    assert {name: list(value.numpy()) for name, value in parsed.items()} == EXAMPLE


def test_neither_tensorflow_nor_beam_is_imported():
    code = (
        "import sys, tfbio.base.document_records as r; r.Document('', '', '', [], []).serialize();"
        + ("print({'tensorflow', 'apache_beam'} & sys.modules.keys())")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_data_that_is_not_whole_is_refused(tmp_path):
    def refuses(expected, folder=tmp_path / "d", kind="documents", full=False):
        with pytest.raises(DataError, match=expected) as caught:
            manifest = read_manifest(folder, kind)
            verify(folder, manifest, full)
            for shard in manifest.shards:
                list(read_shard(folder, shard))
        assert "\n" not in str(caught.value)

    folder = tmp_path / "d"
    refuses("there is no folder .*data_prep.documents")
    folder.mkdir()
    refuses("no manifest.json.*data_prep.documents")
    (folder / "manifest.json").write_text('{"kind": "documents"')
    refuses("not a manifest")
    (folder / "manifest.json").write_text("[]")
    refuses("not a manifest")
    folder_of(folder)
    refuses("describes documents, but examples were expected", kind="examples")

    path = folder / "documents-00000-of-00002.tfrecord"
    whole = path.read_bytes()
    for size in range(len(whole)):  # cut anywhere, between records too
        path.write_bytes(whole[:size])
        refuses(f"{size} bytes instead of {len(whole)}")
    path.write_bytes(whole[:-8] + b"x" * 8)
    refuses("damaged or cut short at record 2")
    refuses("damaged", full=True)
    path.unlink()
    refuses("is missing, although the manifest names it")


def test_reading_a_shard_never_ends_early_in_silence(tmp_path):
    manifest = folder_of(tmp_path / "d")
    path = tmp_path / "d" / manifest.shards[0].file
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            list(read_shard(tmp_path / "d", manifest.shards[0]))
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DataError):
            list(read_shard(tmp_path / "d", manifest.shards[0]))


@pytest.mark.parametrize("features", [{}, {"id": [1]}, {"id": [b"\xff"]}, {"id": [b"pmid:1"]}])
def test_a_record_that_is_no_document_is_named(features, tmp_path):
    data = [serialize_example(features)]
    shard = write_shard(tmp_path / "a.tfrecord", data)
    with pytest.raises(DataError, match=r"a\.tfrecord, record 0: .* make it again"):
        list(read_documents(tmp_path, [shard]))


def test_a_record_longer_than_its_file_takes_no_memory(tmp_path):
    shard = write_shard(tmp_path / "a", [struct.pack("<Q", 1 << 50)])
    record = (tmp_path / "a").read_bytes()
    # The length and its checksum are those of the record, with which a file now begins.
    (tmp_path / "a").write_bytes(record[12:] + record)
    with pytest.raises(DataError, match="damaged or cut short at record 0"):
        list(read_shard(tmp_path, shard))


SHARD = '{"file": %s, "records": 1, "bytes": 1, "sha256": ""}'
WHOLE = '{"kind": "documents", "settings": %s, "counts": {}, "shards": [%s]}'


@pytest.mark.parametrize("text", ["[" * 100_000, WHOLE % ("{}", SHARD % "NaN"), WHOLE % ("[]", "")])
def test_a_manifest_of_another_form_is_refused(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="is not a manifest"):
        load_manifest(tmp_path / "manifest.json", "documents")


def test_what_fails_while_being_written_leaves_nothing(tmp_path):
    def broken():
        yield b"one"
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        write_shard(tmp_path / "shard", broken())
    assert not list(tmp_path.iterdir())


def test_the_held_out_part_is_a_fixed_share():
    ids = [f"pmid:{n}" for n in range(20_000)]
    held_out = {i for i in ids if is_held_out(i, 0.05)}
    assert 0.045 < len(held_out) / len(ids) < 0.055
    assert held_out < {i for i in ids if is_held_out(i, 0.1)}
    assert not any(is_held_out(i, 0.0) for i in ids)
    # Recorded: a change would let models be tested on text that they were pretrained on.
    assert sorted(held_out)[:3] == ["pmid:10018", "pmid:10044", "pmid:10049"]
