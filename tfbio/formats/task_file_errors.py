"""The error of a task's file, which names the file and the place of the mistake."""

from __future__ import annotations

from collections.abc import Collection

from tfbio.base.errors import UserError
from tfbio.base.messages import quoted

# A file, and the number of a line or what else tells the place in it.
Where = tuple[str, int | str]


class TaskFileError(UserError):
    """The error of a task's file that is missing or not as its format says.

    It is a `UserError`, so a command ends with exit code 1.
    """


def mistake(where: Where, message: str) -> TaskFileError:
    """Makes the error of a mistake at a place in a task's file, which the caller raises.

    Args:
      where: the path, and the number of a line or a str that tells the place.
      message: the fault, without a full stop.

    Returns:
      The `TaskFileError` "PATH, PLACE: MESSAGE.".
    """
    return TaskFileError(f"{where[0]}, {place_of(where)}: {message}.")


def is_none_of(names: Collection[str]) -> str:
    """Returns the end of a message on a label, or a type, that is none of a task's.

    Args:
      names: the labels of the task, or the types.
    """
    return f"is none of {quoted(names)} (of your own data: those in the training file)"


def place_of(where: Where) -> str:
    """Returns the place in a task's file as errors name it: "line 3", or the str in `where`.

    Args:
      where: the path, and the number of a line or a str that tells the place.
    """
    return f"line {where[1]}" if isinstance(where[1], int) else where[1]
