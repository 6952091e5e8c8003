"""JSON files whose keys are the fields of a dataclass, such as `config.json` and `scores.json`.

The command that writes such a file makes the dataclass, and every reader gets it back. A key that
is missing, unknown or of another type is an error of one sentence, and never a KeyError. Only a key
that older versions did not know may be missing: the dataclass names it in `added`, with the value
that they had (docs/stability.md).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import types
import typing
from typing import Any, TypeVar

from tfbio.base import file_paths, messages, storage
from tfbio.base.config import ConfigError
from tfbio.base.errors import UserError
from tfbio.base.messages import shown

_Schema = TypeVar("_Schema")

_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "an object",
    list: "a list",
    tuple: "a list",
    types.NoneType: "null",
}


class SchemaError(UserError):
    """The error of a JSON file that cannot be read or lacks the keys and types of its dataclass.

    It is a `UserError`, so a command ends with exit code 1.
    """


class _MismatchError(ValueError):
    """A key that is missing or unknown, or a value of another type."""


def write(path: str | os.PathLike, value: Any) -> None:
    """Writes a dataclass as a JSON file with all its fields, whole or not at all; returns nothing.

    Args:
      path: the file.
      value: an instance of a dataclass, whose values JSON can hold.

    Raises:
      TypeError: `value` is no dataclass, or JSON has no such value.
      OSError: the file cannot be written.
    """
    storage.write_text(path, json.dumps(dataclasses.asdict(value), indent=2) + "\n")


def read(schema: type[_Schema], path: str | os.PathLike, remedy: str) -> _Schema:
    """Reads a JSON file that `write` wrote, such as `scores.json`, back into its dataclass.

    Args:
      schema: the dataclass.
      path: the file.
      remedy: advice for a file that is not as it should be, as the end of the error's sentence.

    Returns:
      An instance of `schema`.

    Raises:
      SchemaError: there is no such file, it is no JSON object, or a key is missing or unknown, or
        its value is of another type or out of range.
    """
    return parse(schema, read_object(path, remedy), path, remedy)


def read_object(path: str | os.PathLike, remedy: str) -> dict[str, Any]:
    """Reads the object of a JSON file without a check of its keys, as where these tell its schema.

    Args:
      path: the file.
      remedy: advice for the user, as the end of the error's sentence.

    Returns:
      The object, a dict from str to the values that JSON gives.

    Raises:
      SchemaError: there is no such file, it cannot be read, or it holds no JSON object.
    """
    try:
        content = json.loads(file_paths.at(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SchemaError(f"there is no {path}: {remedy}.") from error
    except json.JSONDecodeError as error:
        raise SchemaError(f"{path} is not valid JSON ({error}): {remedy}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{path} cannot be read ({messages.reason(error)}): {remedy}.") from error
    if not isinstance(content, dict):
        raise SchemaError(f"{path} holds no JSON object: {remedy}.")
    return content


def parse(
    schema: type[_Schema], content: dict[str, Any], origin: str | os.PathLike, remedy: str
) -> _Schema:
    """Makes a dataclass of the object in a JSON file, which must have every field and no other key.

    A field in `added` of the dataclass may be missing; it gets the value there.

    Args:
      schema: a dataclass, whose fields may be dataclasses, lists, tuples and dicts.
      content: the object.
      origin: the path of the file, or a place in it, for the message.
      remedy: advice for the user, as the end of the error's sentence.

    Returns:
      An instance of `schema`. Whole numbers become floats where the field is a float.

    Raises:
      SchemaError: a key is missing or unknown, or its value is of another type or out of range.
    """
    try:
        return _converted(content, schema, "")
    except (_MismatchError, ConfigError) as error:
        raise SchemaError(f"{origin}: {error}; {remedy}.") from error


def extended(schema: type[_Schema], base: Any, **more: Any) -> _Schema:
    """Makes the dataclass of a JSON file from an instance of its base class and the further fields.

    Args:
      schema: the dataclass to make.
      base: an instance of a dataclass with a part of its fields.
      **more: the values of the other fields.

    Returns:
      An instance of `schema` with the fields of `base` and `more`.

    Raises:
      TypeError: a field without a default is missing, `schema` lacks one of the fields, or one is
        in both `base` and `more`.
    """
    fields = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
    return schema(**fields, **more)


def _converted(value: Any, expected: Any, key: str) -> Any:
    """Returns a value of JSON as the type that a field declares.

    Raises:
      _MismatchError: it is of another type.
    """
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any:
        return value
    if isinstance(expected, type) and dataclasses.is_dataclass(expected):
        return _built(value, expected, key)
    if origin is types.UnionType:
        exact = [each for each in arguments if type(value) is each]
        return _converted(value, (exact or arguments)[0], key)
    if origin in (list, tuple) and isinstance(value, list):
        each = (_converted(item, arguments[0], f"{key}[{i}]") for i, item in enumerate(value))
        return origin(each)
    if origin is dict and isinstance(value, dict):
        return {name: _converted(x, arguments[1], f"{key}.{name}") for name, x in value.items()}
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        raise _MismatchError(f"{key} must be {_NAMES[origin or expected]}, not {shown(value)}")
    return value


def _built(value: Any, schema: type, key: str) -> Any:
    """Makes a dataclass of an object of JSON; see `_converted`."""
    if not isinstance(value, dict):
        raise _MismatchError(f"{key or 'the file'} must be an object, not {shown(value)}")
    hints, prefix = typing.get_type_hints(schema), f"{key}." if key else ""
    names, added = [field.name for field in dataclasses.fields(schema)], _added(schema)
    for name in (*names, *value):
        if name not in value and name not in added:
            raise _MismatchError(f"{prefix}{name} is missing")
        if name not in names:
            raise _MismatchError(f"{prefix}{name} is no key of this file")
    given = (name for name in names if name in value)
    converted = {name: _converted(value[name], hints[name], prefix + name) for name in given}
    return schema(**{**added, **converted})


def _added(schema: type) -> dict[str, Any]:
    """Returns the values that older versions had of fields that were added; see `BaseSettings`."""
    added: dict[str, Any] = {}
    for base in reversed(schema.__mro__):
        added |= vars(base).get("added", {})
    return added


def read_object_or_empty(path: pathlib.Path) -> dict:
    """Reads a JSON object from storage, or returns {} if the file is missing or holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
