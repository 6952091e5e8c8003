"""Documents in BioC's XML (Comeau et al., 2013), streamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from lxml import etree

from tfbio.formats.safe_xml import (
    SAFE,
    BadFile,
    Entities,
    check_no_entities,
    faults,
    first_element,
    open_file,
    printable,
)


def is_bioc(path: str | os.PathLike) -> bool:
    """Returns True if a file of XML, gzip-compressed or not, is a collection of BioC.

    Only the beginning of the file is read, up to its first element.

    Raises:
      BadFile: it cannot be read, or is no XML.
    """
    with faults(), open_file(path) as stream:
        return first_element(stream).tag == "collection"


def read_documents(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yields the documents of a collection, each as BioC's JSON has it, annotations left out.

    Memory does not grow with the file.

    Args:
      path: the file of XML, gzip-compressed or not.

    Yields:
      A dict with the keys "id", "offset" and "text" (texts, or None where the element is missing),
      "infons" (a dict), and "passages" and "sentences" (lists of such dicts).

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
            element.clear()


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
