"""Reads the citations of one PubMed XML file, streamed.

`pubmed_parser` is not used: its functions lose text or metadata.
`tests/data_prep/readers/test_pubmed.py` shows the losses, and that everything else is the same:

- `stringify_children`, its reader of titles and abstracts, loses text nested two tags deep
  (`<i>p<sub>0</sub></i>` becomes `p`): 3,401 letters of 158 texts in pubmed21n1298.xml.gz.
- `parse_article_info` puts sections into one text, with the label or the category of each but not
  both, and with neither where there is one section only. It has nothing of other abstracts,
  versions, revisions and retractions.
- `parse_publication_types` and the reading of languages fail at an empty element.
- `parse_pmid` takes an `ArticleId` for a missing `PMID`, which NLM's DTD requires. It follows the
  citation, so that it may not be parsed yet.
- `parse_medline_xml` passes over deletions, and over articles under the older root.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from lxml import etree

from tfbio.base import storage
from tfbio.formats.markup import clean, text
from tfbio.formats.safe_xml import (
    SAFE,
    BadFile,
    Entities,
    Limited,
    check_no_entities,
    check_not_empty,
    faults,
    first_element,
    open_file,
)

ROOTS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedArticle", "MedlineCitation")
# One citation is held in memory. The longest of the shipped files has 526,842 bytes; so many bytes
# of nothing but empty elements, which gzip shrinks to 20 kB, took 610 MB.
_MAX_CITATION_BYTES = 20_000_000
_PMCID = 'PubmedData/ArticleIdList/ArticleId[@IdType="pmc"]'
_RETRACTED_BY = 'CommentsCorrectionsList/CommentsCorrections[@RefType="RetractionIn"]'


class Section(NamedTuple):
    """A section of the abstract of a PubMed citation.

    Attributes:
      label: its heading as printed, such as "METHODS AND MATERIALS"; "" where it has none.
      category: NLM's category for it, in upper case (BACKGROUND, OBJECTIVE, METHODS, RESULTS,
        CONCLUSIONS, UNASSIGNED); "" where NLM gave none.
      text: its text, in one line, never empty.
    """

    label: str
    category: str
    text: str


class OtherAbstract(NamedTuple):
    """A further abstract of a PubMed citation: a translation, a summary in plain language.

    Attributes:
      kind: NLM's Type, such as "Publisher", "plain-language-summary" or, of another data base,
        "PIP".
      language: three letters, such as "spa"; "eng" where the file gives none.
      sections: its sections, at least one.
    """

    kind: str
    language: str
    sections: tuple[Section, ...]


@dataclasses.dataclass(frozen=True)
class Citation:
    """A PubMed citation: the record of one version of one PMID in one file.

    Attributes:
      pmid: PubMed's number for the article; "" if the file gives none.
      version: PubMed's version of it: 1, but for a few journals that publish several.
      revised: day of its last revision as YYYYMMDD, or else of its completion or creation; "" if
        there is none.
      title: its title, as plain text; one that was translated stands in brackets; "" if it has
        none.
      sections: its abstract, without empty sections; nothing, if it has none.
      other_abstracts: further abstracts that are not empty.
      languages: the languages of the article, three letters each, such as "eng".
      publication_types: NLM's names, such as "Review".
      retracted: True if it says of itself that it was retracted.
      deleted: True if the file withdraws this version of the PMID; it says nothing else about it.
      book: True if it is a chapter of a book; only its PMID is read.
      pmcid: PMC's number for the article, such as "PMC123"; "" if the file gives none.
    """

    pmid: str
    version: int = 1
    revised: str = ""
    title: str = ""
    sections: tuple[Section, ...] = ()
    other_abstracts: tuple[OtherAbstract, ...] = ()
    languages: tuple[str, ...] = ()
    publication_types: tuple[str, ...] = ()
    retracted: bool = False
    deleted: bool = False
    book: bool = False
    pmcid: str = ""


def edition(name: str | os.PathLike) -> tuple[int, int] | None:
    """Returns the year and number in the name of a PubMed file, which put NLM's files in order.

    Baseline and update files of a year are numbered through: `pubmed21n1298.xml.gz` is (2021,
    1298), and older than (2021, 1299).

    Args:
      name: the name of the file, with or without its folder.

    Returns:
      (year, number), two ints; None for a file of any other name.
    """
    match = re.match(r"(?:pubmed|medline)([0-9]{2})n([0-9]{4,9})(?![0-9])", os.path.basename(name))
    return (2000 + int(match[1]), int(match[2])) if match else None


def read_citations(
    path: str | os.PathLike, unknown: Counter[str] | None = None
) -> Iterator[Citation]:
    """Reads a PubMed `.xml` or `.xml.gz` file, and yields its citations in their order.

    Memory does not grow with the file. Both roots are read: `PubmedArticleSet`, and the older
    `MedlineCitationSet` without `PubmedArticle`.

    Args:
      path: the file.
      unknown: a counter of the names of entities that became U+FFFD; it is changed in place.

    Yields:
      A `Citation` for each article and each deletion: PMID, version, title, abstract and so on.
      That of a chapter of a book (`PubmedBookArticle`, which NLM's baseline and update files do not
      have) has only its PMID, that of an article without a citation is empty.

    Raises:
      BadFile: cut short, not XML, not PubMed's, or it declares entities, or has a text of more than
        10 MB or a citation of more than 20 MB. Citations that came before the fault have been
        yielded by then: whoever reads on must discard them.
    """
    with faults():
        check_not_empty(storage.size(path))
        with open_file(path) as stream:
            _check_root(stream)
            stream.seek(0)
            yield from _read(stream, unknown)


def _check_root(stream: BinaryIO) -> None:
    """Refuses a foreign root, or entity declarations, before the body is parsed."""
    root = first_element(stream)
    if root.tag not in ROOTS:
        raise BadFile(f"its root is <{str(root.tag)[:80]}>, not one of PubMed's ({ROOTS[0]}).")
    check_no_entities(root)


def _read(stream: BinaryIO, unknown: Counter[str] | None) -> Iterator[Citation]:
    done = ("MedlineCitation", "PubmedArticle", "PubmedBookArticle", "DeleteCitation")
    refusal = f"a citation in it is longer than {_MAX_CITATION_BYTES:,} bytes."
    limited = Limited(Entities(stream, unknown), _MAX_CITATION_BYTES, refusal)
    held: Citation | None = None  # until its PMC number follows, if it has one
    for _, element in etree.iterparse(limited, events=("end",), tag=done, **SAFE):
        limited.renew()
        if element.tag == "PubmedArticle":
            yield dataclasses.replace(held or Citation(pmid=""), pmcid=_pmcid(element))
            held = None
        elif held is not None:
            yield held
            held = None
        if element.tag == "MedlineCitation":
            held = _citation(element)
        elif element.tag == "PubmedBookArticle":
            pmid = (element.findtext("BookDocument/PMID") or "").strip()
            yield Citation(pmid=pmid, book=True)
        elif element.tag == "DeleteCitation":
            for pmid in element.iterfind("PMID"):
                yield Citation(pmid=text(pmid), version=_version(pmid), deleted=True)
        # Forgets the element, and the emptied elements before it.
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    if held is not None:
        yield held


def _pmcid(article: etree._Element) -> str:
    """Returns PMC's number in a `PubmedArticle`, not one of its references; "" if it has none."""
    return (article.findtext(_PMCID) or "").strip()


