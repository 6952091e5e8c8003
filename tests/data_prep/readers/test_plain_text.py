import gzip
import re

import pytest

from data_prep.readers import plain_text
from tests.data_prep.other_corpora import PLAIN
from tfbio.formats.safe_xml import BadFile


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("line_feed", ["\n", "\r\n"])
def test_an_empty_line_ends_a_document(tmp_path, pack, line_feed):
    text = ("\n\n" + PLAIN + "\nThe last one\nhas no line feed").replace("\n", line_feed)
    (tmp_path / "a.txt").write_bytes(pack(text.encode()))
    blocks = re.split(r"\n\s*\n", text.replace("\r\n", "\n").strip())
    expected = [tuple(block.split("\n")) for block in blocks]
    assert len(expected) == 3 and len(expected[0]) == 2
    assert list(plain_text.read_documents(tmp_path / "a.txt")) == expected


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it holds no text."),
        (b" \n\n\n", "it holds no text."),
        (b"fine\n\ncaf\xe9\n", "line 3 is not text in UTF-8."),
        (b"fine\nPK\0\n", "line 2 has a byte 0, which text has not."),
        (gzip.compress(PLAIN.encode())[:-12], "the compressed data is damaged or cut short"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, data, sentence):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(BadFile, match=re.escape(sentence)):
        list(plain_text.read_documents(tmp_path / "a.txt"))
