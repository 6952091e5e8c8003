"""Documents in shards, and the articles that are held out."""

import dataclasses
import subprocess
import sys

import pytest

from tests.data_folders import DOCUMENT
from tfbio.base.document_records import Document, is_held_out, read_documents
from tfbio.base.example_codec import serialize_example
from tfbio.base.shards import DataError, write_shard


def test_a_document_is_read_as_it_was_written():
    assert Document.parse(DOCUMENT.serialize()) == DOCUMENT
    empty = dataclasses.replace(DOCUMENT, title="", sentences=[], sections=[])
    assert Document.parse(empty.serialize()) == empty


def test_neither_tensorflow_nor_beam_is_imported():
    code = (
        "import sys, tfbio.base.document_records as r; r.Document('', '', '', [], []).serialize();"
        + ("print({'tensorflow', 'apache_beam'} & sys.modules.keys())")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("features", [{}, {"id": [1]}, {"id": [b"\xff"]}, {"id": [b"pmid:1"]}])
def test_a_record_that_is_no_document_is_named(features, tmp_path):
    data = [serialize_example(features)]
    shard = write_shard(tmp_path / "a.tfrecord", data)
    with pytest.raises(DataError, match=r"a\.tfrecord, record 0: .* make it again"):
        list(read_documents(tmp_path, [shard]))


def test_the_held_out_part_is_a_fixed_share():
    ids = [f"pmid:{n}" for n in range(20_000)]
    held_out = {i for i in ids if is_held_out(i, 0.05)}
    assert 0.045 < len(held_out) / len(ids) < 0.055
    assert held_out < {i for i in ids if is_held_out(i, 0.1)}
    assert not any(is_held_out(i, 0.0) for i in ids)
    # Recorded: a change would let models be tested on text that they were pretrained on.
    assert sorted(held_out)[:3] == ["pmid:10018", "pmid:10044", "pmid:10049"]
