"""Documents to annotate, in each format, and the annotations that are written of them."""

import functools
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests import html_pages
from tests.fuzz import damage, grammars, harness, seeds
from tests.fuzz.blurb_releases import KB
from tfbio.formats import annotated_documents, annotation_formats, bigbio
from tfbio.formats.annotated_documents import Entity
from tfbio.formats.text_files import STDIN
from tfbio.runs import document_formats

PUBTATOR = (
    "227508|t|Naloxone reverses the effect of clonidine.\n"
    "227508|a|In unanesthetized rats the decrease was reversed.\n"
    "227508\t0\t8\tNaloxone\tChemical\tD009270\n\n"
    "8|t|Another.\n8|a|\n"
)
PASSAGES = [
    {"infons": {"type": "title"}, "offset": 0, "text": "Naloxone.", "annotations": []},
    {"infons": {"type": "abstract"}, "offset": 10, "text": "It reverses it.", "sentences": []},
    {"infons": {}, "offset": 26, "sentences": [{"offset": 26, "text": "More."}]},
]
BIOC = {
    "source": "PubTator",
    "infons": {},
    "documents": [{"id": "1", "passages": PASSAGES}, {"id": "2", "passages": PASSAGES[:1]}],
}


def bioc_xml():
    def passages(result):
        for passage in result:
            yield "<passage>"
            yield from (f'<infon key="{k}">{v}</infon>' for k, v in passage["infons"].items())
            yield f"<offset>{passage['offset']}</offset>"
            if "text" in passage:
                yield f"<text>{passage['text']}</text>"
            for part in passage.get("sentences", ()):
                yield f"<sentence><offset>{part['offset']}</offset>"
                yield f"<text>{part['text']}</text></sentence>"
            yield "</passage>"

    yield "<collection><source>x</source>"
    for document in BIOC["documents"]:
        yield f"<document><id>{document['id']}</id>"
        yield from passages(document["passages"])
        yield "</document>"
    yield "</collection>"


BIOC_XML = etree.fromstring("".join(bioc_xml()))


def reads(folder):
    """A file gives documents whose passages stand in their text, or is refused."""
    (path,) = folder.iterdir()
    documents = list(document_formats.read(str(path)))
    for document in documents:
        # Offsets cannot ask for more than the file has.
        assert (
            len(document.text) <= max(10_000_000, path.stat().st_size) + path.stat().st_size * 1000
        )
        end = 0
        for passage in document.passages:
            assert end <= passage.start < passage.end <= len(document.text)
            end = passage.end
        assert document.text.isascii() or document.text.encode("utf-8")
    return documents


def keeps_documents(folder):
    """As many documents are read as the collection has."""
    (path,) = folder.iterdir()
    root = etree.parse(str(path)).getroot()
    assert len(reads(folder)) == len(root.findall("document"))


def keeps_what_is_there(folder):
    """A folder of brat's, into which documents are written, has all of them or its old files."""
    documents = list(document_formats.read(str(folder / "in.pubtator")))
    entities = [[Entity("X", 0, min(3, len(x.text)), None)] * bool(x.text) for x in documents]
    annotated = zip(documents, entities, strict=True)
    output = folder / "out"
    output.mkdir()
    (output / "old.txt").write_text("old")
    try:
        annotation_formats.write(str(output), "brat", annotated)
    except annotated_documents.FormatError:
        assert [path.name for path in output.iterdir()] == ["old.txt"]
        raise
    texts = [path for path in output.glob("*.txt") if path.name != "old.txt"]
    assert len(texts) == len(documents)


