"""Reads and writes documents in BioC (Comeau et al., 2013), as XML, streamed, and as JSON."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lxml import etree
from lxml.builder import E

from tfbio.base import storage
from tfbio.base.messages import printable
from tfbio.formats.annotated_documents import (
    Annotated,
    Document,
    Entity,
    FormatError,
    Passage,
    joined,
)
from tfbio.formats.safe_xml import (
    SAFE,
    BadFile,
    Entities,
    check_no_entities,
    faults,
    first_element,
    open_file,
)
from tfbio.formats.text_files import read_text, without_halves

# Characters that may be missing between the passages of a small file of BioC.
_LEAST_ROOM = 1_000_000
# Characters that XML 1.0 cannot hold, such as the form feed with which pdftotext ends a page.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_bioc(path: str | os.PathLike) -> bool:
    """Returns True if a file of XML, gzip-compressed or not, is a BioC collection.

    Only the beginning of the file is read, up to its first element.

    Raises:
      BadFile: it cannot be read, or is no XML.
    """
    with faults(), open_file(path) as stream:
        return first_element(stream).tag == "collection"


def read_documents(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Reads the documents of a BioC collection in XML as the dicts of BioC's JSON, unannotated.

    Memory does not grow with the file.

    Args:
      path: the file of XML, gzip-compressed or not.

    Yields:
      A dict for each document, with the keys "id", "offset" and "text" (str, or None where the
      element is missing), "infons" (a dict from str to str, or to None for an empty one), and
      "passages" and "sentences" (lists of dicts with the same keys).

    Raises:
      BadFile: it cannot be read, is not well-formed, declares entities, or has a document inside
        another element than the collection.
    """
    with faults(), open_file(path) as stream:
        check_no_entities(first_element(stream))
        stream.seek(0)
        for _, element in etree.iterparse(Entities(stream), tag="document", **SAFE):
            # It would be read twice, or without what stands around it.
            parent = element.getparent()
            if parent is not None and parent.getparent() is not None:
                tag = printable(str(parent.tag))[:80]
                raise BadFile(f"a <document> stands in a <{tag}>, not in the collection itself.")
            yield _fields(element)
            # Forgets the document, and the emptied ones before it.
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]


def _fields(element: etree._Element) -> dict[str, Any]:
    """Returns the fields of a document, a passage or a sentence, as BioC's JSON has them."""
    fields = {name: _whole_text(element.find(name)) for name in ("id", "offset", "text")}
    infons = {infon.get("key"): infon.text for infon in element.iterfind("infon")}
    parts = {
        f"{name}s": [_fields(part) for part in element.iterfind(name)]
        for name in ("passage", "sentence")
    }
    return {**fields, "infons": infons, **parts}


def _whole_text(element: etree._Element | None) -> str | None:
    """Returns the text of an element with that of elements inside, which BioC's DTD has none of."""
    return None if element is None else "".join(element.itertext())


