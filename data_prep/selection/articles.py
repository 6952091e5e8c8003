"""Articles of any input file, PubMed's or PMC's, as the texts that may become documents.

What each text says comes from `pubmed.py` and `pmc.py`. Here the user's selection is applied:
which parts of an article are text, and which articles are left out, and why.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from data_prep.readers import pmc, pubmed
from data_prep.selection import boilerplate, exclusion, fingerprints
from tfbio.base import cli, storage
from tfbio.base.document_records import Document
from tfbio.formats import markup

SUFFIXES = (".xml", ".xml.gz", ".nxml", ".nxml.gz", ".tar", ".tar.gz", ".tgz")

# What a body's document is called by, behind its article's id.
BODY_SUFFIX = "#body"

# Why an article is left out by itself, whatever else is in the corpus: the first that applies.
REASONS = (
    "without_id",
    "book",
    "retracted",
    "language",
    "publication_type",
    "without_text",
    "too_short",
    "excluded_by_id",
    "excluded_by_text",
)
# Those that hold for all of an article's texts, whichever of them it was found in.
REASONS_OF_ARTICLES = (
    "retracted",
    "language",
    "publication_type",
    "excluded_by_id",
    "excluded_by_text",
)

# What a candidate is. A deletion is none: it only withdraws a citation.
CITATION, ABSTRACT, BODY, DELETION = KINDS = ("citation", "abstract", "body", "deletion")

# MEDLINE's codes of the languages that PMC's articles are in, by JATS's codes.
_LANGUAGES = {"en": "eng", "de": "ger", "es": "spa", "fr": "fre", "pt": "por", "it": "ita"} | {
    "ru": "rus",
    "zh": "chi",
    "ja": "jpn",
    "nl": "dut",
}


@dataclasses.dataclass(frozen=True)
class Selection:
    """What of the articles becomes text.

    Attributes:
      section_labels: the labels of structured abstracts, and the titles of sections of full texts,
        are part of the text.
      other_abstracts: which of PubMed's `OtherAbstract`s become documents of their own: "none",
        "english" (such as plain-language summaries), or "all".
      keep_boilerplate: publishers' copyright lines and the like stay in the text.
      full_text: PMC articles give their body, besides their abstract.
      captions, tables: so do their figures' and tables' captions, and the tables' cells.
      languages: articles in other languages are left out ("eng"); empty: all languages stay.
      publication_types: articles of these types are left out, whatever their case ("Letter").
      keep_retracted: retracted articles stay.
      min_words: abstracts with fewer words are left out (PubMedBERT, section 3.1: 128).
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

    def __post_init__(self) -> None:
        if self.other_abstracts not in ("none", "english", "all"):
            raise cli.UsageError(
                f"--other_abstracts={self.other_abstracts}: give none, english, or all."
            )
        unknown = [name for name in self.languages if not re.fullmatch("[a-z]{3}", name)]
        if unknown:
            raise cli.UsageError(
                f"--languages: {unknown[0]!r} is not a code of three small letters, such as eng."
            )


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One text of an article that may become a document (or several, with other abstracts).

    Attributes:
      kind: a PubMed citation (CITATION), the ABSTRACT or the BODY of a full text, or a DELETION.
      id: what it is called where it is left out, such as "pmid:123#body".
      key: the article's number, the same in every file that has it: of one key's candidates only
        the newest abstract and the newest body are kept.
      version: the version that PubMed gives it, from 1; 0 for the abstract inside of a full text,
        which gives way to PubMed's own.
      revised: the date of its last revision, as the number YYYYMMDD, or 0.
      reason: one of `REASONS`, or "".
      documents: its documents, whose `sentences` are still whole sections or paragraphs.
    """

    kind: str
    id: str
    key: int
    version: int = 1
    revised: int = 0
    reason: str = ""
    documents: tuple[Document, ...] = ()


def read(
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
    unknown: Counter[str] | None = None,
) -> Iterator[Candidate | pmc.Problem]:
    """Yields the candidates of an input file, in order, and the problems of parts of it.

    Args:
      path: the file.
      selection: what becomes text.
      excluded: what `--exclude` names.
      unknown: where named entities that became `markup.UNKNOWN` are counted.

    Raises:
      BadFile: the file is of no kind that is known, or damaged; what was yielded before must be
        discarded.
    """
    if not pmc.is_archive(path) and _is_pubmed(path):
        for position, citation in enumerate(pubmed.read_citations(path, unknown)):
            yield _of_citation(citation, position, path, selection, excluded)
        return
    source = markup.printable(os.path.basename(path))
    for article in pmc.read_articles(path, unknown):
        if isinstance(article, pmc.Problem):
            if article.name == source:  # the file is this one article
                raise markup.BadFile(article.sentence)
            yield article
        else:
            yield from _of_full_text(article, path, selection, excluded)


def _is_pubmed(path: str) -> bool:
    with markup.faults():
        if storage.size(path) == 0:
            raise markup.BadFile("the file is empty.")
        with markup.open_file(path) as stream:
            return markup.first_element(stream).tag in pubmed.ROOTS


def _of_citation(
    citation: pubmed.Citation,
    position: int,
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
) -> Candidate:
    """A citation as a candidate: its abstract and, where wanted, its other abstracts."""
    source = markup.printable(os.path.basename(path))
    known = _pmid_number(citation.pmid)
    key = known or _hashed(f"{source} {position}")
    id_ = f"pmid:{known}" if known else f"{source}#{position + 1}"
    if citation.deleted:
        # It stands against all that other files of no known edition say.
        return Candidate(DELETION, id_, key, citation.version, revised=99999999)
    revised = int(citation.revised or 0)

    def candidate(reason: str = "", documents: tuple[Document, ...] = ()) -> Candidate:
        return Candidate(CITATION, id_, key, citation.version, revised, reason, documents)

    if not known:
        return candidate("without_id")
    if citation.book:
        return candidate("book")
    reason = _unwanted(
        selection, citation.retracted, citation.languages, citation.publication_types
    )
    if reason:
        return candidate(reason)
    documents = [_document(id_, source, citation.title, _kinds(citation.sections), selection)]
    if not documents[0].sentences:
        return candidate("without_text")
    if _words(documents[0]) < selection.min_words:
        return candidate("too_short")
    if selection.other_abstracts != "none":
        for number, other in enumerate(citation.other_abstracts, start=1):
            if selection.other_abstracts == "all" or other.language == "eng":
                name = f"{id_}#other_abstract{number}"
                documents.append(_document(name, source, "", _kinds(other.sections), selection))
    reason = _excluded(excluded, documents, key)
    return candidate(reason, () if reason else tuple(documents))


def _pmid_number(text: str) -> int:
    """Reads a PMID, 1 to 12 digits; returns 0 for anything else, such as "N/A" or "0"."""
    return int(text) if re.fullmatch("[0-9]{1,12}", text) else 0


def _of_full_text(
    article: pmc.FullText,
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
) -> Iterator[Candidate]:
    """A full text as two candidates: its abstract, under the PMID if it has one, and its body."""
    source = markup.printable(os.path.basename(path))
    number = re.fullmatch("PMC([0-9]{1,12})", article.pmcid)
    pmid = _pmid_number(article.pmid)
    if pmid:
        id_, key = f"pmid:{pmid}", pmid
    elif number:
        id_, key = article.id, 1 << 62 | int(number[1])
    else:
        id_ = article.id
        if id_.startswith("file:"):  # two folders may have files of one name
            text = "".join(part.text for part in (*article.abstract, *article.body))
            id_ += f":{_hashed(article.title + text):x}"
        key = _hashed(id_)
    languages = (_language(article.language),)
    reason = _unwanted(selection, article.retracted, languages, (article.article_type,))

    abstract = body = None
    if not reason:
        if article.abstract:
            sections = _sections(article.abstract)
            abstract = _document(id_, source, article.title, sections, selection)
        if selection.full_text:
            wanted = {"paragraph", "caption" * selection.captions, "table" * selection.tables}
            sections = _sections(p for p in article.body if p.kind in wanted)
            body = _document(id_ + BODY_SUFFIX, source, article.title, sections, selection)
        texts = [document for document in (abstract, body) if document]
        reason = _excluded(excluded, texts, pmid, int(number[1]) if number else 0)

    def candidate(kind: str, name: str, document: Document | None, min_words: int = 0) -> Candidate:
        why = reason
        if not why and (document is None or not document.sentences):
            why = "without_text"
        elif not why and _words(document) < min_words:
            why = "too_short"
        documents = () if why else (document,)
        return Candidate(kind, name, key, version=0, reason=why, documents=documents)

    yield candidate(ABSTRACT, id_, abstract, selection.min_words)
    if selection.full_text:
        yield candidate(BODY, id_ + BODY_SUFFIX, body)


def _unwanted(
    selection: Selection,
    retracted: bool,
    languages: tuple[str, ...],
    publication_types: tuple[str, ...],
) -> str:
    """The first of the reasons that need no text, or ""."""
    if retracted and not selection.keep_retracted:
        return "retracted"
    if selection.languages and not set(languages) & set(selection.languages):
        return "language"
    left_out = {name.casefold() for name in selection.publication_types}
    if left_out & {name.casefold() for name in publication_types}:
        return "publication_type"
    return ""


def _excluded(
    excluded: exclusion.Exclusion | None,
    documents: Iterable[Document],
    pmid: int,
    pmcid: int = 0,
) -> str:
    """Whether an article is one that the user excludes, by its ids or by any of its texts."""
    if excluded is None:
        return ""
    text = "\n".join(part for d in documents for part in (d.title, *d.sentences))
    reason = excluded.reason(fingerprints.words(text), pmid, pmcid)
    return f"excluded_by_{reason}" if reason else ""


def _document(
    id_: str,
    source: str,
    title: str,
    sections: Iterable[tuple[str, str, str]],
    selection: Selection,
) -> Document:
    """A document of whole sections: (label as printed, kind of section, text) each."""
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
    """Sections as `_document` takes them: their kind is NLM's category."""
    for label, category, text in sections:
        yield label, category or ("UNASSIGNED" if label else ""), text


def _sections(paragraphs: Iterable[pmc.Paragraph]) -> Iterator[tuple[str, str, str]]:
    """Paragraphs as `_document` takes sections: their kind is their section's title."""
    for paragraph in paragraphs:
        yield paragraph.section, paragraph.section, paragraph.text


def _language(code: str) -> str:
    """MEDLINE's code of the language that JATS gives, which is English if it gives none."""
    code = code.lower()[:2] or "en"
    return _LANGUAGES.get(code, code)


def _words(document: Document) -> int:
    return sum(len(text.split()) for text in document.sentences)


def _hashed(text: str) -> int:
    """The key of an article without a number: beyond all that PubMed and PMC give."""
    return 1 << 63 | int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
