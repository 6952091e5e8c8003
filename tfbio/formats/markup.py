"""Turns the inline markup of PubMed's and PMC's XML into the text that a reader sees.

The numbers below were counted in the titles and abstracts of pubmed21n1298.xml.gz (20,788 citations
of 2021 and later).
"""

from __future__ import annotations

import html
import html.entities
import re
import unicodedata
from collections.abc import Sequence

from lxml import etree

from tfbio.formats.safe_xml import BadFile

# Elements that begin and end a line of their own: PubMed's DispFormula, and JATS's in PMC.
_BLOCKS = (
    "DispFormula attrib boxed-text br break caption code def def-item def-list disp-formula "
    "disp-formula-group disp-quote fig fig-group fn given-names hr label list list-item p "
    "preformat sec speaker speech statement supplementary-material surname table table-wrap "
    "table-wrap-foot tbody td term tfoot th thead title tr verse-group verse-line"
)
_BLOCK_TAGS = frozenset(_BLOCKS.split())
_EMPHASIS = frozenset(("b", "i", "u", "bold", "italic", "underline"))
MATH = "{http://www.w3.org/1998/Math/MathML}"

# A heading in the middle of an abstract, such as <i>Main results.</i> or <b>Methods</b>:
_HEADING = re.compile(r"\s*[A-Z][a-z]{3,}[A-Za-z ,/&-]{0,60}([.:]?)\s*")

_REFERENCE = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_CLOSING_TAG = re.compile(r"</([A-Za-z][A-Za-z0-9:]{0,14})>")
_ANY_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9:]{0,14})(?: [^<>]{0,200})?/?>")
_INLINE_TAGS = frozenset(
    ("a", "b", "em", "font", "i", "small", "span", "strong", "sub", "sup", "u")
)

# Characters that nobody sees: the soft hyphen (1), zero-width space (115), no-break space (17) and
# operators (4), marks of writing direction, DEL. Of those that join letters (1), only Arabic and
# Indian scripts have a use. And characters that are seen as others: C1 controls (1), which are
# Windows' quotes and dashes, typesetters' ligatures (34) and full-width forms of ASCII (27).
_ODD = re.compile(
    "[\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ufb00-\ufb06\uff01-\uff5e]|(?<![\u0590-\u1fff])[\u200c\u200d]"
)


def text(element: etree._Element) -> str:
    """Turns the inline markup of an element of PubMed's or PMC's XML into one line of text.

    - Runs of white space of every kind become one space; blocks such as <p> are set apart by one.
      Subscripts and superscripts stay where they are: "H2O", "10-3". So do all other inline
      elements, except emphasised headings run into a sentence (`measured.<i>Methods.</i>We`, in 90
      texts), which are set apart.
    - MathML is written in a line: "(a + b)/c", "√3"; its TeX annotations, which repeat it, are not.
    - References that were escaped twice (`&amp;lt;`: 58 times, 15 of them in English text) are
      resolved, and tags that were escaped (`&lt;p&gt;`, in one abstract) are removed.
    - Unicode is normalized to NFC, which changes no appearance; not NFKC, which makes 10⁵ 105. The
      few characters of `_ODD` are removed or replaced by those that they stand for.

    Args:
      element: read with the `SAFE` settings.

    Returns:
      The text as one string without space around it, as a reader sees it; "" if there is none.

    Raises:
      BadFile: the text uses an entity that the file does not declare.
    """
    if len(element) == 0:  # nine of ten texts have no markup
        return clean(element.text or "")
    pieces: list[str] = []
    _gather(element, pieces)
    return clean("".join(pieces))


def clean(raw: str) -> str:
    """Cleans a text of PubMed's or PMC's XML that is without inline markup, by the rules of `text`.

    White space becomes single spaces, doubly escaped references are resolved, escaped tags are
    removed, Unicode is normalized to NFC, and characters that nobody sees are removed.

    Args:
      raw: the text of an element as the parser gives it.

    Returns:
      The text as one str without space around it; "" if there is none.
    """
    if "&" in raw:
        raw = _REFERENCE.sub(_resolve, raw)
    if "</" in raw:
        raw = _without_tags(raw)
    if not raw.isascii() or "\x7f" in raw:
        raw = unicodedata.normalize("NFC", _ODD.sub(_seen, raw))
    return " ".join(raw.split())


def _resolve(reference: re.Match[str]) -> str:
    name = reference[1]
    known = name[0] == "#" or f"{name};" in html.entities.html5
    return html.unescape(reference[0]) if known else reference[0]


def _without_tags(raw: str) -> str:
    """Removes the tags that have a closing one: "a<b" and "<x>" are mathematics."""
    names = set(_CLOSING_TAG.findall(raw))

    def replace(tag: re.Match[str]) -> str:
        if tag[1] not in names:
            return tag[0]
        return "" if tag[1].lower() in _INLINE_TAGS else " "

    return _ANY_TAG.sub(replace, raw)