def read_json(path: str) -> Iterator[Document]:
    """Reads BioC in JSON: yields a `Document` for each document, wherever it stands in the file.

    Args:
      path: the file, gzip-compressed or not, or `text_files.STDIN`.

    Raises:
      FormatError: it is no JSON, has no document, or a document is not as BioC says.
      TaskFileError: it cannot be read.
    """

    def documents(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and "passages" in value:
            yield value
        elif isinstance(value, (dict, list)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from documents(part)

    text = read_text(path)
    try:
        found = list(documents(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({error}).") from None
    if not found:
        raise FormatError(f"{path} holds no document of BioC: none of its objects has passages.")
    yield from read(path, found, len(text))


def read(path: str, documents: Iterable[dict[str, Any]], size: int) -> Iterator[Document]:
    """Makes a `Document` of each of BioC's documents, without annotations.

    Args:
      path: the path of the file, for messages.
      documents: dicts as BioC's JSON has them, or as `read_documents` yields them.
      size: characters or bytes of the file: its passages may leave no more than that between them.

    Yields:
      The `Document` of each dict; the kind of a passage is its infon "type", or "".

    Raises:
      FormatError: a document has no id, or a passage no text and offset that fit.
    """
    # What offsets leave between passages is filled, and so must not be more than files have.
    room = max(_LEAST_ROOM, size)
    for document in documents:
        made = _of_bioc(path, document, room)
        room -= len(made.text) - sum(passage.end - passage.start for passage in made.passages)
        yield made


def _of_bioc(path: str, document: dict[str, Any], room: int) -> Document:
    given, parts = document.get("id"), []
    name = "" if given is None else without_halves(str(given))  # which may be 0
    if not name:
        raise FormatError(f"{path}: a document has no id: give each one.")
    try:
        for passage in document["passages"]:
            kind = (passage.get("infons") or {}).get("type") or ""
            if not isinstance(kind, str):
                raise ValueError(f"the infon type {kind!r:.40} is no text")
            # The text of a passage that is divided stands in its sentences.
            for part in [passage] if passage.get("text") else passage.get("sentences") or []:
                text = without_halves(part.get("text") or "")
                parts.append((_offset(part["offset"]), without_halves(kind), text))
        end = 0
        for start, _, text in parts:
            room -= max(0, start - end) if text else 0
            end = max(end, start + len(text))
            if room < 0:
                raise ValueError(f"{start} is much further from the passage before than files go")
        return joined(name, parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = "expected passages with a text and an offset, which is that in the document"
        raise FormatError(f"{path}, document {name}: {message} ({error}).") from error


def _offset(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,12}\s*", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"the offset {value!r:.40} is no whole number")


def _bioc(document: Document, entities: Sequence[Entity]) -> dict[str, Any]:
    numbers = itertools.count(1)
    passages = [
        {
            "infons": {"type": passage.kind} if passage.kind else {},
            "offset": passage.start,
            "text": document.text[passage.start : passage.end],
            "sentences": [],
            "annotations": [
                {
                    "id": f"T{next(numbers)}",
                    # An infon is a string (BioC.dtd).
                    "infons": {"type": kind} | ({} if score is None else {"score": str(score)}),
                    "locations": [{"offset": start, "length": end - start}],
                    "text": document.text[start:end],
                }
                for kind, start, end, score in entities
                if passage.start <= start < passage.end
            ],
            "relations": [],
        }
        # A document has a passage at least (BioC.dtd).
        for passage in document.passages or [Passage(0, 0, "")]
    ]
    return {"id": document.id, "infons": {}, "passages": passages, "relations": []}


def json_lines(annotated: Annotated) -> Iterator[str]:
    """Writes documents with their entities as a BioC collection in JSON, a line for each document.

    Args:
      annotated: each document and its entities in the order of their starts.

    Yields:
      The str pieces of one JSON object, with their line ends.
    """
    yield '{"source": "tfbio", "date": "", "key": "", "infons": {}, "documents": ['
    separator = "\n"
    for document, entities in annotated:
        yield separator + json.dumps(_bioc(document, entities), ensure_ascii=False)
        separator = ",\n"
    yield "\n]}\n"


def write_xml(path: str, annotated: Annotated) -> None:
    """Writes documents with their entities as a BioC collection in XML; returns nothing.

    A blank takes the place of each character that XML cannot hold, so that offsets stay.

    Args:
      path: the file, which appears when it is complete.
      annotated: each document and its entities in the order of their starts.

    Raises:
      OSError: the file cannot be written.
    """
    with storage.written_whole(path) as stream, etree.xmlfile(stream, encoding="utf-8") as file:
        file.write_declaration()
        file.write_doctype('<!DOCTYPE collection SYSTEM "BioC.dtd">')
        with file.element("collection"):
            file.write(E.source("tfbio"), E.date(), E.key())
            for document, entities in annotated:
                passages = map(_bioc_element, _bioc(document, entities)["passages"])
                file.write(E.document(_element("id", document.id), *passages))


def _element(name: str, text: str, **attributes: str) -> etree._Element:
    """Returns an element with a text, in which blanks stand for what XML cannot hold."""
    return E(name, _NOT_IN_XML.sub(" ", text), **attributes)


def _bioc_element(passage: dict[str, Any]) -> etree._Element:
    def infons(part: dict[str, Any]) -> list[etree._Element]:
        return [_element("infon", value, key=key) for key, value in part["infons"].items()]

    annotations = [
        E.annotation(
            *infons(part),
            *(E.location(**{k: str(n) for k, n in at.items()}) for at in part["locations"]),
            _element("text", part["text"]),
            id=part["id"],
        )
        for part in passage["annotations"]
    ]
    offset, text = E.offset(str(passage["offset"])), _element("text", passage["text"])
    return E.passage(*infons(passage), offset, text, *annotations)
