import bz2
import gzip
from pathlib import Path

import pytest

from data_prep.readers import text_lines
from tfbio.formats.safe_xml import BadFile

TEXT = "Ünë\ntwo\n".encode()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_files_are_opened_by_their_content(tmp_path, pack):
    path = tmp_path / "a"
    path.write_bytes(pack(b"\xef\xbb\xbf" + TEXT))
    with text_lines.open_file(path) as stream:
        assert list(text_lines.LimitedLines(stream, "a text")) == [b"\xc3\x9cn\xc3\xab\n", b"two\n"]
    assert text_lines.head(path) == TEXT


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_files_are_closed(tmp_path, monkeypatch, pack):
    """Also the one that the stream reads, of which an object store may have a connection."""
    (tmp_path / "a").write_bytes(pack(TEXT))
    opened, open_path = [], Path.open

    def opens(*args):
        opened.append(open_path(*args))
        return opened[-1]

    monkeypatch.setattr(Path, "open", opens)
    with text_lines.open_file(tmp_path / "a") as stream:
        assert stream.read() == TEXT and not opened[-1].closed
    assert all(file.closed for file in opened)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_data_that_is_cut_is_refused(tmp_path, pack):
    path = tmp_path / "a"
    path.write_bytes(pack(TEXT)[:-9])
    with (
        pytest.raises(BadFile, match=r"data is damaged or cut short \("),
        text_lines.open_file(path) as stream,
    ):
        list(text_lines.LimitedLines(stream, "a text"))


def test_a_document_of_any_length_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "MAX_DOCUMENT_BYTES", 20)
    (tmp_path / "a").write_bytes(b"12345\n12345\n")
    with text_lines.open_file(tmp_path / "a") as stream:
        lines = text_lines.LimitedLines(stream, "a text")
        iterator = iter(lines)
        next(iterator)
        lines.renew()
        assert next(iterator) == b"12345\n"
    with text_lines.open_file(tmp_path / "a") as stream:
        lines = iter(text_lines.LimitedLines(stream, "a text"))
        next(lines)
        with pytest.raises(BadFile, match="a text in it is longer than 20 bytes"):
            next(lines)


def test_paragraphs_are_cleaned():
    assert text_lines.clean("a\x07  b\n c &lt; d\ud800") == "a b c < d\ufffd"
    assert text_lines.clean_all(["", " \n", "x "]) == ("x",)
