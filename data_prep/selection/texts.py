"""Reads the texts of any input file that may become documents.

`articles.py` reads PubMed's and PMC's files. The others are read here: Wikipedia's pages, the
clinical notes of MIMIC-III, and plain text. A file is known by its content; plain text, which could
be anything, by its name.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from data_prep.readers import note_events, plain_text, pmc, pubmed, text_lines, wikipedia
from data_prep.readers.problem import Problem
from data_prep.selection import articles, document_checks, exclusion
from data_prep.selection.articles import Candidate, Selection
from tfbio.base import document_records, messages
from tfbio.base.document_records import Document

# The kinds of candidates that are no articles.
KINDS = PAGE, NOTE, PLAIN = ("wikipedia_page", "clinical_note", "plain_text")
# The beginnings of the ids of their documents.
PREFIXES = {PAGE: "wiki:", NOTE: "mimic:", PLAIN: "text:"}

_ROOTS = "|".join((*pubmed.ROOTS, *pmc.ROOTS)).encode()
_XML = re.compile(rb"(?s)\s*<(?:.*<)?(?:\w+:)?(?:%s)[\s>]" % _ROOTS)


def read(
    path: str,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
    unknown: Counter[str] | None = None,
) -> Iterator[Candidate | Problem]:
    """Reads the texts of one input file of any kind, and applies the user's selection to each.

    Args:
      path: the file.
      selection: which texts become documents.
      excluded: the articles and texts that `--exclude` names; None: none.
      unknown: counts, by name, the named entities of XML that became U+FFFD; it is changed in
        place. None: they are not counted.

    Yields:
      In the order of the file, a `Candidate` for each text, and a `Problem` for each part of
      the file that cannot be used. A candidate that is left out has a `reason`.

    Raises:
      BadFile: the file is of no known kind, or damaged; the candidates that were yielded before
        must be discarded.
    """
    name, head = os.path.basename(path).lower(), text_lines.head(path)
    if note_events.is_name(name) or note_events.is_beginning(head):
        yield from _notes(path, selection, excluded)
    elif wikipedia.is_name(name) or wikipedia.is_beginning(head):
        yield from _pages(path, selection, excluded)
    elif _is_plain_text(name, head):
        yield from _plain_texts(path, selection, excluded)
    else:
        yield from articles.read(path, selection, excluded, unknown)


def _is_plain_text(name: str, head: bytes) -> bool:
    """Returns True for a file that is called text and is neither an archive nor an article."""
    is_archive = head[257:262] == b"ustar"
    return name.endswith((".txt", ".txt.gz")) and not is_archive and not _XML.match(head)


def _pages(
    path: str, selection: Selection, excluded: exclusion.Exclusion | None
) -> Iterator[Candidate | Problem]:
    """Yields a candidate for each page of Wikipedia; the latest one of an address is kept."""
    source = messages.file_name(path)
    for position, page in enumerate(wikipedia.read_pages(path), start=1):
        if isinstance(page, Problem):
            yield page
        elif address := page.url or page.id:
            id_ = document_records.whole_id(PREFIXES[PAGE] + messages.printable(address))
            document = Document(id_, source, page.title, *_paragraphs(page.paragraphs))
            yield _candidate(PAGE, document, selection, excluded)
        else:
            id_ = f"{source}#{position}"
            yield Candidate(PAGE, id_, document_checks.key_of(id_), 0, reason="without_id")


def _notes(
    path: str, selection: Selection, excluded: exclusion.Exclusion | None
) -> Iterator[Candidate | Problem]:
    """Yields a candidate for each clinical note; the notes of a patient are held out together."""
    source = messages.file_name(path)
    wanted = {name.strip().casefold() for name in selection.note_categories}
    notes = note_events.read_notes(path, selection.note_marks == "type")
    for position, note in enumerate(notes, start=1):
        if isinstance(note, Problem):
            yield note
            continue
        id_ = f"{PREFIXES[NOTE]}{note.subject_id}#{note.row_id}"
        reason = ""
        if not (note.row_id.isdecimal() and note.subject_id.isdecimal()):
            id_, reason = f"{source}#{position}", "without_id"
        elif note.is_error:
            reason = "marked_as_error"
        elif wanted and note.category.casefold() not in wanted:
            reason = "note_category"
        document = Document(id_, source, "", *_paragraphs(note.paragraphs, note.category))
        yield _candidate(NOTE, document, selection, excluded, reason)


def _plain_texts(
    path: str, selection: Selection, excluded: exclusion.Exclusion | None
) -> Iterator[Candidate]:
    """Yields a candidate for each document of a file of plain text."""
    source = messages.file_name(path)
    for position, paragraphs in enumerate(plain_text.read_documents(path), start=1):
        # Two folders may have files of one name.
        text = document_checks.key_of("\n".join(paragraphs))
        id_ = document_records.whole_id(f"{PREFIXES[PLAIN]}{source}:{position}:{text:x}")
        document = Document(id_, source, "", *_paragraphs(paragraphs))
        yield _candidate(PLAIN, document, selection, excluded)


def _paragraphs(paragraphs: Sequence[str], section: str = "") -> tuple[list[str], list[str]]:
    """Returns the paragraphs and, for each, its section, as a document holds them."""
    return list(paragraphs), [section] * len(paragraphs)


def _candidate(
    kind: str,
    document: Document,
    selection: Selection,
    excluded: exclusion.Exclusion | None,
    reason: str = "",
) -> Candidate:
    """Makes a candidate of a document, which must pass the checks that hold for all texts."""
    reason = reason or document_checks.lacking(document, selection.min_words)
    reason = reason or document_checks.excluded_by_text(excluded, [document])
    documents = () if reason else (document,)
    key = document_checks.key_of(document.id)
    return Candidate(kind, document.id, key, version=0, reason=reason, documents=documents)
