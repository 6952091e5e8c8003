"""Citations from one PubMed XML file, streamed.

`pubmed_parser` finds the ids. It is not used for text: its `stringify_children` loses what is
nested two tags deep (`<i>p<sub>0</sub></i>` becomes `p`), and reads a whole file into memory.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import zlib
from collections.abc import Iterator

from lxml import etree

from tfbio import records

ROOTS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedArticle", "MedlineCitation")

# Nothing outside the file is read, and no entity is expanded. lxml's limits on depth and on the
# size of one text stay on (huge_tree=False).
_SAFE = {
    "load_dtd": False,
    "no_network": True,
    "resolve_entities": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


class BadFile(records.DataError):
    """A file that is not whole, well-formed and harmless PubMed XML."""


@dataclasses.dataclass(frozen=True)
class Citation:
    """What one file says about one PMID.

    Attributes:
      pmid: PubMed's number for the article.
      title: its title, as plain text.
      sections: (NLM category, text) of every part of the abstract. The category is "" in an
        abstract without sections, and "UNASSIGNED" where a section has a label but no category.
      deleted: the file withdraws the PMID; there is no text then.
    """

    pmid: str
    title: str = ""
    sections: tuple[tuple[str, str], ...] = ()
    deleted: bool = False


def read_citations(path: str | os.PathLike) -> Iterator[Citation]:
    """Yields the citations of a PubMed `.xml` or `.xml.gz` file in their order.

    Memory does not grow with the file. Both roots are read: `PubmedArticleSet`, and the older
    `MedlineCitationSet` without `PubmedArticle`.

    Raises:
      BadFile: cut short, not XML, not PubMed's, or it declares or uses entities. Citations that
        came before the fault have been yielded by then: whoever reads on must discard them.
    """
    try:
        if os.path.getsize(path) == 0:
            raise BadFile("the file is empty.")
        with _open(path) as stream:
            _check_root(stream)
        with _open(path) as stream:
            yield from _read(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"the gzip data is damaged or cut short ({error}).") from error
    except etree.XMLSyntaxError as error:
        raise BadFile(f"it is not well-formed XML ({error.msg}).") from error
    except OSError as error:
        raise BadFile(f"it cannot be read ({error.strerror or error}).") from error


def _open(path: str | os.PathLike):
    """Opens the XML in a file, whether it is compressed or not, whatever its name says."""
    with open(path, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")


def _check_root(stream) -> None:
    """Refuses a foreign root, or entity declarations, before the body is parsed."""
    _, root = next(etree.iterparse(stream, events=("start",), **_SAFE))
    if root.tag not in ROOTS:
        raise BadFile(f"its root is <{str(root.tag)[:80]}>, not one of PubMed's ({ROOTS[0]}).")
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise BadFile("it declares XML entities, which PubMed never does; they are refused.")


def _read(stream) -> Iterator[Citation]:
    done = ("MedlineCitation", "PubmedArticle", "PubmedBookArticle", "DeleteCitation")
    for _, element in etree.iterparse(stream, events=("end",), tag=done, **_SAFE):
        if element.tag == "MedlineCitation":
            yield _citation(element)
        elif element.tag == "DeleteCitation":
            for pmid in element.iterfind("PMID"):
                yield Citation(pmid=_text(pmid), deleted=True)
        # What was read is forgotten, and so are the emptied elements before it.
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def _citation(element: etree._Element) -> Citation:
    from pubmed_parser.medline_parser import parse_pmid

    parent = element.getparent()
    in_article = parent is not None and parent.tag == "PubmedArticle"
    pmid = parse_pmid(parent) if in_article else element.findtext("PMID")
    title = element.find("Article/ArticleTitle")
    sections = []
    for part in element.iterfind("Article/Abstract/AbstractText"):
        text = _text(part)
        if text:
            category = part.get("NlmCategory") or ("UNASSIGNED" if part.get("Label") else "")
            sections.append((category.upper(), text))
    return Citation(
        pmid=(pmid or "").strip(),
        title="" if title is None else _text(title),
        sections=tuple(sections),
    )


def _text(element: etree._Element) -> str:
    """All text inside an element, however deep, with runs of white space made one space."""
    if next(element.iter(etree.Entity), None) is not None:
        raise BadFile("it uses an XML entity that it does not declare.")
    return " ".join("".join(element.itertext()).split())
