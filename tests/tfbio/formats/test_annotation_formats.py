"""Documents in and out, against the `bioc` package, lxml, PubMed's own XML and NCBI's files."""

import gzip
import io
import json
import os
import re
import tarfile
from pathlib import Path

import bioc
import pytest
from bioc import biocjson, biocxml, brat, pubtator
from lxml import etree

from data_prep.readers import input_files
from data_prep.selection import articles
from tests import reference
from tfbio.base.cli import UserError
from tfbio.formats import annotation_formats as formats
from tfbio.formats.annotation_formats import Document, Passage
from tfbio.formats.entities import Entity
from tfbio.runs import prediction_inputs

# What a document of BioC is made of, as its DTD says (Comeau et al., 2013; bioc.sourceforge.net).
DTD = """
<!ELEMENT collection (source, date, key, infon*, document+)>
<!ELEMENT document (id, infon*, passage+, relation*)>
<!ELEMENT passage (infon*, offset, ((text?, annotation*) | sentence*), relation*)>
<!ELEMENT sentence (infon*, offset, text?, annotation*, relation*)>
<!ELEMENT annotation (infon*, location*, text)>
<!ELEMENT relation (infon*, node*)>
<!ELEMENT location EMPTY> <!ELEMENT node EMPTY>
<!ELEMENT source (#PCDATA)> <!ELEMENT date (#PCDATA)> <!ELEMENT key (#PCDATA)>
<!ELEMENT id (#PCDATA)> <!ELEMENT infon (#PCDATA)>
<!ELEMENT offset (#PCDATA)> <!ELEMENT text (#PCDATA)>
<!ATTLIST infon key CDATA #REQUIRED> <!ATTLIST annotation id CDATA #IMPLIED>
<!ATTLIST location offset CDATA #REQUIRED length CDATA #REQUIRED>
<!ATTLIST relation id CDATA #IMPLIED> <!ATTLIST node refid CDATA #REQUIRED role CDATA "">
"""

# Astral and combining characters, tabs, a Windows line end within a mention, marks of XML.
ODD = (
    "\U0001d6fc\u2010MSH & <caf\u00e9>\r\nCa\u00b2\u207a\te\u0301 \u201cA\u2028B\u201d."
    "\n\nEnd\U0001f9ec."
)


def odd():
    """A document of two passages, and entities in both, one on two lines."""
    second = ODD.index("End")
    passages = (Passage(0, second - 2, "title"), Passage(second, len(ODD), ""))
    mentions = ("\U0001d6fc\u2010MSH", "<caf\u00e9>\r\nCa\u00b2\u207a\te\u0301", "End\U0001f9ec")
    entities = [Entity("Chemical", ODD.index(m), ODD.index(m) + len(m)) for m in mentions]
    return Document("odd", ODD, passages), entities


EMPTY = Document("empty", "", ()), []


def written(path, form, annotated):
    formats.write(str(path), form, annotated)
    return path.read_bytes().decode()


def gold(text):
    """(id, title, abstract, annotations) of PubTator's documents, read by pattern."""
    for block in text.strip("\n").split("\n\n"):
        name, title, abstract = re.match(r"(\d+)\|t\|(.*)\n\1\|a\|(.*)", block).groups()
        rows = re.findall(rf"^{name}\t(\d+)\t(\d+)\t(.*?)\t(\w+)\t", block, re.MULTILINE)
        yield name, title, abstract, [(int(a), int(b), m, kind) for a, b, m, kind in rows]


@pytest.fixture(scope="module")
def ncbi():
    return reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator")


@pytest.fixture(scope="module")
def ncbi_gold(ncbi):
    """NCBI's test documents as they are read, with the gold entities as the file has them."""
    found = list(gold(ncbi.read_text()))
    read = list(prediction_inputs.read(str(ncbi)))
    entities = [[Entity(kind, a, b) for a, b, _, kind in own] for *_, own in found]
    return list(zip(read, entities, strict=True))


# --- PubTator ----------------------------------------------------------------------------------


