import difflib
import re
from collections import Counter

import pubmed_parser
import pytest
from lxml import etree
from pubmed_parser.pubmed_oa_parser import parse_article_meta

from tests.data_prep.readers.pmc_files import (
    KEPT,
    SHIPPED,
    content,
    read,
    read_independently,
    read_one,
    words,
)


@pytest.mark.parametrize("name", SHIPPED + KEPT)
def test_every_word_of_the_body_is_there_once_and_in_order(tmp_path, real, name):
    # How a formula is written in a line is for the tests of markup: here each is a letter.
    data = re.sub(rb"<mml:math.*?</mml:math>", b"x", content(real(name)), flags=re.DOTALL)
    (tmp_path / name).write_bytes(data)
    expected = read_independently(data)
    article = read_one(tmp_path / name)
    for kind in ("paragraph", "caption"):
        result = words(article.body, kind)
        matcher = difflib.SequenceMatcher(None, expected[kind], result, autojunk=False)
        matched = sum(block.size for block in matcher.get_matching_blocks())
        missing = [
            (" ".join(expected[kind][a:b]), " ".join(result[c:d]))
            for tag, a, b, c, d in matcher.get_opcodes()
            if tag != "equal"
        ]
        print(
            f"{name}: {matched} of {len(expected[kind])} {kind} words "
            f"({matched / max(1, len(expected[kind])):.2%}), {len(result) - matched} others; "
            f"differences (expected, found): {missing}"
        )
        assert matched >= 0.995 * len(expected[kind])
        assert len(result) - matched <= 0.005 * len(result), kind
    assert len(words(article.body, "paragraph")) > 1500
    texts = Counter(p.text for p in article.body if p.kind == "paragraph" and len(p.text) > 100)
    assert set(texts.values()) == {1}


def test_what_pubmed_parser_loses_and_repeats(tmp_path):
    nested = "<sec><title>S</title><p>No <i>p<sub>0</sub></i> cited.</p><p>A list:<list><list-item>"
    nested += "<p>an item</p></list-item></list></p><fig id='f'><caption><p>A caption.</p>"
    nested += "</caption></fig></sec>"
    ids = '<article-id pub-id-type="pmcid">PMC7</article-id>'
    result = read(tmp_path, nested, ids=ids)
    assert result.pmcid == "PMC7"
    assert [(p.kind, p.text) for p in result.body] == [
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
    result = read(tmp_path, f"<sec>{body}</sec>").body
    short = {"paragraph": "", "caption": "c:", "table": "t:"}
    assert [short[p.kind] + p.text for p in result] == expected


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
    result = read(tmp_path, body, more=more)
    assert [(p.section, p.text) for p in result.body] == [("S", "behind it"), ("S", "a")]
    assert [p.text for p in result.abstract] == ["in short", "b"]


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


def test_the_title_of_a_statement_is_its_section(tmp_path):
    body = (
        "<sec><title>S</title><statement><title>Theorem 1</title><p>It holds.</p></statement></sec>"
    )
    assert [(p.section, p.text) for p in read(tmp_path, body).body] == [
        ("S > Theorem 1", "It holds.")
    ]


def test_what_stands_beside_a_picture_is_no_text(tmp_path):
    beside = (
        "<permissions><copyright-statement>Free.</copyright-statement></permissions>"
        "<alt-text>A map.</alt-text><long-desc>A map of it.</long-desc>"
    )
    body = f"<fig><caption><p>C.</p></caption>{beside}<graphic/></fig><p>Text.</p>"
    after = f"<floats-wrap><fig><caption><p>F.</p></caption>{beside}</fig></floats-wrap>"
    assert [p.text for p in read(tmp_path, body, after).body] == ["C.", "Text.", "F."]
