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
