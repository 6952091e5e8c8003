"""Reads the JSON of tasks' files and its fields, and checks that there are examples."""

import json
from typing import Any

from tfbio.formats.task_file_errors import Where, mistake
from tfbio.formats.text_files import read_lines, without_halves

_JSON_TYPES = {str: "text", int: "a number", list: "a list", dict: "an object"}


def parse_json(path: str) -> Any:
    """Reads a task's file of JSON, and returns its content as Python's objects (dict, list, str).

    Half of a pair of surrogates, which JSON can hold, becomes U+FFFD.

    Args:
      path: the file, gzip-compressed or not.

    Raises:
      TaskFileError: the file cannot be read, or is no JSON; the message names the line.
    """
    try:
        return _written(json.loads("\n".join(read_lines(path))))
    except (ValueError, RecursionError) as error:
        number = getattr(error, "lineno", 1)
        raise mistake((path, number), f"this is not JSON ({error})") from None


def _written(value: Any) -> Any:
    """Returns the content of JSON with texts that can be written and tokenized."""
    if isinstance(value, str):
        return without_halves(value)
    if isinstance(value, list):
        return [_written(part) for part in value]
    if isinstance(value, dict):
        return {name: _written(part) for name, part in value.items()}
    return value


def field_of(record: Any, name: str, where: Where, value_type: type) -> Any:
    """Returns a field of an object in a task's file of JSON, after a check of its type.

    Args:
      record: the object.
      name: the key of the field.
      where: the place of the object, for messages: the path, and a line's number or a str.
      value_type: str, int, list or dict.

    Returns:
      The value, an instance of `value_type`.

    Raises:
      TaskFileError: it is no object, or has no value of this type.
    """
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, value_type):
        raise mistake(where, f"expected {_JSON_TYPES[value_type]} as {name!r}, found {value!r:.60}")
    return value


def texts_only(values: list, where: Where) -> list[str]:
    """Checks that a list in a task's file of JSON has str only, and returns it as it is.

    Args:
      values: the list.
      where: its place, for messages: the path, and a line's number or a str.

    Raises:
      TaskFileError: another value is in the list; the message names it.
    """
    for value in values:
        if not isinstance(value, str):
            raise mistake(where, f"expected a list of texts, found {value!r:.60} in it")
    return values


def not_empty(path: str, examples: list) -> list:
    """Checks that a task's file has examples, once they are read, and returns them as they are.

    Args:
      path: the path of the file, for messages.
      examples: the list of its examples or lines.

    Raises:
      TaskFileError: there is none.
    """
    if not examples:
        raise mistake((path, 1), "there is no example in this file: make or fetch it again")
    return examples
