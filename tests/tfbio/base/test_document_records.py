"""Documents in shards."""

import dataclasses
import subprocess
import sys

import pytest

from tests.data_folders import DOCUMENT
from tfbio.base.document_records import Document, read_documents
from tfbio.base.errors import DataError
from tfbio.base.shards import write_shard
from tfbio.base.tf_example import serialize_example


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
