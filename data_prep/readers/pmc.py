"""Full texts from PMC: one article, a set of them, or a bulk package, streamed.

`read_articles` yields each article of a `.nxml` or `.xml` file (compressed with gzip or not) or of
a `.tar` or `.tar.gz` package, which is never unpacked to disk. What it cannot use it names: it
yields a `Problem` for an article or a member of a package, and raises `BadFile` where it cannot
read on.

Of an article it gives the abstract and the body, paragraph by paragraph, as a reader sees them:

- Figures, tables, boxes and supplements do not interrupt the paragraph that they stand in: they
  follow it. A caption, and each row of a table, has a `kind` of its own, so that they can be left
  out.
- Left out are the references, footnotes, credits, numbers of sections and figures, and a formula's
  pictures and TeX. Of the alternatives of a formula the first that is text is read.
- A raised citation number or footnote mark is left out: beside its word it would be read as part
  of it ("shown1,2"). Where it alone parted two words, a space takes its place. Citations in line,
  "[1, 2]" or "(Smith, 2001)", are text and stay.
- The title of a section stands with each of its paragraphs, as `section`; that of a section
  without any is a paragraph itself.
- What stands beside the body is not read: the back (acknowledgements, appendices), and the
  decision letters, responses and translations that are sub-articles.

`pubmed_parser` is not used: `parse_pubmed_paragraph` loses what is nested two tags deep, mixes
captions, footnotes and sub-articles into the body, repeats paragraphs that hold lists, and appends
the white space behind each; `parse_article_meta` does not know the "pmcid" of today's files; and
both parse the file anew, with entities expanded.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
import tarfile
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from lxml import etree

from tfbio.base import storage
from tfbio.formats.markup import (
    MAX_HEADER_BYTES,
    SAFE,
    BadFile,
    Entities,
    check_no_entities,
    faults,
    open_file,
    printable,
    text,
)

# The root of a file: one article; or a set of them, as PMC's efetch, Europe PMC and OAI-PMH wrap
# it. A root may have a namespace.
ROOTS = ("article", "pmc-articleset", "articles", "OAI-PMH")

PARAGRAPH, CAPTION, TABLE = "paragraph", "caption", "table"

# One article is held in memory: one of 45 MB took 400 MB, and 48 MB of nothing but empty elements
# 1.5 GB. The longest real file of the tests has 0.3 MB.
MAX_ARTICLE_BYTES = 50_000_000
# gzip shrinks the articles of the tests 4 to 6 times, and zeros 1,000 times: what shrinks so far
# over this length is no text.
MAX_RATIO, MIN_BOMB_BYTES = 200, 256_000_000
# The depth of sections, boxes, lists and tables in each other. Those of the tests reach 11.
MAX_DEPTH = 60

# What no reader sees, or sees beside the text.
LEFT_OUT = (
    *("ref-list", "fn", "fn-group", "table-wrap-foot", "sig-block", "attrib", "permissions"),
    *("label", "object-id", "sec-meta", "kwd-group", "subj-group", "index-term"),
    *("tex-math", "graphic", "inline-graphic", "alt-text", "long-desc", "glyph-data"),
)
# Text on the two sides of these is not one sentence.
BLOCKS = (
    *("p", "sec", "title", "subtitle", "caption", "list", "list-item", "disp-quote", "statement"),
    *("def-list", "def-item", "term", "def", "speech", "speaker", "verse-group", "verse-line"),
    *("table", "table-wrap", "fig", "boxed-text", "supplementary-material", "array"),
    *("fig-group", "table-wrap-group", "chem-struct-wrap", "media"),
)
# Those that stand in a paragraph and are no part of it.
FLOATS = BLOCKS[-10:]
# A table's rows and a box's paragraphs are not its caption.
CAPTIONED = tuple(set(FLOATS) - {"table", "array", "boxed-text"})
SECTIONS = ("sec", "boxed-text", "statement")
# What introduces the paragraph after it: a term its definition, a speaker the speech.
LEADS = ("term", "speaker")
MARKS = ("bibr", "fn", "table-fn")
# What may stand between two marks, and besides them in one superscript.
BETWEEN = re.compile(r"[\s,;\u2010-\u2015\u2212-]*")
BESIDES = re.compile(r"[\s,;:.()\[\]\u2010-\u2015\u2212-]*")
# The last character of a word or of the sign behind it.
_ENDS = re.compile(r"[\w.,;:?!%)\]]")
NOTE_MARK = re.compile(r"\s*(?:[\d,\u2010-\u2015-]+|[a-z]{1,2}|[^\w\s]{1,3})\s*")
FOREIGN = etree.XPath(
    "descendant-or-self::*[namespace-uri() and"
    " namespace-uri() != 'http://www.w3.org/1998/Math/MathML']"
)
# What else stands in their places ("N/A", "0", "-") is none, and must not be several articles' id.
PMCID = re.compile(r"(?:PMC)?([0-9]{1,12})(?:\.[0-9]{1,9})?", re.IGNORECASE)
PMID = re.compile("[0-9]{1,12}")
DOI = re.compile(r"10\.\S+/\S+")
# PMC's words for the link to a supplement, the same in every article.
DOWNLOAD = re.compile(r"\(?Click here for (?:additional data )?file\.?\)?", re.IGNORECASE)
RETRACTED = re.compile(r"\W*(?:retracted|withdrawn)(?: article)?\s*[:\])]", re.IGNORECASE)


class Paragraph(NamedTuple):
    """A paragraph as a reader sees it.

    Attributes:
      section: the titles of the sections around it, joined with " > "; "" outside of them.
      kind: "paragraph"; "caption", a title or paragraph of a figure's, table's or supplement's
        caption; or "table", the cells of one row, joined with " | ".
      text: never empty.
    """

    section: str
    kind: str
    text: str


class Problem(NamedTuple):
    """An article, or a member of a package, that was left out.

    Attributes:
      name: what it is called in its file.
      sentence: why.
    """

    name: str
    sentence: str


@dataclasses.dataclass(frozen=True)
class FullText:
    """One article.

    Attributes:
      name: the base name of the file, or the member of a package, that it was read from; in a set
        of articles with its number, as in "set.xml#3".
      pmcid: as in "PMC123", or "".
      pmid: PubMed's number, not 0, or "".
      doi: as in "10.1371/journal.pone.0000217", or "".
      title: with the subtitle behind a colon.
      abstract: without a title. Summaries for laymen and for tables of contents are left out.
      body: in reading order. Figures and tables that the file keeps beside the body come last.
      language: its ISO 639-1 code in lower case, such as "en".
      article_type: JATS's, such as "research-article"; "retraction" is a notice of one.
      retracted: the article was retracted, as far as its own file says so.
    """

    name: str
    pmcid: str
    pmid: str
    doi: str
    title: str
    abstract: tuple[Paragraph, ...]
    body: tuple[Paragraph, ...]
    language: str
    article_type: str
    retracted: bool

    @property
    def id(self) -> str:
        """What the article is known under, such as "pmcid:PMC123"; never empty."""
        for kind in ("pmcid", "pmid", "doi"):
            if value := getattr(self, kind):
                return f"{kind}:{value}"
        return f"file:{self.name}"


def is_archive(path: str | os.PathLike) -> bool:
    """Whether a file is a tar archive, compressed with gzip or not, by its content.

    Raises:
      BadFile: it cannot be read.
    """
    with faults(), open_file(path) as stream:
        return stream.read(512)[257:262] == b"ustar"


def read_articles(
    path: str | os.PathLike, unknown: Counter[str] | None = None
) -> Iterator[FullText | Problem]:
    """Yields the articles of a file in their order, and what of it had to be left out.

    Memory does not grow with the file. In a package, members that are not `.nxml` or `.xml` are
    passed over; names that lead out of it, links and devices are refused, each as a `Problem`.

    Args:
      path: the file.
      unknown: where named entities that became `markup.UNKNOWN` are counted.

    Raises:
      BadFile: the file, or the rest of it, cannot be read. What came before has been yielded.
    """
    with faults():
        if storage.size(path) == 0:
            raise BadFile("the file is empty.")
        if is_archive(path):
            yield from _read_archive(path, unknown)
        else:
            with open_file(path) as stream:
                yield from _read_xml(stream, printable(os.path.basename(path)), unknown)


# Packages.


class _Tape:
    """A stream that reads no further than it is allowed to, and knows how it ended."""

    def __init__(self, stream: BinaryIO, raw: BinaryIO):
        self._stream, self._raw = stream, raw
        self._position, self._limit, self._last = 0, 0, b""

    def allow(self, size: int) -> None:
        self._limit = self._position + size

    def read(self, size: int) -> bytes:
        if self._position > self._limit:
            raise tarfile.ReadError("a header is too long")
        data = self._stream.read(size)
        self._position += len(data)
        self._last = (self._last + data)[-1024:]
        if self._position > max(MIN_BOMB_BYTES, MAX_RATIO * self._raw.tell()):
            raise tarfile.ReadError("it is compressed too far to be text")
        return data

    def check_end(self) -> None:
        # tarfile takes the end of the data, or a damaged header, for the end of the archive.
        if self._last.strip(b"\0") or len(self._last) < 1024:
            raise tarfile.ReadError("it does not end as archives do")


def _read_archive(
    path: str | os.PathLike, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    articles = 0
    try:
        # tarfile's own "r|gz" would not verify gzip's checksum.
        with open_file(path) as stream:
            tape = _Tape(stream, stream.fileobj if isinstance(stream, gzip.GzipFile) else stream)
            tape.allow(MAX_HEADER_BYTES)
            with tarfile.open(fileobj=tape, mode="r|") as archive:
                while (member := archive.next()) is not None:
                    archive.members.clear()  # it would remember them all
                    tape.allow(member.size + MAX_HEADER_BYTES)
                    for found in _read_member(archive, member, unknown):
                        articles += isinstance(found, FullText)
                        yield found
                    tape.allow(member.size + MAX_HEADER_BYTES)
                while rest := archive.fileobj.read(1 << 16):
                    tape.allow(MAX_HEADER_BYTES)
                    if rest.strip(b"\0"):
                        raise tarfile.ReadError("a header is damaged, or data follows its end")
                tape.check_end()
    except tarfile.TarError as error:
        raise BadFile(f"the archive is damaged or cut short ({error}).") from error
    if not articles:
        raise BadFile("the archive holds no PMC article that could be read.")


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    name = printable(member.name)
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        yield Problem(name, "its name leads out of the archive, which is refused.")
    elif member.isdir():
        pass
    elif member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        yield Problem(name, "it is a link or a device, not a file, which is refused.")
    elif path.suffix.lower() in (".nxml", ".xml"):
        try:
            if not member.size:
                raise BadFile("the file is empty.")
            yield from _read_xml(archive.extractfile(member), name, unknown)
        except BadFile as error:
            yield Problem(name, str(error))
        except etree.XMLSyntaxError as error:
            reason = " ".join(str(error.msg).split())
            yield Problem(name, f"it is not well-formed XML ({reason}).")


# Files of XML.


class _Source:
    """A stream for a parser: its head can be looked at first, and its length has a limit."""

    def __init__(self, stream: BinaryIO | Entities):
        self._stream = stream
        self._head = bytearray()
        self.position, self.limit = 0, MAX_ARTICLE_BYTES

    def peek(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._head += data
        if len(self._head) > MAX_HEADER_BYTES:
            raise BadFile(f"its first {MAX_HEADER_BYTES:,} bytes hold no element.")
        return data

    def read(self, size: int) -> bytes:
        data = bytes(self._head) or self._stream.read(size)
        self._head.clear()
        self.position += len(data)
        if self.position > self.limit:
            raise BadFile(f"an article in it is longer than {MAX_ARTICLE_BYTES:,} bytes.")
        return data


def _read_xml(
    stream: BinaryIO, name: str, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    source = _Source(Entities(stream, unknown))
    root = _root(source)
    count = 0
    for _, article in etree.iterparse(source, events=("end",), tag="{*}article", **SAFE):
        count += 1
        called = name if root == "article" else f"{name}#{count}"
        try:
            found = _full_text(article, called)
        except BadFile as error:
            found = Problem(called, str(error))
        except (RecursionError, etree.LxmlError) as error:
            found = Problem(called, f"its markup is too deep or too much to be read ({error}).")
        yield found
        # What was read is forgotten, and so is what came before it.
        article.clear()
        for element in (article, *article.iterancestors()):
            while element.getprevious() is not None and element.getparent() is not None:
                del element.getparent()[0]
        source.limit = source.position + MAX_ARTICLE_BYTES
    if not count:
        raise BadFile("it holds no article.")


def _root(source: _Source) -> str:
    """The name of the root; refuses a foreign one, or entities, before the body is parsed."""
    parser = etree.XMLPullParser(events=("start",), **SAFE)
    event = None
    while event is None:
        data = source.peek(4096)
        if not data:
            parser.close()
            raise BadFile("it holds no element.")
        parser.feed(data)
        event = next(parser.read_events(), None)
    root = event[1]
    name = etree.QName(root).localname
    if name not in ROOTS:
        raise BadFile(f"its root is <{str(root.tag)[:80]}>, not one of PMC's ({ROOTS[0]}).")
    check_no_entities(root)
    return name


# One article.


def _full_text(article: etree._Element, name: str) -> FullText:
    """Reads an article, and uses up its tree."""
    # Only MathML's namespace says what an element is.
    for element in FOREIGN(article):
        element.tag = etree.QName(element).localname
    meta = article.find("front/article-meta")
    if meta is None:
        raise BadFile("it has no <front> with <article-meta>: it is no article of PMC's.")
    # The first of each kind. Before 2024 "pmc" is the number alone; then it is "pmcid", with "PMC".
    ids: dict[str, str] = {}
    for element in meta.iterfind("article-id"):
        ids.setdefault(element.get("pub-id-type", ""), text(element))
    pmcids = (PMCID.fullmatch(ids.get(kind, "")) for kind in ("pmc", "pmcid"))
    pmcid = next((int(found[1]) for found in pmcids if found), 0)
    pmid = ids.get("pmid", "")
    doi = ids.get("doi", "")

    titles = [meta.find(f"title-group/{tag}") for tag in ("article-title", "subtitle")]
    titles = [title for title in titles if title is not None]
    abstract = _main_abstract(meta)
    body = article.find("body")
    floats = [article.find(tag) for tag in ("floats-group", "floats-wrap")]
    parts = [part for part in (body, *floats) if part is not None]
    for part in (*titles, *([] if abstract is None else [abstract]), *parts):
        _clean(part)
    if abstract is not None and (heading := abstract.find("title")) is not None:
        heading.clear(keep_tail=True)
    title = ": ".join(filter(None, map(text, titles)))
    article_type = article.get("article-type", "")
    related = {element.get("related-article-type") for element in meta.iter("related-article")}
    language = article.get("{http://www.w3.org/XML/1998/namespace}lang") or "en"  # JATS's default
    return FullText(
        name=name,
        pmcid=f"PMC{pmcid}" if pmcid else "",
        pmid=str(int(pmid)) if PMID.fullmatch(pmid) and int(pmid) else "",
        doi=doi if DOI.fullmatch(doi) else "",
        title=title,
        abstract=() if abstract is None else tuple(_paragraphs(abstract)),
        body=tuple(paragraph for part in parts for paragraph in _paragraphs(part)),
        language=language.split("-")[0].lower(),
        article_type=article_type,
        retracted=article_type == "retracted-article"
        or "retraction-forward" in related
        or RETRACTED.match(title) is not None,
    )


def _main_abstract(meta: etree._Element) -> etree._Element | None:
    """PMC's rule: every abstract beyond the main one states its type."""
    for abstract in meta.iterfind("abstract"):
        if abstract.get("abstract-type", "") in ("", "normal", "structured", "section"):
            return abstract
    return None


