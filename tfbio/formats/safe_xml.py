"""Reads XML from anyone safely: limits, named entities, and the errors of bad files.

The readers of PubMed's and PMC's files, of released corpora and of BioC use it.
"""

from __future__ import annotations

import codecs
import gzip
import html
import html.entities
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lxml import etree

from tfbio.base import storage
from tfbio.base.shards import DataError

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

# Replaces an entity that neither XML nor HTML knows: Unicode's replacement character.
UNKNOWN = "\ufffd"

# The bytes before a file's first element are held in memory, and may be blank: a gigabyte of spaces
# took 8 seconds.
MAX_HEADER_BYTES = 1_000_000

# A named entity as XML writes it; beyond ASCII also UTF-8 that is read as Latin-1.
_ENTITY = re.compile(r"&([A-Za-z_:\x80-\U0010ffff][\w:.\x80-\U0010ffff-]{0,99});", re.ASCII)
_HALF_ENTITY = re.compile(r"&[\w:.\x80-\U0010ffff-]{0,100}\Z", re.ASCII)
_OF_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))


class BadFile(DataError):
    """Says that a file is not whole, well-formed and harmless XML of the expected kind."""


class Entities:
    """Reads a stream of XML, and turns named entities that XML does not define into characters.

    Publishers write `&nbsp;` without declaring it, and a parser then drops the article, or the
    entity. HTML's names become the characters that they stand for, all others `UNKNOWN`. Nothing
    is expanded: `check_no_entities` refuses a file's own declarations.

    Args:
      stream: XML in UTF-8, another encoding that has ASCII within, or UTF-16.
      unknown: counts the names that HTML does not have.
    """

    def __init__(self, stream: BinaryIO, unknown: Counter[str] | None = None):
        self._stream, self._unknown = stream, Counter() if unknown is None else unknown
        self._decoder: codecs.IncrementalDecoder | None = None
        self._held = ""

    def read(self, size: int) -> bytes:
        """Reads about `size` bytes; none at the end only."""
        while data := self._stream.read(max(size, 4)):
            if self._decoder is None:
                utf16 = {b"\xff\xfe": "le", b"<\0": "le", b"\xfe\xff": "be", b"\0<": "be"}
                order = utf16.get(data[:2])
                self._codec = f"utf-16-{order}" if order else "latin-1"
                self._decoder = codecs.getincrementaldecoder(self._codec)("surrogatepass")
            text = self._held + self._decoder.decode(data)
            half = _HALF_ENTITY.search(text, max(0, len(text) - 101))
            self._held = text[half.start() :] if half else ""
            text = _ENTITY.sub(self._character, text.removesuffix(self._held))
            if text:
                return text.encode(self._codec, "surrogatepass")
        rest, self._held = self._held, ""
        return rest.encode(self._codec, "surrogatepass") if rest else b""

    def _character(self, entity: re.Match[str]) -> str:
        name = entity[1]
        if name in _OF_XML:
            return entity[0]
        characters = html.entities.html5.get(f"{name};")
        if characters is None:
            self._unknown[name] += 1
            characters = UNKNOWN
        return "".join(f"&#{ord(character)};" for character in characters)


class Limited:
    """Reads a stream for a parser that holds in memory all that it has read since the last `renew`.

    Args:
      stream: the stream.
      limit: how many bytes the parser may hold.
      refusal: the sentence of the `BadFile` that `read` raises when there are more.
    """

    def __init__(self, stream: BinaryIO, limit: int, refusal: str):
        self._stream, self._limit, self._refusal = stream, limit, refusal
        self.renew()

    def renew(self) -> None:
        """Allows `limit` bytes to be read from here on."""
        self._left = self._limit

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes; raises a BadFile beyond the limit."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadFile(self._refusal)
        return data


def first_element(stream: BinaryIO) -> etree._Element:
    """Reads the root of a file of XML, with nothing in it yet.

    Args:
      stream: of the file.

    Raises:
      BadFile: it does not begin within the first `MAX_HEADER_BYTES`.
    """
    refusal = f"its first {MAX_HEADER_BYTES:,} bytes hold no element."
    limited = Limited(Entities(stream), MAX_HEADER_BYTES, refusal)
    return next(etree.iterparse(limited, events=("start",), **SAFE))[1]


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Opens the XML in a file, whether it is compressed with gzip or not, whatever its name.

    Args:
      path: the file.

    Raises:
      BadFile: it is a pipe or a device, which might never end.
    """
    source = storage.at(path)
    if not stat.S_ISREG(source.stat().st_mode):
        raise BadFile("it is not a file, but a folder, a pipe or a device.")
    with source.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    if not compressed:
        return source.open("rb")
    return gzip.open(source.open("rb") if storage.is_remote(path) else path)


def printable(name: str) -> str:
    """Escapes the name of a file or member, so that it can be printed, stored and hashed.

    Line feeds, controls of terminals, and bytes that are no UTF-8 are escaped: "a\\nb".
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@contextmanager
def faults() -> Iterator[None]:
    """Turns the errors of libraries over a damaged file into a `BadFile` with one sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"the gzip data is damaged or cut short ({error}).") from error
    except etree.XMLSyntaxError as error:
        message = (error.msg or "no reason given").strip().replace("\n", " ")
        raise BadFile(f"it is not well-formed XML ({message}).") from error
    except RecursionError as error:
        raise BadFile("it nests XML elements too deeply.") from error
    except OSError as error:
        raise BadFile(f"it cannot be read ({error.strerror or error}).") from error


def check_no_entities(root: etree._Element) -> None:
    """Checks that a document declares no entities, before its body is parsed.

    Args:
      root: from `first_element`.

    Raises:
      BadFile: it does.
    """
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise BadFile("it declares XML entities, which are refused.")
