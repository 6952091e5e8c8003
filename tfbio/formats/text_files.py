"""Reads text files, plain or gzip-compressed, and standard input."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
import re
import sys
import zlib
from typing import TextIO

from tfbio.base import file_paths, messages
from tfbio.formats.task_file_errors import TaskFileError, mistake

# gzip shrinks text 3 to 10 times, and zeros 1,000 times: a file over this length that shrinks so
# far is no text.
_MAX_RATIO, _MIN_BOMB_BYTES = 200, 256_000_000

_HALVES = re.compile("[\ud800-\udfff]")

# The path of what is piped into a command, as messages call it.
STDIN = "(standard input)"


def read_text(path: str) -> str:
    """Reads a text file in UTF-8, with its line ends as they are, without a byte-order mark.

    A file that is compressed with gzip is unpacked, whatever its name.

    Args:
      path: the file, or `STDIN`.

    Returns:
      The whole text, a str.

    Raises:
      TaskFileError: it cannot be read, is not UTF-8, or unpacks to over 200 times its size and over
        256 MB; there is nothing on standard input.
    """
    try:
        data = _read_stdin(sys.stdin) if path == STDIN else file_paths.at(path).read_bytes()
        if data.startswith(b"\x1f\x8b"):
            most = max(_MIN_BOMB_BYTES, _MAX_RATIO * len(data))
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(most + 1)
            if len(data) > most:
                raise TaskFileError(
                    f"{path} is compressed too far to be text: it unpacks to more than {most:,} "
                    "bytes; unpack it, and look at what it is."
                )
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise TaskFileError(f"{path} cannot be read: {messages.reason(error)}.") from error
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


def without_halves(text: str) -> str:
    """Returns a text with U+FFFD for each half of a pair of surrogates, which is no character.

    JSON can hold one, and so can the name of a file; UTF-8 cannot. Offsets stay.
    """
    return _HALVES.sub("\ufffd", text)


def read_lines(path: str) -> list[str]:
    """Reads the lines of a text file as a list of str, without their ends (LF or CR LF).

    Args:
      path: the file, gzip-compressed or not, or `STDIN`.

    Raises:
      TaskFileError: the file has no line, or is not one that `read_text` reads.
    """
    lines = split_lines(read_text(path))
    if not lines:
        raise mistake((path, 1), "this file is empty: make or fetch it again")
    return lines


def split_lines(text: str) -> list[str]:
    """Returns the lines of a text without their ends (LF or CR LF); [] for an empty text."""
    # Not `splitlines`, which also splits at characters that may stand in a sentence.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()
    return lines
