"""Reads one PMC article: its ids, its title, its abstract and its body."""

from __future__ import annotations

import dataclasses
import re

from lxml import etree

from data_prep.readers import pmc_paragraphs
from data_prep.readers.pmc_paragraphs import Paragraph
from tfbio.formats.markup import text
from tfbio.formats.safe_xml import BadFile

_FOREIGN = etree.XPath(
    "descendant-or-self::*[namespace-uri() and"
    " namespace-uri() != 'http://www.w3.org/1998/Math/MathML']"
)
# Anything else in an id's place ("N/A", "0", "-") is none: it must not be several articles' id.
_PMCID = re.compile(r"(?:PMC)?([0-9]{1,12})(?:\.[0-9]{1,9})?", re.IGNORECASE)
# An article's version, in its id or in the name of its file (`PMC123.2.xml`).
_VERSION = re.compile(r"(?:.*/)?PMC[0-9]{1,12}\.([0-9]{1,9})(?:\.n?xml(?:\.gz)?)?(?:#[0-9]+)?")
_PMID = re.compile("[0-9]{1,12}")
_DOI = re.compile(r"10\.\S+/\S+")

_RETRACTED = re.compile(r"\W*(?:retracted|withdrawn)(?: article)?\s*[:\])]", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class FullText:
    """A PMC article: its text, its ids and what else its XML says of it.

    Attributes:
      name: the base name of the file, or the member of a package, that it was read from; in a set
        of articles with its number, as in "set.xml#3".
      pmcid: its number in PMC, as in "PMC123", or "".
      pmid: PubMed's number, not 0, or "".
      doi: its DOI, as in "10.1371/journal.pone.0000217", or "".
      title: its title, with the subtitle behind a colon; "" if it has none.
      abstract: the paragraphs of its abstract, without a title. Summaries for laymen and for tables
        of contents are left out.
      body: the paragraphs of its body, in reading order. Figures and tables that the file keeps
        beside the body come last.
      language: its ISO 639-1 code in lower case, such as "en".
      article_type: JATS's, such as "research-article"; "retraction" is a notice of one.
      retracted: True if the article was retracted, as far as its own file says so.
      version: the number of its version in PMC; 0 if neither the file nor its name says it.
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
    version: int = 0


def read(article: etree._Element, name: str) -> FullText:
    """Reads one PMC article from its XML: ids, title, abstract, body, and whether it is retracted.

    Args:
      article: its element `<article>`; the tree is used up.
      name: the name of the file or member that it stands in, which becomes the article's name.

    Returns:
      A `FullText`: ids, title, paragraphs of the abstract and the body, language, type and whether
      it was retracted. Ids that are not of their kind's form are "".

    Raises:
      BadFile: it has no metadata, is nested too deep, or uses an entity that it does not declare.
    """
    # Only MathML's namespace says what an element is.
    for element in _FOREIGN(article):
        element.tag = etree.QName(element).localname
    meta = article.find("front/article-meta")
    if meta is None:
        raise BadFile("it has no <front> with <article-meta>: it is no article of PMC's.")
    # The first of each kind. Before 2024 "pmc" is the number alone; then it is "pmcid", with "PMC".
    ids: dict[str, str] = {}
    for element in meta.iterfind("article-id"):
        ids.setdefault(element.get("pub-id-type", ""), text(element))
    pmcids = (_PMCID.fullmatch(ids.get(kind, "")) for kind in ("pmc", "pmcid"))
    pmcid = next((int(match[1]) for match in pmcids if match), 0)
    versions = map(_VERSION.fullmatch, (ids.get("pmcid-ver", ""), ids.get("pmcid", ""), name))
    version = next((int(match[1]) for match in versions if match), 0)
    pmid = ids.get("pmid", "")
    doi = ids.get("doi", "")

    titles = [meta.find(f"title-group/{tag}") for tag in ("article-title", "subtitle")]
    titles = [title for title in titles if title is not None]
    abstract = _main_abstract(meta)
    body = article.find("body")
    floats = [article.find(tag) for tag in ("floats-group", "floats-wrap")]
    parts = [part for part in (body, *floats) if part is not None]
    for part in (*titles, *([] if abstract is None else [abstract]), *parts):
        pmc_paragraphs.clean(part)
    if abstract is not None and (heading := abstract.find("title")) is not None:
        heading.clear(keep_tail=True)
    title = ": ".join(filter(None, map(text, titles)))
    article_type = article.get("article-type", "")
    related = {element.get("related-article-type") for element in meta.iter("related-article")}
    language = article.get("{http://www.w3.org/XML/1998/namespace}lang") or "en"  # JATS's default
    return FullText(
        name=name,
        pmcid=f"PMC{pmcid}" if pmcid else "",
        pmid=str(int(pmid)) if _PMID.fullmatch(pmid) and int(pmid) else "",
        doi=doi if _DOI.fullmatch(doi) else "",
        title=title,
        abstract=() if abstract is None else tuple(pmc_paragraphs.read(abstract)),
        body=tuple(paragraph for part in parts for paragraph in pmc_paragraphs.read(part)),
        language=language.split("-")[0].lower(),
        article_type=article_type,
        retracted=article_type == "retracted-article"
        or "retraction-forward" in related
        or _RETRACTED.match(title) is not None,
        version=version,
    )


def _main_abstract(meta: etree._Element) -> etree._Element | None:
    """Returns the main abstract: by PMC's rule, every other one states its type."""
    for abstract in meta.iterfind("abstract"):
        if abstract.get("abstract-type", "") in ("", "normal", "structured", "section"):
            return abstract
    return None
