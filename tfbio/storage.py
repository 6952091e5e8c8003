"""Files on this machine or in an object store: `/data/x`, `gs://bucket/x`, `s3://bucket/x`.

Of a local path the functions use Python's own pathlib. Any other address is universal_pathlib's:
an object of the same methods, over fsspec's file systems, of which `gs://` needs the package gcsfs
and `s3://` the package s3fs.
"""

from __future__ import annotations

import glob
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tfbio import cli


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path is the address of an object store."""
    return "://" in str(path)


def at(path: str | os.PathLike, *parts: str) -> pathlib.Path:
    """The path, of pathlib or universal_pathlib, for what is typed as a path.

    Raises:
      UserError: no installed package knows such addresses.
    """
    if not is_remote(path):
        return pathlib.Path(path, *parts)
    from upath import UPath

    try:
        # Other processes write there: what a folder held a while ago is not to be trusted.
        found = UPath(str(path), use_listings_cache=False).joinpath(*parts)
        _ = found.fs
    except (ImportError, ValueError) as error:
        raise cli.UserError(f"{path} cannot be used: {error}.") from error
    return found


def absolute(path: str | os.PathLike) -> str:
    """The path for processes whose current folder may be another."""
    return str(path) if is_remote(path) else os.path.abspath(path)


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file for writing that appears under its name when the block ends, or not at all."""
    target = at(path)
    if is_remote(path):
        # An object is there when all of it was sent.
        with tempfile.NamedTemporaryFile() as stream:
            yield stream
            stream.flush()
            target.fs.put_file(stream.name, target.path)
        return
    # A name that no other process has, on any machine.
    temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def find(pattern: str) -> list[str]:
    """The files that a pattern with `*` and `**` stands for."""
    if not is_remote(pattern):
        return glob.glob(pattern, recursive=True)
    files = at(pattern).fs
    return [files.unstrip_protocol(name) for name in files.glob(pattern) if files.isfile(name)]


def size(path: str | os.PathLike) -> int:
    """How many bytes a file has."""
    return at(path).stat().st_size


def open_for_parts(path: str | os.PathLike) -> BinaryIO:
    """Opens a file of which a few parts are wanted, here and there."""
    target = at(path)
    # Without a cache only those parts are fetched.
    return target.open("rb", cache_type="none") if is_remote(path) else open(target, "rb")


def remove_folder(path: str | os.PathLike) -> None:
    """Removes a folder with all that is in it, if it is there."""
    if is_remote(path):
        target = at(path)
        if target.exists():
            target.fs.rm(target.path, recursive=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def reason(error: OSError) -> str:
    """What went wrong, in a few words."""
    return error.strerror or type(error).__name__