def writes_what_it_reads(folder):
    """Reads again, as the same text, what is written as BioC, JSON lines, HTML and BigBio."""
    documents = reads(folder)
    entities = [[Entity("X", 0, min(3, len(x.text)), 0.5)] * bool(x.text) for x in documents]
    for form, name in (
        ("bioc", "out.json"),
        ("bioc", "out.xml"),
        ("jsonl", "out.jsonl"),
        ("html", "out.html"),
        ("bigbio", "kb.json"),
        ("bigbio", "kb.parquet"),
    ):
        path = folder / name
        annotation_formats.write(str(path), form, zip(documents, entities, strict=True))
        if form == "jsonl":
            again = [json.loads(line)["text"] for line in path.read_text().split("\n") if line]
        elif form == "html":
            articles = html_pages.Page(path.read_bytes().decode()).articles
            again = [x.text for x in articles]
        else:
            again = [x.text for x in document_formats.read(str(path))]
        assert len(again) == len(documents)
        if form == "bigbio":  # which has blanks between passages, some at the ends of these
            found = document_formats.read(str(path))
            assert [_passages(x) for x in found] == [_passages(x) for x in documents]
        elif name != "out.xml":  # whose line ends are others
            assert again == [x.text for x in documents]
        path.unlink()


def _passages(document):
    texts = ((x.start, document.text[x.start : x.end]) for x in document.passages)
    bare = ((start + len(text) - len(text.lstrip(" ")), text.strip(" ")) for start, text in texts)
    return [(start, text) for start, text in bare if text]


def pubtator():
    cells = ("227508", "9|t|A", "8|a|B", "227508|t|x", "0|t|")
    files = [grammars.lines(PUBTATOR, cells), grammars.lines(PUBTATOR, cells, "|")]
    text = seeds.text_of("ncbi_disease/pubtator/NCBIdisease_Test.PubTator", 20)
    files.append(grammars.lines(text, cells))
    return st.one_of(files)


@given(pubtator())
def test_mutated_pubtator(data):
    harness.judge(reads, {"x.pubtator": data})


@given(grammars.json_files(BIOC))
def test_mutated_json(data):
    harness.judge(reads, {"x.json": data})


@given(grammars.json_files([KB]))
@harness.few
def test_mutated_bigbio(data):
    harness.judge(reads, {"x.json": data})


@functools.cache
def _parquet():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.parquet")
        bigbio.write(path, "kb", [KB, {**KB, "id": "2"}])
        return path.read_bytes()


@given(st.data())
@harness.few
def test_damaged_parquet(data):
    harness.judge(reads, {"x.parquet": data.draw(damage.damaged(st.just(_parquet())))})


@given(grammars.with_prolog(grammars.xml_elements(BIOC_XML, ("offset", "id"))))
def test_mutated_xml(data):
    harness.judge(reads, {"x.xml": data})


@given(
    st.sampled_from(seeds.full_texts()).flatmap(
        lambda article: grammars.with_prolog(grammars.xml_elements(article, ("article-id",)))
    )
)
def test_mutated_full_texts(data):
    harness.judge(reads, {"x.nxml": data})


@given(grammars.numbers_changed(json.dumps(BIOC)))
def test_other_offsets_in_json(data):
    harness.judge(reads, {"x.json": data})


@given(grammars.numbers_changed("".join(bioc_xml())))
def test_other_offsets_in_xml(data):
    harness.judge(reads, {"x.xml": data})


@given(grammars.xml_elements(BIOC_XML, ("id",), well_formed=True))
def test_documents(data):
    harness.judge(keeps_documents, {"x.xml": data})


@given(
    st.sampled_from(["x.pubtator", "x.txt", "x.json", "x.xml", "X.TXT.gz"]),
    damage.damaged(
        st.sampled_from([PUBTATOR, json.dumps(BIOC), "".join(bioc_xml()), "A.\n\nB."]).map(
            str.encode
        )
    ),
)
def test_damaged_files(name, data):
    harness.judge(reads, {name: data})