def test_ncbi_disease_is_read_with_exact_offsets(ncbi, ncbi_gold):
    found = list(gold(ncbi.read_text()))
    assert len(found) == 100 and sum(len(own) for *_, own in found) == 960
    for (name, title, abstract, mentions), (document, _) in zip(found, ncbi_gold, strict=True):
        assert (document.id, document.text) == (name, f"{title}\n{abstract}")
        assert [document.text[a:b] for a, b, _ in document.passages] == [title, abstract]
        assert [document.text[a:b] for a, b, *_ in mentions] == [m for _, _, m, _ in mentions]


def test_what_was_read_is_written_as_ncbi_has_it(ncbi, ncbi_gold, tmp_path):
    """All but the last column, the identifier, which a tagger does not know."""
    text = written(tmp_path / "out.pubtator", "pubtator", ncbi_gold)
    with_identifiers = ncbi.read_text().strip("\n").split("\n")
    for ours, theirs in zip(text.strip("\n").split("\n"), with_identifiers, strict=True):
        if "\t" in theirs:
            ours, theirs = ours.rpartition("\t")[0], theirs.rpartition("\t")[0]
        assert ours == theirs
    assert [d for d, _ in ncbi_gold] == list(prediction_inputs.read(str(tmp_path / "out.pubtator")))


