import io
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
