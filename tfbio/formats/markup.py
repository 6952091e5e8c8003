"""XML made safe to read, and its inline markup made the text that a reader sees.

PubMed's and PMC's readers share this: the parser's limits, named entities, the errors of bad files,
and `text`.

How often what `text` mends occurs was counted in the titles and abstracts of pubmed21n1298.xml.gz
(20,788 citations of 2021 and later).
"""

from __future__ import annotations

import codecs
import gzip
import html
import html.entities
import os
import re
import stat
import unicodedata
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from lxml import etree

from tfbio.base import storage
from tfbio.base.shards import DataError

# Nothing outside the file is read, and no entity is expanded. lxml's limits on depth and on the
# size of one text stay on (huge_tree=False).
SAFE = {
    "load_dtd": False,
    "no_network": True,
    "resolve_entities": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}

# What stands for an entity that neither XML nor HTML knows: Unicode's replacement character.
UNKNOWN = "\ufffd"

# What comes before a file's first element, which is held in memory, or is blank: a gigabyte of
# spaces took 8 seconds.
MAX_HEADER_BYTES = 1_000_000

# Elements that begin and end a line of their own: PubMed's DispFormula, and JATS's in PMC.
_BLOCKS = (
    "DispFormula attrib boxed-text br break caption code def def-item def-list disp-formula "
    "disp-formula-group disp-quote fig fig-group fn given-names hr label list list-item p "
    "preformat sec speaker speech statement supplementary-material surname table table-wrap "
    "table-wrap-foot tbody td term tfoot th thead title tr verse-group verse-line"
)
BLOCKS = frozenset(_BLOCKS.split())
EMPHASIS = frozenset(("b", "i", "u", "bold", "italic", "underline"))
MATH = "{http://www.w3.org/1998/Math/MathML}"

# A heading in the middle of an abstract, such as <i>Main results.</i> or <b>Methods</b>:
_HEADING = re.compile(r"\s*[A-Z][a-z]{3,}[A-Za-z ,/&-]{0,60}([.:]?)\s*")

_REFERENCE = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# A named entity as XML writes it; beyond ASCII also UTF-8 that is read as Latin-1.
_ENTITY = re.compile(r"&([A-Za-z_:\x80-\U0010ffff][\w:.\x80-\U0010ffff-]{0,99});", re.ASCII)
_HALF_ENTITY = re.compile(r"&[\w:.\x80-\U0010ffff-]{0,100}\Z", re.ASCII)
_OF_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))
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


class BadFile(DataError):
    """A file that is not whole, well-formed and harmless XML of the kind that was expected."""


class Entities:
    """A stream of XML in which named entities that XML itself does not define are characters.

    Publishers write `&nbsp;` without declaring it, and a parser then drops the article, or the
    entity. HTML's names become the characters that they stand for, all others `UNKNOWN`. Nothing
    is expanded: what a file declares itself is refused elsewhere (`check_no_entities`).

    Args:
      stream: XML in UTF-8, another encoding that has ASCII within, or UTF-16.
      unknown: where the names of those that HTML does not have are counted.
    """

    def __init__(self, stream: BinaryIO, unknown: Counter[str] | None = None):
        self._stream, self._unknown = stream, Counter() if unknown is None else unknown
        self._decoder: codecs.IncrementalDecoder | None = None
        self._held = ""

    def read(self, size: int) -> bytes:
        """Reads about `size` bytes; none at the end only."""
        while data := self._stream.read(max(size, 4)):
            if self._decoder is None:
                utf16 = {b"\xff\xfe": "le", b"<\0": "le", b"\xfe\xff": "be", b"\0<": "be"}
                order = utf16.get(data[:2])
                self._codec = f"utf-16-{order}" if order else "latin-1"
                self._decoder = codecs.getincrementaldecoder(self._codec)("surrogatepass")
            text = self._held + self._decoder.decode(data)
            half = _HALF_ENTITY.search(text, max(0, len(text) - 101))
            self._held = text[half.start() :] if half else ""
            text = _ENTITY.sub(self._character, text.removesuffix(self._held))
            if text:
                return text.encode(self._codec, "surrogatepass")
        rest, self._held = self._held, ""
        return rest.encode(self._codec, "surrogatepass") if rest else b""

    def _character(self, entity: re.Match[str]) -> str:
        name = entity[1]
        if name in _OF_XML:
            return entity[0]
        characters = html.entities.html5.get(f"{name};")
        if characters is None:
            self._unknown[name] += 1
            characters = UNKNOWN
        return "".join(f"&#{ord(character)};" for character in characters)


class Limited:
    """A stream for a parser that holds in memory what it has read since the last `renew`.

    Raises, where it is read:
      BadFile: that is too much.
    """

    def __init__(self, stream: BinaryIO, limit: int, refusal: str):
        self._stream, self._limit, self._refusal = stream, limit, refusal
        self.renew()

    def renew(self) -> None:
        self._left = self._limit

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadFile(self._refusal)
        return data


