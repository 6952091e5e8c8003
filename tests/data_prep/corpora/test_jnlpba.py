"""JNLPBA: BLURB's test set byte for byte, and lines made up to be wrong."""

import gzip

import pytest

from data_prep.corpora import abstract_mentions, corpus_splits, jnlpba, released_files
from tests import reference

TRAIN = "###MEDLINE:1\n\nIL-2\tB-DNA\ngene\tI-DNA\n.\tO\n\n###MEDLINE:91075236\n\nA\tO\n\n"


def release(folder, train=TRAIN, test="###MEDLINE:3\n\nIt\tO\n\n"):
    (folder / "Genia4ERtask2.iob2").write_text(train)
    (folder / "Genia4EReval2.iob2").write_text(test)


def test_the_published_test_set_byte_for_byte(tmp_path):
    released = reference.corpus("jnlpba/original/Genia4EReval2.iob2").read_text()
    release(tmp_path, test=released)
    corpus_splits.write(tmp_path / "out", jnlpba.read_examples(tmp_path), False)
    published = reference.corpus("jnlpba/blurb/test.tsv.gz").read_bytes()
    assert (tmp_path / "out" / "test.tsv").read_bytes() == gzip.decompress(published)


def test_types_are_dropped_and_the_listed_abstracts_are_for_development(tmp_path):
    release(tmp_path)
    assert jnlpba.read_examples(tmp_path) == {
        "train": [
            ("-DOCSTART- 1",),
            ("",),
            ("IL-2", "B"),
            ("gene", "I"),
            (".", "O"),
            ("",),
        ],
        "dev": [("-DOCSTART- 91075236",), ("",), ("A", "O"), ("",)],
        "test": [("-DOCSTART- 3",), ("",), ("It", "O"), ("",)],
    }


def test_the_list_is_that_of_blurbs_development_set():
    with gzip.open(reference.corpus("jnlpba/blurb/dev.tsv.gz"), "rt") as stream:
        published = [line.split()[1] for line in stream if line.startswith("-DOCSTART-")]
    assert corpus_splits.read_index(abstract_mentions.LISTS, "jnlpba_dev.txt") == published


@pytest.mark.parametrize(
    "train, message",
    [
        ("IL-2\tB-DNA\n", r"task2\.iob2, line 1: expected ###MEDLINE:NUMBER"),
        ("###MEDLINE:1\nIL-2\tX\n", "line 2: expected"),
        ("###MEDLINE:1\nIL-2\n", "line 2: expected"),
    ],
)
def test_what_does_not_fit_is_named(train, message, tmp_path):
    release(tmp_path, train)
    with pytest.raises(released_files.CorpusError, match=message):
        jnlpba.read_examples(tmp_path)
    (tmp_path / "Genia4EReval2.iob2").unlink()
    with pytest.raises(released_files.CorpusError, match=r"lacks Genia4EReval2\.iob2"):
        jnlpba.read_examples(tmp_path)
