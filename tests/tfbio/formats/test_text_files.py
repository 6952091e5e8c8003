"""Text files that cannot be read, or are no text."""

import gzip
import re

import pytest
import upath

from tfbio.formats import tagged_words
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.formats.text_files import read_text


def test_a_file_that_cannot_be_read_is_named(write, tmp_path):
    damaged = write(gzip.compress(b"a\tO\n" * 1000)[:-20], "train.tsv.gz")
    for path in (str(tmp_path / "absent.tsv"), str(tmp_path), damaged):
        with pytest.raises(TaskFileError, match=re.escape(path) + " cannot be read"):
            tagged_words.read(path)


def test_what_unpacks_to_far_more_than_text_does_is_refused(write):
    path = write(gzip.compress(bytes(10_000_000)) * 30, "train.tsv.gz")
    with pytest.raises(TaskFileError, match="compressed too far to be text"):
        read_text(path)


def test_a_small_file_may_shrink_as_far_as_it_will(write):
    """A file of tags O, for example."""
    data = b"a\tO\n" * 200_000
    packed = gzip.compress(data)
    assert len(data) > 200 * len(packed)
    assert read_text(write(packed, "train.tsv.gz")) == data.decode()


def test_a_text_may_lie_in_an_object_store():
    upath.UPath("memory://texts/a.txt").write_bytes("BRCA1 µ".encode())
    assert read_text("memory://texts/a.txt") == "BRCA1 µ"
    with pytest.raises(TaskFileError, match="memory://texts/b.txt"):
        read_text("memory://texts/b.txt")
