"""Reads XML from anyone safely: limits, named entities, and the errors of bad files.

The readers of PubMed's and PMC's files, of released corpora and of BioC use it.
"""

from __future__ import annotations

import codecs
import errno
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
from typing import BinaryIO, cast

from lxml import etree

from tfbio.base import file_paths
from tfbio.base.errors import DataError

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
# The beginning of an entity, or of what begins or ends a section of CDATA, at the end of a block.
_HALF = re.compile(
    r"(?:&[\w:.\x80-\U0010ffff-]{0,100}|<(?:!(?:\[[CDAT]{0,5})?)?|\]\]?)\Z", re.ASCII
)
_OF_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))


class BadFile(DataError):
    """The error of a file that is not safe XML: cut short, not well-formed, harmful or unexpected.

    Its message is a sentence about "it", the file, which the caller names.
    """


class Entities:
    """A stream of safe XML: named entities that XML does not define become characters.

    Publishers write `&nbsp;` without declaring it, and a parser then drops the article, or the
    entity. HTML's names become the characters that they stand for, all others U+FFFD. Nothing is
    expanded: `check_no_entities` refuses a file's own declarations.

    Args:
      stream: XML in UTF-8, another encoding that has ASCII within, or UTF-16.
      unknown: a counter of the names that HTML does not have, changed in place.
    """

    def __init__(self, stream: BinaryIO, unknown: Counter[str] | None = None):
        self._stream, self._unknown = stream, Counter() if unknown is None else unknown
        self._decoder: codecs.IncrementalDecoder | None = None
        self._held, self._in_cdata = "", False

    def read(self, size: int) -> bytes:
        """Reads about `size` bytes of the XML, in its encoding; returns b"" at the end only."""
        while data := self._stream.read(max(size, 4)):
            if self._decoder is None:
                utf16 = {b"\xff\xfe": "le", b"<\0": "le", b"\xfe\xff": "be", b"\0<": "be"}
                order = utf16.get(data[:2])
                self._codec = f"utf-16-{order}" if order else "latin-1"
                self._decoder = codecs.getincrementaldecoder(self._codec)("surrogatepass")
            text = self._held + self._decoder.decode(data)
            half = _HALF.search(text, max(0, len(text) - 101))
            self._held = text[half.start() :] if half else ""
            text = self._replaced(text.removesuffix(self._held))
            if text:
                return text.encode(self._codec, "surrogatepass")
        rest, self._held = self._held, ""
        return rest.encode(self._codec, "surrogatepass") if rest else b""

    def _replaced(self, text: str) -> str:
        """Replaces the entities in the next part of the XML; a section of CDATA has none.

        A mark of CDATA within a comment counts, too: nobody writes one there without the other.
        """
        parts, start = [], 0
        while start < len(text):
            mark = "]]>" if self._in_cdata else "<![CDATA["
            found = text.find(mark, start)
            end = len(text) if found < 0 else found + len(mark)
            part = text[start:end]
            parts.append(part if self._in_cdata else _ENTITY.sub(self._character, part))
            if found >= 0:
                self._in_cdata = not self._in_cdata
            start = end
        return "".join(parts)

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
    """A stream of XML for safe parsing in memory, which reads at most `limit` bytes per `renew`.

    Args:
      stream: the stream.
      limit: how many bytes the parser may read from one `renew` to the next.
      refusal: the sentence of the `BadFile` that `read` raises when there are more.
    """

    def __init__(self, stream: BinaryIO | Entities, limit: int, refusal: str):
        self._stream, self._limit, self._refusal = stream, limit, refusal
        self.renew()

    def renew(self) -> None:
        """Allows `limit` bytes of XML to be read from here on; returns nothing."""
        self._left = self._limit

    def read(self, size: int) -> bytes:
        """Reads and returns up to `size` bytes of the XML, b"" at the end.

        Raises:
          BadFile: more than `limit` bytes were read since the last `renew`.
        """
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadFile(self._refusal)
        return data


def first_element(stream: BinaryIO) -> etree._Element:
    """Parses safely no more of an XML file than its root element, with attributes but empty.

    Args:
      stream: the file's bytes, not compressed; it is left somewhere behind the root's start tag.

    Returns:
      The root element.

    Raises:
      BadFile: it does not begin within the first `MAX_HEADER_BYTES` (1,000,000).
      XMLSyntaxError: lxml's, where it is no XML; `faults` makes a `BadFile` of it.
    """
    refusal = f"its first {MAX_HEADER_BYTES:,} bytes hold no element."
    limited = Limited(Entities(stream), MAX_HEADER_BYTES, refusal)
    return next(etree.iterparse(limited, events=("start",), **SAFE))[1]


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Opens a file of XML safely, whether it is compressed with gzip or not, whatever its name.

    Args:
      path: the file.

    Returns:
      A binary stream of the XML, decompressed, at its beginning; the caller closes it.

    Raises:
      BadFile: it is a folder, a pipe or a device, which might never end.
      OSError: there is no such file, or it cannot be read.
    """
    source = file_paths.at(path)
    if not stat.S_ISREG(source.stat().st_mode):
        raise BadFile("it is not a file, but a folder, a pipe or a device.")
    with source.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    if not compressed:
        return source.open("rb")
    # A `GzipFile` is one, too, which typeshed does not say.
    return cast(BinaryIO, _GzipFile(source.open("rb")))


class _GzipFile(gzip.GzipFile):
    """A file compressed with gzip; closes the stream that it reads, too, which gzip does not."""

    def __init__(self, source: BinaryIO):
        self._source = source
        super().__init__(fileobj=source, mode="rb")

    def close(self) -> None:
        super().close()
        self._source.close()


def check_not_empty(size: int) -> None:
    """Checks that a file of XML or of another kind has content, and returns nothing.

    Args:
      size: its size in bytes.

    Raises:
      BadFile: it is empty.
    """
    if not size:
        raise BadFile("the file is empty.")


# The errors of a file that is not there.
_LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
# Those of one that is not for us to read, and of links in a circle. An object store's
# `PermissionError` has no number, and may mean that the credentials of a long job have expired.
_LASTING_NUMBERS = (errno.EACCES, errno.EPERM, errno.ELOOP)


def is_lasting(error: OSError) -> bool:
    """Returns True if a file of XML or another kind cannot be read later either, as far as known.

    An error of a disk, a network or an object store may pass.

    Args:
      error: the error of opening or reading the file.
    """
    return isinstance(error, _LASTING) or error.errno in _LASTING_NUMBERS


@contextmanager
def faults() -> Iterator[None]:
    """Turns the errors of damaged XML in its block, as a context manager, into a `BadFile`.

    Raises:
      BadFile: the block raised an error of gzip (damaged or cut short), of lxml (not well-formed),
        of too deep nesting, or a lasting OSError (see `is_lasting`); the message is one sentence.
      OSError: any other, which may pass: the file is not known to be bad.
    """
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
        if not is_lasting(error):
            raise
        raise BadFile(f"it cannot be read ({error.strerror or error}).") from error


def check_no_entities(root: etree._Element) -> None:
    """Checks that XML is safe in that it declares no entities, before its body is parsed.

    Returns nothing.

    Args:
      root: from `first_element`.

    Raises:
      BadFile: it declares entities.
    """
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise BadFile("it declares XML entities, which are refused.")
