"""Shards, the records in them, and the manifests that vouch for them."""

import dataclasses
import json
import struct
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import damage, grammars, harness
from tfbio.base.document_records import Document, read_documents
from tfbio.base.example_records import LABELLED_OBJECTIVES, ExampleFormat
from tfbio.base.manifests import Manifest, read_manifest, verify
from tfbio.base.shards import write_shard
from tfbio.base.tf_example import serialize_example

DOCUMENTS = [
    Document(f"pmid:{n}", "x.xml", "A title", ["One.", "Two."] * n, ["METHODS", ""] * n)
    for n in range(1, 4)
]


def _folder():
    """A shard and its manifest, as the documents stage writes them."""
    with tempfile.TemporaryDirectory() as folder:
        shard = write_shard(f"{folder}/a.tfrecord", (d.serialize() for d in DOCUMENTS))
        with open(f"{folder}/a.tfrecord", "rb") as stream:
            data = stream.read()
    counts = {"documents": 3, "left_out": {"too_short": 1}}
    manifest = Manifest("documents", {"full_text": True}, counts, [shard])
    return dataclasses.asdict(manifest), data


MANIFEST, SHARD = _folder()


def _record(data, length=None, crc=b""):
    """A record as a TFRecord file has it, with another length or checksum if wanted."""
    length = struct.pack("<Q", len(data) if length is None else length)
    # The checksums of the format are in `records`.
    with tempfile.TemporaryDirectory() as folder:
        write_shard(f"{folder}/x", [length])
        with open(f"{folder}/x", "rb") as stream:
            masked = stream.read()[-4:]
        write_shard(f"{folder}/x", [data])
        with open(f"{folder}/x", "rb") as stream:
            of_data = stream.read()[-4:]
    return length + masked + data + (crc or of_data)


def reads(folder):
    """All documents are read, or the folder is refused."""
    result = list(read_documents(folder))
    manifest = read_manifest(folder, "documents")
    assert len(result) == sum(shard.records for shard in manifest.shards)
    for document in result:
        assert isinstance(document.id, str) and isinstance(document.title, str)
        assert all(isinstance(x, str) for x in (*document.sentences, *document.sections))
    verify(folder, manifest, full=True)
    return result


def _with_sizes(data, count=3):
    shard = MANIFEST["shards"][0] | {"bytes": len(data), "records": count, "sha256": ""}
    return {
        "manifest.json": json.dumps(MANIFEST | {"shards": [shard]}).encode(),
        "a.tfrecord": data,
    }


@given(grammars.json_files(MANIFEST))
def test_mutated_manifests(data):
    harness.judge(reads, {"manifest.json": data, "a.tfrecord": SHARD})


@given(damage.damaged(st.just(json.dumps(MANIFEST).encode())))
def test_damaged_manifests(data):
    harness.judge(reads, {"manifest.json": data, "a.tfrecord": SHARD})


@given(damage.damaged(st.just(SHARD)))
def test_damaged_shards(data):
    harness.judge(reads, {"manifest.json": json.dumps(MANIFEST).encode(), "a.tfrecord": data})
    harness.judge(reads, _with_sizes(data))


MESSAGES = st.one_of(
    st.binary(max_size=60),
    damage.damaged(st.just(DOCUMENTS[0].serialize())),
    st.dictionaries(
        st.sampled_from(["id", "source", "title", "sentences", "sections", "x"]),
        st.one_of(
            st.lists(st.binary(max_size=4), max_size=3),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        ),
    ).map(serialize_example),
)


@given(
    st.lists(MESSAGES, min_size=1, max_size=3),
    st.sampled_from([None, None, 0, 3, 2**20, 2**62, 2**63]),
)
def test_records_of_other_kinds(messages, length):
    data = b"".join(_record(message) for message in messages[:-1]) + _record(messages[-1], length)
    harness.judge(reads, _with_sizes(data, len(messages)))


def keeps_rows(folder):
    """Examples of a format are records with the same bytes in the same places."""
    settings = json.loads((folder / "settings.json").read_text())
    form = ExampleFormat.of(settings)
    rows = np.frombuffer((folder / "rows").read_bytes(), form.row_type)
    result = list(form.serialize(rows))
    assert len(result) == len(rows)
    for record, row in zip(result, rows, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        assert features.keys() == set(row.dtype.names)
        for name in row.dtype.names:
            if name != "label":
                assert features[name].bytes_list.value[0] == row[name].tobytes()
            else:
                assert features[name].int64_list.value[0] == row[name]


@given(
    st.integers(1, 40),
    st.sampled_from([100, 70_000]),
    st.integers(1, 3),
    st.sampled_from(["electra", "mlm", *LABELLED_OBJECTIVES]),
    st.data(),
)
@harness.few
def test_rows(length, words, documents, objective, data):
    settings = {"sequence_length": length, "vocab_size": words, "objective": objective}
    settings["documents_per_example"] = documents
    kind = ExampleFormat.of(settings).row_type
    drawn = data.draw(st.binary(min_size=kind.itemsize, max_size=kind.itemsize))
    rows = np.frombuffer(drawn * data.draw(st.integers(0, 3)), kind).copy()
    if "label" in kind.names:
        rows["label"] %= 2
    files = {"settings.json": json.dumps(settings).encode(), "rows": rows.tobytes()}
    harness.judge(keeps_rows, files)


@pytest.mark.parametrize("name", ["manifest.json", "other/manifest.json", "a.tfrecord"])
def test_missing_files(name):
    harness.judge(reads_inner, {f"inner/{name}": json.dumps(MANIFEST).encode()})
    harness.judge(reads_inner, {f"other/{name}": SHARD})


def reads_inner(folder):
    """As `reads`, of a folder that may not be there."""
    return reads(folder / "inner")


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
