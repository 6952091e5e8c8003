"""BioC in and out, against the `bioc` package and the DTD."""

import gzip
import io
import json

import pytest
from bioc import (
    BioCAnnotation,
    BioCCollection,
    BioCDocument,
    BioCPassage,
    BioCSentence,
    biocjson,
    biocxml,
)
from lxml import etree

from tests.tfbio.formats.conftest import DTD, EMPTY, odd, written
from tfbio.formats import annotation_formats as formats
from tfbio.formats import bioc
from tfbio.formats.annotated_documents import Document, Entity, FormatError, Passage
from tfbio.formats.safe_xml import BadFile
from tfbio.runs import document_formats

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


def test_documents_that_were_read_are_forgotten(tmp_path, monkeypatch):
    before = []
    fields = bioc._fields

    def counted(element):
        if element.tag == "document":
            before.append(len(list(element.itersiblings(preceding=True))))
        return fields(element)

    monkeypatch.setattr(bioc, "_fields", counted)
    document = "<document><id>1</id></document>\n"
    (tmp_path / "a.xml").write_text(f"<collection><key/>{document * 100}</collection>")
    assert len(list(bioc.read_documents(tmp_path / "a.xml"))) == 100
    assert set(before) == {1}  # the one before, which is empty


def test_an_infon_type_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.json"
    passage = {"offset": 0, "infons": {"type": ["x"]}, "text": "abc"}
    path.write_text(json.dumps({"documents": [{"id": "1", "passages": [passage]}]}))
    with pytest.raises(FormatError, match=r"the infon type \['x'\] is no text"):
        list(bioc.read_json(str(path)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        # The DTD of BioC has no markup in a text, and what stood behind it was lost.
        ("IL-<sub>2</sub> in <i>E. <b>coli</b></i>.", "IL-2 in E. coli."),
        # A section of CDATA has no entities.
        ("<![CDATA[AT&T; x]]>&nbsp;y", "AT&T; x\xa0y"),
    ],
    ids=["markup", "cdata"],
)
def test_all_of_a_text_is_kept(tmp_path, written, expected):
    (tmp_path / "a.xml").write_text(
        "<collection><document><id>1</id><passage><offset>0</offset>"
        f"<text>{written}</text></passage></document></collection>"
    )
    (document,) = bioc.read_documents(tmp_path / "a.xml")
    assert document["passages"][0]["text"] == expected


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


@pytest.mark.parametrize("ending", ["xml", "json"])
def test_bioc_is_read_by_another_and_by_ourselves(tmp_path, ncbi_gold, ending):
    path = tmp_path / f"out.{ending}"
    annotated = [odd(), *ncbi_gold]
    text = written(path, "bioc", annotated)
    collection = (biocxml if ending == "xml" else biocjson).loads(
        text.replace("'UTF-8'", "'utf-8'")
    )
    for (document, entities), theirs in zip(annotated, collection.documents, strict=True):
        assert theirs.id == document.id
        found = []
        for passage in theirs.passages:
            assert document.text[passage.offset :].startswith(passage.text)
            for annotation in passage.annotations:
                (location,) = annotation.locations
                start = location.offset
                inside = passage.text[start - passage.offset :][: location.length]
                assert inside == annotation.text == document.text[start : location.end]
                found.append((annotation.infons["type"], start, location.end))
        assert found == [tuple(entity)[:3] for entity in entities]
    # Two line feeds between the passages come back from their offsets, and are two again.
    assert list(document_formats.read(str(path))) == [document for document, _ in annotated]


def test_bioc_xml_is_valid(tmp_path, ncbi_gold):
    text = written(tmp_path / "out.xml", "bioc", [odd(), EMPTY, *ncbi_gold[:3]])
    assert '<!DOCTYPE collection SYSTEM "BioC.dtd">' in text
    dtd = etree.DTD(io.StringIO(DTD))
    assert dtd.validate(etree.fromstring(text.encode())), dtd.error_log


