"""Reads the paragraphs of a part of a PMC article, as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lxml import etree

from data_prep.readers import pmc_marks
from tfbio.formats.markup import text
from tfbio.formats.safe_xml import BadFile

PARAGRAPH, CAPTION, TABLE = "paragraph", "caption", "table"

# The depth of sections, boxes, lists and tables in each other. Those of the tests reach 11.
_MAX_DEPTH = 60

# The elements that no reader sees, or sees beside the text.
_LEFT_OUT = (
    *("ref-list", "fn", "fn-group", "table-wrap-foot", "sig-block", "attrib", "permissions"),
    *("label", "object-id", "sec-meta", "kwd-group", "subj-group", "index-term"),
    *("tex-math", "graphic", "inline-graphic", "alt-text", "long-desc", "glyph-data"),
)
# Blocks that stand in a paragraph and are no part of it.
_FLOATS = (
    *("table", "table-wrap", "fig", "boxed-text", "supplementary-material", "array"),
    *("fig-group", "table-wrap-group", "chem-struct-wrap", "media"),
)
# Text on the two sides of these is not one sentence.
_BLOCKS = (
    *("p", "sec", "title", "subtitle", "caption", "list", "list-item", "disp-quote", "statement"),
    *("def-list", "def-item", "term", "def", "speech", "speaker", "verse-group", "verse-line"),
    *_FLOATS,
)
# A table's rows and a box's paragraphs are not its caption.
_CAPTIONED = tuple(set(_FLOATS) - {"table", "array", "boxed-text"})
_SECTIONS = ("sec", "boxed-text", "statement")
# Elements that introduce the paragraph after them: a term its definition, a speaker the speech.
_LEADS = ("term", "speaker")

# PMC's words for the link to a supplement, the same in every article.
_DOWNLOAD = re.compile(r"\(?Click here for (?:additional data )?file\.?\)?", re.IGNORECASE)


class Paragraph(NamedTuple):
    """A paragraph, a caption or a table's row of a PMC article, as a reader sees it.

    Attributes:
      titles: the titles of the sections around it, the outermost first.
      kind: "paragraph"; "caption", a title or paragraph of a figure's, table's or supplement's
        caption; or "table", the cells of one row, joined with " | ".
      text: its text, in one line, never empty.
    """

    titles: tuple[str, ...]
    kind: str
    text: str

    @property
    def section(self) -> str:
        """The titles of the sections around a paragraph, joined with " > "; "" outside of them."""
        return " > ".join(self.titles)


def clean(part: etree._Element) -> None:
    """Prepares a part of a PMC article for its paragraphs: empties what is not their text.

    That is references, footnotes, labels, pictures and TeX, all but the first alternative of a
    formula, and raised citation numbers. Returns nothing.

    Args:
      part: an element of the article, such as its body; it is changed in place.
    """
    etree.strip_elements(part, *_LEFT_OUT, with_tail=False)
    for alternatives in part.iter("alternatives"):
        shown = [child for child in alternatives if "".join(child.itertext()).strip()]
        for child in shown[1:]:
            child.clear(keep_tail=True)
    pmc_marks.drop_marks(part)


def read(part: etree._Element) -> list[Paragraph]:
    """Reads the paragraphs of a part of a PMC article, in reading order.

    Args:
      part: an element after `clean`; its tree is used up.

    Returns:
      A list of `Paragraph`s: titles of sections, kind and text of each; [] if it holds no text.

    Raises:
      BadFile: sections, lists and tables are nested deeper than 60, or the text uses an entity that
        the file does not declare.
    """
    paragraphs: list[Paragraph] = []
    _walk(part, (), PARAGRAPH, paragraphs, 0)
    return paragraphs


def _walk(
    element: etree._Element,
    titles: tuple[str, ...],
    kind: str,
    paragraphs: list[Paragraph],
    depth: int,
) -> None:
    """Appends the paragraphs in an element to `paragraphs`, in reading order."""
    if depth > _MAX_DEPTH:
        raise BadFile(f"its sections, lists and tables are nested deeper than {_MAX_DEPTH}.")
    if element.tag in ("table", "array"):
        return _rows(element, titles, paragraphs, depth)
    if element.tag in _CAPTIONED:
        kind = CAPTION
    if _is_flat(element):
        return _append(element, titles, kind, paragraphs)
    floats = _take_floats(element) if element.tag == "p" else []
    heading = _take_heading(element) if element.tag in _SECTIONS else ""
    inner = (*titles, heading) if heading else titles
    before = len(paragraphs)
    _walk_children(element, inner, kind, paragraphs, depth)
    for float_ in floats:
        _walk(float_, inner, kind, paragraphs, depth + 1)
    if heading and len(paragraphs) == before:
        paragraphs.append(Paragraph(titles, kind, heading))  # no paragraph has it as its section


def _take_floats(paragraph: etree._Element) -> list[etree._Element]:
    """Takes figures, tables and the like out of a paragraph, which they do not interrupt."""
    floats = [f for f in paragraph.iterdescendants(*_FLOATS) if not _is_inside(f, paragraph)]
    for float_ in floats:
        hole = etree.Element("named-content")
        hole.tail = float_.tail
        if (hole.tail or "")[:1].isalnum():
            hole.tail = " " + hole.tail
        float_.getparent().replace(float_, hole)
    return floats


def _take_heading(section: etree._Element) -> str:
    """Empties the title of a section, and returns its text; "" if there is none."""
    title = section.find("title")
    if title is None:
        title = section.find("caption/title")
    if title is None:
        return ""
    heading = text(title)
    title.clear(keep_tail=True)
    return heading


def _walk_children(
    element: etree._Element,
    titles: tuple[str, ...],
    kind: str,
    paragraphs: list[Paragraph],
    depth: int,
) -> None:
    """Appends the paragraphs in the children of an element, and in the text between them."""
    lead = ""
    # The text between two blocks is a paragraph, whatever its tags are.
    run = etree.Element("p")
    run.text = element.text
    for child in list(element):
        if child.tag not in _BLOCKS and _is_flat(child):
            run.append(child)
            continue
        _append(run, titles, kind, paragraphs)
        run = etree.Element("p")
        run.text, child.tail = child.tail, None
        first = len(paragraphs)
        _walk(child, titles, kind, paragraphs, depth + 1)
        if child.tag in _LEADS:
            lead = " ".join([lead, _joined(paragraphs[first:], titles)]).strip()
            del paragraphs[first:]
        elif lead and len(paragraphs) > first:
            led = paragraphs[first]
            paragraphs[first] = led._replace(text=f"{lead}: {led.text}")
            lead = ""
    _append(run, titles, kind, paragraphs)
    if lead:
        paragraphs.append(Paragraph(titles, kind, lead))


def _is_flat(element: etree._Element) -> bool:
    """Returns True if an element holds no markup but inline markup."""
    return not len(element) or next(element.iterdescendants(*_BLOCKS), None) is None


def _is_inside(float_: etree._Element, paragraph: etree._Element) -> bool:
    """Returns True if a float of a paragraph stands in another float of the paragraph."""
    outer = next(float_.iterancestors(paragraph.tag, *_FLOATS))
    while outer is not paragraph and outer.tag == paragraph.tag:
        outer = next(outer.iterancestors(paragraph.tag, *_FLOATS))
    return outer is not paragraph


def _append(
    run: etree._Element, titles: tuple[str, ...], kind: str, paragraphs: list[Paragraph]
) -> None:
    """Appends the text of inline markup as a paragraph, unless it is empty."""
    if len(run) or run.text:
        content = text(run)
        if content and not (kind == CAPTION and _DOWNLOAD.fullmatch(content)):
            paragraphs.append(Paragraph(titles, kind, content))


def _joined(paragraphs: Sequence[Paragraph], titles: tuple[str, ...]) -> str:
    """Joins the text of paragraphs, with the titles of the sections that begin among them."""
    words, before = [], titles
    for paragraph in paragraphs:
        if paragraph.titles not in (titles, before):
            words.append(" > ".join(paragraph.titles[len(titles) :]))
        words.append(paragraph.text)
        before = paragraph.titles
    return " ".join(words)


def _rows(
    table: etree._Element, titles: tuple[str, ...], paragraphs: list[Paragraph], depth: int
) -> None:
    """Appends each row of a table as a paragraph."""
    for row in table.iterdescendants("tr", "row"):
        if next(row.iterancestors("table", "array")) is not table:
            continue  # a table in a cell is read with its cell
        cells = []
        for cell in row:
            inside: list[Paragraph] = []
            _walk(cell, titles, TABLE, inside, depth + 1)
            cells.append(_joined(inside, titles))
        content = " | ".join(filter(None, cells))
        if content:
            paragraphs.append(Paragraph(titles, TABLE, content))
