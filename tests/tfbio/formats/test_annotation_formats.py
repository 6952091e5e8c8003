"""Documents in and out, against the `bioc` package, lxml, PubMed's own XML and NCBI's files."""

import gzip
import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest
from bioc import biocjson, biocxml
from lxml import etree

from data_prep.readers import input_files
from data_prep.selection import articles
from tests import html_pages, reference
from tests.tfbio.formats.conftest import DTD, EMPTY, ODD, odd, written
from tfbio.base.errors import UserError
from tfbio.formats import annotated_documents
from tfbio.formats import annotation_formats as formats
from tfbio.formats.annotated_documents import Document, Entity, Passage
from tfbio.runs import document_formats

# --- Plain text --------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_plain_text_is_kept_character_by_character(tmp_path, packed):
    path = tmp_path / ("odd.v1.txt.gz" if packed else "odd.v1.TXT")
    data = b"\xef\xbb\xbf" + ODD.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    (document,) = document_formats.read(str(path))
    assert (document.id, document.text) == ("odd.v1", ODD)
    assert [ODD[a:b] for a, b, _ in document.passages] == ODD.split("\n\n")


@pytest.mark.parametrize("text", ["", "\n", " \n\n\t\n"])
def test_a_text_of_nothing(tmp_path, text):
    path = tmp_path / "none.txt"
    path.write_text(text)
    (document,) = document_formats.read(str(path))
    assert document.text == text
    assert not "".join(text[a:b] for a, b, _ in document.passages).strip()


# --- PubMed ------------------------------------------------------------------------------------


def test_pubmed_xml_has_title_and_abstract_where_the_passages_say(pubmed_slice):
    path = max(map(str, pubmed_slice.iterdir()))
    read, count = list(document_formats.read(path)), 0
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
    assert not [d for d in read if d.passages and d.passages[-1].end != len(d.text)]


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
        (document,) = document_formats.read(path)
        abstract, body = (x.documents for x in articles.read(path, everything, None))
        texts = [abstract[0].title, *abstract[0].sentences, *body[0].sentences]
        passages = [(x.kind, document.text[x.start : x.end]) for x in document.passages]
        assert [text for kind, text in passages if kind != "heading"] == texts, path
        assert document.text == "\n".join(text for _, text in passages), path
        assert passages[0] == ("title", abstract[0].title), path
        kinds = {kind for kind, _ in passages}
        assert {"abstract", "heading", "paragraph", "caption"} <= kinds, path
        assert kinds <= {"title", "abstract", "heading", "paragraph", "caption", "table"}, path


def test_full_texts_have_what_the_xml_has(full_texts):
    count = 0
    for path in full_texts:
        (document,) = document_formats.read(path)
        article = etree.parse(path)
        ids = {
            kind: article.xpath(f"string(front/article-meta/article-id[@pub-id-type='{kind}'])")
            for kind in ("pmc", "doi")
        }
        assert document.id == (f"PMC{ids['pmc']}" if ids["pmc"] else ids["doi"]), path
        for name, kind in (("p", "paragraph"), ("title", "heading")):
            own = {document.text[a:b] for a, b, known in document.passages if known == kind}
            for element in article.xpath(f"body//sec/{name}[not(*)]"):
                plain = " ".join((element.text or "").split())
                if plain.isascii() and plain:
                    assert plain in own, (path, plain)
                    count += 1
    assert count > 200


def test_packages_and_sets_of_full_texts(full_texts, tmp_path):
    expected = [x for path in full_texts for x in document_formats.read(path)]
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
    for path in document_formats.find_files([str(tmp_path)]):
        left_out = []
        assert list(document_formats.read(path, left_out)) == expected
        name = "set.xml#11" if path.endswith("xml") else "PMC/5.nxml"
        assert left_out == [
            f"{path}, {name}: it has no <front> with <article-meta>: it is no article of PMC's."
        ]
    (tmp_path / "bad.nxml").write_bytes(bad)
    with pytest.raises(annotated_documents.FormatError, match=r"bad\.nxml: it has no <front>"):
        list(document_formats.read(str(tmp_path / "bad.nxml")))