def _citation(element: etree._Element) -> Citation:
    article = element.find("Article")
    if article is None:
        article = etree.Element("Article")
    title = article.find("ArticleTitle")
    types = _texts(article.iterfind("PublicationTypeList/PublicationType"))
    other_abstracts = (
        # NLM's DTD, which is not loaded, has this default.
        OtherAbstract(other.get("Type", ""), other.get("Language", "eng"), _sections(other))
        for other in element.iterfind("OtherAbstract")
    )
    return Citation(
        pmid=(element.findtext("PMID") or "").strip(),
        version=_version(element.find("PMID")),
        revised=_revised(element),
        title="" if title is None else text(title),
        sections=_sections(article.find("Abstract")),
        other_abstracts=tuple(other for other in other_abstracts if other.sections),
        languages=_texts(article.iterfind("Language")),
        publication_types=types,
        retracted="Retracted Publication" in types or element.find(_RETRACTED_BY) is not None,
    )


def _sections(abstract: etree._Element | None) -> tuple[Section, ...]:
    if abstract is None:
        return ()
    sections = (
        Section(clean(part.get("Label", "")), part.get("NlmCategory", "").upper(), text(part))
        for part in abstract.iterfind("AbstractText")
    )
    return tuple(section for section in sections if section.text)


def _texts(elements: Iterable[etree._Element]) -> tuple[str, ...]:
    return tuple(filter(None, map(text, elements)))


def _version(pmid: etree._Element | None) -> int:
    """Returns the version that an element of a PMID states, 1 if it states none."""
    stated = "" if pmid is None else pmid.get("Version", "")
    return int(stated) if re.fullmatch("[0-9]{1,9}", stated) else 1


def _revised(element: etree._Element) -> str:
    """Returns the day of the last revision, completion or creation as YYYYMMDD; "" for none."""
    for tag in ("DateRevised", "DateCompleted", "DateCreated"):
        date = element.find(tag)
        if date is not None:
            year, month, day = (
                date.findtext(part, "").strip() for part in ("Year", "Month", "Day")
            )
            day = f"{year:0>4}{month:0>2}{day:0>2}"
            if re.fullmatch("[0-9]{8}", day):
                return day
    return ""
