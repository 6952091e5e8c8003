"""Reads and writes documents in the PubTator format (Wei et al., 2013)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfbio.formats.annotated_documents import BREAKS, Annotated, Document, FormatError, joined

LINE = re.compile(r"([^|\s]+)\|([ta])\|(.*)", re.DOTALL)


def read(path: str, text: str) -> Iterator[Document]:
    """Reads a PubTator file: yields a `Document` for each title and abstract, without annotations.

    Its passages are of the kinds "title" and "abstract".

    Args:
      path: the path of the file, for messages.
      text: the content of the file.

    Raises:
      FormatError: a line is not of this format, or there is no document.
    """
    name = ""
    parts: list[str] = []

    def mistake(number: int, message: str) -> FormatError:
        return FormatError(f"{path}, line {number}: {message}.")

    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        match = LINE.fullmatch(line)
        if match and match[2] == "t":
            if parts:
                yield _titled(name, *parts)
            name, parts = match[1], [match[3]]
        elif match:
            if match[1] != name or len(parts) != 1:
                raise mistake(number, f"expected {match[1]}|t| and a title before this abstract")
            parts.append(match[3])
        elif line.strip() and not (parts and line.startswith(f"{name}\t")):
            message = "expected PMID|t|title, PMID|a|abstract or an annotation of this document"
            raise mistake(number, f"{message}, found {line!r:.60}")
    if not parts:
        raise FormatError(f"{path} holds no document: expected PMID|t|title.")
    yield _titled(name, *parts)


def _titled(name: str, title: str, abstract: str = "") -> Document:
    return joined(name, [(0, "title", title), (len(title) + 1, "abstract", abstract)])


def lines(annotated: Annotated) -> Iterator[str]:
    """Writes documents with their entities as the lines of a PubTator file.

    A text's first line is the title, the rest the abstract, in which line ends and tabs become
    blanks. In an id, bars and white space become "_".

    Args:
      annotated: each document and its entities in the order of their starts.

    Yields:
      A str of one line or two, with line ends: title and abstract, each entity, and an empty line.
    """
    for document, entities in annotated:
        name = re.sub(r"[|\s]", "_", document.id)
        # Not where a title would end in a blank, which some readers strip.
        feed = re.search(r"(?<!\s)\r?\n", document.text)
        end = feed.start() if feed else len(document.text)
        title, abstract = document.text[:end], document.text[end + 1 :]
        yield f"{name}|t|{title.translate(BREAKS)}\n{name}|a|{abstract.translate(BREAKS)}\n"
        for kind, start, end, _ in entities:
            mention = document.text[start:end].translate(BREAKS)
            # "-": no identifier.
            yield f"{name}\t{start}\t{end}\t{mention}\t{kind}\t-\n"
        yield "\n"
