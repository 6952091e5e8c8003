import gzip
import itertools
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import lxml.etree
import pubmed_parser
import pytest
from pubmed_parser import medline_parser

from data_prep.readers import input_files, pubmed
from data_prep.readers.pubmed import OtherAbstract, Section
from tests import reference
from tfbio.formats import markup, safe_xml

ROOT = Path(__file__).resolve().parents[3]
MATH = "{http://www.w3.org/1998/Math/MathML}math"

SHIPPED = ("pubmed20n0014.xml.gz", "pubmed21n1298.xml.gz")

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
        Section("AIM", "OBJECTIVE", "The value p0 < 1 & more."),
        Section("OTHER", "", "It is x2."),
    )
    assert [(c.pmid, c.version, c.deleted) for c in deleted] == [("7", 1, True), ("8", 2, True)]

    # The loss that is the reason for an own reading: when this fails, use pubmed_parser's.
    compressed = tmp_path / "nested.xml.gz"
    compressed.write_bytes(gzip.compress(NESTED.encode()))
    (theirs, *_) = pubmed_parser.parse_medline_xml(str(compressed))
    assert "p0" not in theirs["title"] + theirs["abstract"]
    assert "AIM" in theirs["abstract"] and "OBJECTIVE" not in theirs["abstract"]
    assert "Autre." not in str(theirs)


EVERYTHING = """<PubmedArticleSet>
<PubmedBookArticle><BookDocument><PMID Version="1">5</PMID><ArticleTitle>A chapter</ArticleTitle>
<Abstract><AbstractText>Of a book.</AbstractText></Abstract></BookDocument></PubmedBookArticle>
<PubmedArticle><MedlineCitation><PMID Version="2"> 10 </PMID>
<DateCompleted><Year>2019</Year><Month>12</Month><Day>31</Day></DateCompleted>
<DateRevised><Year>2020</Year><Month>2</Month><Day>03</Day></DateRevised>
<Article><Journal/><ArticleTitle>One.</ArticleTitle>
<Abstract><AbstractText/><AbstractText Label="AIM"> </AbstractText>
<AbstractText Label="METHODS  AND MATERIALS" NlmCategory="Methods">Done.</AbstractText></Abstract>
<Language>eng</Language><Language>fre</Language><Language/>
<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
<PublicationType UI="D016441">Retracted Publication</PublicationType><PublicationType/>
</PublicationTypeList></Article>
<OtherAbstract Type="Publisher" Language="fre"><AbstractText Label="BUT">Autre.</AbstractText>
<CopyrightInformation>Droits.</CopyrightInformation></OtherAbstract>
<OtherAbstract Type="Publisher" Language="ger"><AbstractText/></OtherAbstract>
</MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID>11</PMID><Article><ArticleTitle/></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><PMID>12</PMID>
</CommentsCorrections></CommentsCorrectionsList></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="x">12</PMID><Article>
<PublicationTypeList><PublicationType>Retraction of Publication</PublicationType>
</PublicationTypeList></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="RetractionOf"><PMID>11</PMID>
</CommentsCorrections></CommentsCorrectionsList></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID>13</PMID></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation></MedlineCitation></PubmedArticle>
<PubmedArticle/>
</PubmedArticleSet>"""


def test_everything_that_a_citation_can_say(tmp_path):
    path = write(tmp_path / "all.xml", EVERYTHING)
    chapter, one, retracted, retraction, bare, nothing, empty = pubmed.read_citations(path)
    assert chapter == pubmed.Citation("5", book=True) and empty == pubmed.Citation("")
    assert one == pubmed.Citation(
        pmid="10",
        version=2,
        revised="20200203",
        title="One.",
        sections=(Section("METHODS AND MATERIALS", "METHODS", "Done."),),
        other_abstracts=(OtherAbstract("Publisher", "fre", (Section("BUT", "", "Autre."),)),),
        languages=("eng", "fre"),
        publication_types=("Journal Article", "Retracted Publication"),
        retracted=True,
    )
    assert retracted == pubmed.Citation(pmid="11", retracted=True)
    assert (retraction.version, retraction.retracted) == (1, False)
    assert bare == pubmed.Citation(pmid="13")
    assert nothing == pubmed.Citation(pmid="")

    # pubmed_parser stops at an empty element; when this fails, it may read these two fields.
    compressed = tmp_path / "all.xml.gz"
    compressed.write_bytes(gzip.compress(EVERYTHING.encode()))
    with pytest.raises((TypeError, AttributeError)):
        list(pubmed_parser.parse_medline_xml(str(compressed)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pubmed21n1298.xml.gz", (2021, 1298)),
        ("medline16n0902_subset.xml.gz", (2016, 902)),
        ("ftp/pubmed/baseline/pubmed25n0001.xml", (2025, 1)),
        ("pubmed21n12980.xml.gz", (2021, 12980)),
        ("pubmed21n129.xml.gz", None),
        ("pubmed21n99999999999.xml.gz", None),
        ("pubmed21n\u0661\u0662\u0669\u0668.xml.gz", None),
        ("my_pubmed21n1298.xml.gz", None),
        ("articles.xml", None),
    ],
)
def test_edition(name, expected):
    assert pubmed.edition(name) == expected


