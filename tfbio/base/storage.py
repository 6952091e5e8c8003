"""Reads and writes files here or in an object store: `/data/x`, `gs://bucket/x`, `s3://bucket/x`.

Local paths are pathlib's. Addresses in an object store are universal_pathlib's, which have the same
methods over fsspec's file systems; `gs://` needs the package gcsfs and `s3://` the package s3fs.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from tfbio.base import cli


def is_remote(path: str | os.PathLike) -> bool:
    """Returns True if a path is an address in an object store, that is, has "://" in it."""
    return "://" in str(path)


def at(path: str | os.PathLike, *parts: str) -> pathlib.Path:
    """Returns a path as a `pathlib.Path`, or an address as a `upath.UPath` with the same methods.

    Args:
      path: the path; it need not exist.
      *parts: names of folders and a file below it, which are joined to it.

    Raises:
      UserError: no installed package supports such an address.
    """
    if not is_remote(path):
        return pathlib.Path(path, *parts)
    from upath import UPath

    try:
        # Other processes write there, so an earlier listing of a folder may be out of date.
        address = UPath(str(path), use_listings_cache=False).joinpath(*parts)
        _ = address.fs
    except (ImportError, ValueError) as error:
        raise cli.UserError(f"{path} cannot be used: {error}.") from error
    return address


def absolute(path: str | os.PathLike) -> str:
    """Returns a local path as an absolute one, as text; an address stays as it is."""
    return str(path) if is_remote(path) else os.path.abspath(path)


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file for writing, which gets its name when the block ends without an error.

    After an error in the block nothing is left of it, and an earlier file stays.

    Args:
      path: the file; its folder must exist.

    Yields:
      A binary stream to write to.

    Raises:
      OSError: the file cannot be written; that of a full disk names `path`.
      UserError: no installed package supports such an address.
    """
    target = at(path)
    if is_remote(path):
        # An object store shows an object only when all of it was sent.
        with tempfile.NamedTemporaryFile() as stream:
            yield stream
            stream.flush()
            target.fs.put_file(stream.name, target.path)
        return
    # A name that no other process uses, on any machine.
    temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with naming(path):
            with open(temporary, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


_HALF_WRITTEN = re.compile(r".+\.[0-9a-f]{32}\.tmp")


def remove_half_written(path: str | os.PathLike) -> None:
    """Removes the unfinished files (`*.tmp`) of a `written_whole` that was killed; returns nothing.

    No other process may be writing there, see `only_writer`. Files that cannot be removed stay,
    and in an object store there are none.

    Args:
      path: a file whose unfinished versions to remove, or a folder of such files.
    """
    if is_remote(path):
        return
    target = pathlib.Path(path)
    leftovers = [*target.parent.glob(f"{glob.escape(target.name)}.*.tmp"), *target.glob("*.tmp")]
    for leftover in leftovers:
        if _HALF_WRITTEN.fullmatch(leftover.name):
            with suppress(OSError):  # it does no harm
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Adds the name of the file to the error of a full disk, which names none.

    Args:
      path: the file that is written in the block.

    Yields:
      None, once.

    Raises:
      OSError: the error of the block. Its `filename` is set to `path` if it has none and the disk
        or the quota is full or the file too large.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not error.filename:
            error.filename = str(path)
        raise


# The errors of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def only_writer(path: str | os.PathLike) -> Iterator[None]:
    """Keeps other processes from writing a file or a folder until the block ends.

    Until then the file `out/.documents.lock` beside `out/documents` names the writer (or `.lock` in
    the folder itself, if nothing can be written beside it). The lock is not the file but the
    kernel's (`flock`), which a process loses however it ends. So the file of a killed process keeps
    nobody out, and its unfinished files are removed. Object stores have no locks, and nobody is
    kept out there.

    Args:
      path: the file or folder. Folders above it are made, and removed again if they stay empty. In
        a folder without write permission there is no lock, as only complete files are read there.

    Yields:
      None, once.

    Raises:
      UserError: another process writes there; the message names it.
      OSError: the lock's file or folder cannot be made.
    """
    if is_remote(path):
        yield
        return
    target = pathlib.Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    if target.is_dir() and not os.access(target.parent, os.W_OK):
        lock = target / ".lock"
        if not os.access(target, os.W_OK):
            yield  # only complete files are read there
            return
    made = [folder for folder in lock.parents if not folder.exists()]
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _take(lock)
    if descriptor is None:
        raise cli.UserError(f"{path} is being written by {_holder(lock)}.")
    try:
        remove_half_written(target)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
        for folder in made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _take(lock: pathlib.Path) -> int | None:
    """Opens and locks a file, and writes into it which process did.

    Returns:
      The file's descriptor, or None if another process has the lock.
    """
    for _ in range(10):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            # The other process may be ending, or may not have written its name yet.
            time.sleep(0.1)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
            print(
                f"warning: the file system of {lock} has no locks: see to it that no other process "
                "writes there.",
                file=sys.stderr,
            )
        # The previous process may have removed the file between our opening and locking it.
        if os.fstat(descriptor).st_nlink:
            holder = {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "command": shlex.join([os.path.basename(sys.executable), *sys.orig_argv[1:]]),
                "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
            }
            with suppress(OSError):  # the disk is full, which the next file will report
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(holder).encode())
            return descriptor
        os.close(descriptor)
    return None


