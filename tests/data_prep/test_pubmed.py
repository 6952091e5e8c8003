import gzip
import html
import itertools
import re

import pubmed_parser
import pytest

from data_prep import documents, markup, pubmed

NESTED = """<?xml version="1.0" encoding="utf-8"?>
<PubmedArticleSet><PubmedArticle><MedlineCitation>
  <PMID Version="1">1</PMID>
  <Article>
    <Journal><JournalIssue><PubDate><Year>2020</Year></PubDate></JournalIssue></Journal>
    <ArticleTitle>Effects of <i>p<sub>0</sub></i> on H<sub>2</sub>O</ArticleTitle>
    <Abstract>
      <AbstractText Label="AIM" NlmCategory="OBJECTIVE">The value <i>p<sub>0</sub> &lt; 1</i>
        &amp; more.<!-- not text --></AbstractText>
      <AbstractText Label="OTHER">It is <b><i>x<sup>2</sup></i></b>.</AbstractText>
      <AbstractText/>
      <CopyrightInformation>Copyright.</CopyrightInformation>
    </Abstract>
  </Article>
  <OtherAbstract Type="Publisher"><AbstractText>Autre.</AbstractText></OtherAbstract>
</MedlineCitation>
<PubmedData><ReferenceList><Reference><ArticleIdList><ArticleId IdType="pmid">9</ArticleId>
</ArticleIdList></Reference></ReferenceList></PubmedData>
</PubmedArticle>
<DeleteCitation><PMID Version="1">7</PMID><PMID Version="2">8</PMID></DeleteCitation>
</PubmedArticleSet>"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_nested_markup_is_read_where_pubmed_parser_loses_it(tmp_path):
    path = write(tmp_path / "nested.xml", NESTED)
    article, *deleted = pubmed.read_citations(path)

    assert article.pmid == "1"
    assert article.title == "Effects of p0 on H2O"
    assert article.sections == (
        ("OBJECTIVE", "The value p0 < 1 & more."),
        ("UNASSIGNED", "It is x2."),
    )
    assert [(c.pmid, c.deleted) for c in deleted] == [("7", True), ("8", True)]

    # The loss that is the reason for an own reading: when this fails, use pubmed_parser's.
    compressed = tmp_path / "nested.xml.gz"
    compressed.write_bytes(gzip.compress(NESTED.encode()))
    (theirs, *_) = pubmed_parser.parse_medline_xml(str(compressed))
    assert "p0" not in theirs["title"] + theirs["abstract"]


def plain(xml):
    """Text of a piece of XML without a parser: tags out, references resolved."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", xml)).split())


@pytest.mark.parametrize("name", documents.SHIPPED)
def test_real_text_equals_an_independent_reading(pubmed_slice, name):
    with gzip.open(pubmed_slice / name, "rt", encoding="utf-8") as stream:
        articles = re.findall(r"<PubmedArticle>.*?</PubmedArticle>", stream.read(), re.S)
    citations = list(pubmed.read_citations(pubmed_slice / name))
    assert len(citations) == len(articles) >= 100
    for citation, xml in zip(citations, articles, strict=True):
        assert citation.pmid == re.search(r"<PMID[^>]*>(\d+)<", xml)[1]
        title = re.search(r"<ArticleTitle[^>]*>(.*?)</ArticleTitle>", xml, re.S)
        assert citation.title == (plain(title[1]) if title else "")
        abstract = re.search(r"<Abstract>(.*?)</Abstract>", xml, re.S)
        parts = re.findall(
            r"<AbstractText([^>]*)>(.*?)</AbstractText>", abstract[1] if abstract else "", re.S
        )
        assert [text for _, text in citation.sections] == [plain(text) for _, text in parts]
        for (category, _), (attributes, _) in zip(citation.sections, parts, strict=True):
            stated = re.search(r'NlmCategory="(\w+)"', attributes)
            unstated = "UNASSIGNED" if "Label=" in attributes else ""
            assert category == (stated[1] if stated else unstated)


def test_the_older_root_without_pubmed_article(tmp_path, shared):
    path = shared / "data/pubmed_xml/medline16n0902_subset.xml.gz"
    citations = list(pubmed.read_citations(path))
    articles = [c for c in citations if not c.deleted]
    assert len(articles) == 604
    assert sum(not c.sections for c in articles) == 78
    assert len(citations) - len(articles) == 1
    assert len({c.pmid for c in articles}) == 604


def test_one_citation_alone_is_read(tmp_path):
    citation = re.search(r"<MedlineCitation>.*</MedlineCitation>", NESTED, re.S)[0]
    (read,) = pubmed.read_citations(write(tmp_path / "one.xml", citation))
    assert read.pmid == "1"


def test_compressed_or_not_whatever_the_name(tmp_path):
    path = tmp_path / "wrong.xml"
    path.write_bytes(gzip.compress(NESTED.encode()))
    assert len(list(pubmed.read_citations(path))) == 3


BOMB = """<!DOCTYPE PubmedArticleSet [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article>
<ArticleTitle>&b;</ArticleTitle></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"""
OUTSIDE = BOMB.replace('<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">', '<!ENTITY b SYSTEM "/etc/passwd">')
UNDECLARED = (
    '<!DOCTYPE PubmedArticleSet SYSTEM "http://x.invalid/p.dtd">' + BOMB[BOMB.index("<Pubmed") :]
)
DEEP = f"<PubmedArticleSet>{'<i>' * 5000}{'</i>' * 5000}</PubmedArticleSet>"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(gzip.compress(NESTED.encode())[:-40], "gzip", id="truncated-gzip"),
        pytest.param(gzip.compress(NESTED.encode())[:-8] + b"\0" * 8, "gzip", id="checksum"),
        pytest.param(gzip.compress(b""), "XML", id="empty-gzip"),
        pytest.param(NESTED[: len(NESTED) // 2].encode(), "XML", id="truncated-xml"),
        pytest.param(b"PMID- 1\nTI  - A title\n", "XML", id="text"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "XML", id="binary"),
        pytest.param(b"<html><body>503</body></html>", "<html>", id="html"),
        pytest.param(BOMB.encode(), "entities", id="bomb"),
        pytest.param(OUTSIDE.encode(), "entities", id="external-entity"),
        pytest.param(UNDECLARED.encode(), "entity", id="undeclared-entity"),
        pytest.param(DEEP.encode(), "XML", id="deep"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, expected):
    path = tmp_path / "bad.xml"
    path.write_bytes(content)
    with pytest.raises(markup.BadFile, match=expected) as caught:
        list(pubmed.read_citations(path))
    assert "\n" not in str(caught.value)


def test_a_file_is_streamed():
    citations = pubmed.read_citations(documents.shipped_files()[1])
    assert len(list(itertools.islice(citations, 10))) == 10