def first_element(stream: BinaryIO) -> etree._Element:
    """The root of a file of XML, with nothing in it yet.

    Raises:
      BadFile: it does not begin within the first `MAX_HEADER_BYTES`.
    """
    refusal = f"its first {MAX_HEADER_BYTES:,} bytes hold no element."
    limited = Limited(Entities(stream), MAX_HEADER_BYTES, refusal)
    return next(etree.iterparse(limited, events=("start",), **SAFE))[1]


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Opens the XML in a file, whether it is compressed with gzip or not, whatever its name.

    Raises:
      BadFile: it is a pipe or a device, which might never end.
    """
    source = storage.at(path)
    if not stat.S_ISREG(source.stat().st_mode):
        raise BadFile("it is not a file, but a folder, a pipe or a device.")
    with source.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    if not compressed:
        return source.open("rb")
    return gzip.open(source.open("rb") if storage.is_remote(path) else path)


def printable(name: str) -> str:
    """The name of a file or member as it can be printed, stored and hashed.

    Line feeds, what steers terminals, and bytes that are no UTF-8 are escaped: "a\\nb".
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@contextmanager
def faults() -> Iterator[None]:
    """Turns what libraries raise over a damaged file into a `BadFile` with one clear sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"the gzip data is damaged or cut short ({error}).") from error
    except etree.XMLSyntaxError as error:
        message = (error.msg or "no reason given").strip().replace("\n", " ")
        raise BadFile(f"it is not well-formed XML ({message}).") from error
    except RecursionError as error:
        raise BadFile("it nests XML elements too deeply.") from error
    except OSError as error:
        raise BadFile(f"it cannot be read ({error.strerror or error}).") from error


def check_no_entities(root: etree._Element) -> None:
    """Refuses a document that declares entities, before its body is parsed.

    Raises:
      BadFile: it does.
    """
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise BadFile("it declares XML entities, which are refused.")


def text(element: etree._Element, leave_out: Collection[str] = ()) -> str:
    """What a reader sees of an element's text, however deep, as one line.

    - Runs of white space of every kind become one space; blocks (`BLOCKS`) are set apart by one.
      Subscripts and superscripts stay where they are: "H2O", "10-3". So do all other inline
      elements, except emphasised headings run into a sentence (`measured.<i>Methods.</i>We`, in
      90 texts), which are set apart.
    - MathML is written in a line: "(a + b)/c", "√3"; what it says twice (TeX annotations) once.
    - References that were escaped twice (`&amp;lt;`: 58 times, 15 of them in English text) are
      resolved, and tags that were escaped (`&lt;p&gt;`, in one abstract) are removed.
    - Unicode is normalised to NFC, which changes no appearance; not NFKC, which makes 10⁵ 105. The
      few characters of `_ODD` are removed or replaced by those that they stand for.

    Args:
      element: read with the `SAFE` settings.
      leave_out: tags whose content is not text; what follows them is kept.

    Raises:
      BadFile: the text uses an entity that the file does not declare.
    """
    if len(element) == 0:  # nine of ten texts have no markup
        return clean(element.text or "")
    pieces: list[str] = []
    _gather(element, leave_out, pieces)
    return clean("".join(pieces))


def clean(raw: str) -> str:
    """The rules of `text` for text without markup."""
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
    """Text without those tags of which it has a closing one: "a<b" and "<x>" are mathematics."""
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


def _gather(element: etree._Element, leave_out: Collection[str], pieces: list[str]) -> None:
    """Appends the text within an element to `pieces`."""
    if element.text:
        pieces.append(element.text)
    for child in element:
        tag = child.tag
        if not isinstance(tag, str):
            _check(child)
        elif tag in leave_out:
            pass
        elif tag == MATH + "math":
            pieces.append(_math(child))
        elif tag in EMPHASIS:
            _gather_emphasis(child, leave_out, pieces)
        elif tag in BLOCKS:
            pieces.append(" ")
            _gather(child, leave_out, pieces)
            pieces.append(" ")
        elif tag == "tex-math" and element.find(MATH + "math") is not None:
            pass  # PMC's <alternatives> say the same thing twice
        else:
            _gather(child, leave_out, pieces)
        if child.tail:
            pieces.append(child.tail)


def _check(node: etree._Element) -> None:
    """Refuses an entity; comments and processing instructions are not text."""
    if node.tag is etree.Entity:
        raise BadFile("it uses an XML entity that it does not declare.")


def _gather_emphasis(
    element: etree._Element, leave_out: Collection[str], pieces: list[str]
) -> None:
    """As `_gather`, but sets a heading apart from the sentences that it is glued to."""
    content = element.text or ""
    heading = _HEADING.fullmatch(content) if len(content) < 80 and len(element) == 0 else None
    if heading is None:
        return _gather(element, leave_out, pieces)
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
