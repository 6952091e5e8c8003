"""Reads the articles of any input file, PubMed's or PMC's, as texts that may become documents.

`pubmed.py` and `pmc.py` read the texts. Here the user's selection is applied: which parts of an
article are text, and which articles are left out, and why.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from data_prep.readers import pmc, pmc_article, pmc_paragraphs, pubmed
from data_prep.readers.problem import Problem
from data_prep.selection import boilerplate, document_checks, exclusion
from tfbio.base import document_records, errors, messages, storage
from tfbio.base.document_records import Document
from tfbio.formats import safe_xml

# The end of the id of a body's document, behind its article's id.
BODY_SUFFIX = "#body"
# The keys of articles without a PMID: with a PMC number from here on, with neither from 2^63.
NO_PMID = 1 << 62
# What stands between a citation's id and the number of one of its other abstracts.
OTHER_SUFFIX = "#other_abstract"

# Why an article is left out by itself, whatever else is in the corpus: the first that applies.
REASONS = (
    "without_id",
    "book",
    "marked_as_error",
    "note_category",
    "retracted",
    "excluded_by_id",
    "language",
    "publication_type",
    "without_text",
    "too_short",
    "excluded_by_text",
)
# The reasons that hold for all of an article's texts, whichever text has them.
REASONS_OF_ARTICLES = (
    "retracted",
    "excluded_by_id",
    "language",
    "publication_type",
    "excluded_by_text",
)
# The reasons that hold for copies of the article, too: its texts are read to find its duplicates.
REASONS_OF_COPIES = ("retracted", "excluded_by_id")

# The kinds of candidates. A deletion has no text: it only withdraws a citation.
CITATION, ABSTRACT, BODY, DELETION = ("citation", "abstract", "body", "deletion")

# MEDLINE's codes of the languages that PMC's articles are in, by JATS's codes.
_LANGUAGES = dict(
    re.findall(
        r"(\w\w):(\w{3})",
        "af:afr ar:ara az:aze bg:bul bs:bos ca:cat cs:cze cy:wel da:dan de:ger el:gre en:eng "
        "eo:epo es:spa et:est eu:baq fa:per fi:fin fr:fre ga:gle gl:glg he:heb hi:hin hr:hrv "
        "hu:hun hy:arm id:ind is:ice it:ita ja:jpn ka:geo kk:kaz ko:kor ky:kir la:lat lt:lit "
        "lv:lav mk:mac ml:mal ms:may nb:nor nl:dut nn:nor no:nor pl:pol ps:pus pt:por ro:rum "
        "ru:rus sk:slo sl:slv sq:alb sr:srp sv:swe th:tha tr:tur uk:ukr ur:urd uz:uzb vi:vie "
        "zh:chi",
    )
)


@dataclasses.dataclass(frozen=True)
class Selection:
    """The settings that say which articles become documents, and which of their parts.

    Attributes:
      section_labels: keep the labels of structured abstracts, and the titles of full texts'
        sections, in the text.
      other_abstracts: which of PubMed's `OtherAbstract`s become documents: "none", "english" (such
        as plain-language summaries), or "all".
      keep_boilerplate: keep publishers' copyright lines and the like.
      full_text: use the bodies of PMC's articles, beside their abstracts.
      captions: use the captions of figures and tables, those in a full text's abstract, too.
      tables: use the cells of tables, those in a full text's abstract, too.
      languages: use only articles in these languages, codes such as "eng"; empty: in all.
      publication_types: leave out articles of these types, such as "Letter", in any case.
      keep_retracted: use retracted articles.
      min_words: leave out abstracts, pages, notes and plain texts with fewer words (PubMedBERT,
        section 3.1: 128).
      note_categories: use only clinical notes of these categories, such as "Physician", in any
        case; empty: all.
      note_marks: "keep" the marks of de-identification in clinical notes, or write their "type".

    Raises:
      UsageError: `other_abstracts` or `note_marks` has no such value, a language is not three small
        letters, or `captions` or `tables` is set without `full_text`.
    """

    section_labels: bool = False
    other_abstracts: str = "none"
    keep_boilerplate: bool = False
    full_text: bool = True
    captions: bool = False
    tables: bool = False
    languages: tuple[str, ...] = ()
    publication_types: tuple[str, ...] = ()
    keep_retracted: bool = False
    min_words: int = 0
    note_categories: tuple[str, ...] = ()
    note_marks: str = "keep"

    def __post_init__(self) -> None:
        if self.other_abstracts not in ("none", "english", "all"):
            raise errors.UsageError(
                f"--other_abstracts={self.other_abstracts}: give none, english, or all."
            )
        if self.note_marks not in ("keep", "type"):
            raise errors.UsageError(f"--note_marks={self.note_marks}: give keep or type.")
        if not self.full_text and (self.captions or self.tables):
            raise errors.UsageError(
                f"--{'captions' if self.captions else 'tables'} does not go with --nofull_text, "
                "which leaves out the texts that have them."
            )
        unknown = [name for name in self.languages if not re.fullmatch("[a-z]{3}", name)]
        if unknown:
            raise errors.UsageError(
                f"--languages: {unknown[0]!r} is not a code of three small letters, such as eng."
            )


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A text as `read` yields it from an input file, such as an article's: may become a document.

    A citation with other abstracts may become several documents.

    Attributes:
      kind: "citation" (PubMed's), "abstract" or "body" (of a full text), or "deletion"; or one of
        `texts.KINDS`.
      id: its name in the list of texts left out, such as "pmid:123#body"; that of a full text
        changes if `versions.with_pmids` finds its PMID later.
      key: the article's number, less than 2^64, the same in every file that has the article, but
        for such a full text: only the newest abstract and the newest body of a key are kept.
      version: the version that PubMed gives it, from 1; 0 for the abstract or body of a full text;
        that abstract gives way to PubMed's.
      revised: the date of its last revision, as the number YYYYMMDD, or 0; 99999999 for a deletion;
        for a full text its version in PMC, or 0.
      reason: why it is left out, one of `REASONS`; "" if it is not.
      documents: its documents, whose `sentences` are still whole sections or paragraphs; none if it
        is a deletion, or left out for a reason that is not one of `REASONS_OF_COPIES`.
      lacking: the id and the reason of each text of a citation that is no document: its main
        abstract or other abstracts; none where a citation cannot have documents.
      pmcid: the article's PMC number, by which a full text without a PMID finds its citation; 0 if
        it has none, or is a citation without a PMID.
    """

    kind: str
    id: str
    key: int
    version: int = 1
    revised: int = 0
    reason: str = ""
    documents: tuple[Document, ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()
    pmcid: int = 0


def read(
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
    unknown: Counter[str] | None = None,
) -> Iterator[Candidate | Problem]:
    """Reads the articles of one PubMed or PMC file, and applies the user's selection to each.

    Args:
      path: the file.
      selection: which articles and parts become documents.
      excluded: the articles that `--exclude` names; None: none.
      unknown: counts, by name, the named entities that became U+FFFD; it is changed in place. None:
        they are not counted.

    Yields:
      In the order of the file, a `Candidate` for each PubMed citation or deletion, and one or two
      for each full text: its abstract and its body, the latter with `selection.full_text`. A
      candidate that is left out has a `reason`. A `Problem` for each article or member of a
      package that cannot be used.

    Raises:
      BadFile: the file is neither PubMed's nor PMC's, or damaged; the candidates that were yielded
        before must be discarded.
    """
    if not pmc.is_archive(path) and _is_pubmed(path):
        for position, citation in enumerate(pubmed.read_citations(path, unknown)):
            yield _of_citation(citation, position, path, selection, excluded)
        return
    for article in pmc.read_articles(path, unknown):
        if isinstance(article, Problem):
            yield article
        else:
            yield from _of_full_text(article, path, selection, excluded)


def _is_pubmed(path: str) -> bool:
    """Returns True if the first element of a file is one of PubMed's roots."""
    with safe_xml.faults():
        safe_xml.check_not_empty(storage.size(path))
        with safe_xml.open_file(path) as stream:
            return safe_xml.first_element(stream).tag in pubmed.ROOTS


def _of_citation(
    citation: pubmed.Citation,
    position: int,
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
) -> Candidate:
    """Makes a candidate of a citation: its abstract, and other abstracts if they are selected."""
    source = messages.file_name(path)
    pmid = _pmid_number(citation.pmid)
    key = pmid or document_checks.key_of(f"{source} {position}")
    id_ = f"pmid:{pmid}" if pmid else f"{source}#{position + 1}"
    if citation.deleted:
        # It is newer than all that other files of no known edition say.
        return Candidate(DELETION, id_, key, citation.version, revised=99999999)
    documents: list[Document] = []
    lacking: dict[str, str] = {}
    reason = _unwanted_citation(citation, selection, excluded)
    if _has_documents(reason):
        main = _document(id_, source, citation.title, _kinds(citation.sections), selection)
        every = [main, *_other_abstracts(citation, id_, source, selection)]
        reasons = {d.id: document_checks.lacking(d, selection.min_words) for d in every}
        lacking = {name: why for name, why in reasons.items() if why}
        documents = [document for document in every if document.id not in lacking]
        if not documents:
            reason = reason or reasons[id_]
        reason = reason or document_checks.excluded_by_text(excluded, every)
    if not _has_documents(reason):
        documents, lacking = [], {}
    edition = (citation.version, int(citation.revised or 0))
    texts = (tuple(documents), tuple(lacking.items()))
    pmcid = _pmc_number(citation.pmcid) if pmid else 0
    return Candidate(CITATION, id_, key, *edition, reason, *texts, pmcid)


def _has_documents(reason: str) -> bool:
    """Returns True if an article is wanted, or left out together with its copies."""
    return not reason or reason in REASONS_OF_COPIES


def _unwanted_citation(
    citation: pubmed.Citation, selection: Selection, excluded: exclusion.Exclusion | None
) -> str:
    """Returns the first of the reasons against a citation that need no text, or ""."""
    pmid, pmcid = _pmid_number(citation.pmid), _pmc_number(citation.pmcid)
    if not pmid:
        return "without_id"
    if citation.book:
        return "book"
    by_id = excluded is not None and excluded.has_id(pmid, pmcid)
    types = citation.publication_types
    return _unwanted(selection, citation.retracted, by_id, citation.languages, types)


def _other_abstracts(
    citation: pubmed.Citation, id_: str, source: str, selection: Selection
) -> Iterator[Document]:
    """Yields the documents of the other abstracts that are selected."""
    for number, other in enumerate(citation.other_abstracts, start=1):
        is_english = selection.other_abstracts == "english" and other.language == "eng"
        if selection.other_abstracts == "all" or is_english:
            name = f"{id_}{OTHER_SUFFIX}{number}"
            yield _document(name, source, "", _kinds(other.sections), selection)


def _pmid_number(text: str) -> int:
    """Reads a PMID, 1 to 12 digits; returns 0 for anything else, such as "N/A" or "0"."""
    return int(text) if re.fullmatch("[0-9]{1,12}", text) else 0


def _of_full_text(
    article: pmc_article.FullText,
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
) -> Iterator[Candidate]:
    """Yields two candidates of a full text: its abstract, under its PMID if any, and its body."""
    source = messages.file_name(path)
    id_, key = _identity(article)
    pmid, pmcid = _pmid_number(article.pmid), _pmc_number(article.pmcid)
    by_id = excluded is not None and excluded.has_id(pmid, pmcid)
    languages, types = (_language(article.language),), (article.article_type,)
    reason = _unwanted(selection, article.retracted, by_id, languages, types)

    abstract = body = None
    if _has_documents(reason):
        wanted = {"paragraph", "caption" * selection.captions, "table" * selection.tables}
        if article.abstract:
            sections = _sections(p for p in article.abstract if p.kind in wanted)
            abstract = _document(id_, source, article.title, sections, selection)
        if selection.full_text:
            sections = _sections(p for p in article.body if p.kind in wanted)
            body = _document(id_ + BODY_SUFFIX, source, article.title, sections, selection)
        texts = [document for document in (abstract, body) if document]
        reason = reason or document_checks.excluded_by_text(excluded, texts)

    def candidate(kind: str, name: str, document: Document | None, min_words: int = 0) -> Candidate:
        lacking = document_checks.lacking(document, min_words)
        documents = (document,) if document and not lacking and _has_documents(reason) else ()
        why = reason or lacking
        return Candidate(kind, name, key, 0, article.version, why, documents, pmcid=pmcid)

    yield candidate(ABSTRACT, id_, abstract, selection.min_words)
    if selection.full_text:
        yield candidate(BODY, id_ + BODY_SUFFIX, body)


def _pmc_number(text: str) -> int:
    """Reads a PMC number, "PMC" and 1 to 12 digits; returns 0 for anything else."""
    match = re.fullmatch("PMC([0-9]{1,12})", text)
    return int(match[1]) if match else 0


def _identity(article: pmc_article.FullText) -> tuple[str, int]:
    """Returns the id and key of a full text, of its PMID, else PMC number, DOI, or file's name."""
    if pmid := _pmid_number(article.pmid):
        return f"pmid:{pmid}", pmid
    if pmcid := _pmc_number(article.pmcid):
        return f"pmcid:{article.pmcid}", NO_PMID | pmcid
    id_ = f"doi:{article.doi}"
    if not article.doi:  # two folders may have files of one name
        text = "".join(part.text for part in (*article.abstract, *article.body))
        id_ = f"file:{article.name}:{document_checks.key_of(article.title + text):x}"
    id_ = document_records.whole_id(id_)
    return id_, document_checks.key_of(id_)


def _unwanted(
    selection: Selection,
    retracted: bool,
    excluded_by_id: bool,
    languages: tuple[str, ...],
    publication_types: tuple[str, ...],
) -> str:
    """Returns the first of the reasons against an article that need no text, or ""."""
    if retracted and not selection.keep_retracted:
        return "retracted"
    if excluded_by_id:
        return "excluded_by_id"
    if selection.languages and not set(languages) & set(selection.languages):
        return "language"
    left_out = {name.casefold() for name in selection.publication_types}
    if left_out & {name.casefold() for name in publication_types}:
        return "publication_type"
    return ""


def _document(
    id_: str,
    source: str,
    title: str,
    sections: Iterable[tuple[str, str, str]],
    selection: Selection,
) -> Document:
    """Makes a document of whole sections.

    Args:
      sections: (label as printed, kind of section, text) each.
    """
    texts, kinds = [], []
    last = ""
    for label, kind, text in sections:
        if selection.section_labels and label and label != last:
            text = f"{label}: {text}"
        last = label
        texts.append(text)
        kinds.append(kind)
    while texts and not selection.keep_boilerplate and not id_.endswith(BODY_SUFFIX):
        texts[-1], _ = boilerplate.without_boilerplate(texts[-1])
        if texts[-1]:
            break
        del texts[-1], kinds[-1]
    return Document(id_, source, title, texts, kinds)


def _kinds(sections: Iterable[pubmed.Section]) -> Iterator[tuple[str, str, str]]:
    """Yields sections as `_document` takes them; their kind is NLM's category."""
    for label, category, text in sections:
        yield label, category or ("UNASSIGNED" if label else ""), text


def _sections(paragraphs: Iterable[pmc_paragraphs.Paragraph]) -> Iterator[tuple[str, str, str]]:
    """Yields paragraphs as `_document` takes sections; their kind is their section's title."""
    for paragraph in paragraphs:
        yield paragraph.section, paragraph.section, paragraph.text


def _language(code: str) -> str:
    """Returns MEDLINE's code for a language code of JATS; "" is English."""
    code = code.lower()[:2] or "en"
    return _LANGUAGES.get(code, code)
