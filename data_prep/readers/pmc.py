"""Reads PMC's full texts from a file: one article, a set of them, or a bulk package, streamed.

`read_articles` yields each article of a `.nxml` or `.xml` file (compressed with gzip or not) or of
a `.tar` or `.tar.gz` package, which is never unpacked to disk. It yields a `Problem` for an article
or a member of a package that it cannot use, and raises `BadFile` where it cannot read on.

An article has its abstract and its body, paragraph by paragraph, as a reader sees them
(`pmc_article.py`, `pmc_paragraphs.py`):

- Figures, tables, boxes and supplements do not interrupt the paragraph that they stand in: they
  follow it. A caption, and each row of a table, has a `kind` of its own, so that they can be left
  out.
- References, footnotes, credits, numbers of sections and figures, and a formula's pictures and TeX
  are left out. The first alternative of a formula that is text is read.
- A raised citation number or footnote mark is left out (`pmc_marks.py`): beside its word it would
  be read as part of it ("shown1,2"). Where it alone parted two words, a space takes its place.
  Citations in line, "[1, 2]" or "(Smith, 2001)", are text and stay.
- The title of a section stands with each of its paragraphs, as `section`; the title of a section
  without paragraphs is a paragraph itself.
- The parts beside the body are not read: the back (acknowledgements, appendices), and the decision
  letters, responses and translations that are sub-articles.

`pubmed_parser` is not used: `parse_pubmed_paragraph` loses text that is nested two tags deep, mixes
captions, footnotes and sub-articles into the body, repeats paragraphs that hold lists, and appends
the white space behind each; `parse_article_meta` does not know the "pmcid" of today's files; and
both parse the file anew, with entities expanded.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from lxml import etree

from data_prep.readers import pmc_article
from data_prep.readers.pmc_article import FullText
from data_prep.readers.problem import Problem
from tfbio.base import storage
from tfbio.base.messages import file_name, printable
from tfbio.formats.safe_xml import (
    MAX_HEADER_BYTES,
    SAFE,
    BadFile,
    Entities,
    Limited,
    check_no_entities,
    check_not_empty,
    faults,
    open_file,
)

# The root of a file: one article; or a set of them, as PMC's efetch, Europe PMC and OAI-PMH wrap
# it. A root may have a namespace.
ROOTS = ("article", "pmc-articleset", "articles", "OAI-PMH")
# One article is held in memory: one of 45 MB took 400 MB, and 48 MB of nothing but empty elements
# 1.5 GB. The longest real file of the tests has 0.3 MB.
MAX_ARTICLE_BYTES = 50_000_000
# gzip shrinks the articles of the tests 4 to 6 times, and zeros 1,000 times: longer data
# that shrinks so far is no text.
_MAX_RATIO, MIN_BOMB_BYTES = 200, 256_000_000


def is_archive(path: str | os.PathLike) -> bool:
    """Returns True if a file is a PMC package, a tar archive, compressed or not, by its content.

    Args:
      path: the file.

    Raises:
      BadFile: the file cannot be read, is no plain file, or its gzip data is damaged.
    """
    with faults(), open_file(path) as stream:
        return stream.read(512)[257:262] == b"ustar"


def read_articles(
    path: str | os.PathLike, unknown: Counter[str] | None = None
) -> Iterator[FullText | Problem]:
    """Reads a file of PMC's, an article, a set or a package, and yields its articles in order.

    Memory does not grow with the file. In a package, members that are not `.nxml` or `.xml` are
    skipped; names that lead out of it, links and devices are refused, each as a `Problem`.

    Args:
      path: the file: an article, a set of articles, or a tar package of them, compressed or not.
      unknown: a counter of the names of entities that became U+FFFD; it is changed in place.

    Yields:
      A `FullText` for each article, with its ids, title, abstract and body; or a `Problem`, a name
      and a sentence, for each article of a set or member of a package that cannot be used.

    Raises:
      BadFile: the file, or the rest of it, cannot be read, it holds no article, or the only one in
        it cannot be used. The articles before the fault have been yielded.
    """
    with faults():
        check_not_empty(storage.size(path))
        if is_archive(path):
            yield from _read_archive(path, unknown)
        else:
            with open_file(path) as stream:
                yield from _read_xml(stream, file_name(os.fspath(path)), unknown)


# Packages.


class _Tape:
    """Stream that is read no further than allowed, and whose last bytes are kept."""

    def __init__(self, stream: BinaryIO, raw: BinaryIO):
        self._stream, self._raw = stream, raw
        self._position, self._limit, self._last = 0, 0, b""

    def allow(self, size: int) -> None:
        """Allows `size` bytes to be read from here on, and returns nothing."""
        self._limit = self._position + size

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes.

        Raises:
          TarError: more was read before than allowed, or the data is compressed too far to be text.
        """
        if self._position > self._limit:
            raise tarfile.ReadError("a header is too long")
        data = self._stream.read(size)
        self._position += len(data)
        self._last = (self._last + data)[-1024:]
        if self._position > max(MIN_BOMB_BYTES, _MAX_RATIO * self._raw.tell()):
            raise tarfile.ReadError("it is compressed too far to be text")
        return data

    def check_end(self) -> None:
        """Checks that the stream ended as archives do, and returns nothing.

        Raises:
          TarError: it did not end with 1,024 zero bytes.
        """
        # tarfile takes the end of the data, or a damaged header, for the end of the archive.
        if self._last.strip(b"\0") or len(self._last) < 1024:
            raise tarfile.ReadError("it does not end as archives do")


