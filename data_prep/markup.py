"""XML made safe to read, and its inline markup made the text that a reader sees.

PubMed's and PMC's readers share this: the parser's limits, the errors of bad files, and `text`.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lxml import etree

from tfbio import records

# Nothing outside the file is read, and no entity is expanded. lxml's limits on depth and on the
# size of one text stay on (huge_tree=False).
SAFE = {
    "load_dtd": False,
    "no_network": True,
    "resolve_entities": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


class BadFile(records.DataError):
    """A file that is not whole, well-formed and harmless XML of the kind that was expected."""


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Opens the XML in a file, whether it is compressed with gzip or not, whatever its name."""
    with open(path, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")


@contextmanager
def faults() -> Iterator[None]:
    """Turns what libraries raise over a damaged file into a `BadFile` with one clear sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"the gzip data is damaged or cut short ({error}).") from error
    except etree.XMLSyntaxError as error:
        raise BadFile(f"it is not well-formed XML ({error.msg}).") from error
    except OSError as error:
        raise BadFile(f"it cannot be read ({error.strerror or error}).") from error


def check_no_entities(root: etree._Element) -> None:
    """Refuses a document that declares entities, before its body is parsed.

    Raises:
      BadFile: it does.
    """
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise BadFile("it declares XML entities, which are refused.")


def text(element: etree._Element, leave_out: Collection[str] = ()) -> str:
    """All text inside an element, however deep, with runs of white space made one space.

    Args:
      element: read with the `SAFE` settings.
      leave_out: tags whose content is not text; what follows them is kept.

    Raises:
      BadFile: the text uses an entity that the file does not declare.
    """
    if next(element.iter(etree.Entity), None) is not None:
        raise BadFile("it uses an XML entity that it does not declare.")
    return " ".join("".join(element.itertext()).split())
