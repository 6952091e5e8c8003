"""Shards, the records in them, and the manifests that vouch for them."""

import dataclasses
import json
import struct
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import damage, grammars, harness
from tfbio import records

DOCUMENTS = [
    records.Document(f"pmid:{n}", "x.xml", "A title", ["One.", "Two."] * n, ["METHODS", ""] * n)
    for n in range(1, 4)
]


def _folder():
    """A shard and its manifest, as the documents stage writes them."""
    with tempfile.TemporaryDirectory() as folder:
        shard = records.write_shard(f"{folder}/a.tfrecord", (d.serialize() for d in DOCUMENTS))
        with open(f"{folder}/a.tfrecord", "rb") as stream:
            data = stream.read()
    counts = {"documents": 3, "left_out": {"too_short": 1}}
    manifest = records.Manifest("documents", {"full_text": True}, counts, [shard])
    return dataclasses.asdict(manifest), data


MANIFEST, SHARD = _folder()


def _record(data, length=None, crc=b""):
    """A record as a TFRecord file has it, with another length or checksum if wanted."""
    length = struct.pack("<Q", len(data) if length is None else length)
    # The checksums of the format are in `records`.
    with tempfile.TemporaryDirectory() as folder:
        records.write_shard(f"{folder}/x", [length])
        with open(f"{folder}/x", "rb") as stream:
            masked = stream.read()[-4:]
        records.write_shard(f"{folder}/x", [data])
        with open(f"{folder}/x", "rb") as stream:
            of_data = stream.read()[-4:]
    return length + masked + data + (crc or of_data)


def reads(folder):
    """All documents are read, or the folder is refused."""
    found = list(records.read_documents(folder))
    manifest = records.read_manifest(folder, "documents")
    assert len(found) == sum(shard.records for shard in manifest.shards)
    for document in found:
        assert isinstance(document.id, str) and isinstance(document.title, str)
        assert all(isinstance(x, str) for x in (*document.sentences, *document.sections))
    records.verify(folder, manifest, full=True)
    return found


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
    ).map(records.serialize_example),
)


@given(
    st.lists(MESSAGES, min_size=1, max_size=3),
    st.sampled_from([None, None, 0, 3, 2**20, 2**62, 2**63]),
)
def test_records_of_other_kinds(messages, length):
    data = b"".join(_record(message) for message in messages[:-1]) + _record(messages[-1], length)
    harness.judge(reads, _with_sizes(data, len(messages)))


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
