"""The problem of a part of an input file, which the readers yield in its place."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """A part of an input file that cannot be used, such as an article in a set of them.

    Attributes:
      name: the name of the part in its file: of an article or a member of a package, or the number
        of a line or row.
      sentence: the reason, as a sentence for the user.
    """

    name: str
    sentence: str