# The independent reading: Python's own XML parser, and another way to the same text.

# What nobody sees, and what is seen as something else; the rest of Unicode stays as it is.
SEEN = {code: None for code in (0xAD, 0x200B, 0x200C, 0x2062, 0xFEFF)}
SEEN |= {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFF01, 0xFF5F)}
SEEN |= dict(zip(range(0xFB00, 0xFB05), ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
SEEN |= {0x97: "—"}


def words(text):
    """Returns a text's words, and where they begin in the text without white space."""
    result = text.split()
    return result, set(itertools.accumulate(map(len, result)))


def compare(ours, element):
    """Asserts that a text has every word of an element, and gives what had to be mended."""
    raw = "".join(element.itertext()) if element is not None else ""
    if ours == " ".join(raw.split()):
        return None
    theirs = re.sub(
        r"&(nbsp|lt|gt|rsquo|#\d+);", lambda m: ENTITIES.get(m[1]) or chr(int(m[1][1:])), raw
    )
    theirs = re.sub(r"</?(o:)?p>", " ", theirs).translate(SEEN)
    if next(element.iter(MATH), None) is not None:
        # Here the white space is XML's. All symbols are there, in their order; and outside of the
        # formulas every word is.
        assert re.sub(r"[\s/()√]", "", ours) == re.sub(r"[\s/()√]", "", theirs)
        outside = list(element.itertext())
        for math in element.iter(MATH):
            inside = list(math.itertext())
            start = next(i for i in range(len(outside)) if outside[i : i + len(inside)] == inside)
            outside[start : start + len(inside)] = ["\0"]
        pieces = " ".join("".join(outside).translate(SEEN).split()).split("\0")
        assert re.fullmatch(".*?".join(map(re.escape, pieces)), ours)
        return "formula"
    assert "".join(ours.split()) == "".join(theirs.split())  # nothing lost, nothing invented
    (_, our_ends), (_, their_ends) = words(ours), words(theirs)
    assert their_ends <= our_ends  # nothing glued
    if our_ends != their_ends:  # nor anything taken apart, but for headings in a sentence
        assert [
            e for e in element.iter() if e.tag in "bi" and re.match("[A-Z][a-z]{3}", e.text or "")
        ]
        return "heading"
    return "characters"


ENTITIES = {"nbsp": " ", "lt": "<", "gt": ">", "rsquo": "’"}


CITED = re.compile(rb"<(MedlineCitation|DeleteCitation)[ >].*?</\1>", re.DOTALL)


def compare_file(path, also=None):
    """Compares every field of every citation, and counts what was mended in the texts.

    Python's parser gets a citation at a time: most of its time over a file goes into the rest.

    Args:
        path: The file.
        also: A function that gets each citation's XML and its element.
    """
    mended = []
    citations = pubmed.read_citations(path)
    with safe_xml.open_file(path) as stream:
        content = stream.read()
    for cited in CITED.finditer(content):
        element = ElementTree.fromstring(cited[0])
        if element.tag == "DeleteCitation":
            for pmid in element:
                version = int(pmid.get("Version"))
                assert next(citations) == pubmed.Citation(pmid.text, version, deleted=True)
        else:
            mended.append(compare_citation(next(citations), element))
            if also is not None:
                also(cited[0], element)
    assert next(citations, None) is None
    return mended


def compare_citation(citation, element):
    """Compares one citation, and gives what was mended in its texts."""
    pmid = element.find("PMID")
    assert (citation.pmid, citation.version) == (pmid.text, int(pmid.get("Version")))
    assert not citation.deleted
    dates = [
        date
        for kind in ("Revised", "Completed", "Created")
        if (date := element.find(f"Date{kind}")) is not None
    ]
    assert citation.revised == "".join(part.text for part in dates[0])
    assert citation.languages == tuple(e.text for e in element.findall("Article/Language"))
    types = [e.text for e in element.findall("Article/PublicationTypeList/PublicationType")]
    assert citation.publication_types == tuple(types)
    links = {e.get("RefType") for e in element.iter("CommentsCorrections")}
    assert citation.retracted == ("Retracted Publication" in types or "RetractionIn" in links)
    mended = [compare(citation.title, element.find("Article/ArticleTitle"))]
    abstracts = [(citation.sections, element.find("Article/Abstract"))]
    others = element.findall("OtherAbstract")
    for other, theirs in zip(citation.other_abstracts, others, strict=True):
        assert (other.kind, other.language) == (theirs.get("Type"), theirs.get("Language"))
        abstracts.append((other.sections, theirs))
    for sections, abstract in abstracts:
        parts = [] if abstract is None else abstract.findall("AbstractText")
        parts = [part for part in parts if "".join(part.itertext()).split()]
        for section, part in zip(sections, parts, strict=True):
            assert section.label == " ".join(part.get("Label", "").split())
            assert section.category == part.get("NlmCategory", "")
            mended.append(compare(section.text, part))
    return mended


def test_every_word_of_a_slice_is_read(pubmed_slice):
    old, new = (compare_file(pubmed_slice / name) for name in SHIPPED)
    assert (len(old), len(new)) == (100, 200)


def test_every_word_of_other_real_files_is_read():
    files = [path for path in reference.corpus("pubmed_xml").iterdir() if ".xml" in path.name]
    read = {path.name: len(compare_file(path)) for path in files}
    assert len(read) == 10
    assert read["medline16n0902_subset.xml.gz"] == 604  # the older root


@pytest.mark.slow
def test_every_word_of_the_shipped_files_is_read():
    """And what pubmed_parser's reader of titles and abstracts, `stringify_children`, loses."""
    letters_lost = []

    def count_loss(xml, element):
        theirs = lxml.etree.fromstring(xml)
        paths = ["Article/ArticleTitle"]
        if len(element.findall("Article/Abstract/AbstractText")) == 1:
            paths.append("Article/Abstract/AbstractText")
        for path in paths:
            letters = len("".join("".join(element.find(path).itertext()).split()))
            kept = medline_parser.stringify_children(theirs.find(path))
            letters_lost.append(letters - len("".join(kept.split())))

    old, new = map(Path, input_files.shipped_files(".xml.gz"))
    old, new = compare_file(old), compare_file(new, count_loss)
    assert (len(old), len(new)) == (30_000, 20_788)
    assert not any(itertools.chain(*old))
    mended = Counter(itertools.chain(*new))
    del mended[None]
    assert mended == {"formula": 35, "heading": 90, "characters": 81}
    texts, lost = len(letters_lost), sum(letters > 0 for letters in letters_lost)
    assert (texts, lost, sum(letters_lost)) == (32_841, 158, 3_401)


def test_pubmed_parser_reads_the_same_where_nothing_is_nested(pubmed_slice):
    path = pubmed_slice / SHIPPED[1]
    ours, theirs = pubmed.read_citations(path), pubmed_parser.parse_medline_xml(str(path))
    for our, their in zip(ours, theirs, strict=True):
        assert our.pmid == their["pmid"]
        assert ";".join(our.languages) == their["languages"]
        types = [name.partition(":")[2] for name in their["publication_types"].split("; ")]
        assert list(our.publication_types) == types
        assert our.title == markup.clean(their["title"])
        if len(our.sections) == 1:
            assert our.sections[0].text == markup.clean(their["abstract"])


def test_the_older_root_without_pubmed_article():
    path = reference.corpus("pubmed_xml/medline16n0902_subset.xml.gz")
    citations = list(pubmed.read_citations(path))
    articles = [c for c in citations if not c.deleted]
    assert len(articles) == 604
    assert sum(not c.sections for c in articles) == 78
    assert len(citations) - len(articles) == 1
    assert len({c.pmid for c in articles}) == 604
    assert not list(pubmed_parser.parse_medline_xml(str(path)))  # its loss


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
ATTRIBUTE = BOMB.replace("<PMID>", '<PMID Version="&b;">')
LONG = NESTED.replace("more.", "more " * 2_200_000)
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
        pytest.param(ATTRIBUTE.encode(), "entities", id="bomb-in-attribute"),
        pytest.param(DEEP.encode(), "XML", id="deep"),
        pytest.param(LONG.encode(), "XML.*too long", id="11-megabytes-of-text"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, expected):
    path = tmp_path / "bad.xml"
    path.write_bytes(content)
    with pytest.raises(safe_xml.BadFile, match=expected) as caught:
        list(pubmed.read_citations(path))
    assert "\n" not in str(caught.value)


def test_undeclared_entities_are_html_s_characters_or_a_mark(tmp_path):
    unknown = Counter()
    (citation,) = pubmed.read_citations(write(tmp_path / "a.xml", UNDECLARED), unknown)
    assert (citation.title, unknown) == ("\ufffd", {"b": 1})
    bare = UNDECLARED.partition(">")[2].replace("&b;", "A&nbsp;&beta;-blocker &amp;c.")
    (citation,) = pubmed.read_citations(write(tmp_path / "a.xml", bare), unknown)
    assert (citation.title, unknown) == ("A \u03b2-blocker &c.", {"b": 1})


MANY = """
import resource, sys
from data_prep.readers import pubmed
list(pubmed.read_citations(sys.argv[1]))  # what the imports need
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(1 for _ in pubmed.read_citations(sys.argv[2])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_a_file_of_one_line(tmp_path):
    article = re.search(r"<PubmedArticle>.*</PubmedArticle>", NESTED, re.S)[0]
    article = article.replace("more.", "more " * 20_000).replace("\n", " ")
    one = write(tmp_path / "one.xml", f"<PubmedArticleSet>{article}</PubmedArticleSet>")
    many = write(tmp_path / "many.xml", f"<PubmedArticleSet>{article * 1000}</PubmedArticleSet>")
    assert os.path.getsize(many) > 100e6
    command = [sys.executable, "-c", MANY, str(one), str(many)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count == 1000
    assert kilobytes < 10_000


def test_a_file_is_streamed():
    citations = pubmed.read_citations(input_files.shipped_files(".xml.gz")[1])
    assert len(list(itertools.islice(citations, 10))) == 10


@pytest.mark.parametrize("between", ["", "<!-- -->" * 10_000])
def test_the_pmid_is_the_citations_own(between, tmp_path):
    """Only `pubmed_parser` takes an id behind the citation, which a stream has or has not yet."""
    ids = '<PubmedData><ArticleIdList><ArticleId IdType="pmid">13</ArticleId></ArticleIdList>'
    for cited, pmid in (("<PMID> 12 </PMID>", "12"), ("<PMID/>", ""), ("", "")):
        article = (
            f"<PubmedArticle><MedlineCitation>{cited}</MedlineCitation>{between}"
            f"{ids}</PubmedData></PubmedArticle>"
        )
        (tmp_path / "x.xml").write_text(f"<PubmedArticleSet>{article}</PubmedArticleSet>")
        (ours,) = pubmed.read_citations(tmp_path / "x.xml")
        theirs = medline_parser.parse_pmid(lxml.etree.fromstring(article))
        assert ours.pmid == pmid
        assert (theirs or "").strip() == (pmid if "PMID" in cited else "13")


def test_pmcs_number_is_the_articles_own(tmp_path):
    """It follows the citation; each citation keeps its own, and is yielded in its place."""

    def article(pmid, data):
        cited = f"<MedlineCitation><PMID>{pmid}</PMID></MedlineCitation>" if pmid else ""
        return f"<PubmedArticle>{cited}<PubmedData>{data}</PubmedData></PubmedArticle>"

    ids = '<ArticleIdList><ArticleId IdType="doi">10</ArticleId>{}</ArticleIdList>'
    pmc = ids.format('<ArticleId IdType="pmc"> PMC{} </ArticleId>')
    references = f"<ReferenceList><Reference>{pmc.format(9)}</Reference></ReferenceList>"
    parts = [
        article(1, references + pmc.format(1)),
        article(2, pmc.format(2) + references),
        article(3, ids.format("") + references),
        article("", ""),
        "<MedlineCitation><PMID>4</PMID></MedlineCitation>",
        "<DeleteCitation><PMID>5</PMID></DeleteCitation>",
        "<MedlineCitation><PMID>6</PMID></MedlineCitation>",
    ]
    path = write(tmp_path / "a.xml", f"<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>")
    assert [(c.pmid, c.pmcid) for c in pubmed.read_citations(path)] == [
        *(("1", "PMC1"), ("2", "PMC2"), ("3", ""), ("", "")),
        *(("4", ""), ("5", ""), ("6", "")),
    ]