def _clean(part: etree._Element) -> None:
    """Takes out of a part of an article what is not its text."""
    etree.strip_elements(part, *LEFT_OUT, with_tail=False)
    for alternatives in part.iter("alternatives"):
        shown = [child for child in alternatives if "".join(child.itertext()).strip()]
        for child in shown[1:]:
            child.clear(keep_tail=True)
    _drop_marks(part)


def _drop_marks(part: etree._Element) -> None:
    """Empties raised citation numbers and footnote marks, and what separates them."""
    dropped: dict[etree._Element, None] = {}
    raised: dict[etree._Element, None] = {}  # superscripts with such marks, in order
    for xref in list(part.iter("xref")):
        if xref.get("ref-type") not in MARKS or part not in xref.iterancestors():
            continue  # the latter: it was in a mark that is empty now
        sup = next(xref.iterancestors("sup", "p"), None)
        if sup is not None and sup.tag == "sup":
            xref.clear(keep_tail=True)
            raised[sup] = None
        elif _holds_only_sup(xref) or _is_glued(xref, dropped):
            xref.clear(keep_tail=True)
            dropped[xref] = None
    for sup in raised:
        if BESIDES.fullmatch("".join(sup.itertext())):
            sup.clear(keep_tail=True)
            dropped[sup] = None
    for mark in dropped:
        before = mark.getprevious()
        between = None
        if before is not None and before.tag == "sup" and before not in dropped:
            before, between = before.getprevious(), before
        if before in dropped and BETWEEN.fullmatch(
            (before.tail or "")
            + ("" if between is None else "".join(between.itertext()) + (between.tail or ""))
        ):
            before.tail = None
            if between is not None:
                between.clear()
        elif (mark.tail or "")[:1] in tuple(".,;:)"):  # "shown <sup>1</sup>."
            if before is None:
                parent = mark.getparent()
                parent.text = (parent.text or "").rstrip()
            elif between is None:
                before.tail = (before.tail or "").rstrip()
    if dropped:
        _part_words(part, dropped)


