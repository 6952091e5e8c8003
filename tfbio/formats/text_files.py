"""Reads text files, plain or gzip-compressed, and standard input."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
import json
import sys
import zlib
from typing import Any, TextIO

from tfbio.base import storage
from tfbio.formats.task_examples import TaskFileError, Where, mistake

# gzip shrinks text 3 to 10 times, and zeros 1,000 times: a file over this length that shrinks so
# far is no text.
MAX_RATIO, MIN_BOMB_BYTES = 200, 256_000_000

# The path of what is piped into a command, as messages call it.
STDIN = "(standard input)"

JSON_TYPES = {str: "text", int: "a number", list: "a list", dict: "an object"}


def read_text(path: str) -> str:
    """Returns a file's text, with its line ends as they are, without a byte-order mark.

    A file that is compressed with gzip is unpacked, whatever its name.

    Args:
      path: the file, or `STDIN`.

    Raises:
      TaskFileError: it cannot be read, is not UTF-8, or unpacks to over 200 times its size and over
        256 MB; there is nothing on standard input.
    """
    try:
        if path == STDIN:
            data = _read_stdin(sys.stdin)
        else:
            with open(path, "rb") as file:
                data = file.read()
        if data.startswith(b"\x1f\x8b"):
            most = max(MIN_BOMB_BYTES, MAX_RATIO * len(data))
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(most + 1)
            if len(data) > most:
                raise TaskFileError(
                    f"{path} is compressed too far to be text: it unpacks to more than {most:,} "
                    "bytes; unpack it, and look at what it is."
                )
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise TaskFileError(f"{path} cannot be read: {storage.reason(error)}.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"this is not text in UTF-8 ({error.reason}): save the file as UTF-8"
        raise mistake((path, line), message) from None


@functools.lru_cache(maxsize=1)  # it can be read once, and the checks read it, too
def _read_stdin(stdin: TextIO | None) -> bytes:
    if stdin is None:
        raise TaskFileError("--input=-: standard input is closed: pipe a text into the command.")
    if stdin.isatty():
        print("Type the input here, and end it with Ctrl-D on an empty line.", file=sys.stderr)
    data = stdin.buffer.read()
    if not data:
        raise TaskFileError("--input=-: standard input is empty: pipe a text into the command.")
    return data


def read_lines(path: str) -> list[str]:
    """Returns the lines of a file as a list of texts, without their ends (LF or CR LF).

    Args:
      path: the file, gzip-compressed or not, or `STDIN`.

    Raises:
      TaskFileError: the file cannot be read, is not UTF-8, or has no line.
    """
    # Not `splitlines`, which also splits at characters that may stand in a sentence.
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    if not lines[-1]:
        lines.pop()
    return not_empty(path, lines)


def parse_json(path: str) -> Any:
    """Returns the content of a JSON file as Python's objects (dict, list, str and so on).

    Raises:
      TaskFileError: the file cannot be read, or is no JSON; the message names the line.
    """
    try:
        return json.loads("\n".join(read_lines(path)))
    except (ValueError, RecursionError) as error:
        number = getattr(error, "lineno", 1)
        raise mistake((path, number), f"this is not JSON ({error})") from None


def field_of(record: Any, name: str, where: Where, value_type: type) -> Any:
    """Returns a value of a JSON object, which is checked to be of one type.

    Args:
      record: the object.
      name: the key.
      where: the place of the object, for messages.
      value_type: one of `JSON_TYPES` (str, int, list or dict).

    Raises:
      TaskFileError: it is no object, or has no value of this type.
    """
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, value_type):
        raise mistake(where, f"expected {JSON_TYPES[value_type]} as {name!r}, found {value!r:.60}")
    return value


def texts_only(values: list, where: Where) -> list[str]:
    """Returns `values` as they are, after a check that each is a text.

    Args:
      values: the list.
      where: its place in a file, for messages.

    Raises:
      TaskFileError: another value is in the list; the message names it.
    """
    for value in values:
        if not isinstance(value, str):
            raise mistake(where, f"expected a list of texts, found {value!r:.60} in it")
    return values


def not_empty(path: str, examples: list) -> list:
    """Returns the examples of a file as they are, after a check that there are any.

    Args:
      path: the file, for messages.
      examples: the list of its examples or lines.

    Raises:
      TaskFileError: there is none.
    """
    if not examples:
        raise mistake((path, 1), "there is no example in this file: make or fetch it again")
    return examples
