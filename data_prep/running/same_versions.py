"""Checks that a pipeline's workers have the versions of the machine where the command was given.

Another version may read, split or encode the same text in another way.
"""

from __future__ import annotations

import tfbio
from tfbio.base.errors import DataError


def check_tfbio(there: str) -> None:
    """Checks that a worker of the pipeline runs the command's version of tfbio; returns nothing.

    Args:
      there: the version where the command was given.

    Raises:
      DataError: this process has another one; the message names both.
    """
    check(f"tfbio {tfbio.__version__}", f"tfbio {there}")


def check(here: str, there: str) -> None:
    """Checks that a worker of the pipeline has a package in the command's version; returns nothing.

    Args:
      here: the name and version of the package in this process.
      there: those where the command was given.

    Raises:
      DataError: they differ; the message names both.
    """
    if here != there:
        raise DataError(
            f"this worker has {here}, and the machine where the command was given {there}: install "
            "the same packages on all machines."
        )