def _seen(character: re.Match[str]) -> str:
    code = ord(character[0])
    if 0x80 <= code < 0xA0:
        return bytes([code]).decode("cp1252", "ignore")
    return unicodedata.normalize("NFKC", character[0]) if code >= 0xFB00 and code != 0xFEFF else ""


def _gather(element: etree._Element, pieces: list[str]) -> None:
    """Appends the text within an element to `pieces`."""
    if element.text:
        pieces.append(element.text)
    for child in element:
        tag = child.tag
        if not isinstance(tag, str):
            _check(child)
        elif tag == MATH + "math":
            pieces.append(_math(child))
        elif tag in _EMPHASIS:
            _gather_emphasis(child, pieces)
        elif tag in _BLOCK_TAGS:
            pieces.append(" ")
            _gather(child, pieces)
            pieces.append(" ")
        else:
            _gather(child, pieces)
        if child.tail:
            pieces.append(child.tail)


def _check(node: etree._Element) -> None:
    """Refuses an entity; comments and processing instructions are not text."""
    if node.tag is etree.Entity:
        raise BadFile("it uses an XML entity that it does not declare.")


def _gather_emphasis(element: etree._Element, pieces: list[str]) -> None:
    """Does the same as `_gather`, and sets a heading apart from sentences next to it."""
    content = element.text or ""
    heading = _HEADING.fullmatch(content) if len(content) < 80 and len(element) == 0 else None
    if heading is None:
        return _gather(element, pieces)
    before = pieces[-1][-1:] if pieces else ""
    after = (element.tail or "")[:1]
    if before in (".", "?", "!", ")", "%") and (heading[1] or after in (":", ".")):
        pieces.append(" ")
    pieces.append(content)
    if heading[1] and after.isalnum():
        pieces.append(" ")


def _math(node: etree._Element) -> str:
    """Writes MathML in one line, in the order of the document."""
    tag = node.tag.rpartition("}")[2]
    if tag in ("mi", "mn", "mo", "mtext", "ms"):
        return _math_token(node)
    if tag == "mspace":
        return " "
    if tag in ("annotation", "annotation-xml", "mphantom", "none", "mprescripts"):
        return ""
    parts, operators = [], []
    for child in node:
        if isinstance(child.tag, str):
            parts.append(_math(child))
            operators.append(child.tag == MATH + "mo")
        else:
            _check(child)
    return _math_of_parts(node, tag, parts, operators)


def _math_token(node: etree._Element) -> str:
    """Writes a letter, number, operator or text of a formula."""
    for inner in node:
        if not isinstance(inner.tag, str):
            _check(inner)
    # A no-break space is there to be seen, white space of other kinds is not.
    content = "".join(node.itertext()).strip(" \t\r\n")
    return " " if content == "\u2061" else content  # "applied to", as in sin x


def _math_of_parts(
    node: etree._Element, tag: str, parts: Sequence[str], operators: Sequence[bool]
) -> str:
    """Joins the parts of a formula as its tag says.

    Args:
      node: the formula.
      tag: its tag without the namespace.
      parts: its children in one line each.
      operators: whether each of them is an operator.
    """
    if tag == "mfrac" and len(parts) == 2:
        return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
    if tag == "msqrt":
        return "√" + _grouped(_row(parts, operators))
    if tag == "mroot" and len(parts) == 2:
        return f"{parts[1]}√{_grouped(parts[0])}"
    if tag == "mfenced":
        commas = node.get("separators", ",")[:1]
        return node.get("open", "(") + commas.join(parts) + node.get("close", ")")
    if tag in ("mover", "munder", "munderover"):
        # An accent belongs to its letter; the limits of a sum do not.
        others = (p if len(p) < 2 and not p.isalnum() else f" {p} " for p in parts[1:])
        return "".join((*parts[:1], *others))
    if tag in ("msub", "msup", "msubsup", "mmultiscripts"):
        return "".join(parts)
    if tag in ("mtable", "mtr", "mlabeledtr"):
        return " ".join(parts)
    return _row(parts, operators)


def _row(parts: Sequence[str], operators: Sequence[bool]) -> str:
    """Joins the parts of a formula, with spaces around the operators that stand between two."""
    row = ""
    for index, part in enumerate(parts):
        between = 0 < index < len(parts) - 1 and operators[index] and not operators[index - 1]
        infix = between and len(part) == 1 and (unicodedata.category(part) == "Sm" or part == "-")
        row += f" {part} " if infix and part not in "|∣∥¬" else part
    return row


def _grouped(part: str) -> str:
    """Puts a part of a fraction or root into parentheses, unless it is one word."""
    part = part.strip()
    whole = part.isalnum() or len(part) < 2 or (part[0] == "(" and part.find(")") == len(part) - 1)
    return part if whole else f"({part})"
