"""Checks that all texts of the input must pass: enough words, and in no benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from data_prep.selection import exclusion, fingerprints
from tfbio.base.document_records import Document


def lacking(document: Document | None, min_words: int) -> str:
    """Returns the reason why the text of a document is not enough, or "".

    Args:
      document: the document, or None if there is no text.
      min_words: the least words that it must have.

    Returns:
      "without_text", "too_short", or "" for a document that is long enough.
    """
    if document is None or not document.sentences:
        return "without_text"
    words = sum(len(text.split()) for text in document.sentences)
    return "too_short" if words < min_words else ""


def excluded_by_text(excluded: exclusion.Exclusion | None, documents: Iterable[Document]) -> str:
    """Returns the reason why the user excludes the documents of an article for their text, or "".

    Args:
      excluded: the texts that `--exclude` names; None: none.
      documents: the article's documents, which are held out together.

    Returns:
      "excluded_by_text" or "".
    """
    if excluded is None:
        return ""
    text = "\n".join(part for d in documents for part in (d.title, *d.sentences))
    return "excluded_by_text" if excluded.has_text(fingerprints.words(text)) else ""


def key_of(text: str) -> int:
    """Returns the key of a document without a number, larger than all of PubMed's and PMC's.

    Args:
      text: its id, or all of its text; it may hold no half of a surrogate pair.

    Returns:
      An int from 2^63 to below 2^64.
    """
    return 1 << 63 | int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