def _part_words(part: etree._Element, dropped: Container[etree._Element]) -> None:
    """Puts a space where an emptied mark stood between two words: it was all that parted them."""
    last, after_mark = "", False
    for event, element in etree.iterwalk(part, events=("start", "end")):
        if event == "end" and element is part:
            break  # its tail is not its text
        after_mark |= event == "start" and element in dropped
        attribute = "text" if event == "start" else "tail"
        if content := getattr(element, attribute):
            if after_mark and _ENDS.fullmatch(last) and content[0].isalnum():
                setattr(element, attribute, f" {content}")
            last, after_mark = content[-1], False


def _holds_only_sup(xref: etree._Element) -> bool:
    return (
        len(xref) > 0
        and not (xref.text or "").strip()
        and all(child.tag == "sup" and not (child.tail or "").strip() for child in xref)
    )


def _is_glued(xref: etree._Element, dropped: Container[etree._Element]) -> bool:
    """Whether a number or sign follows a word or another mark without a space."""
    before = xref.getprevious()
    if before is None:
        left = xref.getparent().text or ""
    else:
        left = before.tail or "".join(before.itertext())
    glued = left[-1:].isalnum() or (before in dropped and not left)
    return glued and NOTE_MARK.fullmatch("".join(xref.itertext())) is not None


