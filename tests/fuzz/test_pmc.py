"""PMC's XML: full texts, alone, in sets and in packages, as candidates of the documents stage."""

import copy
import gzip
import io
import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep.readers import pmc, pmc_article, pmc_paragraphs
from data_prep.readers.problem import Problem
from data_prep.selection import articles
from tests.fuzz import damage, grammars, harness, seeds
from tfbio.base.errors import DataError
from tfbio.formats import safe_xml

IDS = ("article-id",)
SELECTION = articles.Selection(captions=True, tables=True)
FILE, SET, PACKAGE = "article.nxml", "set.xml", "package.tar"
ID = re.compile(r"(pmid:0*[1-9][0-9]{0,11}|pmcid:PMC\d+|doi:.+|file:.+)(#body)?", re.DOTALL)
MARKS = ("bibr", "fn", "table-fn")


def article_set(*result):
    return b"<pmc-articleset>" + b"\n".join(result) + b"</pmc-articleset>"


def package(*result):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number, data in enumerate(result):
            member = tarfile.TarInfo(f"PMC/{number}.nxml")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def plain(element):
    return etree.tostring(element, with_tail=False)


def reads(folder, name=""):
    """A file gives candidates with sound ids and problems in a sentence, or is refused."""
    (path,) = [folder / name] if name else folder.iterdir()
    try:
        result = list(articles.read(str(path), SELECTION, None))
    except safe_xml.BadFile as error:
        # As the documents stage says it.
        raise DataError(f"{path.name}: {error}") from error
    for item in result:
        if isinstance(item, Problem):
            assert len(item.sentence.splitlines()) == 1 and len(item.sentence) <= 300
        else:
            assert bool(item.reason) != bool(item.documents)
            for document in item.documents:
                # A PMID is a number from 1; two articles never share a key by accident.
                assert ID.fullmatch(document.id), document.id
    return result


def keeps_neighbours(folder):
    """The articles beside a bad one, in a set and in a package, are read as without it."""
    for name in (SET, PACKAGE):
        good, bad = (
            [
                (x.kind, _said(x))
                for x in reads(folder / kind, name)
                if isinstance(x, articles.Candidate)
            ]
            for kind in ("good", "bad")
        )
        assert bad[:2] == good[:2] and bad[-2:] == good[-2:], name


def _said(candidate):
    return [(document.title, document.sentences) for document in candidate.documents]


def counts_all(folder):
    """Each article of a set is two candidates, an abstract and a body, or one problem."""
    root = etree.parse(str(folder / SET)).getroot()
    result = reads(folder, SET)
    problems = sum(isinstance(x, Problem) for x in result)
    assert problems + (len(result) - problems) / 2 == len(list(root.iter("{*}article")))
    # Only articles with one number in common have one key.
    full = [x for x in pmc.read_articles(str(folder / SET)) if isinstance(x, pmc_article.FullText)]
    keys = {x.key for x in result if not isinstance(x, Problem)}
    assert len(keys) >= len(set(map(_called, full)))


def _called(article):
    if re.fullmatch("[0-9]{1,12}", article.pmid) and int(article.pmid):
        return int(article.pmid)
    text = [article.title, *(x.text for x in (*article.abstract, *article.body))]
    return article.pmcid or article.doi or "".join(text)


def keeps_words(folder):
    """All words but those of marks are in the text or are the title of a section, none joined."""
    body = etree.parse(str(folder / FILE)).getroot().find("body")
    for xref in body.iter("xref"):
        if xref.get("ref-type") in MARKS:
            xref.clear(keep_tail=True)
    for element in body.iter("title", "p"):
        element.tail = " "
    words = set(re.findall(r"[a-z]{3,}", "".join(body.itertext())))
    assert not (words - _words(folder)), words - _words(folder)


def knows_entities(folder):
    """HTML's named entities are read, though the file does not declare them."""
    text = (folder / FILE).read_text().partition("<body>")[2]
    words = set(re.findall(r"[a-z]{3,}", re.sub("&[a-z]+;|<[^>]*>", " ", text)))
    assert not (words - _words(folder)), words - _words(folder)


