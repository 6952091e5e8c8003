"""Writes the lines of `left_out.jsonl`, a stage's list of the texts and files it left out.

A line is a JSON object of strings: "id", the name of the item ("" for a whole file); "file", the
base name of the file that it stood in; "reason", one of the stage's words; and for bad input a
"message" that says why. No line is longer than some kilobytes, whatever a file holds.
"""

from __future__ import annotations

import json

from tfbio.base import messages

FILE = "left_out.jsonl"

# Characters of a message.
_MESSAGE = 300


def line(id_: str, file: str, reason: str, message: str = "") -> bytes:
    """Returns the line for one item in `left_out.jsonl`, a stage's list of what it left out.

    Args:
      id_: the name of the item, cut to 200 characters; "" for a whole file.
      file: the base name of its file, cut to 200 characters.
      reason: why it was left out, one word.
      message: the fault of bad input, cut to 300 characters, else "".

    Returns:
      The line in ASCII bytes, with its line feed: a JSON object with "id", "file" and "reason", and
      "message" if it is not "".
    """
    fields = {"id": messages.cut(id_), "file": messages.cut(file), "reason": reason}
    if message:
        fields["message"] = messages.cut(message, _MESSAGE)
    return json.dumps(fields).encode() + b"\n"  # in ASCII: half a surrogate pair is no UTF-8