def _read_archive(
    path: str | os.PathLike, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    articles = 0
    try:
        # tarfile's own "r|gz" would not verify gzip's checksum.
        with open_file(path) as stream:
            tape = _Tape(stream, stream.fileobj if isinstance(stream, gzip.GzipFile) else stream)
            tape.allow(MAX_HEADER_BYTES)
            # "r|" needs no more of a file than `read`.
            with tarfile.open(fileobj=tape, mode="r|") as archive:  # type: ignore[call-overload]
                while (member := archive.next()) is not None:
                    archive.members.clear()  # it would remember them all
                    tape.allow(member.size + MAX_HEADER_BYTES)
                    for article in _read_member(archive, member, unknown):
                        articles += isinstance(article, FullText)
                        yield article
                    tape.allow(member.size + MAX_HEADER_BYTES)
                while rest := archive.fileobj.read(1 << 16):
                    tape.allow(MAX_HEADER_BYTES)
                    if rest.strip(b"\0"):
                        raise tarfile.ReadError("a header is damaged, or data follows its end")
                tape.check_end()
    except tarfile.TarError as error:
        raise BadFile(f"the archive is damaged or cut short ({error}).") from error
    if not articles:
        raise BadFile("the archive holds no PMC article that could be read.")


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    name = printable(member.name)
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        yield Problem(name, "its name leads out of the archive, which is refused.")
    elif member.isdir():
        pass
    elif member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        yield Problem(name, "it is a link or a device, not a file, which is refused.")
    elif path.suffix.lower() in (".nxml", ".xml"):
        try:
            check_not_empty(member.size)
            content = archive.extractfile(member)
            assert isinstance(content, io.BufferedReader)  # no folder
            yield from _read_xml(content, name, unknown)
        except BadFile as error:
            yield Problem(name, str(error))
        except etree.XMLSyntaxError as error:
            reason = " ".join(str(error.msg).split())
            yield Problem(name, f"it is not well-formed XML ({reason}).")


# Files of XML.


class _Source(Entities):
    """A stream of safe XML, whose head can be looked at before a parser reads it."""

    def __init__(self, stream: BinaryIO, unknown: Counter[str] | None):
        super().__init__(stream, unknown)
        self._head = bytearray()

    def peek(self, size: int) -> bytes:
        """Reads up to `size` bytes that `read` will return again.

        Raises:
          BadFile: more than a million bytes were looked at.
        """
        data = super().read(size)
        self._head += data
        if len(self._head) > MAX_HEADER_BYTES:
            raise BadFile(f"its first {MAX_HEADER_BYTES:,} bytes hold no element.")
        return data

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes, or all that was looked at."""
        data = bytes(self._head) or super().read(size)
        self._head.clear()
        return data


def _read_xml(
    stream: BinaryIO, name: str, unknown: Counter[str] | None
) -> Iterator[FullText | Problem]:
    source = _Source(stream, unknown)
    root = _root(source)
    refusal = f"an article in it is longer than {MAX_ARTICLE_BYTES:,} bytes."
    limited = Limited(source, MAX_ARTICLE_BYTES, refusal)
    count = 0
    for _, article in etree.iterparse(limited, events=("end",), tag="{*}article", **SAFE):
        count += 1
        called = name if root == "article" else f"{name}#{count}"
        result: FullText | Problem
        try:
            result = pmc_article.read(article, called)
        except BadFile as error:
            result = Problem(called, str(error))
        except (RecursionError, etree.LxmlError) as error:
            result = Problem(called, f"its markup is too deep or too much to be read ({error}).")
        if root == "article" and isinstance(result, Problem):  # there is no other article
            raise BadFile(result.sentence)
        yield result
        # Forgets the article, and the elements before it.
        article.clear()
        for element in (article, *article.iterancestors()):
            while element.getprevious() is not None and element.getparent() is not None:
                del element.getparent()[0]
        limited.renew()
    if not count:
        raise BadFile("it holds no article.")


def _root(source: _Source) -> str:
    """Returns the name of the root; refuses entities or a foreign root before the body is read."""
    parser = etree.XMLPullParser(events=("start",), **SAFE)
    event = None
    while event is None:
        data = source.peek(4096)
        if not data:
            parser.close()
            raise BadFile("it holds no element.")
        parser.feed(data)
        event = next(parser.read_events(), None)
    root = event[1]
    name = etree.QName(root).localname
    if name not in ROOTS:
        raise BadFile(f"its root is <{str(root.tag)[:80]}>, not one of PMC's ({ROOTS[0]}).")
    check_no_entities(root)
    return name
