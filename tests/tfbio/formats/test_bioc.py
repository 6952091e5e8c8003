"""BioC's XML, against its JSON as the `bioc` package writes it."""

import gzip
import json

import pytest
from bioc import biocjson, biocxml

from tfbio.formats import bioc
from tfbio.formats.safe_xml import BadFile

COLLECTION = """<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>s</source><date>d</date><key>k</key>
<document><id>7</id>
<passage><infon key="type">title</infon><offset>0</offset><text>A t\u00eftle &lt;1&gt;</text>
<annotation id="1"><infon key="type">X</infon><location offset="0" length="1"/><text>A</text>
</annotation></passage>
<passage><offset>14</offset><sentence><offset>14</offset><text>One \U0001f9ec.</text></sentence>
</passage></document>
<document><id>8</id><passage><offset>0</offset><text>B</text></passage></document>
</collection>
"""


def parts(document):
    """What is read of a document in BioC's JSON."""
    return {
        "id": document["id"],
        "passages": [
            {
                "infons": passage["infons"],
                "offset": int(passage["offset"]),
                "text": passage.get("text") or None,
                "sentences": [(int(x["offset"]), x["text"]) for x in passage["sentences"]],
            }
            for passage in document["passages"]
        ],
    }


@pytest.mark.parametrize("packed", [False, True])
def test_documents_are_those_of_the_json(tmp_path, packed):
    path = tmp_path / "a.xml"
    data = COLLECTION.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    expected = json.loads(biocjson.dumps(biocxml.loads(COLLECTION)))["documents"]
    assert len(expected) == 2 and bioc.is_bioc(path)
    found = list(bioc.read_documents(path))
    assert [parts(document) for document in found] == [parts(document) for document in expected]


def test_text_in_markup_is_kept(tmp_path):
    """The DTD of BioC has none in a text, and what stands behind it was lost."""
    (tmp_path / "a.xml").write_text(
        "<collection><document><id>1</id><passage><offset>0</offset>"
        "<text>IL-<sub>2</sub> in <i>E. <b>coli</b></i>.</text></passage></document></collection>"
    )
    (document,) = bioc.read_documents(tmp_path / "a.xml")
    assert document["passages"][0]["text"] == "IL-2 in E. coli."


def test_what_is_no_collection_is_told_apart_or_refused(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<PubmedArticleSet/>")
    assert not bioc.is_bioc(path)
    for text, words in (
        ("words", "not well-formed"),
        (COLLECTION[:-30], "not well-formed"),
        ('<!DOCTYPE collection [<!ENTITY a "b">]><collection/>', "declares XML entities"),
        (COLLECTION.replace("<passage>", "<passage><document/>", 1), "stands in a <passage>, not"),
    ):
        path.write_text(text)
        with pytest.raises(BadFile, match=words):
            list(bioc.read_documents(path))
    path.write_text("words")
    with pytest.raises(BadFile, match="not well-formed"):
        bioc.is_bioc(path)