def keeps_titles(folder):
    """The titles of sections are there, also of sections without paragraphs."""
    body = etree.parse(str(folder / FILE)).getroot().find("body")
    words = {title.text for title in body.iter("title")}
    assert not (words - _words(folder)), words - _words(folder)


def _words(folder):
    """The words of the one article of a file, which cannot be refused."""
    (article,) = pmc.read_articles(str(folder / FILE))
    assert isinstance(article, pmc_article.FullText), article
    parts = [x for paragraph in article.body for x in (paragraph.section, paragraph.text)]
    return set(re.findall(r"[a-z]{3,}", " ".join(parts)))


@st.composite
def mutated(draw, well_formed=False):
    return draw(grammars.xml_elements(draw(st.sampled_from(seeds.full_texts())), IDS, well_formed))


@st.composite
def neighbours(draw):
    """Two articles, and one with mutations."""
    first, last = copy.deepcopy(seeds.full_texts()[:2])
    return plain(first), draw(mutated(well_formed=True)), plain(last)


@given(grammars.with_prolog(mutated()))
def test_mutated_articles(data):
    harness.judge(reads, {FILE: data})


@given(st.lists(mutated(), min_size=2, max_size=3))
@harness.few
def test_mutated_sets(result):
    harness.judge(reads, {SET: article_set(*result)})


@given(damage.damaged(st.lists(mutated(True), min_size=1, max_size=2).map(lambda x: package(*x))))
@harness.few
def test_damaged_packages(data):
    harness.judge(reads, {PACKAGE: data})


def test_bombs():
    harness.judge(reads, {PACKAGE: damage.bomb(1200, b"\0")})
    harness.judge(reads, {FILE: damage.bomb()})


@given(neighbours())
@harness.few
def test_neighbours_of_a_bad_article(result):
    first, bad, last = result
    files = {}
    for name, make in ((SET, article_set), (PACKAGE, package)):
        files[f"good/{name}"], files[f"bad/{name}"] = make(first, last), make(first, bad, last)
    harness.judge(keeps_neighbours, files)


@given(st.lists(mutated(well_formed=True), min_size=1, max_size=3))
@harness.few
def test_counts(result):
    harness.judge(counts_all, {SET: article_set(*result)})


WORDS = st.text("abcdefgh", min_size=3, max_size=6)


@st.composite
def marks(draw):
    """Between two words: a raised mark, or two, of a note or a citation, and a blank somewhere."""
    kind = draw(st.sampled_from(MARKS))
    mark = draw(st.sampled_from(["1", "12", "a", "*", "\u2020", "1,2", ""]))
    more = draw(st.sampled_from(["", "", f',<xref ref-type="{kind}">2</xref>']))
    pieces = ["", "<sup>", "", f'<xref ref-type="{kind}">{mark}</xref>{more}', "", "</sup>", ""]
    if draw(st.booleans()):
        pieces[1:6] = [f'<xref ref-type="{kind}"><sup>{mark}</sup></xref>{more}']
    # All that keeps the words apart.
    pieces[draw(st.sampled_from(range(0, len(pieces), 2)))] = draw(st.sampled_from([" ", "\n"]))
    return "".join(pieces)


@st.composite
def paragraphs(draw, between=None):
    text = draw(WORDS)
    between = marks() if between is None else between
    for _ in range(draw(st.integers(0, 3))):
        text += draw(st.one_of(between, st.sampled_from([" ", " <i>x</i> "]))) + draw(WORDS)
    return f"<p>{text}</p>"


@st.composite
def sections(draw, depth=0):
    title = draw(st.one_of(st.just(""), WORDS.map(lambda x: f"<title>{x}</title>")))
    inner = "".join(draw(st.lists(paragraphs(), max_size=1)))
    if depth < 3:
        inner += "".join(draw(st.lists(sections(depth + 1), max_size=2)))
    return f"<sec>{title}{inner}</sec>"


def article(*parts):
    text = (
        "<article><front><article-meta><article-id pub-id-type='pmid'>7</article-id>"
        "<title-group><article-title>A</article-title></title-group></article-meta></front>"
        f"<body>{''.join(parts)}</body></article>"
    )
    return {FILE: text.encode()}


@given(paragraphs())
def test_words_beside_marks(paragraph):
    harness.judge(keeps_words, article(paragraph))


