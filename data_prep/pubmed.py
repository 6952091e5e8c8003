"""Citations from one PubMed XML file, streamed.

`pubmed_parser` finds the ids. It is not used for text: its `stringify_children` loses what is
nested two tags deep (`<i>p<sub>0</sub></i>` becomes `p`), and reads a whole file into memory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from lxml import etree

from data_prep.markup import SAFE, BadFile, check_no_entities, faults, open_file, text

ROOTS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedArticle", "MedlineCitation")


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
    with faults():
        if os.path.getsize(path) == 0:
            raise BadFile("the file is empty.")
        with open_file(path) as stream:
            _check_root(stream)
        with open_file(path) as stream:
            yield from _read(stream)


def _check_root(stream) -> None:
    """Refuses a foreign root, or entity declarations, before the body is parsed."""
    _, root = next(etree.iterparse(stream, events=("start",), **SAFE))
    if root.tag not in ROOTS:
        raise BadFile(f"its root is <{str(root.tag)[:80]}>, not one of PubMed's ({ROOTS[0]}).")
    check_no_entities(root)


def _read(stream) -> Iterator[Citation]:
    done = ("MedlineCitation", "PubmedArticle", "PubmedBookArticle", "DeleteCitation")
    for _, element in etree.iterparse(stream, events=("end",), tag=done, **SAFE):
        if element.tag == "MedlineCitation":
            yield _citation(element)
        elif element.tag == "DeleteCitation":
            for pmid in element.iterfind("PMID"):
                yield Citation(pmid=text(pmid), deleted=True)
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
        content = text(part)
        if content:
            category = part.get("NlmCategory") or ("UNASSIGNED" if part.get("Label") else "")
            sections.append((category.upper(), content))
    return Citation(
        pmid=(pmid or "").strip(),
        title="" if title is None else text(title),
        sections=tuple(sections),
    )
