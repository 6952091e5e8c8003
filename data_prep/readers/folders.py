"""Lists the files in a folder, for `--input`, `--exclude` and the corpora."""

from __future__ import annotations

import os
from collections.abc import Iterator


def files_in(top: str | os.PathLike, hidden: bool = True) -> Iterator[str]:
    """Yields the files in a folder and its subfolders, also behind links; each folder once.

    Args:
      top: the folder.
      hidden: False to pass over files and subfolders whose names begin with a dot.

    Yields:
      The path of each file, a str that begins with `top`. Those behind links to folders come last,
      so that a folder inside of `top` keeps its name. A link that leads nowhere is a file, too.

    Raises:
      OSError: a folder cannot be listed; the error's `filename` is its path.
    """

    def refuse(error: OSError) -> None:
        raise error

    def shown(names: list[str]) -> list[str]:
        return [name for name in names if hidden or not name.startswith(".")]

    seen = set()
    tops = [os.fspath(top)]
    for each in tops:  # which grows
        for folder, folders, names in os.walk(each, onerror=refuse):
            where = os.path.realpath(folder)
            if where in seen:
                folders.clear()
                continue
            seen.add(where)
            folders[:] = sorted(shown(folders))
            inside = (os.path.join(folder, name) for name in folders)
            tops += filter(os.path.islink, inside)  # which `os.walk` does not follow
            yield from (os.path.join(folder, name) for name in shown(names))
