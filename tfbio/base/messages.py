"""Formats names, values and errors for the messages of the commands."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Sequence


def quoted(names: Collection[str]) -> str:
    """Returns the first 20 names as one str for a message: in quotes, with commas between.

    If there are more, the str ends in ", ...".
    """
    return ", ".join([repr(name) for name in names][:20]) + ", ..." * (len(names) > 20)


def shown(value: object) -> str:
    """Returns a value as messages show it: JSON of at most 40 characters, cut with "..." if longer.

    Raises:
      TypeError: JSON has no such value.
    """
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message; the name of its class if there is no message.

    White space around the message does not count.
    """
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def cut(text: str, length: int = 200) -> str:
    """Cuts a text for a message: returns all of it, or its beginning and "...".

    Args:
      text: the text.
      length: the most characters to return, 3 or more.
    """
    return text if len(text) <= length else f"{text[: length - 3]}..."


def printable(name: str) -> str:
    """Returns the name of a file or archive member as messages show it, with escapes.

    Line feeds, controls of terminals, and bytes that are no UTF-8 are escaped: "a\\nb". So the str
    can also be stored and hashed.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def say(message: str) -> None:
    """Prints a message for the user as a line on stdout at once, and returns nothing."""
    print(message, flush=True)


def print_last(line: str) -> None:
    """Prints a message as a line on stderr, after all that was printed on stdout before.

    Returns nothing.

    Args:
      line: the text, without a line end.
    """
    with contextlib.suppress(OSError, RuntimeError):  # nobody reads it, or another thread writes it
        sys.stdout.flush()
    sys.stderr.write(f"{line}\n")  # one call, since several threads may print
    sys.stderr.flush()


def problem(problem: Sequence[str]) -> str:
    """Returns the message (str) on a problem in an input: its parts, joined with ": ".

    Args:
      problem: three strings: the file, the part of it that is bad or "", and why.
    """
    return ": ".join(filter(None, problem))


def file_name(path: str) -> str:
    """Returns a path's base name as messages show it, its unprintable characters escaped."""
    return printable(os.path.basename(path))


def counted(counts: Counter[str]) -> str:
    """Returns counts as a str for a message, the most frequent name first: "1,120 false, 9 '1'".

    Names that begin with a digit are in quotes.
    """
    # GAD's labels are 0 and 1, and "293 1" would be read as one number.
    names = {name: f"'{name}'" if name[:1].isdigit() else name for name in counts}
    return ", ".join(f"{count:,} {names[name]}" for name, count in counts.most_common())


def reason(error: Exception) -> str:
    """Returns why a file in storage could not be read or written, as a few words for a user.

    Examples are "No such file or directory", "it is not text in UTF-8" and "it lacks x" (of a
    KeyError). An error without such words gives its text, as one line that is cut if it is long, or
    else the name of its class.

    Args:
      error: the error of reading, parsing or writing the file.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]}"
    if isinstance(error, (TypeError, AttributeError)):
        return "its parts are not those expected"
    return cut(" ".join(str(error).split()) or type(error).__name__)


def of_os_error(error: OSError) -> str:
    """Returns the sentence that the command line prints for an `OSError`, with its file and reason.

    Args:
      error: the error; its file and reason may be missing.

    Returns:
      A str such as "out/x cannot be used: Permission denied."; for a full disk also what to do.
    """
    why = reason(error)
    path = error.filename2 or error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{path} cannot be written" if path else "the output cannot be written"
        return f"{where}: {why}; make room, and run the same command again."
    return f"{path} cannot be used: {why}." if path else f"the system refused: {why}."