def _holder(lock: pathlib.Path) -> str:
    """Returns the holder of a lock and what to do, as the end of a sentence."""
    try:
        holder = json.loads(lock.read_bytes())
        command = " ".join(holder["command"].split())
        command = command if len(command) <= 80 else f"{command[:80]}..."
        return (
            f"process {holder['pid']} on {holder['host']} since {holder['since']} ({command}): "
            "wait until it ends, or give another place"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "another process: wait until it ends, or give another place"


def find(pattern: str) -> list[str]:
    """Returns the paths that match a pattern with `*` and `**`, as text in no fixed order.

    Args:
      pattern: a local pattern, which also matches folders, or an address, which matches files only.

    Returns:
      The paths or addresses; [] if none matches.

    Raises:
      UserError: no installed package supports such an address.
    """
    if not is_remote(pattern):
        return glob.glob(pattern, recursive=True)
    files = at(pattern).fs
    return [files.unstrip_protocol(name) for name in files.glob(pattern) if files.isfile(name)]


def size(path: str | os.PathLike) -> int:
    """Returns the size of a file, in bytes.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
    """
    return at(path).stat().st_size


def open_for_parts(path: str | os.PathLike) -> BinaryIO:
    """Opens a file for reading only some parts of it; from an object store only these are fetched.

    Returns:
      A binary stream, which the caller closes.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
    """
    target = at(path)
    # Without a cache only these parts are fetched.
    return target.open("rb", cache_type="none") if is_remote(path) else open(target, "rb")


def remove_folder(path: str | os.PathLike) -> None:
    """Removes a folder with all its files, if it exists; returns nothing.

    Local files that cannot be removed stay, without an error.
    """
    if is_remote(path):
        target = at(path)
        if target.exists():
            target.fs.rm(target.path, recursive=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def reason(error: Exception) -> str:
    """Returns the reason for an error with a file, as a few words without Python's terms.

    Examples are "No such file or directory", "it is not text in UTF-8" and "it lacks x" (of a
    KeyError). An error without such words gives its text, or else the name of its class.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]}"
    if isinstance(error, (TypeError, AttributeError)):
        return "its parts are not those expected"
    return str(error) or type(error).__name__


def read_json(path: pathlib.Path) -> dict:
    """Reads a JSON object as a dict; returns {} if the file is missing or holds something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file in UTF-8, line ends unchanged, whole or not at all; returns nothing.

    Raises:
      OSError: the file cannot be written; its folder must exist.
    """
    with written_whole(path) as stream:
        stream.write(text.encode())


def sha256_of(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
    """
    digest = hashlib.sha256()
    with at(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