@given(sections())
def test_titles(section):
    harness.judge(keeps_titles, article(section, "<p>the end</p>"))


@given(paragraphs(st.sampled_from(["&nbsp;", "&ndash;", " &beta; ", "&eacute;"])))
def test_entities(paragraph):
    harness.judge(knows_entities, article(paragraph))


# --- Bodies of every shape -----------------------------------------------------------------------


def keeps_order(folder):
    """The numbered words of a body are all there, once each, and in their order within a text."""
    text = (folder / FILE).read_text()
    try:
        (article,) = pmc.read_articles(str(folder / FILE))
    except safe_xml.BadFile as error:
        # As the documents stage says it.
        raise DataError(f"{FILE}: {error}") from error
    shown = " ".join(f"{x.section} {x.text}" for x in article.body)
    words = set(re.findall(r"q[0-9]+q", text))
    assert not (words - set(re.findall(r"q[0-9]+q", shown))), (words, shown)
    for paragraph in article.body:
        assert paragraph.text and len(paragraph.text.splitlines()) == 1
        assert paragraph.kind in (
            pmc_paragraphs.PARAGRAPH,
            pmc_paragraphs.CAPTION,
            pmc_paragraphs.TABLE,
        )
    list(articles.read(str(folder / FILE), SELECTION, None))


# What may stand in a block, with a hole for more blocks.
SHAPES = (
    *("<p>{w}{}{w}</p>", "<sec><title>{w}</title>{}</sec>", "<sec>{}</sec>", "<p>{}</p>"),
    "<list><list-item>{}</list-item><list-item><p>{w}</p></list-item></list>",
    "<def-list><def-item><term>{w}</term><def>{}</def></def-item></def-list>",
    "<def-list><def-item><term>{w}</term></def-item></def-list>",
    "<speech><speaker>{w}</speaker>{}</speech>",
    "<boxed-text><caption><title>{w}</title></caption>{}</boxed-text>",
    "<boxed-text><title>{w}</title></boxed-text>",
    "<fig><caption><title>{w}</title>{}</caption></fig>",
    "<table-wrap><caption>{}</caption><table><tr><td>{w}</td><td>{}</td></tr><tr/></table>"
    "</table-wrap>",
    "<array><row><td>{w}</td></row></array>",
    "<disp-quote>{}</disp-quote>{w}",
    "<fig-group>{}</fig-group>",
    "<supplementary-material><media><caption><p>(Click here for additional data file.)</p>"
    "</caption></media></supplementary-material>",
    "<p>{w}<fig><caption><p>{w}</p></caption></fig>{w}<table-wrap>{}</table-wrap></p>",
    "{w}<italic>{w}</italic><sup><xref ref-type='fn'>1</xref></sup>{w}",
    "{w}<sup>q</sup><xref ref-type='bibr'><sup>1</sup></xref>,<xref ref-type='bibr'>2</xref> {w}",
    "{w} <xref ref-type='fig'>Fig. 1</xref> and <xref ref-type='bibr'>3</xref>.",
    "<sup><xref ref-type='bibr'>1</xref></sup>.{w}<sup><xref ref-type='bibr'>4</xref>x</sup>,",
    "<xref ref-type='fn'>*</xref><xref ref-type='fn'>a</xref>; {w}",
    "<sup><xref ref-type='fn'>1</xref></sup><sup>-</sup><sup><xref ref-type='fn'>3</xref></sup>",
    "<xref ref-type='bibr'>word</xref>{w}<p/><xref ref-type='bibr'> <sup>2</sup>x</xref>",
    "<alternatives><graphic/><p>{w}</p></alternatives>",
)


@st.composite
def blocks(draw, depth=0):
    """One or two blocks within each other, of numbered words."""
    result = ""
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.sampled_from(SHAPES))
        inner = [draw(blocks(depth + 1)) if depth < 3 else "{w}" for _ in range(shape.count("{}"))]
        for part in inner:
            shape = shape.replace("{}", part, 1)
        result += shape
    return result


