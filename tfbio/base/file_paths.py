"""Tells local paths from addresses in object stores, and joins and completes both."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, cast

from tfbio.base import errors, extras

if TYPE_CHECKING:
    import upath


def is_remote(path: str | os.PathLike) -> bool:
    """Returns True if a path is not in local storage but an address in an object store, with "://"."""
    return "://" in str(path)


def at(path: str | os.PathLike, *parts: str) -> pathlib.Path:
    """Returns a path in local or object storage as an object with the methods of `pathlib.Path`.

    Args:
      path: the path or address; it need not exist.
      *parts: names of folders and a file below it, which are joined to it.

    Returns:
      A `pathlib.Path`, or for an address a `upath.UPath`.

    Raises:
      UserError: no installed package supports such an address.
    """
    if not is_remote(path):
        return pathlib.Path(path, *parts)
    return cast(pathlib.Path, address(path, *parts))  # it has a path's methods


def address(path: str | os.PathLike, *parts: str) -> upath.UPath:
    """Returns an address in an object store as an object that also has `fs`, its file system.

    Args:
      path: the address; it need not exist.
      *parts: names of folders and a file below it, which are joined to it.

    Raises:
      UserError: no installed package supports such an address.
    """
    try:
        from upath import UPath
    except ImportError as error:
        raise errors.UserError(
            f"{path} is in an object store: {extras.remedy('gcs')}, or [s3] for Amazon's."
        ) from error
    try:
        # Other processes write there, so an earlier listing of a folder may be out of date.
        joined = UPath(str(path), use_listings_cache=False).joinpath(*parts)
        _ = joined.fs
    except (ImportError, ValueError) as error:
        raise errors.UserError(f"{path} cannot be used: {error}.") from error
    return joined


def absolute(path: str | os.PathLike) -> str:
    """Returns an absolute path (str) for one in local storage; an object store's address stays."""
    return str(path) if is_remote(path) else os.path.abspath(path)