def test_bioc_of_another_writer_is_read(tmp_path):
    """Sentences within a passage, annotations of others, a gap between passages."""
    title, sentence = BioCPassage(), BioCSentence()
    title.offset, title.text, title.infons["type"] = 0, "A t\u00eftle", "title"
    title.add_annotation(BioCAnnotation())
    title.annotations[0].text, title.annotations[0].id = "A", "1"
    sentence.offset, sentence.text = 9, "One \U0001f9ec."
    abstract = BioCPassage()
    abstract.offset = 9
    abstract.add_sentence(sentence)
    document = BioCDocument()
    document.id = "7"
    document.passages = [title, abstract]
    collection = BioCCollection()
    collection.source, collection.date, collection.key = "s", "d", "k"
    collection.add_document(document)
    (tmp_path / "a.xml").write_text(biocxml.dumps(collection), encoding="utf-8")
    whole = json.loads(biocjson.dumps(collection))
    # One collection; PubTator's service; PubMed Central's.
    for name, value in {"b": whole, "c": {"PubTator3": whole["documents"]}, "d": [whole]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    for path in document_formats.find_files([str(tmp_path)]):
        (read,) = document_formats.read(path)
        assert (read.id, read.text) == ("7", "A t\u00eftle\n\nOne \U0001f9ec."), path
        assert read.passages == (Passage(0, 7, "title"), Passage(9, 15, "")), path


def test_a_blank_takes_the_place_of_what_xml_cannot_hold(tmp_path):
    """pdftotext ends a page with a form feed; all other documents would be lost with its text."""
    text = "Page.\f\x1b\ufffe\U0001f9ecIL-2\0!"
    document = Document("a\1", text, (Passage(0, len(text), "\2"),))
    formats.write(str(tmp_path / "a.xml"), "bioc", [(document, [Entity("\3", 9, 14)])])
    root = etree.parse(str(tmp_path / "a.xml")).getroot()
    assert [x.text for x in root.iter("infon", "text")] == [
        " ",
        "Page.   \U0001f9ecIL-2 !",
        " ",
        "IL-2 ",
    ]
    (read,) = document_formats.read(str(tmp_path / "a.xml"))
    assert read == Document("a ", "Page.   \U0001f9ecIL-2 !", (Passage(0, len(text), " "),))
    # JSON can.
    formats.write(str(tmp_path / "a.json"), "bioc", [(document, [])])
    assert list(document_formats.read(str(tmp_path / "a.json"))) == [document]


@pytest.mark.parametrize("ending", ["xml", "json"])
def test_every_annotation_of_a_document_has_its_own_id(tmp_path, ending):
    text = written(tmp_path / f"a.{ending}", "bioc", [odd()])
    read = (biocxml if ending == "xml" else biocjson).loads(text.replace("'UTF-8'", "'utf-8'"))
    ids = [x.id for passage in read.documents[0].passages for x in passage.annotations]
    assert len(ids) == len(set(ids)) == 3


def test_passages_may_touch_and_half_of_a_character_is_replaced(tmp_path):
    """JSON can hold half of a pair of surrogates, which no output can."""
    passages = [{"offset": 0, "text": "A\ud800"}, {"offset": 2, "text": "b"}]
    (tmp_path / "a.json").write_text(json.dumps({"id": 1, "passages": passages}))
    (document,) = document_formats.read(str(tmp_path / "a.json"))
    assert document == Document("1", "A\ufffdb", (Passage(0, 2, ""), Passage(2, 3, "")))


@pytest.mark.parametrize("given", ['"id": "", ', ""])
def test_an_id_may_be_zero_but_must_be_there(tmp_path, given):
    """Other programs number their documents, from 0."""
    text = '[{"id": 0, "passages": []}, {%s"passages": []}]'
    (tmp_path / "a.json").write_text(text % given)
    read = document_formats.read(str(tmp_path / "a.json"))
    assert next(read).id == "0"
    with pytest.raises(FormatError, match="has no id"):
        next(read)


def test_half_a_character_becomes_one_that_can_be_written(tmp_path):
    passage = {"offset": 0, "infons": {"type": "a\ud83d"}, "text": "b\ud83d"}
    (tmp_path / "a.json").write_text(json.dumps([{"id": "c\ud83d", "passages": [passage]}]))
    (document,) = document_formats.read(str(tmp_path / "a.json"))
    found = (document.id, document.passages[0].kind, document.text)
    assert found == ("c\ufffd", "a\ufffd", "b\ufffd")
