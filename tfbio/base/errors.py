"""The errors that end a command with one sentence, and with an exit code of their own."""

from __future__ import annotations

import os


class UserError(ValueError):
    """The base of the command line's errors that a user can fix; they end it with exit code 1.

    The message is one sentence that says what is wrong and how to fix it.

    Attributes:
      exit_code: int, the exit code of a command that ends with this error: 1; a class attribute.
    """

    exit_code = 1


class UsageError(UserError):
    """A mistake in the command line itself, not in the files that it names; exit code 2."""

    exit_code = 2


class Interrupted(UserError):
    """The command line's error for a command that ends early without a mistake; exit code 75.

    It is raised, for example, when a machine is taken away. The same command line continues the
    work. 75 is EX_TEMPFAIL.
    """

    exit_code = os.EX_TEMPFAIL  # 75


class DataError(UserError):
    """The error of shards and other data that are missing, unfinished, damaged or of another kind.

    It is a `UserError`, so a command ends with exit code 1.
    """


# The packages whose errors the file systems of object stores raise.
_OF_OBJECT_STORES = (
    "adlfs.",
    "aiobotocore.",
    "aiohttp.",
    "azure.",
    "botocore.",
    "gcsfs.",
    "google.auth.",
    "s3fs.",
)


def is_of_object_store(error: Exception) -> bool:
    """Returns True if an error that is no `UserError` comes from the packages of an object store.

    These have classes of their own, many of which are no OSErrors: credentials are missing or have
    expired, or the network or the store fails.

    Args:
      error: the error.
    """
    return f"{type(error).__module__}.".startswith(_OF_OBJECT_STORES)
