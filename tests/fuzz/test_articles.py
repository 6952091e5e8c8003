"""What is selected of articles: each is text, or left out for a reason that holds."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep.readers import pubmed
from data_prep.readers.problem import Problem
from data_prep.selection import articles, exclusion
from tests.fuzz import grammars, harness, seeds
from tfbio.formats import markup, safe_xml

LANGUAGES = ("eng", "fre", "", "english", "ENG")
TYPES = ("Review", "LETTER", "research-article", "Retracted Publication")


def selects(folder):
    """Whatever is selected, each article is a text, or is left out for a reason that holds."""
    given = json.loads((folder / "selection.json").read_text())
    excluded = exclusion.load([str(folder / "ids.txt")]) if (folder / "ids.txt").exists() else None
    lists = {name: tuple(given.pop(name, ())) for name in ("languages", "publication_types")}
    selection = articles.Selection(**given, **lists)
    for path in (folder / "pubmed.xml", folder / "pmc.xml"):
        result = _read(path, selection, excluded)
        everything = [x.kind for x in _read(path, articles.Selection())]
        wanted = [x for x in everything if x != articles.BODY or selection.full_text]
        assert [x.kind for x in result] == wanted
        for item in result:
            _holds(item, selection, excluded)


def _read(path, selection, excluded=None):
    result = articles.read(str(path), selection, excluded)
    return [x for x in result if not isinstance(x, Problem)]


def _holds(item, selection, excluded):
    if item.reason not in articles.REASONS_OF_COPIES:
        assert bool(item.reason) != bool(item.documents) or item.kind == articles.DELETION
        assert not item.lacking or item.documents
    assert item.reason in ("", *articles.REASONS)
    assert not item.reason.startswith("excluded") or excluded is not None
    assert item.reason != "retracted" or not selection.keep_retracted
    assert item.reason != "language" or selection.languages
    assert item.kind != articles.BODY or selection.full_text
    for document in item.documents if item.kind in (articles.CITATION, articles.ABSTRACT) else ():
        assert sum(len(x.split()) for x in document.sentences) >= selection.min_words
    assert len(item.documents) + len(item.lacking) < 2 or selection.other_abstracts != "none"


SELECTION = articles.Selection()
SELECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "section_labels": st.booleans(),
        "other_abstracts": st.sampled_from(["none", "english", "all", "all", "x"]),
        "keep_boilerplate": st.booleans(),
        "full_text": st.booleans(),
        "captions": st.booleans(),
        "tables": st.booleans(),
        "languages": st.lists(st.sampled_from(LANGUAGES[:2]), max_size=2)
        | st.lists(st.sampled_from(LANGUAGES), max_size=1),
        "publication_types": st.lists(st.sampled_from(TYPES), max_size=2),
        "keep_retracted": st.booleans(),
        "min_words": st.sampled_from([0, 3, 128]),
    },
)
OTHER = (
    '<OtherAbstract Type="Publisher" Language="{}"><AbstractText Label="AIM">We like rats.'
    "</AbstractText></OtherAbstract>"
)


@st.composite
def citations(draw):
    """A citation as it may be: retracted, in other languages, of many kinds, with others within."""
    pmid = draw(st.sampled_from(["7", "8", "0", "N/A", "", "27114x", "007"]))
    text = draw(st.sampled_from(["", "We know.", "One two three four. Copyright 2020 Elsevier."]))
    labels = draw(st.sampled_from(["", ' Label="AIM"', ' Label="AIM" NlmCategory="OBJECTIVE"']))
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID>"
        f"<Article><ArticleTitle>On rats</ArticleTitle><Abstract>"
        f"<AbstractText{labels}>{text}</AbstractText><AbstractText{labels}>{text}</AbstractText>"
        f"</Abstract><Language>{draw(st.sampled_from(LANGUAGES))}</Language><PublicationTypeList>"
        f"<PublicationType>{draw(st.sampled_from(TYPES))}</PublicationType></PublicationTypeList>"
        f"</Article>{OTHER.format(draw(st.sampled_from(LANGUAGES))) * draw(st.integers(0, 2))}"
        "</MedlineCitation></PubmedArticle>"
    )


BOOK = "<PubmedBookArticle><BookDocument><PMID>{}</PMID></BookDocument></PubmedBookArticle>"
DELETED = "<DeleteCitation><PMID Version='2'>{}</PMID><PMID>9</PMID></DeleteCitation>"
PARTS = st.one_of(
    citations(),
    citations(),
    st.builds(BOOK.format, st.sampled_from(["7", "", "x"])),
    st.builds(DELETED.format, st.sampled_from(["7", "", "x"])),
    st.just("<PubmedArticle><PubmedData/></PubmedArticle>"),
    st.just("<MedlineCitation><PMID>6</PMID></MedlineCitation>"),
)


@st.composite
def full_texts(draw):
    """A full text as it may be, with ids of few kinds or none."""
    kinds = draw(st.lists(st.sampled_from(["pmid", "pmc", "pmcid", "doi"]), max_size=2))
    ids = "".join(
        f'<article-id pub-id-type="{x}">{draw(st.sampled_from(["7", "PMC7", "10.1/x", "0", "-"]))}'
        "</article-id>"
        for x in kinds
    )
    title = draw(st.sampled_from(["On cats", "RETRACTED: On cats", ""]))
    abstract = draw(st.sampled_from(["", "<abstract><p>In short.</p></abstract>"]))
    body = draw(
        st.sampled_from(["", "<body><sec><title>A</title><p>We fed cats.</p></sec></body>"])
    )
    kind = draw(st.sampled_from(["research-article", "retracted-article", ""]))
    language = draw(st.sampled_from(["en", "fr", "de-CH", "", "x"]))
    return (
        f'<article article-type="{kind}" xml:lang="{language}"><front><article-meta>{ids}'
        f"<title-group><article-title>{title}</article-title></title-group>{abstract}"
        f"</article-meta></front>{body}</article>"
    )


@st.composite
def inputs(draw):
    parts = "".join(draw(st.lists(PARTS, min_size=1, max_size=4)))
    root = "MedlineCitationSet" if draw(st.integers(0, 5)) == 0 else "PubmedArticleSet"
    texts = "".join(draw(st.lists(full_texts(), min_size=1, max_size=3)))
    files = {
        "selection.json": json.dumps(draw(SELECTIONS)).encode(),
        "pubmed.xml": f"<{root}>{parts}</{root}>".encode(),
        "pmc.xml": f"<articles>{texts}</articles>".encode(),
    }
    if draw(st.booleans()):
        ids = draw(st.sampled_from(["7", "PMC7", "pmid:8", "We know.", "x\n7\n"]))
        files["ids.txt"] = ids.encode()
    return files


@given(inputs())
def test_selections(files):
    harness.judge(selects, files)


@given(SELECTIONS, st.data())
@harness.few
def test_mutated_articles(selection, data):
    citation = data.draw(st.sampled_from(seeds.citations()))
    article = data.draw(st.sampled_from(seeds.full_texts()))
    result = [
        data.draw(grammars.xml_elements(seed, ids, well_formed=True))
        for seed, ids in ((citation, ("PMID",)), (article, ("article-id",)))
    ]
    files = {
        "selection.json": json.dumps(selection).encode(),
        "pubmed.xml": b"<PubmedArticleSet>%s</PubmedArticleSet>" % result[0],
        "pmc.xml": b"<articles>%s</articles>" % result[1],
    }
    harness.judge(selects, files)


# --- The text of an element ----------------------------------------------------------------------


def is_plain(folder):
    """The text of an element is one line of characters that are seen."""
    root = etree.parse(str(folder / "text.xml"), etree.XMLParser(**safe_xml.SAFE)).getroot()
    result = markup.text(root)
    assert result == " ".join(result.split())
    assert not markup._ODD.search(result), result


def reads_formulas(folder):
    """A formula is one line, in which all letters and numbers are that are seen in it."""
    root = etree.parse(str(folder / "text.xml"), etree.XMLParser(**safe_xml.SAFE)).getroot()
    result = markup.text(root)
    assert result == " ".join(result.split())
    seen = "".join(root.itertext())
    for letter in "qvw1":
        assert (letter in result) == (letter in seen), (result, seen)


LEAVES = st.sampled_from(
    [
        *("qv", "w x", "z.", "Wxz qvwx:", "Methods.", "&amp;lt;q&amp;gt;", "&amp;#945;", "\u00a0"),
        *("&lt;i&gt;q&lt;/i&gt;", "&lt;em class='x'&gt;v&lt;/p&gt;", "a&lt;b", "\u0085", "\u0091"),
        *("\ufb01", "\uff21", "e\u0301", "\u200d", "\u00ad", "\ufeff", "<!-- x -->", "<?pi q?>"),
        *("%", ")", "\u0645\u200c", "&amp;unknown;", "&#x7f;"),
    ]
)
TOKENS = st.sampled_from(["mi", "mn", "mo", "mtext", "ms"])
SYMBOLS = st.sampled_from(
    ["q", "v", "+", "-", "=", "(", "|", "12", "\u2061", " \u00a0", "", "<!--q-->", "w<?x q?>"]
)
ROWS = (
    *("mrow", "mfrac", "msqrt", "mroot", "mfenced", "mover", "munder", "munderover", "msub"),
    *("msup", "msubsup", "mmultiscripts", "mtable", "mtr", "mtd", "mstyle", "semantics"),
)


def _math(inner):
    return f'<mml:math xmlns:mml="{markup.MATH[1:-1]}">{inner}</mml:math>'


MATHS = st.recursive(
    st.builds("<mml:{0}>{1}</mml:{0}>".format, TOKENS, SYMBOLS)
    | st.sampled_from(["<mml:mspace/>", "<mml:none/>", "<mml:annotation>z</mml:annotation>"]),
    lambda inner: st.builds(
        "<mml:{0}>{1}</mml:{0}>".format,
        st.sampled_from(ROWS),
        st.lists(inner | st.just("<!-- q -->"), max_size=3).map("".join),
    ),
    max_leaves=8,
).map(_math)
TEXTS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        "<{0}>{1}</{0}>".format,
        st.sampled_from(["i", "b", "bold", "italic", "sup", "p", "title", "drop", "x", "tex-math"]),
        st.lists(inner, max_size=3).map("".join),
    ),
    max_leaves=8,
)


@given(st.lists(TEXTS, min_size=1, max_size=5).map("".join))
def test_texts(text):
    harness.judge(is_plain, {"text.xml": f"<x>{text}</x>".encode()})


@given(st.lists(MATHS | st.sampled_from(["qv", " w ", "<tex-math>z</tex-math>"]), max_size=3))
def test_formulas(parts):
    harness.judge(reads_formulas, {"text.xml": f"<x>{''.join(parts)}</x>".encode()})


def parts_headings(folder):
    """A heading is a word of its own behind a sentence, and all that is seen is there."""
    root = etree.parse(str(folder / "text.xml"), etree.XMLParser(**safe_xml.SAFE)).getroot()
    result, seen = markup.text(root), "".join(root.itertext())
    assert result.replace(" ", "") == seen.replace(" ", "")
    assert not re.search(r"[.?!)%](Aims|Methods and|Results)[.:]", result), result


@given(
    st.sampled_from(["Done.", "so?", "(a)", "5%", "We ", "x", ""]),
    st.sampled_from(["Aims", "Methods and", "Results"]),
    st.sampled_from([".", ":", ""]),
    st.sampled_from(["We", " we", ": we", ".", ""]),
)
@harness.few
def test_headings(before, heading, end, after):
    text = f"<x>{before}<bold>{heading}{end}</bold>{after}</x>"
    harness.judge(parts_headings, {"text.xml": text.encode()})


def refuses_entities(folder):
    """A name that is longer than any entity's is refused, wherever text may stand."""
    with (folder / "text.xml").open("rb") as stream:
        tree = etree.parse(safe_xml.Entities(stream, None), etree.XMLParser(**safe_xml.SAFE))
    with pytest.raises(safe_xml.BadFile, match="an XML entity that it does not declare"):
        markup.text(tree.getroot())


@given(st.integers(101, 3000), st.sampled_from([*ROWS, "mi", "mtext", ""]))
@harness.few
def test_long_names_of_entities(length, tag):
    name = f"&{'n' * length};"
    inner = _math(f"<mml:{tag}>a{name}</mml:{tag}>") if tag else f"a {name} b"
    text = f'<!DOCTYPE x PUBLIC "-//NLM//x" "x.dtd"><x>{inner}</x>'
    harness.judge(refuses_entities, {"text.xml": text.encode()})


def test_what_is_no_file():
    harness.judge(refuses_what_is_no_file, {"inner/a.xml": b""})


def refuses_what_is_no_file(folder):
    """A folder and a pipe are refused, before anything waits for what they have."""
    os.mkfifo(folder / "pipe")
    for path in (folder, folder / "pipe", folder / "inner/a.xml"):
        for read in (lambda x: articles.read(x, SELECTION, None), pubmed.read_citations):
            with pytest.raises(safe_xml.BadFile):
                list(read(str(path)))


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
