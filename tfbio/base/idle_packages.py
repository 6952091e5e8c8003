"""Keeps packages that a command does not use from being imported by packages that it uses.

thinc, which spaCy needs, imports PyTorch wherever it is installed: two seconds of a core.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

# Empty in a process that is no command, such as a notebook, which may use them later.
_IDLE: set[str] = set()


def keep_out() -> None:
    """Notes that this process is a command, for which `left_out` leaves PyTorch out.

    Returns nothing.
    """
    _IDLE.add("torch")


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Makes the idle packages look as if they were not installed, in a `with` statement.

    Packages that are imported in it and can do without them do so until the process ends. It does
    nothing in a process that is no command, and nothing to a package that is imported already.
    """
    absent = [name for name in _IDLE if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
