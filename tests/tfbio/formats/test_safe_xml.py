import errno
import gzip
import io
import os
from collections import Counter

import pytest
from lxml import etree

from tfbio.formats import safe_xml


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "iso-8859-1"])
@pytest.mark.parametrize("block", [4, 5, 7, 64, 1 << 15])
def test_named_entities_become_characters(encoding, block):
    text = (
        "<a l='&nbsp;&foo;'>&amp;\u00e9&eacute;&AMP;&#38;&#x26;"
        + "&alpha;" * 50
        + "&lt;&\u00e9;</a>"
    )
    text = f'<?xml version="1.0" encoding="{encoding}"?>{text}'
    data = io.BytesIO(text.encode(encoding))

    class Blocks:
        def read(self, _):
            return data.read(block)

    unknown = Counter()
    root = etree.parse(
        safe_xml.Entities(Blocks(), unknown), etree.XMLParser(**safe_xml.SAFE)
    ).getroot()
    assert root.get("l") == "\xa0\ufffd"
    assert root.text == "&\u00e9\u00e9&&&" + "\u03b1" * 50 + "<\ufffd"
    assert unknown.total() == 2 and unknown["foo"] == 1


def test_what_is_no_named_entity_stays():
    for text in ("a & b; c", "&;", "&1a;", "&a b;", "&", "&nbsp", "&" * 300, f"&{'a' * 300};"):
        stream = safe_xml.Entities(io.BytesIO(text.encode()))
        assert stream.read(1 << 15) + stream.read(1 << 15) == text.encode()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("block", [4, 5, 6, 7, 9, 11, 13, 17, 1 << 15])
def test_a_section_of_cdata_stays(encoding, block):
    """However the file is cut into blocks."""
    inner = ["AT&T; &nbsp;x]", "]] &foo; <b> <![CDATA[ ]", "&am"]
    one, two, three = (f"<![CDATA[{text}]]>" for text in inner)
    text = f"<a>&nbsp;{one}&nbsp;<b/>{two}{three}&alpha;]&gt;</a>"
    unknown = Counter()
    entities = safe_xml.Entities(io.BytesIO(text.encode(encoding)), unknown)
    new = b"".join(iter(lambda: entities.read(block), b"")).decode(encoding)
    assert new == text.replace(">&nbsp;<", ">&#160;<").replace("&alpha;", "&#945;")
    root = etree.fromstring(new, etree.XMLParser(**safe_xml.SAFE))
    assert "".join(root.itertext()) == f"\xa0{inner[0]}\xa0{inner[1]}{inner[2]}\u03b1]>"
    assert not unknown


@pytest.mark.parametrize(
    "error",
    [
        EOFError("cut"),
        gzip.BadGzipFile("not a gzip file"),
        FileNotFoundError("bucket/a.xml"),
        IsADirectoryError(errno.EISDIR, "is a folder"),
        PermissionError(errno.EACCES, "denied"),
        OSError(errno.ELOOP, "links in a circle"),
    ],
)
def test_damage_and_errors_that_last_are_a_bad_file(error):
    with pytest.raises(safe_xml.BadFile), safe_xml.faults():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, os.strerror(errno.EIO)),
        OSError(errno.ESTALE, os.strerror(errno.ESTALE)),
        TimeoutError(),
        PermissionError("The provided token has expired."),  # s3fs's
    ],
)
def test_an_error_that_may_pass_says_nothing_about_a_file(error):
    with pytest.raises(OSError) as raised, safe_xml.faults():
        raise error
    assert raised.value is error
