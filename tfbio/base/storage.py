"""Files on this machine or in an object store: `/data/x`, `gs://bucket/x`, `s3://bucket/x`.

Of a local path the functions use Python's own pathlib. Any other address is universal_pathlib's:
an object of the same methods, over fsspec's file systems, of which `gs://` needs the package gcsfs
and `s3://` the package s3fs.
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
    """Removes what `written_whole` left of a file, or of those in a folder, when it was killed.

    For who alone writes there (`only_writer`).
    """
    if is_remote(path):
        return
    target = pathlib.Path(path)
    found = [*target.parent.glob(f"{glob.escape(target.name)}.*.tmp"), *target.glob("*.tmp")]
    for leftover in found:
        if _HALF_WRITTEN.fullmatch(leftover.name):
            with suppress(OSError):  # it is in nobody's way
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Gives the error of a full disk, which names no file, the name of what is being written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not error.filename:
            error.filename = str(path)
        raise


# How file systems that have no locks refuse one.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def only_writer(path: str | os.PathLike) -> Iterator[None]:
    """Keeps other processes from writing a file or a folder until the block ends.

    Beside `out/documents` the file `out/.documents.lock` names who writes, until the block ends
    (`.lock` in the folder itself where nothing can be written beside it). The lock is not the file
    but the kernel's (`flock`), which a process loses in whatever way it ends, so what a killed one
    left in the file keeps nobody out; the files that it had half written are removed. Object
    stores have no locks: there nobody is refused.

    Raises:
      UserError: another process writes there.
      OSError: nothing can be written there.
    """
    if is_remote(path):
        yield
        return
    target = pathlib.Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    if target.is_dir() and not os.access(target.parent, os.W_OK):
        lock = target / ".lock"
        if not os.access(target, os.W_OK):
            yield  # of what is complete there
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
            with suppress(OSError):  # there is something in it
                folder.rmdir()


def _take(lock: pathlib.Path) -> int | None:
    """Opens and locks a file, and notes who does; returns its descriptor, None if it is taken."""
    for _ in range(10):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            # It may be about to end, or not to have noted yet who it is.
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
        # The process before may have removed the file between our opening and locking it.
        if os.fstat(descriptor).st_nlink:
            holder = {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "command": shlex.join([os.path.basename(sys.executable), *sys.orig_argv[1:]]),
                "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
            }
            with suppress(OSError):  # on a full disk, which what is written next will name
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(holder).encode())
            return descriptor
        os.close(descriptor)
    return None


def _holder(lock: pathlib.Path) -> str:
    """Who has a lock, and what to do about it."""
    try:
        found = json.loads(lock.read_bytes())
        command = " ".join(found["command"].split())
        command = command if len(command) <= 80 else f"{command[:80]}..."
        return (
            f"process {found['pid']} on {found['host']} since {found['since']} ({command}): wait "
            "until it ends, or give another place"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "another process: wait until it ends, or give another place"


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


def reason(error: Exception) -> str:
    """What went wrong with a file, in a few words, without Python's names for it."""
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
    """Reads a JSON object; returns {} if there is no file, or it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file (UTF-8, no translation of line ends), whole or not at all."""
    with written_whole(path) as stream:
        stream.write(text.encode())


def sha256_of(path: str | os.PathLike) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with at(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
