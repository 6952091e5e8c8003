"""Tells local paths from addresses in object stores, and joins and completes both."""

import os
import pathlib

from tfbio.base import errors, extras


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
    try:
        from upath import UPath
    except ImportError as error:
        raise errors.UserError(
            f"{path} is in an object store: {extras.remedy('gcs')}, or [s3] for Amazon's."
        ) from error
    try:
        # Other processes write there, so an earlier listing of a folder may be out of date.
        address = UPath(str(path), use_listings_cache=False).joinpath(*parts)
        _ = address.fs
    except (ImportError, ValueError) as error:
        raise errors.UserError(f"{path} cannot be used: {error}.") from error
    return address


def absolute(path: str | os.PathLike) -> str:
    """Returns an absolute path (str) for one in local storage; an object store's address stays."""
    return str(path) if is_remote(path) else os.path.abspath(path)
