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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from tfbio.base import errors, file_paths, messages


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Opens a file in storage for writing; it gets its name when the block ends without an error.

    It is a context manager for local and object storage. After an error in the block nothing is
    left of the file, and an earlier file stays. A link stays a link, whose file is written, and an
    earlier file keeps its permissions. What is no file, such as a pipe, is written to as it is.

    Args:
      path: the file; its folder must exist.

    Yields:
      A binary stream to write to.

    Raises:
      OSError: the file cannot be written; that of a full disk names `path`.
      UserError: no installed package supports such an address.
    """
    if file_paths.is_remote(path):
        address = file_paths.address(path)
        # An object store shows an object only when all of it was sent.
        with tempfile.NamedTemporaryFile() as stream:
            yield stream
            stream.flush()
            address.fs.put_file(stream.name, address.path)
        return
    target = pathlib.Path(path).resolve()
    if target.exists() and not target.is_file():
        with naming(path), open(target, "wb") as stream:
            yield stream
        return
    # A name that no other process uses, on any machine.
    temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with naming(path), open(temporary, "wb") as stream:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if target.exists():
                shutil.copymode(target, temporary)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            # While it is locked, so that no other process takes it for abandoned.
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


_HALF_WRITTEN = re.compile(r".+\.[0-9a-f]{32}\.tmp")


def remove_half_written(path: str | os.PathLike) -> None:
    """Removes from storage the unfinished files (`*.tmp`) of a `written_whole` that was killed.

    It removes unfinished folders, too, and returns nothing. Those that another process is writing
    stay, and those that cannot be removed. In an object store there are none.

    Args:
      path: a file whose unfinished versions to remove, or a folder of such files.
    """
    if file_paths.is_remote(path):
        return
    target = pathlib.Path(path)
    leftovers = [*target.parent.glob(f"{glob.escape(target.name)}.*.tmp"), *target.glob("*.tmp")]
    for leftover in leftovers:
        if _HALF_WRITTEN.fullmatch(leftover.name):
            with suppress(OSError):  # it does no harm
                _remove_abandoned(leftover)


@contextmanager
def temporary_folder(path: str | os.PathLike) -> Iterator[str]:
    """Makes a folder for files that belong to another one, which they replace when all are there.

    `remove_half_written` leaves it alone while the block runs.

    Args:
      path: the local folder that the files are for, or a link to it; it need not exist.

    Yields:
      The path of the new folder, in that one if it exists, or else beside it. It is removed at the
      end, unless it was renamed.

    Raises:
      OSError: it cannot be made.
    """
    # On the file system of the other folder, or its files could not be renamed into that one.
    real = os.path.realpath(path)
    name = os.path.join(real, "new") if os.path.isdir(real) else real
    folder = f"{name}.{uuid.uuid4().hex}.tmp"
    os.makedirs(folder)
    descriptor = os.open(folder, os.O_RDONLY)  # NFS locks no folders: there, abandoned ones stay
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(path: pathlib.Path) -> None:
    """Removes an unfinished file or folder that nobody writes; raises an OSError if it cannot."""
    is_folder = path.is_dir()
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # as NFS locks files
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Adds the file's name to an error of full storage in its block, which the system leaves out.

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
    """Locks a file or folder in storage, so that no other process writes it until the block ends.

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
    if file_paths.is_remote(path):
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
        raise errors.UserError(f"{path} is being written by {_holder(lock)}.")
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
        command = messages.cut(" ".join(holder["command"].split()), 83)
        return (
            f"process {holder['pid']} on {holder['host']} since {holder['since']} ({command}): "
            "wait until it ends, or give another place"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "another process: wait until it ends, or give another place"


def find(pattern: str) -> list[str]:
    """Finds the paths in local or object storage that match a pattern with `*` and `**`.

    Args:
      pattern: a local pattern, which also matches folders, or an address, which matches files only.

    Returns:
      The paths or addresses (str), in no fixed order; [] if none matches.

    Raises:
      OSError: a folder of an object store cannot be listed.
      UserError: no installed package supports such an address.
    """
    if not file_paths.is_remote(pattern):
        return glob.glob(pattern, recursive=True)
    address = file_paths.address(pattern)
    with suppress(FileNotFoundError):
        names = _matching(address.fs, address.path.rstrip("/"), "file")
        return [address.fs.unstrip_protocol(name) for name in names]
    return []


def _matching(files: Any, pattern: str, kind: str) -> list[str]:
    """Returns the names of files ("file") or folders ("directory") that match, by listings."""
    if "**" in pattern:  # one listing of everything below
        found = files.glob(pattern, detail=True).values()
    elif not glob.has_magic(pattern):
        found = [files.info(pattern)]
    else:  # not `glob`, which passes over a folder that it cannot list
        folder = os.path.dirname(pattern)
        folders = _matching(files, folder, "directory") if glob.has_magic(folder) else [folder]
        listed = (x for name in folders for x in files.ls(name, detail=True))  # or `name` itself
        found = [x for x in listed if pathlib.PurePosixPath(x["name"]).match(pattern)]
    # A file whose name ends in "/" only marks a folder.
    names = [info["name"] for info in found if info["type"] == kind]
    return [name.rstrip("/") for name in names if kind == "directory" or name[-1:] != "/"]


def size(path: str | os.PathLike) -> int:
    """Returns the size in bytes of a file in local or object storage.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
      UserError: no installed package supports such an address.
    """
    return file_paths.at(path).stat().st_size


def open_for_parts(path: str | os.PathLike) -> IO[bytes]:
    """Opens a file in storage for reading only parts of it, which alone an object store then sends.

    Returns:
      A binary stream, which the caller closes.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
      UserError: no installed package supports such an address.
    """
    if file_paths.is_remote(path):
        # Without a cache only these parts are fetched.
        return file_paths.address(path).open("rb", cache_type="none")
    return open(path, "rb")


def remove_folder(path: str | os.PathLike) -> None:
    """Removes a folder in local or object storage, if it exists, with all files; returns nothing.

    Local files that cannot be removed stay, without an error.

    Raises:
      UserError: no installed package supports such an address.
    """
    if file_paths.is_remote(path):
        address = file_paths.address(path)
        if address.exists():
            address.fs.rm(address.path, recursive=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def unfinished_folder(path: str | os.PathLike) -> str:
    """Returns the path beside a local folder under which it is written until it is complete.

    A folder that an earlier command left there is removed. The caller makes the new one, and
    renames it to `path`.

    Args:
      path: the folder that will be there.
    """
    folder = f"{os.fspath(path).rstrip('/')}.unfinished"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file in UTF-8 to local or object storage, whole or not at all; returns nothing.

    Line ends stay as they are.

    Raises:
      OSError: the file cannot be written; its folder must exist.
      UserError: no installed package supports such an address.
    """
    with written_whole(path) as stream:
        stream.write(text.encode())


def sha256_of(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file in local or object storage, a str of 64 hexadecimal digits.

    Raises:
      OSError: there is no such file (a FileNotFoundError), or it cannot be read.
      UserError: no installed package supports such an address.
    """
    with file_paths.at(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def joined_sha256(hashes: Sequence[str]) -> str:
    """Joins the SHA-256 of several files in storage to one; that of a single file stays as it is.

    Args:
      hashes: the hash of each file, 64 hexadecimal digits, in an order that is always the same.

    Returns:
      The SHA-256 of the hashes, one after the other, 64 hexadecimal digits.
    """
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