def test_all_of_ncbi_training_is_read(tmp_path):
    path = reference.corpus("ncbi_disease/pubtator/NCBIdisease_TrainDev.PubTator.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = list(gold(file.read()))
    read = list(prediction_inputs.read(str(path)))
    assert len(read) == 693
    others = []
    for (name, title, abstract, mentions), document in zip(found, read, strict=True):
        assert (document.id, document.text) == (name, f"{title}\n{abstract}")
        others += [(m, document.text[a:b]) for a, b, m, _ in mentions if document.text[a:b] != m]
    # The file leaves quotes out of its mentions.
    assert all(mention == text.replace('"', " ") for mention, text in others) and len(others) < 5


def test_pubtator_of_odd_texts_is_read_by_another(tmp_path):
    document, entities = odd()
    text = written(tmp_path / "out.pubtator", "pubtator", [(document, entities), EMPTY])
    one, other = text.split("\n\n")[:2]
    (read,) = pubtator.loads(one)
    # The first of the two line feeds parts title and abstract.
    blanks = re.sub(r"[\s]", " ", ODD)
    assert read.text == blanks[: ODD.index("\n\n")] + "\n" + blanks[ODD.index("\n\n") + 1 :]
    for annotation, (kind, start, end, _) in zip(read.annotations, entities, strict=True):
        assert (annotation.type, annotation.start, annotation.end) == (kind, start, end)
        assert read.text[start:end] == annotation.text
    assert other == "empty|t|\nempty|a|"


def test_pubtator_with_windows_line_ends_and_without_abstract(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbf1|t|Naloxone.\r\n1|a|It reverses.\r\n1\t0\t8\tNaloxone\tX\t-\r\n\r\n2|t|No"
    )
    one, two = prediction_inputs.read(str(path))
    assert one.text == "Naloxone.\nIt reverses." and one.text[one.passages[1].start :][:2] == "It"
    assert (two.id, two.text, two.passages) == ("2", "No", (Passage(0, 2, "title"),))


# --- Plain text --------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_plain_text_is_kept_character_by_character(tmp_path, packed):
    path = tmp_path / ("odd.v1.txt.gz" if packed else "odd.v1.TXT")
    data = b"\xef\xbb\xbf" + ODD.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    (document,) = prediction_inputs.read(str(path))
    assert (document.id, document.text) == ("odd.v1", ODD)
    assert [ODD[a:b] for a, b, _ in document.passages] == ODD.split("\n\n")


@pytest.mark.parametrize("text", ["", "\n", " \n\n\t\n"])
def test_a_text_of_nothing(tmp_path, text):
    path = tmp_path / "none.txt"
    path.write_text(text)
    (document,) = prediction_inputs.read(str(path))
    assert document.text == text
    assert not "".join(text[a:b] for a, b, _ in document.passages).strip()


# --- PubMed ------------------------------------------------------------------------------------


def test_pubmed_xml_has_title_and_abstract_where_the_passages_say(pubmed_slice):
    path = max(map(str, pubmed_slice.iterdir()))
    read, count = list(prediction_inputs.read(path)), 0
    with gzip.open(path) as file:
        articles = etree.iterparse(file, tag="PubmedArticle")
        for document, (_, article) in zip(read, articles, strict=True):
            assert document.id == article.findtext("MedlineCitation/PMID")
            titles = [
                re.sub(r"\s+", " ", "".join(x.itertext())) for x in article.iter("ArticleTitle")
            ]
            if titles and titles[0].isascii() and len(article.find(".//ArticleTitle")) == 0:
                assert document.text.startswith(titles[0].strip())
            for text in article.findall("MedlineCitation/Article/Abstract/AbstractText"):
                if len(text) == 0 and text.text and text.text.isascii() and "&" not in text.text:
                    plain = " ".join(text.text.split())
                    label = text.get("Label")
                    expected = f"{label}: {plain}" if label else plain
                    assert expected in [
                        document.text[a:b] for a, b, kind in document.passages if kind == "abstract"
                    ]
                    count += 1
            article.clear()
    assert count > 200 and len(read) == 200
    assert all(d.passages[-1].end == len(d.text) for d in read if d.passages)


# --- PMC ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full_texts():
    """Real articles of several publishers."""
    found = input_files.shipped_files(".nxml") + sorted(
        map(str, reference.corpus("pmc_nxml").glob("*.xml.gz"))
    )
    assert len(found) == 10
    return found


def test_full_texts_are_what_the_documents_stage_reads(full_texts):
    """Beside these texts there are only the titles of sections, as the XML has them."""
    everything = articles.Selection(captions=True, tables=True, keep_boilerplate=True)
    for path in full_texts:
        (document,) = prediction_inputs.read(path)
        abstract, body = (x.documents for x in articles.read(path, everything, None))
        texts = [abstract[0].title, *abstract[0].sentences, *body[0].sentences]
        passages = [(x.kind, document.text[x.start : x.end]) for x in document.passages]
        assert [text for kind, text in passages if kind != "heading"] == texts
        assert document.text == "\n".join(text for _, text in passages)
        assert passages[0] == ("title", abstract[0].title)
        kinds = {kind for kind, _ in passages}
        assert {"abstract", "heading", "paragraph", "caption"} <= kinds
        assert kinds <= {"title", "abstract", "heading", "paragraph", "caption", "table"}


def test_full_texts_have_what_the_xml_has(full_texts):
    count = 0
    for path in full_texts:
        (document,) = prediction_inputs.read(path)
        article = etree.parse(path)
        ids = {
            kind: article.xpath(f"string(front/article-meta/article-id[@pub-id-type='{kind}'])")
            for kind in ("pmc", "doi")
        }
        assert document.id == (f"PMC{ids['pmc']}" if ids["pmc"] else ids["doi"])
        for name, kind in (("p", "paragraph"), ("title", "heading")):
            own = {document.text[a:b] for a, b, known in document.passages if known == kind}
            for element in article.xpath(f"body//sec/{name}[not(*)]"):
                plain = " ".join((element.text or "").split())
                if plain.isascii() and plain:
                    assert plain in own, (path, plain)
                    count += 1
    assert count > 200


def test_packages_and_sets_of_full_texts(full_texts, tmp_path):
    expected = [x for path in full_texts for x in prediction_inputs.read(path)]
    data = [Path(x).read_bytes() for x in full_texts]
    data = [gzip.decompress(x) if x.startswith(b"\x1f\x8b") else x for x in data]
    bad = b"<article><front/></article>"
    for name in ("package.tar.gz", "package.tgz", "package.tar"):
        with tarfile.open(tmp_path / name, "w:" if name.endswith("tar") else "w:gz") as archive:
            for number, member in enumerate([*data[:5], bad, *data[5:]]):
                info = tarfile.TarInfo(f"PMC/{number}.nxml")
                info.size = len(member)
                archive.addfile(info, io.BytesIO(member))
    bodies = [re.sub(rb"^.*?(?=<article[ >])", b"", x, flags=re.DOTALL) for x in [*data, bad]]
    (tmp_path / "set.xml").write_bytes(b"<pmc-articleset>%b</pmc-articleset>" % b"".join(bodies))
    for path in prediction_inputs.find_files([str(tmp_path)]):
        left_out = []
        assert list(prediction_inputs.read(path, left_out)) == expected
        name = "set.xml#11" if path.endswith("xml") else "PMC/5.nxml"
        assert left_out == [
            f"{path}, {name}: it has no <front> with <article-meta>: it is no article of PMC's."
        ]
    (tmp_path / "bad.nxml").write_bytes(bad)
    with pytest.raises(formats.FormatError, match=r"bad\.nxml: it has no <front>"):
        list(prediction_inputs.read(str(tmp_path / "bad.nxml")))


# --- BioC --------------------------------------------------------------------------------------


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
    assert list(prediction_inputs.read(str(path))) == [document for document, _ in annotated]


@pytest.mark.parametrize("ending", ["xml", "json"])
def test_scores_are_infons_of_bioc_and_stand_in_no_other_format(tmp_path, ending):
    document, entities = odd()
    scored = [entity._replace(score=0.25) for entity in entities]
    text = written(tmp_path / f"out.{ending}", "bioc", [(document, scored)])
    if ending == "xml":
        dtd = etree.DTD(io.StringIO(DTD))
        assert dtd.validate(etree.fromstring(text.encode())), dtd.error_log
    read = (biocxml if ending == "xml" else biocjson).loads(text.replace("'UTF-8'", "'utf-8'"))
    found = [x.infons for p in read.documents[0].passages for x in p.annotations]
    assert found == [{"type": "Chemical", "score": "0.25"}] * 3
    line = written(tmp_path / "out.jsonl", "jsonl", [(document, scored)])
    assert [x["score"] for x in json.loads(line)["entities"]] == [0.25] * 3
    both = [[(document, entities)], [(document, scored)]]
    one, other = (written(tmp_path / "a.pubtator", "pubtator", own) for own in both)
    assert one == other
    for name, own in zip("ab", both, strict=True):
        formats.write(str(tmp_path / name), "brat", own)
    one, other = ((tmp_path / name / "odd.ann").read_text() for name in "ab")
    assert one == other


def test_bioc_xml_is_valid(tmp_path, ncbi_gold):
    text = written(tmp_path / "out.xml", "bioc", [odd(), EMPTY, *ncbi_gold[:3]])
    assert '<!DOCTYPE collection SYSTEM "BioC.dtd">' in text
    dtd = etree.DTD(io.StringIO(DTD))
    assert dtd.validate(etree.fromstring(text.encode())), dtd.error_log


def test_bioc_of_another_writer_is_read(tmp_path):
    """Sentences within a passage, annotations of others, a gap between passages."""
    title, sentence = bioc.BioCPassage(), bioc.BioCSentence()
    title.offset, title.text, title.infons["type"] = 0, "A t\u00eftle", "title"
    title.add_annotation(bioc.BioCAnnotation())
    title.annotations[0].text, title.annotations[0].id = "A", "1"
    sentence.offset, sentence.text = 9, "One \U0001f9ec."
    abstract = bioc.BioCPassage()
    abstract.offset = 9
    abstract.add_sentence(sentence)
    document = bioc.BioCDocument()
    document.id = "7"
    document.passages = [title, abstract]
    collection = bioc.BioCCollection()
    collection.source, collection.date, collection.key = "s", "d", "k"
    collection.add_document(document)
    (tmp_path / "a.xml").write_text(biocxml.dumps(collection), encoding="utf-8")
    whole = json.loads(biocjson.dumps(collection))
    # One collection; PubTator's service; PubMed Central's.
    for name, value in {"b": whole, "c": {"PubTator3": whole["documents"]}, "d": [whole]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    for path in prediction_inputs.find_files([str(tmp_path)]):
        (read,) = prediction_inputs.read(path)
        assert (read.id, read.text) == ("7", "A t\u00eftle\n\nOne \U0001f9ec.")
        assert read.passages == (Passage(0, 7, "title"), Passage(9, 15, ""))


def test_what_xml_cannot_hold_is_named(tmp_path):
    document = Document("nul", "a\0b", (Passage(0, 3, ""),))
    with pytest.raises(formats.FormatError, match="document nul has a control character.*json"):
        formats.write(str(tmp_path / "a.xml"), "bioc", [(document, [])])
    assert not list(tmp_path.iterdir())
    formats.write(str(tmp_path / "a.json"), "bioc", [(document, [])])
    assert list(prediction_inputs.read(str(tmp_path / "a.json"))) == [document]


# --- brat and JSON lines -----------------------------------------------------------------------


def test_brat_has_the_text_and_its_entities(tmp_path, ncbi_gold):
    annotated = [odd(), EMPTY, *ncbi_gold]
    formats.write(str(tmp_path / "brat"), "brat", annotated)
    for document, entities in annotated:
        text = (tmp_path / "brat" / f"{document.id}.txt").read_bytes().decode()
        assert text == document.text
        with open(tmp_path / "brat" / f"{document.id}.ann", encoding="utf-8", newline="\n") as file:
            read = brat.loads(text, file.read())
        assert len(read.annotations) == len(entities)
        for annotation, (kind, start, end, _) in zip(read.entities, entities, strict=True):
            assert annotation.type == kind
            parts = [(x.begin, x.end) for x in sorted(annotation.locations)]
            assert (parts[0][0], parts[-1][1]) == (start, end)
            assert "\n" not in "".join(text[a:b] for a, b in parts)
            spoken = " ".join(text[a:b] for a, b in parts).replace("\t", " ")
            assert annotation.text == spoken


def test_a_file_of_brat_s_that_the_disk_has_no_room_for_is_named(tmp_path, largest_file):
    annotated = [(Document("1", "x" * 100_000, (Passage(0, 100_000, ""),)), [])]
    with largest_file(50_000), pytest.raises(OSError) as error:
        formats.write(str(tmp_path / "brat"), "brat", annotated)
    assert re.fullmatch(rf"{tmp_path}/brat\.\w+\.tmp/1\.txt", error.value.filename)
    assert not list(tmp_path.iterdir())


def test_brat_files_replace_others_when_all_are_there(tmp_path):
    folder = tmp_path / "brat"
    folder.mkdir()
    before = ["annotation.conf", "mine.txt", "old.ann", "old.txt"]
    for name in before:
        (folder / name).write_text("x")
    with pytest.raises(ZeroDivisionError):
        formats.write(str(folder), "brat", (1 / 0 for _ in "x"))
    assert sorted(os.listdir(folder)) == before and os.listdir(tmp_path) == ["brat"]
    # A text without annotations is of no earlier run.
    formats.write(str(folder), "brat", [odd()])
    assert sorted(os.listdir(folder)) == ["annotation.conf", "mine.txt", "odd.ann", "odd.txt"]
    # Of a folder that is not there nothing appears before all is there.
    annotated = (odd() if n < 2 else 1 / 0 for n in range(3))
    with pytest.raises(ZeroDivisionError):
        formats.write(str(tmp_path / "new"), "brat", annotated)
    assert os.listdir(tmp_path) == ["brat"]
    too_long = Document("\u00e9" * 50, "a", ()), []
    with pytest.raises(formats.FormatError, match="--format=brat: the id .*too long for the name"):
        formats.write(str(tmp_path / "new"), "brat", [too_long])
    assert os.listdir(tmp_path) == ["brat"]


@pytest.mark.parametrize("form", formats.FORMATS)
def test_all_documents_of_one_id_are_written(tmp_path, form):
    """NCBI's training documents have one of them twice."""
    path = reference.corpus("ncbi_disease/pubtator/NCBIdisease_TrainDev.PubTator.gz")
    documents = list(prediction_inputs.read(str(path)))
    assert [document.id for document in documents].count("8528200") == 2
    other = Document("8528200_2", "Other.", (Passage(0, 6, ""),))
    annotated = [(document, [Entity("X", 0, 3)]) for document in [other, *documents]]
    output = tmp_path / ("out.json" if form == "bioc" else "out")
    formats.write(str(output), form, annotated)
    if form == "jsonl":
        read = [json.loads(line) for line in output.read_text().splitlines()]
        found = [(record["id"], record["text"]) for record in read]
        assert all(len(record["entities"]) == 1 for record in read)
    elif form == "brat":
        assert len(os.listdir(output)) == 2 * 694
        assert all((output / f"{x.stem}.ann").read_text() for x in output.glob("*.txt"))
        texts = {x.stem: x.read_text() for x in output.glob("*.txt")}
        assert texts["8528200"] == texts["8528200_3"] and texts["8528200_2"] == "Other."
        found = [(name.replace("8528200_3", "8528200"), text) for name, text in texts.items()]
    else:
        if form == "pubtator":
            output = output.rename(tmp_path / "out.pubtator")
        found = [(document.id, document.text) for document in prediction_inputs.read(str(output))]
    if form == "pubtator":  # whose empty abstract ends in a line feed
        found = [(name, text.rstrip("\n")) for name, text in found]
    assert sorted(found) == sorted((x.id, x.text) for x in [other, *documents])


def test_json_lines_have_exact_offsets(tmp_path, ncbi_gold):
    lines = written(tmp_path / "out.jsonl", "jsonl", [odd(), EMPTY, *ncbi_gold]).split("\n")
    records = [json.loads(line) for line in lines[:-1]]
    assert len(records) == 102 and records[0]["text"] == ODD and records[1]["entities"] == []
    for record in records:
        for entity in record["entities"]:
            assert record["text"][entity["start"] : entity["end"]] == entity["text"]
    assert sum(len(record["entities"]) for record in records) == 3 + 960


# --- Mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("a.txt", b"one\ntw\xff\n", r"a\.txt, line 2: this is not text in UTF-8"),
        ("a.txt.gz", b"\x1f\x8b\x08", r"a\.txt\.gz cannot be read"),
        ("a.pubtator", b"1|t|A\n2|a|B\n", r"line 2: expected 2\|t\| and a title"),
        ("a.pubtator", b"1|t|A\n1|a|B\nwords\n", "line 3: expected PMID.*'words'"),
        ("a.pubtator", b"", r"holds no document"),
        ("a.xml", b"<html/>", r"a\.xml: its root is <html>, not one of PubMed's.*PMC's.*BioC's"),
        ("a.nxml", b"<article><front>", r"a\.nxml: it is not well-formed"),
        ("a.tar.gz", gzip.compress(bytes(10240), mtime=0), r"a\.tar\.gz: "),
        ("a.xml", b"<collection><document>", r"a\.xml: it is not well-formed"),
        ("a.xml", b"<collection><document/></collection>", "a document has no id"),
        ("a.json", b"{", "is not JSON"),
        ("a.json", b"{}", "holds no document of BioC"),
        (
            "a.json",
            b'{"id": 1, "passages": [{"text": "A"}]}',
            r"document 1: .*offset.*\('offset'\)",
        ),
        (
            "a.json",
            b'{"id": 1, "passages": [{"text": "AB", "offset": 0}, {"text": "C", "offset": 1}]}',
            "document 1: .*that at 1 begins before",
        ),
        (
            "a.json",
            b'{"id": 1, "passages": [{"text": "AB", "offset": 2000000000}]}',
            "document 1: .*2000000000 is much further",
        ),
        (
            "a.xml",
            b"<collection><document><id>1</id><passage><offset>2000000000</offset><text>A</text>"
            b"</passage></document></collection>",
            "document 1: .*2000000000 is much further",
        ),
        (
            "a.json",
            json.dumps(
                [
                    {"id": name, "passages": [{"text": "A", "offset": 400_000}]}
                    for name in ("1", "2", "3")
                ]
            ).encode(),
            "document 3: .*400000 is much further",
        ),
        (
            "a.json",
            '{"id": 1, "passages": [{"text": "A", "offset": "\u0661"}]}'.encode(),
            "document 1: .*no whole number",
        ),
        ("a.json", b'{"id": 1, "passages": [{"text": "A", "offset": 1.5}]}', "no whole number"),
    ],
)
def test_a_mistake_is_named(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError, match=words):
        list(prediction_inputs.read(str(path)))


def test_files_folders_and_globs(tmp_path):
    for name in ("b.txt", "a.xml.gz", "e.nxml", "f.tar.gz", "deep/c.PubTator", "deep/d.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = prediction_inputs.find_files([str(tmp_path), str(tmp_path / "*.txt")])
    names = ("a.xml.gz", "b.txt", "deep/c.PubTator", "e.nxml", "f.tar.gz")
    assert found == [str(tmp_path / name) for name in names]
    with pytest.raises(UserError, match=r"d\.tsv gives no file that ends in \.txt"):
        prediction_inputs.find_files([str(tmp_path / "deep" / "d.tsv")])
    with pytest.raises(UserError, match=r"none\*\.txt does not exist"):
        prediction_inputs.find_files([str(tmp_path / "none*.txt")])
