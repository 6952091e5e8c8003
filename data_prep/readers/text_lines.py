"""Reads the lines of text files from anyone within limits, and cleans their paragraphs.

The readers of plain text, Wikipedia and clinical notes use it.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tfbio.base import file_paths
from tfbio.formats import markup, safe_xml, text_files
from tfbio.formats.safe_xml import BadFile

# One document is held in memory. The longest pages of Wikipedia have 1 or 2 MB, a long book 3.
MAX_DOCUMENT_BYTES = 20_000_000
# A line counts as so many bytes at least: 20 million empty lines took 10 seconds.
_LEAST_LINE_BYTES = 16
_HEAD_BYTES = 4096
# Characters that XML cannot hold, and so `markup.clean` does not remove.
_CONTROLS = re.compile("[\0-\x08\x0e-\x1f]")


def open_file(path: str | os.PathLike) -> BinaryIO | bz2.BZ2File:
    """Opens a text file, whether it is compressed with gzip, with bzip2 or not, whatever its name.

    Args:
      path: the file.

    Returns:
      A binary stream of the text, decompressed, at its beginning; the caller closes it.

    Raises:
      BadFile: it is a folder, a pipe or a device, which might never end.
      OSError: there is no such file, or it cannot be read.
    """
    stream = safe_xml.open_file(path)
    if stream.read(3) != b"BZh":
        stream.seek(0)
        return stream
    stream.close()
    return _Bz2File(file_paths.at(path).open("rb"))


class _Bz2File(bz2.BZ2File):
    """A file compressed with bzip2; closes the stream that it reads, too, which bz2 does not."""

    def __init__(self, source: BinaryIO):
        self._source = source
        super().__init__(source)

    def close(self) -> None:
        super().close()
        self._source.close()


def head(path: str | os.PathLike) -> bytes:
    """Reads the beginning of a text file, decompressed: 4,096 bytes, or all of a shorter one.

    Args:
      path: the file.

    Returns:
      The bytes without a byte-order mark; b"" if bzip2 data are damaged.

    Raises:
      BadFile: there is no such file, it is no plain file, or its gzip data is damaged.
      OSError: it cannot be read now.
    """
    with safe_xml.faults(), open_file(path) as stream:
        try:
            return stream.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
        except (EOFError, OSError) as error:
            if not isinstance(stream, bz2.BZ2File) or not _is_damage(error):
                raise
    return b""


def _is_damage(error: Exception) -> bool:
    """Returns True for an error of gzip's or bzip2's data, False for one of the disk or network."""
    if not isinstance(error, OSError) or isinstance(error, gzip.BadGzipFile):
        return True
    # bzip2 has no class of its own, and object stores raise a plain OSError, too.
    return type(error) is OSError and str(error) == "Invalid data stream"


class LimitedLines:
    """Iterates over the lines of a text file, as bytes, and holds no more than one document.

    Args:
      stream: the file, from `open_file`.
      what: the name of a document in it, for the message.
    """

    def __init__(self, stream: BinaryIO | bz2.BZ2File, what: str):
        self._stream = stream
        self._refusal = f"{what} in it is longer than {MAX_DOCUMENT_BYTES:,} bytes."
        self.renew()

    def renew(self) -> None:
        """Allows 20,000,000 bytes (`MAX_DOCUMENT_BYTES`) of lines from here on; returns nothing."""
        self._left = MAX_DOCUMENT_BYTES

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines, with their line feeds, the first without a byte-order mark.

        Raises:
          BadFile: there were more bytes than allowed since the last `renew`, or the compressed data
            is damaged.
        """
        mark = codecs.BOM_UTF8
        while line := self._next():
            yield line.removeprefix(mark)
            mark = b""

    def _next(self) -> bytes:
        """Returns the next line, b"" at the end."""
        try:
            line = self._stream.readline(self._left + 1)
        except (EOFError, OSError, zlib.error) as error:
            if not _is_damage(error):
                raise
            raise BadFile(f"the compressed data is damaged or cut short ({error}).") from error
        self._left -= max(len(line), _LEAST_LINE_BYTES if line else 0)
        if self._left < 0:
            raise BadFile(self._refusal)
        return line


def decoded(lines: Iterable[bytes]) -> Iterator[str]:
    """Decodes the lines of a text file in UTF-8.

    Args:
      lines: the lines, such as a `LimitedLines`.

    Yields:
      Each line, a str with its line feed.

    Raises:
      BadFile: a line is not UTF-8; the message has its number, from 1.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise BadFile(f"line {number:,} is not text in UTF-8.") from error


def clean(raw: str) -> str:
    """Cleans a paragraph of plain text, by the rules for the text of XML (`markup.clean`).

    Control characters are removed, and halves of surrogate pairs become U+FFFD.

    Args:
      raw: the paragraph, of one line or several.

    Returns:
      The text in one line, without space around it; "" if there is none.
    """
    return markup.clean(text_files.without_halves(_CONTROLS.sub("", raw)))


def clean_all(raw: Iterable[str]) -> tuple[str, ...]:
    """Returns the cleaned paragraphs (see `clean`) that are not empty, in order."""
    return tuple(filter(None, map(clean, raw)))
