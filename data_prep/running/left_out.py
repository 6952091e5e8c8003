"""The list of what a stage left out: `left_out.jsonl` beside its output.

A line is a JSON object of strings: "id", what the item is called ("" of a whole file); "file", the
base name of the file that it stood in; "reason", a word of the stage's; and, of what is bad, a
"message" that says why. Nothing that a file can hold makes a line longer than some kilobytes.
"""

from __future__ import annotations

import json

FILE = "left_out.jsonl"

# Characters of an id or a name, and of a message.
_NAME, _MESSAGE = 200, 300


def line(id_: str, file: str, reason: str, message: str = "") -> bytes:
    """Returns the line of one item."""
    fields = {"id": cut(id_), "file": cut(file), "reason": reason}
    if message:
        fields["message"] = cut(message, _MESSAGE)
    return json.dumps(fields).encode() + b"\n"  # in ASCII: half a surrogate pair is no UTF-8


def cut(text: str, length: int = _NAME) -> str:
    """Returns the text, or its beginning and three dots, at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