def _paragraphs(part: etree._Element) -> list[Paragraph]:
    found: list[Paragraph] = []
    _walk(part, "", PARAGRAPH, found, 0)
    return found


def _walk(
    element: etree._Element, section: str, kind: str, found: list[Paragraph], depth: int
) -> None:
    """Appends what is in an element to `found`, in reading order."""
    if depth > MAX_DEPTH:
        raise BadFile(f"its sections, lists and tables are nested deeper than {MAX_DEPTH}.")
    if element.tag in ("table", "array"):
        return _rows(element, section, found, depth)
    if element.tag in CAPTIONED:
        kind = CAPTION
    if _is_flat(element):
        return _append(element, section, kind, found)
    floats: list[etree._Element] = []
    if element.tag == "p":
        floats = [f for f in element.iterdescendants(*FLOATS) if not _is_inside(f, element)]
        for float_ in floats:
            hole = etree.Element("named-content")
            hole.tail = float_.tail
            if (hole.tail or "")[:1].isalnum():
                hole.tail = " " + hole.tail
            float_.getparent().replace(float_, hole)
    outer, heading, before = section, "", len(found)
    if element.tag in SECTIONS:
        title = element.find("title")
        if title is None:
            title = element.find("caption/title")
        if title is not None:
            heading = text(title)
            section = " > ".join(filter(None, (outer, heading)))
            title.clear(keep_tail=True)

    lead = ""
    # What is between two blocks is a paragraph, whatever its tags are.
    run = etree.Element("p")
    run.text = element.text
    for child in list(element):
        if child.tag in BLOCKS or not _is_flat(child):
            _append(run, section, kind, found)
            run = etree.Element("p")
            run.text, child.tail = child.tail, None
            first = len(found)
            _walk(child, section, kind, found, depth + 1)
            if child.tag in LEADS:
                lead = " ".join([lead, _joined(found[first:], section)]).strip()
                del found[first:]
            elif lead and len(found) > first:
                found[first] = found[first]._replace(text=f"{lead}: {found[first].text}")
                lead = ""
        else:
            run.append(child)
    _append(run, section, kind, found)
    if lead:
        found.append(Paragraph(section, kind, lead))
    for float_ in floats:
        _walk(float_, section, kind, found, depth + 1)
    if heading and len(found) == before:
        found.append(Paragraph(outer, kind, heading))  # no paragraph has it as its section


