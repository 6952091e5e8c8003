"""Units of texts, of inputs made by hand."""

import bz2
import errno
import os

import pytest

from data_prep.readers import text_lines
from data_prep.selection import articles, input_units, texts
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base import errors
from tfbio.base.document_records import Document


def test_70_000_other_abstracts_of_one_article(tmp_path):
    other = "<OtherAbstract><AbstractText>a</AbstractText></OtherAbstract>" * 70_000
    source = article_set(
        tmp_path / "a.xml",
        article(1, "one").replace("</MedlineCitation>", f"{other}</MedlineCitation>"),
    )
    selection = articles.Selection(other_abstracts="all")
    reader = input_units.Reader(str(tmp_path), selection, "", unit_characters=10**6, max_articles=0)
    (candidate,) = articles.read(source, selection, None)
    ((row, texts, _),) = input_units._units([("a.xml", candidate)], reader)
    assert row["texts"] == len(texts) == 70_001


def test_texts_that_are_left_out_do_not_move_the_end_of_a_unit(tmp_path):
    """They are counted apart, and fill a unit alone."""

    def sizes(*reasons):
        items = [
            ("a.xml", articles.Candidate("citation", f"pmid:{n}", n, 1, 0, reason, (document,)))
            for n, reason in enumerate(reasons, start=1)
        ]
        return [len(rows) for rows, *_ in input_units._units(items, reader)]

    document = Document("pmid:1", "a.xml", "", ["x" * 10], [""])
    reader = input_units.Reader(str(tmp_path), articles.Selection(), "", 20, max_articles=0)
    assert sizes("", "", "", "") == [2, 2]
    assert sizes("retracted", "", "", "", "") == [3, 2]
    assert sizes(*["retracted"] * 5) == [2, 2, 1]


@pytest.mark.parametrize("files", [1, 2])
def test_an_input_that_cannot_be_read_now_gets_no_note(tmp_path, monkeypatch, files):
    paths = [article_set(tmp_path / f"{n}.xml", article(n + 1, "one")) for n in range(files)]

    def fail(*_):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    work = tmp_path / "work"
    work.mkdir()
    reader = input_units.Reader(str(work), articles.Selection(), "", 100, max_articles=0)
    job = (0, [os.fsencode(path) for path in paths])
    with monkeypatch.context() as patched:
        patched.setattr(articles.pubmed, "read_citations", fail)
        with pytest.raises(errors.DataError, match=r"0\.xml cannot be read now \(Connection timed"):
            list(input_units.read_input(job, reader, 1))
    assert not list(work.iterdir())
    assert len(list(input_units.read_input(job, reader, 1))) == 1


class HttpError(Exception):
    """Stands for the errors of gcsfs and aiohttp, which are no OSErrors."""

    __module__ = "gcsfs.retry"


@pytest.mark.parametrize("error", [HttpError("503:\nbusy"), OSError("Forbidden: a.xml\nquota")])
def test_an_object_store_that_fails_is_named_in_one_line(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(texts, "read", fail)
    reader = input_units.Reader(str(tmp_path), articles.Selection(), "", 100, max_articles=0)
    with pytest.raises(errors.DataError) as raised:
        list(input_units.read_input((0, [b"memory://bucket/a.xml"]), reader, 1))
    why = str(error).replace("\n", " ")
    assert f"memory://bucket/a.xml cannot be read now ({why}): run" in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_mistake_in_tfbio_is_not_taken_for_an_object_store_that_fails(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr(texts, "read", fail)
    reader = input_units.Reader(str(tmp_path), articles.Selection(), "", 100, max_articles=0)
    with pytest.raises(KeyError):
        list(input_units.read_input((0, [b"memory://bucket/a.xml"]), reader, 1))


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "a disk"), TimeoutError(), OSError("Forbidden: b/a.txt\nquota")]
)
def test_bzip2_that_cannot_be_read_now_is_not_damaged(tmp_path, monkeypatch, error):
    path = tmp_path / "a.txt"
    path.write_bytes(bz2.compress(b"Cells grow.\n"))

    def fail(*_):
        raise error

    for name in ("read", "readline"):
        with monkeypatch.context() as patched, pytest.raises(OSError) as raised:
            patched.setattr(text_lines._Bz2File, name, fail)
            list(texts.read(str(path), articles.Selection(), None))
        assert raised.value is error


def test_a_reader_of_another_version_of_tfbio_is_refused(tmp_path):
    path = article_set(tmp_path / "a.xml", article(1, "one"))
    reader = input_units.Reader(str(tmp_path), articles.Selection(), "", 100, 0, "0.0.9")
    with pytest.raises(errors.DataError, match=r"has tfbio \d.*, and .* tfbio 0\.0\.9: install"):
        list(input_units.read_input((0, [os.fsencode(path)]), reader, 1))
