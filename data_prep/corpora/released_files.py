"""Reads the files of a corpus as it was released: a folder, an archive, or a folder of archives.

Archives may hold archives. Nothing is unpacked to the disk.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from lxml import etree

from data_prep.readers import folders
from tfbio.base.errors import DataError
from tfbio.formats import safe_xml

_ARCHIVES = (".zip", ".tar", ".tgz", ".gz")
MAX_ARCHIVE_DEPTH = 3
MAX_FILE_BYTES = 1 << 28  # far more than any file of these corpora has

# RuntimeError: zipfile's, where a password or another kind of compression is needed.
_UNREADABLE = (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile, tarfile.TarError)

_Stream = IO[bytes] | gzip.GzipFile


class CorpusError(DataError):
    """An error of a corpus whose files are not as its makers released them; exit code 1."""


def parse_xml(path: str, data: bytes) -> etree._Element:
    """Parses the XML of a corpus's released file safely, and returns its root element.

    Args:
      path: the file's name in errors.
      data: its content.

    Raises:
      CorpusError: it is no XML, or declares or uses an entity of its own.
    """
    try:
        with safe_xml.faults():
            # Before the rest is parsed: entities in attributes are expanded, whatever is asked for.
            safe_xml.check_no_entities(safe_xml.first_element(io.BytesIO(data)))
            unknown: Counter[str] = Counter()
            source = safe_xml.Entities(io.BytesIO(data), unknown)
            root = etree.parse(source, etree.XMLParser(**safe_xml.SAFE)).getroot()
    except safe_xml.BadFile as error:
        raise CorpusError(f"{path}: {error}") from error
    if unknown:
        raise CorpusError(f"{path} uses the entity &{min(unknown)};, which it does not declare.")
    return root


class File(NamedTuple):
    """A file of a corpus's release, read into memory.

    Attributes:
      path: its path as str, for errors; within archives that of the archive and of the member.
      data: its content as bytes.
    """

    path: str
    data: bytes

    def text(self) -> str:
        """Returns a released file's text, with line feeds for line ends, and no byte-order mark.

        Raises:
          CorpusError: it is not text in UTF-8.
        """
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CorpusError(f"{self.path} is not text in UTF-8: {error.reason}.") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def xml(self) -> etree._Element:
        """Returns the root element of a released file's XML.

        Raises:
          CorpusError: it is no XML, or declares or uses an entity of its own.
        """
        return parse_xml(self.path, self.data)

    def rows(self, columns: int) -> Iterator[tuple[int, list[str]]]:
        """Yields the number of each line of a released file, from 1, and its columns.

        Args:
          columns: how many there are, with tabs between; the last may hold tabs itself.

        Yields:
          Pairs of an int and a list of `columns` str.

        Raises:
          CorpusError: a line has fewer, or the file is not text in UTF-8.
        """
        for number, line in enumerate(self.text().removesuffix("\n").split("\n"), start=1):
            row = line.split("\t", columns - 1)
            if len(row) != columns:
                raise CorpusError(
                    f"{self.path}, line {number}: expected {columns} tab-separated columns, "
                    f"found {len(row)}."
                )
            yield number, row

    def json(self) -> Any:
        """Returns a released file's JSON as Python's objects: a dict, a list, a str and so on.

        Raises:
          CorpusError: it is no JSON, or the file is not text in UTF-8.
        """
        try:
            return json.loads(self.text())
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{self.path} is not JSON ({error}).") from error


def find(source: str | os.PathLike, pattern: str) -> dict[str, File]:
    """Reads the files of a corpus's release that have wanted paths.

    Folders behind links and archives are searched, too.

    Args:
      source: the release, which is a file, a folder, or an archive (of archives).
      pattern: a regular expression for the end of a path, from a folder's or file's name on.

    Returns:
      A dict, not empty: each `File` by the part of its path that matches.

    Raises:
      CorpusError: there is none, or two with the same part differ; a folder cannot be listed; an
        archive is damaged, nested too deep or has a member whose name leads out of it; or a file is
        longer than `MAX_FILE_BYTES` (256 MiB).
    """
    source = Path(source)
    if not source.exists():
        raise CorpusError(f"{source} does not exist: give the corpus as it was released.")
    try:
        paths = sorted(map(Path, folders.files_in(source))) if source.is_dir() else [source]
    except OSError as error:
        raise CorpusError(f"{error.filename} cannot be listed: {error.strerror}.") from error
    wanted = re.compile(rf"(?<![^/])(?:{pattern})\Z")
    files: dict[str, File] = {}
    for path in filter(Path.is_file, paths):
        try:
            with open(path, "rb") as stream:
                for key, file in _wanted_files(path.as_posix(), stream, wanted):
                    if files.setdefault(key, file).data != file.data:
                        raise CorpusError(f"{files[key].path} and {file.path} differ: give one.")
        except _UNREADABLE as error:
            raise CorpusError(
                f"{path} is damaged or cut short ({error}): fetch it again."
            ) from error
    if not files:
        raise CorpusError(f"{source} holds no file of the corpus: give the corpus as released.")
    return files


def _wanted_files(
    name: str, stream: _Stream, wanted: re.Pattern[str], depth: int = 0
) -> Iterator[tuple[str, File]]:
    """Yields the part of the path that `wanted` matches, and the file: this file or those in it."""
    if match := wanted.search(name):
        data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise CorpusError(f"{name} is longer than {MAX_FILE_BYTES:,} bytes, which is refused.")
        yield match[0], File(name, data)
    elif name.endswith(_ARCHIVES):
        if depth == MAX_ARCHIVE_DEPTH:
            raise CorpusError(f"{name} is too deep in archives of archives, which is refused.")
        for inner, content in _members(name, stream):
            yield from _wanted_files(inner, content, wanted, depth + 1)


def _members(name: str, stream: _Stream) -> Iterator[tuple[str, _Stream]]:
    """Yields the path and content of each file in an archive."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                path = _path(name, member.filename)
                if not member.is_dir() and not member.filename.startswith("__MACOSX/"):
                    with archive.open(member) as content:
                        yield path, content
    elif name.endswith(".tar"):
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for entry in archive:
                path = _path(name, entry.name)
                if entry.isreg() and (file := archive.extractfile(entry)) is not None:
                    yield path, file
    else:
        inner = name.removesuffix(".gz").removesuffix(".tgz")
        with gzip.open(stream) as unpacked:
            yield inner + ".tar" * name.endswith(".tgz"), unpacked
            while unpacked.read(1 << 20):
                pass  # the checksum stands at the end


def _path(archive: str, member: str) -> str:
    """Returns the path of an archive's member; refuses one that leads out of the archive."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise CorpusError(
            f"{archive} has a member whose name leads out of it, {member!r}, which is refused."
        )
    return f"{archive}/{path}"


def offset(text: str) -> int:
    """Returns the offset, an int, that 1 to 9 digits in a released file give; -1 for other text."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