HEADS = (
    *(f"<article-id pub-id-type='{{}}'>{x}</article-id>" for x in ("5", "PMC5", "10.1/x", "0")),
    "<abstract abstract-type='graphical'><p>no</p></abstract>",
    "<abstract><title>Abstract</title><p>yes <xref ref-type='bibr'>1</xref></p></abstract>",
    "<related-article related-article-type='retraction-forward'/>",
)


@st.composite
def shaped(draw):
    body = draw(blocks())
    for number in range(body.count("{w}")):
        body = body.replace("{w}", f" q{number}q", 1)
    heads = "".join(draw(st.lists(st.sampled_from(HEADS), max_size=3)))
    heads = heads.replace("{}", draw(st.sampled_from(["pmc", "pmcid", "doi", "pmid"])))
    start, end = draw(st.sampled_from([("", ""), ("<x:x xmlns:x='urn:x'>", "</x:x>")]))
    text = (
        f"<article><front><article-meta>{heads}<title-group><article-title>A"
        "</article-title><subtitle>B</subtitle></title-group></article-meta></front>"
        f"<body>{start}{body}{end}</body><floats-group>{draw(st.sampled_from(['', '<fig/>']))}"
        "</floats-group></article>"
    )
    return {FILE: text.encode()}


@given(shaped())
def test_bodies(files):
    harness.judge(keeps_order, files)


@given(st.sampled_from(["sec", "list", "boxed-text", "td"]), st.integers(40, 300))
@harness.very_few
def test_deep_bodies(tag, depth):
    harness.judge(reads, article(f"<{tag}><p>a</p>" * depth + f"</{tag}>" * depth))


# --- Packages of every kind of member ------------------------------------------------------------


GOOD = article("<p>We fed cats.</p>")[FILE]
MEMBERS = {
    "good": (GOOD, tarfile.REGTYPE),
    "empty": (b"", tarfile.REGTYPE),
    "foreign": (b"<html/>", tarfile.REGTYPE),
    "none": (b"<articles/>", tarfile.REGTYPE),
    "blank": (b"   ", tarfile.REGTYPE),
    "cut": (GOOD[:-9], tarfile.REGTYPE),
    "bare": (b"<article/>", tarfile.REGTYPE),
    "entity": (b"<!DOCTYPE article [<!ENTITY a 'b'>]><article/>", tarfile.REGTYPE),
    "late": (b" " * 1_100_000 + GOOD, tarfile.REGTYPE),
    "link": (b"", tarfile.SYMTYPE),
    "folder": (b"", tarfile.DIRTYPE),
    "fifo": (b"", tarfile.FIFOTYPE),
}


@st.composite
def members(draw):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(draw(st.integers(1, 4))):
            data, kind = MEMBERS[draw(st.sampled_from(["good", *sorted(MEMBERS)]))]
            name = f"{draw(st.sampled_from(['PMC', '..', '/x', 'a/b']))}/{number}"
            member = tarfile.TarInfo(
                name + draw(st.sampled_from([".nxml", ".xml", ".XML", ".pdf"]))
            )
            member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
            archive.addfile(member, io.BytesIO(data))
    data = stream.getvalue()
    kind = draw(st.sampled_from(["whole"] * 6 + ["gzip", "after", "end", "header"]))
    if kind == "gzip":
        data = gzip.compress(data)
    elif kind == "after":
        data += b"x" * 512
    elif kind == "end":
        data = data.rstrip(b"\0") + bytes(draw(st.sampled_from([0, 512, 700])))
    elif kind == "header":  # a name of two megabytes
        long = tarfile.TarInfo("x" * 2_000_000 + ".nxml")
        data = long.tobuf(tarfile.GNU_FORMAT) + data
    return {PACKAGE: data}


@given(members())
@harness.few
def test_members(files):
    harness.judge(reads, files)


def test_a_package_that_is_a_bomb():
    member = tarfile.TarInfo("PMC/1.pdf")
    member.size = 1_200_000_000
    whole = member.tobuf() + bytes(512)
    data = gzip.compress(whole) + damage.bomb(1200, b"\0")
    harness.judge(reads, {PACKAGE: data})


def test_a_long_article():
    text = article(f"<p>{'a ' * 5_000}</p>" * 5_100)[FILE]
    harness.judge(reads, {FILE: gzip.compress(text, 1)})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
