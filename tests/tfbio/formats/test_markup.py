import pytest
from lxml import etree

from tfbio.formats import markup, safe_xml

MML = 'xmlns:mml="http://www.w3.org/1998/Math/MathML"'


def read(xml):
    """The text of an element that is read as files are."""
    parser = etree.XMLParser(**safe_xml.SAFE)
    return markup.text(etree.fromstring(f"<p {MML}>{xml}</p>", parser))


def math(xml):
    """As `read`, of MathML without its prefixes."""
    return read("<mml:math>" + xml.replace("</", "</mml:").replace("<m", "<mml:m") + "</mml:math>")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        (" two\n\t lines ", "two lines"),
        ("H<sub>2</sub>O", "H2O"),
        ("10<sup>-3</sup> M", "10-3 M"),
        ("<i>p<sub>0</sub></i><b><i>x<sup>2</sup></i></b>", "p0x2"),
        ("a<i/>b<!-- c -->d<?e f?>g", "abdg"),
        ("R<sub>0</sub> &lt; 1 &amp; n&gt;2", "R0 < 1 & n>2"),
        ("<![CDATA[a < b]]>", "a < b"),
        # Blocks and line breaks are set apart.
        ("one<br/>two<break/>three", "one two three"),
        ("as<DispFormula>E</DispFormula>shows", "as E shows"),
        ("<list><list-item>a</list-item><list-item>b</list-item></list>c", "a b c"),
        ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1 2 3"),
        # Headings that are glued to their sentences, as in PubMed; other emphasis stays.
        ("groups.<i>Main results.</i>We found", "groups. Main results. We found"),
        ("<b>Objectives:</b>To see", "Objectives: To see"),
        ("done.<b>Methods</b>: We", "done. Methods: We"),
        ("<i>At</i>EDS1", "AtEDS1"),
        ("C<i>c</i>O", "CcO"),
        ("the <i>Drosophila</i>like", "the Drosophilalike"),
        ("(see <i>Methods</i>)", "(see Methods)"),
        # White space of all kinds is a space.
        ("P\u2009=\u00a00.05\u3000and\u2028so", "P = 0.05 and so"),
        # Escaped twice, as in 58 texts of a file.
        ("P&amp;lt;0.05 l&amp;#233;k&amp;#x61;", "P<0.05 léka"),
        ("a&amp;nbsp;b", "a b"),
        ("AT&amp;T; R&amp;D; &amp;nosuch; &amp;not a &amp;", "AT&T; R&D; &nosuch; &not a &"),
        ("&lt;p&gt;One.&lt;/p&gt;&lt;p&gt;Two&lt;sup&gt;2&lt;/sup&gt;&lt;/p&gt;", "One. Two2"),
        ("if a&lt;b and b&gt;c, &lt;r&gt; is", "if a<b and b>c, <r> is"),
        # Unicode.
        ("bio\u00adpsy \ufeffx\u200b-\u200by \u200cBACK \u200eltr", "biopsy x-y BACK ltr"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("signi\ufb01cant e\ufb00ect", "significant effect"),
        ("P\uff1c0.01\uff0c95\uff05", "P<0.01,95%"),
        ("decisi\u00f3n\u0097\u0093x\u0094", "decisión—“x”"),
        ("e\u0301 10\u2075 \u00bd \u00b5m \u2011", "é 10⁵ ½ µm ‑"),
    ],
)
def test_what_a_reader_sees(xml, expected):
    assert read(xml) == expected


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<msup><mi>R</mi> <mn>2</mn></msup>", "R2"),
        ("<msubsup><mtext>NO</mtext>\n<mn>3</mn> <mo>-</mo></msubsup>", "NO3-"),
        ("<mn>1573</mn><mo>±</mo> <mn>86</mn><mspace/><mtext>ms</mtext>", "1573 ± 86 ms"),
        ("<mi>R</mi><mo>&gt;</mo><mn>1</mn>", "R > 1"),
        ("<msup><mn>10</mn><mrow><mo>-</mo><mn>4</mn></mrow></msup>", "10-4"),
        ("<mfrac><mi>SWI</mi> <mi>ADC</mi></mfrac>", "SWI/ADC"),
        (
            "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>",
            "(a + b)/c",
        ),
        ("<msqrt><mn>3</mn></msqrt>", "√3"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", "3√x"),
        ("<mfenced><mi>x</mi><mi>y</mi></mfenced>", "(x,y)"),
        ('<mfenced open="[" close="]"><mi>x</mi></mfenced>', "[x]"),
        ("<mover><mi>ε</mi><mo>˙</mo></mover>", "ε˙"),
        ("<munder><mi>lim</mi><mrow><mi>n</mi><mo>→</mo><mi>∞</mi></mrow></munder>", "lim n → ∞"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>N</mi>"
            "</munderover>",
            "∑ i = 1 N",
        ),
        ("<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr></mtable>", "1 2"),
        ("<mtext>\u00a0if\u00a0</mtext><mi>x</mi>", "if x"),
        ("<mi>sin</mi><mo>\u2061</mo><mi>x</mi>", "sin x"),
        ("<mphantom><mi>x</mi></mphantom><mi>y</mi>", "y"),
    ],
)
def test_formulas_in_one_line(xml, expected):
    assert math(xml) == expected


def test_what_a_formula_says_twice_is_read_once():
    tex = '<mml:annotation encoding="application/x-tex">\\frac{x}{y}</mml:annotation>'
    formula = f"<mml:math><mml:semantics><mml:mi>x</mml:mi>{tex}</mml:semantics></mml:math>"
    assert read(f"so {formula}, then") == "so x, then"


@pytest.mark.parametrize("xml", ["&x;", "a<i>&x;</i>", "<mml:math><mml:mi>&x;</mml:mi></mml:math>"])
def test_entities_are_refused(xml):
    document = f'<!DOCTYPE p SYSTEM "http://x.invalid/p.dtd"><p {MML}>{xml}</p>'
    element = etree.fromstring(document, etree.XMLParser(**safe_xml.SAFE))
    with pytest.raises(safe_xml.BadFile, match="entity"):
        markup.text(element)


@pytest.mark.parametrize("tag", ["i", "mml:mrow"])
def test_absurd_depth_is_refused(tag):
    parser = etree.XMLParser(**{**safe_xml.SAFE, "huge_tree": True})
    inner = f"<{tag}>" * 2000 + "x" + f"</{tag}>" * 2000
    element = etree.fromstring(f"<p {MML}><mml:math>{inner}</mml:math></p>", parser)
    with pytest.raises(safe_xml.BadFile, match="deeply"), safe_xml.faults():
        markup.text(element)


# Each of these takes ages with a pattern whose work grows faster than the text.
@pytest.mark.parametrize(
    "piece", ["<a ", "</", "</a><a", "&", "&#", "<i>A", "\u200c", " a", "Aa, "]
)
def test_hostile_text_takes_no_ages(piece):
    text = piece * (500_000 // len(piece))
    assert len(markup.clean(text + "</a>")) <= len(text) + 4