def _is_flat(element: etree._Element) -> bool:
    """Whether an element holds no other than inline markup."""
    return not len(element) or next(element.iterdescendants(*BLOCKS), None) is None


def _is_inside(float_: etree._Element, paragraph: etree._Element) -> bool:
    """Whether a float of a paragraph stands in another one of its floats."""
    outer = next(float_.iterancestors(paragraph.tag, *FLOATS))
    while outer is not paragraph and outer.tag == paragraph.tag:
        outer = next(outer.iterancestors(paragraph.tag, *FLOATS))
    return outer is not paragraph


def _append(run: etree._Element, section: str, kind: str, found: list[Paragraph]) -> None:
    if len(run) or run.text:
        content = text(run)
        if content and not (kind == CAPTION and DOWNLOAD.fullmatch(content)):
            found.append(Paragraph(section, kind, content))


def _joined(paragraphs: Sequence[Paragraph], section: str) -> str:
    """The text of paragraphs in one line, with the titles of sections that begin among them."""
    words, before = [], section
    for paragraph in paragraphs:
        if paragraph.section not in (section, before):
            words.append(paragraph.section.removeprefix(section).removeprefix(" > "))
        words.append(paragraph.text)
        before = paragraph.section
    return " ".join(words)


def _rows(table: etree._Element, section: str, found: list[Paragraph], depth: int) -> None:
    for row in table.iterdescendants("tr", "row"):
        if next(row.iterancestors("table", "array")) is not table:
            continue  # a table in a cell is read with its cell
        cells = []
        for cell in row:
            inside: list[Paragraph] = []
            _walk(cell, section, TABLE, inside, depth + 1)
            cells.append(_joined(inside, section))
        content = " | ".join(filter(None, cells))
        if content:
            found.append(Paragraph(section, TABLE, content))
