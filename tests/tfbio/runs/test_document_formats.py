"""Full texts, annotated in each form of output."""

import errno
import json
import os
import tarfile

import bioc
import bioc.brat
import bioc.pubtator
import pytest

from data_prep.readers import input_files
from data_prep.selection import articles
from tests import html_pages
from tfbio.base.errors import UserError
from tfbio.formats import safe_xml
from tfbio.formats.annotated_documents import FormatError
from tfbio.formats.text_files import STDIN
from tfbio.runs import document_formats, predict


def test_a_title_with_a_greater_sign_is_one_heading(tmp_path):
    """ " > " joins the titles of sections in the form of documents, and is text in a title."""
    section = "<sec><title>{}</title>{}</sec>"
    inner = section.format("BMI > 25 kg", "<p>Second.</p>")
    body = section.format("Age > 60", f"<p>First.</p>{inner}")
    article = f"""<article><front><article-meta><title-group><article-title>Risk</article-title>
      </title-group></article-meta></front><body>{body}</body></article>"""
    (tmp_path / "a.nxml").write_text(article)
    (document,) = document_formats.read(str(tmp_path / "a.nxml"))
    assert document.text == "Risk\nAge > 60\nFirst.\nBMI > 25 kg\nSecond."


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error"),
        (OSError("Forbidden: a.xml\nquota exceeded"), "Forbidden: a.xml quota exceeded"),
    ],
)
def test_xml_that_a_disk_or_a_store_does_not_give_is_named(tmp_path, monkeypatch, error, why):
    def fail(_):
        raise error

    (tmp_path / "a.xml").write_text("<PubmedArticleSet/>")
    path = str(tmp_path / "a.xml")
    monkeypatch.setattr(safe_xml, "first_element", fail)
    assert document_formats.problem_of(path) == f"{path}: it cannot be read ({why})."
    with pytest.raises(FormatError, match=rf"a\.xml: it cannot be read \({why}\)"):
        list(document_formats.read(path))


@pytest.mark.parametrize("name", ["6605965a.nxml", "package.tar.gz"])
def test_full_texts_of_pmc_are_annotated(make_trial, cpu, tmp_path, capsys, name):
    """In each form the text and the offsets fit, as the packages of the formats read them."""
    known = {"words": "punctuation", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known)
    (source,) = (x for x in input_files.shipped_files(".nxml") if x.endswith("6605965a.nxml"))
    if name != "6605965a.nxml":
        (tmp_path / "bad.nxml").write_text("<article/>")
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            archive.add(tmp_path / "bad.nxml", "bad.nxml")
            archive.add(source, "good.nxml")
        source = str(tmp_path / name)
    (expected,) = document_formats.read(source)
    outputs = {"jsonl": "a", "bioc": "b.xml", "pubtator": "c", "brat": "d", "html": "e.html"}
    for form, output in outputs.items():
        predict.predict(trial, [source], str(tmp_path / output), strategy=cpu, form=form)
    said = capsys.readouterr().out
    left_out = f"left out: {source}, bad.nxml: it has no <front>"
    assert said.count(left_out) == 5 * (name != "6605965a.nxml")

    record = json.loads((tmp_path / "a").read_text())
    assert (record["id"], record["text"]) == ("PMC2994229", expected.text)
    found = [(x["start"], x["end"], x["text"]) for x in record["entities"]]
    assert len(found) > 50 and found[-1][0] > 10_000
    assert not [
        (start, end, mention)
        for start, end, mention in found
        if expected.text[start:end] != mention
    ]

    (document,) = bioc.loads((tmp_path / "b.xml").read_text(encoding="utf-8")).documents
    assert document.id == "PMC2994229"
    kinds = {passage.infons["type"] for passage in document.passages}
    assert kinds == {"title", "abstract", "heading", "paragraph", "caption", "table"}
    for passage in document.passages:
        end = passage.offset + len(passage.text)
        assert passage.text == expected.text[passage.offset : end]
    spans = [(x.total_span, x.text) for p in document.passages for x in p.annotations]
    assert [(span.offset, span.end, mention) for span, mention in spans] == found

    (document,) = bioc.pubtator.loads((tmp_path / "c").read_text().rstrip("\n"))
    title, _, rest = expected.text.partition("\n")
    assert document.text == f"{title}\n{rest.replace(chr(10), ' ')}"
    assert [(x.start, x.end, x.text) for x in document.annotations] == found

    text = (tmp_path / "d" / "PMC2994229.txt").read_bytes().decode()
    assert text == expected.text
    with open(tmp_path / "d" / "PMC2994229.ann", encoding="utf-8", newline="\n") as file:
        read = bioc.brat.loads(text, file.read())
    spans = [(part.begin, part.end, x.text) for x in read.entities for part in x.locations]
    assert spans == found

    page = html_pages.Page((tmp_path / "e.html").read_bytes().decode())
    (article,) = page.articles
    assert article.text == expected.text
    assert [(start, end, mention) for _, start, end, mention in article.entities()] == found
    titles = [attributes["title"] for attributes, _ in article.marks.values()]
    assert titles == [
        f"{x['type']}, score {x['score']:.4f}, characters {x['start']} to {x['end']}"
        for x in record["entities"]
    ]


