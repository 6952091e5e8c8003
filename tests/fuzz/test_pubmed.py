"""PubMed's XML: citations, from a file to the units of the documents stage."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep.readers.problem import Problem
from data_prep.selection import articles, input_units
from tests.fuzz import damage, grammars, harness, seeds
from tfbio.base.errors import DataError
from tfbio.base.shards import Shard, read_shard
from tfbio.formats import safe_xml

IDS = ("PMID", "ArticleId")
SELECTION = articles.Selection(other_abstracts="all")
FILE = "pubmed.xml"


def citation_set(*citations):
    return b"<PubmedArticleSet>" + b"\n".join(citations) + b"</PubmedArticleSet>"


def plain(element):
    return etree.tostring(element, with_tail=False)


def reads(folder, file=FILE):
    """A file gives candidates, or is refused."""
    try:
        result = list(articles.read(str(folder / file), SELECTION, None))
    except safe_xml.BadFile as error:
        # As the documents stage says it.
        raise DataError(f"{file}: {error}") from error
    for item in result:
        assert (
            isinstance(item, Problem)
            or bool(item.reason) != bool(item.documents)
            or (item.kind == articles.DELETION)
        )
    return result


def keeps_neighbours(folder):
    """The citations beside a bad one are read as without it."""
    expected, result = reads(folder, f"good/{FILE}"), reads(folder, f"bad/{FILE}")
    assert [result[0], result[-1]] == expected


def counts_all(folder):
    """Each citation is a text or has a reason, and all texts are in the units."""
    root = etree.parse(str(folder / FILE)).getroot()
    candidates = reads(folder)
    if root.find(".//PubmedArticle//PubmedArticle") is None:
        # An article without a citation, and a chapter of a book, is one that is left out.
        result = len(root.findall(".//MedlineCitation")) + len(root.findall(".//PubmedBookArticle"))
        result += sum(x.find(".//MedlineCitation") is None for x in root.iter("PubmedArticle"))
        assert len(candidates) == result + len(root.findall(".//DeleteCitation/PMID"))
    (folder / "work").mkdir()
    reader = input_units.Reader(str(folder / "work"), SELECTION, "", 10_000, 0)
    given = list(input_units.read_input((0, [bytes(folder / FILE)]), reader, 1))
    problems = [x for x in given if getattr(x, "tag", "") == "problems"]
    assert not problems, problems[0].value
    groups = [x if isinstance(x, tuple) else x.value for x in given]
    rows = np.concatenate([np.frombuffer(data, input_units.versions.ROW) for _, data in groups])
    assert len(rows) == len(candidates)
    texts = sum(len(x.documents) for x in candidates)
    assert rows["texts"].astype(int).sum() == texts
    assert sum(1 for x in candidates if x.reason) == (rows["reason"] > 0).sum()
    (work,) = (folder / "work").glob("*.tfrecord")
    shard = Shard(work.name, texts, 0, "")
    assert sum(1 for _ in read_shard(folder / "work", shard)) == texts


def keeps_words(folder):
    """Every word of a title and an abstract is in the text, in its order."""
    root = etree.parse(str(folder / FILE)).getroot()
    for element, result in zip(root.iter("PubmedArticle"), reads(folder), strict=True):
        for text in element.iter("AbstractText"):
            words = re.findall(r"[a-z]{3,}", "".join(text.itertext()))
            stands = " ".join(part for d in result.documents for part in d.sentences)
            assert re.findall(r"[a-z]{3,}", stands) == words


@st.composite
def sets(draw, well_formed=False):
    """A set of three citations, of which the one in the middle has mutations."""
    first, bad, last = (draw(st.sampled_from(seeds.citations())) for _ in range(3))
    bad = draw(grammars.xml_elements(bad, IDS, well_formed))
    return [plain(first), bad, plain(last)]


MANY_ABSTRACTS = (
    b"<PubmedArticle><MedlineCitation><PMID>7</PMID><Article><ArticleTitle>A</ArticleTitle>"
    b"<Abstract><AbstractText>a b</AbstractText></Abstract></Article>%s</MedlineCitation>"
    b"</PubmedArticle>"
) % (b"<OtherAbstract><AbstractText>a b</AbstractText></OtherAbstract>" * grammars.MANY)


@given(grammars.with_prolog(st.builds(citation_set, sets().map(b"".join))))
def test_mutated_citations(data):
    harness.judge(reads, {FILE: data})


@given(damage.damaged(sets(well_formed=True).map(lambda parts: citation_set(*parts))))
def test_damaged_files(data):
    harness.judge(reads, {FILE: data})


@given(sets(well_formed=True))
@harness.few
def test_neighbours_of_a_bad_citation(parts):
    first, bad, last = parts
    good, bad = citation_set(first, last), citation_set(first, bad, last)
    harness.judge(keeps_neighbours, {f"good/{FILE}": good, f"bad/{FILE}": bad})


@given(sets(well_formed=True).map(lambda parts: citation_set(*parts)))
@harness.few
def test_counts(data):
    harness.judge(counts_all, {FILE: data})


def test_many_abstracts():
    harness.judge(counts_all, {FILE: citation_set(MANY_ABSTRACTS)})


@pytest.mark.parametrize("byte", [b" ", b"<a>"])
def test_bombs(byte):
    harness.judge(reads, {FILE: damage.bomb(byte=byte)})


@st.composite
def abstracts(draw):
    """An abstract of words with markup within each other, and a blank between any two words."""
    words = st.text("abcdefgh", min_size=3, max_size=5)
    inline = st.recursive(
        words,
        lambda inner: st.tuples(
            st.sampled_from(["i", "b", "u", "sup", "sub", "x"]), st.lists(inner, max_size=3)
        ).map(lambda x: f"<{x[0]}>{' '.join(x[1])}</{x[0]}>"),
        max_leaves=6,
    )
    return " ".join(draw(st.lists(inline, min_size=1, max_size=5)))


@given(abstracts())
def test_words(text):
    citation = (
        "<PubmedArticle><MedlineCitation><PMID>7</PMID><Article><ArticleTitle>A</ArticleTitle>"
        f"<Abstract><AbstractText>{text}</AbstractText></Abstract></Article></MedlineCitation>"
        "</PubmedArticle>"
    )
    harness.judge(keeps_words, {FILE: citation_set(citation.encode())})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