@pytest.mark.parametrize("name", ["x.pubtator", "x.txt", "x.json", "x.xml"])
def test_bombs(name):
    harness.judge(reads, {name: damage.bomb()})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2", "..", "a b", "A", "a", "%2e"]), st.text("ab. ", max_size=8)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_brat(result):
    text = "".join(f"{name.replace(' ', '_')}|t|{title}\n" for name, title in result)
    harness.judge(keeps_what_is_there, {"in.pubtator": text.encode()})


@given(st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_written_texts(text):
    harness.judge(writes_what_it_reads, {"x.txt": text.encode("utf-8", "surrogatepass")})


def writes_again(folder):
    """Writes PubTator, which has the texts, and brat, whose folder has two files for each."""
    documents = reads(folder)
    entities = [[Entity("a b", 0, min(9, len(x.text)), None)] * bool(x.text) for x in documents]
    for _ in range(2):  # the second time over the first
        annotation_formats.write(str(folder / "out"), "brat", zip(documents, entities, strict=True))
        written = sorted((folder / "out").glob("*.txt"))
        assert len(written) == len(documents) == len(list((folder / "out").glob("*.ann")))
    path = str(folder / "out.pubtator")
    annotation_formats.write(path, "pubtator", zip(documents, entities, strict=True))
    if all(x.id and "\x85" not in x.text for x in documents):
        again = [x.text for x in document_formats.read(path)]
        assert [x.split() for x in again] == [x.text.split() for x in documents]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.booleans())
def test_texts_written_again(text, is_named):
    name = "x.txt" if is_named else f"{'x' * 200}.txt"
    harness.judge(writes_again, {name: text.encode()})


@given(st.lists(st.sampled_from(seeds.citations()), min_size=1, max_size=2), st.data())
@harness.few
def test_citations(result, data):
    mutated = [data.draw(grammars.xml_elements(x, ("PMID",), well_formed=True)) for x in result]
    more = data.draw(
        st.sampled_from(
            [
                b"",
                b"<DeleteCitation><PMID>7</PMID></DeleteCitation>",
                b"<PubmedBookArticle><BookDocument><PMID>7</PMID></BookDocument></PubmedBookArticle>",
            ]
        )
    )
    whole = b"<PubmedArticleSet>%s%s</PubmedArticleSet>" % (b"".join(mutated), more)
    harness.judge(reads, {"x.xml": whole})


def finds(folder):
    """Files are found by their endings, in folders, by globs and by name; or it is said."""
    item = (folder / "flag").read_text()
    result = document_formats.find_files([str(folder / item) if item else str(folder)])
    assert result and all(os.path.isfile(path) for path in result)


@given(st.sampled_from(["", "inner", "*.txt", "x.txt", "flag", "none", "*", "inner/x.json.gz"]))
@harness.few
def test_inputs(item):
    files = {"x.txt": b"A", "inner/x.json.gz": b"B", "flag": item.encode(), "other/x.pdf": b""}
    harness.judge(finds, files)


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())


class Keyboard(io.TextIOWrapper):
    """A terminal in place of a pipe."""

    def isatty(self) -> bool:
        """Returns True: somebody types."""
        return True


def reads_piped(folder):
    """Standard input gives documents that are read as those of a file, or is refused."""
    (path,) = folder.iterdir()
    stdin = {"closed": None, "typed": Keyboard(io.BytesIO(path.read_bytes()))}.get(
        path.name, io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    )
    with mock.patch.object(sys, "stdin", stdin):
        assert document_formats.find_files(["-"]) == [STDIN]
        documents = list(document_formats.read(STDIN))
    text = path.rename(folder / "x.txt")
    assert [x.text for x in documents] == [x.text for x in document_formats.read(str(text))]


@given(
    st.sampled_from(["piped", "typed", "closed"]),
    damage.damaged(
        st.sampled_from([PUBTATOR, json.dumps(BIOC), "".join(bioc_xml()), "A.\n\nB.", ""]).map(
            str.encode
        )
    ),
)
def test_standard_input(name, data):
    harness.judge(reads_piped, {name: data})