def test_what_is_no_article_of_pubmed_s_is_passed_over(tmp_path):
    """An update file withdraws articles, and PubMed's website gives chapters of books as well."""
    (tmp_path / "a.xml").write_text(
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>"
        "Cells.</ArticleTitle></Article></MedlineCitation></PubmedArticle><PubmedBookArticle>"
        "<BookDocument><PMID>2</PMID></BookDocument></PubmedBookArticle><DeleteCitation>"
        '<PMID Version="1">3</PMID></DeleteCitation></PubmedArticleSet>'
    )
    read = document_formats.read(str(tmp_path / "a.xml"))
    assert [(document.id, document.text) for document in read] == [("1", "Cells.")]


def test_an_article_without_a_pmid_has_its_place_in_the_file_as_id(tmp_path):
    """As `data_prep.documents` names it. One without any text is no document."""
    article = "<PubmedArticle><MedlineCitation>{}</MedlineCitation></PubmedArticle>"
    title = "<Article><ArticleTitle>{}</ArticleTitle></Article>"
    every = [
        article.format("<PMID>1</PMID>" + title.format("Cells.")),
        "<PubmedArticle/>",
        article.format(title.format("Mice.")),
        article.format("<PMID>4</PMID>" + title.format("")),
    ]
    path = str(tmp_path / "a.xml")
    with open(path, "w") as file:
        file.write(f"<PubmedArticleSet>{''.join(every)}</PubmedArticleSet>")
    read = document_formats.read(path)
    assert [(document.id, document.text) for document in read] == [
        ("1", "Cells."),
        ("a.xml#3", "Mice."),
    ]
    prepared = articles.read(path, articles.Selection(), None)
    assert [x.id for x in prepared] == ["pmid:1", "a.xml#2", "a.xml#3", "pmid:4"]


@pytest.mark.parametrize(
    "name, expected",
    [
        (b"\xff1.txt", "\ufffd1"),
        ("\u0130.txt".encode(), "\u0130"),  # two characters in lower case
        (b"a.b.TXT.GZ", "a.b"),
    ],
)
def test_the_id_of_a_text_is_the_beginning_of_its_name(tmp_path, name, expected):
    path = os.path.join(tmp_path, os.fsdecode(name))
    with open(path, "w") as file:
        file.write("The cells.")
    (document,) = document_formats.read(path)
    assert document.id == expected


def test_a_file_that_is_named_twice_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()
    spelt = ["b.txt", "./b.txt", str(tmp_path / "b.txt"), "a.txt", "-"]
    assert document_formats.find_files(spelt) == [STDIN, "./b.txt", "a.txt"]


def test_files_behind_links_to_folders_are_read_once(tmp_path):
    """A link to the folder around it would give 41 names of each file."""
    for name in ("in/a/x.txt", "in/.hidden/x.txt", "in/.x.txt", "out/y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    links = {"in/self": ".", "in/0": "a", "in/more": "../out", "in/z.txt": "a/x.txt"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)

    def found(*inputs):
        paths = document_formats.find_files([str(tmp_path / name) for name in inputs])
        return [path.removeprefix(f"{tmp_path}/") for path in paths]

    # A link to a file has a name of its own, which may be the id of a document.
    assert found("in") == ["in/a/x.txt", "in/more/y.txt", "in/z.txt"]
    assert found("out", "in", "in/*") == ["in/0/x.txt", "in/more/y.txt", "in/self/z.txt"]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match="--input: .*/in cannot be listed: Permission denied"):
        document_formats.find_files([str(tmp_path / "in")])