# --- Out ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("form", formats.FORMATS)
def test_all_documents_of_one_id_are_written(tmp_path, form):
    """NCBI's training documents have one of them twice."""
    path = reference.corpus("ncbi_disease/pubtator/NCBIdisease_TrainDev.PubTator.gz")
    documents = list(document_formats.read(str(path)))
    assert [document.id for document in documents].count("8528200") == 2
    other = Document("8528200_2", "Other.", (Passage(0, 6, ""),))
    annotated = [(document, [Entity("X", 0, 3)]) for document in [other, *documents]]
    output = tmp_path / ("out.json" if form in ("bioc", "bigbio") else "out")
    formats.write(str(output), form, annotated)
    if form == "jsonl":
        read = [json.loads(line) for line in output.read_text().splitlines()]
        found = [(record["id"], record["text"]) for record in read]
        assert not [record for record in read if len(record["entities"]) != 1]
    elif form == "brat":
        assert len(os.listdir(output)) == 2 * 694
        assert not [x for x in output.glob("*.txt") if not (output / f"{x.stem}.ann").read_text()]
        texts = {x.stem: x.read_text() for x in output.glob("*.txt")}
        assert texts["8528200"] == texts["8528200_3"] and texts["8528200_2"] == "Other."
        found = [(name.replace("8528200_3", "8528200"), text) for name, text in texts.items()]
    elif form == "html":
        articles = html_pages.Page(output.read_text()).articles
        found = [(re.match(r"(?:PMID )?(.+):", x.name)[1], x.text) for x in articles]
    else:
        if form == "pubtator":
            output = output.rename(tmp_path / "out.pubtator")
        found = [(document.id, document.text) for document in document_formats.read(str(output))]
    if form == "pubtator":  # whose empty abstract ends in a line feed
        found = [(name, text.rstrip("\n")) for name, text in found]
    # BigBio has a blank between passages.
    feed = " " if form == "bigbio" else "\n"
    assert sorted(found) == sorted((x.id, x.text.replace("\n", feed)) for x in [other, *documents])


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
        list(document_formats.read(str(path)))


@pytest.mark.parametrize("form", ["jsonl", "pubtator"])
def test_compressed_lines_are_those_without_and_always_the_same_bytes(tmp_path, form):
    annotated = [(Document("1", "A cell.", (Passage(0, 7, "title"),)), [Entity("x", 2, 6)])] * 9
    formats.write(str(tmp_path / "plain"), form, annotated)
    for name in ("a", "b"):
        formats.write(str(tmp_path / name), form, annotated, compress=True)
    packed = (tmp_path / "a").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "plain").read_bytes()
    assert packed == (tmp_path / "b").read_bytes() and packed[4:8] == bytes(4)  # no time


def test_first_bytes_tell_what_is_no_document_format(tmp_path):
    for name, data in {
        "a.xml": b"<PubmedArticleSet>",
        "b.xml.gz": gzip.compress(b"<article/>"),
        "c.txt": b"",
        "d.xml": b"text",
        "e.nxml": b"",
        "f.xml.gz": gzip.compress(b"<article/>" * 9)[:12],
    }.items():
        (tmp_path / name).write_bytes(data)
    problems = {x.name: document_formats.problem_of(str(x)) for x in sorted(tmp_path.iterdir())}
    assert [name for name, problem in problems.items() if not problem] == [
        "a.xml",
        "b.xml.gz",
        "c.txt",
    ]
    assert "d.xml: it is not well-formed XML" in problems["d.xml"]
    assert problems["e.nxml"] == f"{tmp_path / 'e.nxml'}: the file is empty."
    assert "f.xml.gz: the gzip data is damaged or cut short" in problems["f.xml.gz"]
    gone = document_formats.problem_of(str(tmp_path / "gone.xml"))
    assert "gone.xml: it cannot be read (No such file" in gone


def test_files_folders_and_globs(tmp_path):
    for name in ("b.txt", "a.xml.gz", "e.nxml", "f.tar.gz", "deep/c.PubTator", "deep/d.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = document_formats.find_files([str(tmp_path), str(tmp_path / "*.txt")])
    names = ("a.xml.gz", "b.txt", "deep/c.PubTator", "e.nxml", "f.tar.gz")
    assert found == [str(tmp_path / name) for name in names]
    # A glob may match a folder.
    assert document_formats.find_files([str(tmp_path / "*p")]) == [str(tmp_path / names[2])]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty gives no file that ends in \.txt"):
        document_formats.find_files([str(tmp_path / "empty")])
    with pytest.raises(UserError, match=r"d\.tsv gives no file that ends in \.txt"):
        document_formats.find_files([str(tmp_path / "deep" / "d.tsv")])
    with pytest.raises(UserError, match=r"none\*\.txt does not exist"):
        document_formats.find_files([str(tmp_path / "none*.txt")])
