"""Reads settings from JSON and `--set` into typed dataclasses, and lists them for `--help`.

A configuration is read from `--hparams` (a JSON file or an inline JSON object) and then changed
by any number of `--set name=value`, a dot reaching into a group: `--set run.jit_compile=true`.
An object may also say where its settings are from: `"sources": {"learning_rate": "Table 7"}`.
One of fine-tuning may give several values to try, `"sweep": {"learning_rate": [1e-5, 3e-5]}`.

The dataclasses stand where their settings are used: `encoder_config`, `pretraining_config`,
`finetuning_config`, and `Settings` in each task type. Each field says by `setting` what it means
and which values it takes. Settings that change what is learnt are fields of the configuration
itself, of its `encoder` or of the task type. Settings that change only how fast a run goes, and
what is kept of it, are in `run`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tfbio.base import messages
from tfbio.base.errors import UsageError
from tfbio.base.limits import Limits
from tfbio.base.messages import shown

# Numbers are below these, whatever else holds for them: int32 and float32 must hold them.
_TOO_LARGE: dict[type, tuple[float, str]] = {
    int: (2**31, "below 2**31"),
    float: (3.4e38, "finite in float32"),
}
_NUMBERS = tuple[int, ...]  # the type of a setting that is a list
# What a setting takes that has neither bounds nor choices.
_WITHOUT_LIMITS: dict[object, str] = {
    bool: "true or false",
    str: "any text",
    _NUMBERS: "a list of whole numbers, such as [1000,2000]",
}


class ConfigError(UsageError):
    """The error of a configuration: a setting that is unknown, of a wrong type or out of range.

    It also tells of settings that do not go together. It is a `UsageError`, with exit code 2.
    """


def setting(default: Any, meaning: str, **limits: Any) -> Any:
    """Declares a configuration's setting, a dataclass's field: `size: int = setting(8, ...)`.

    Args:
      default: its default, an int, float, bool, str or tuple of int. An int or a float must be at
        least 0 unless `limits` has `above` or `at_least`.
      meaning: the text for `--help`.
      **limits: `above`, `at_least`, `below`, `at_most` (numbers) and `choices` (a tuple of str).

    Returns:
      A `dataclasses.field`, whose metadata has `meaning` (str) and `limits` (a `Limits`).

    Raises:
      TypeError: `limits` has another name.
    """
    is_number = type(default) in (int, float)
    if is_number and not {"above", "at_least"} & limits.keys():
        limits["at_least"] = 0
    return dataclasses.field(
        default=default, metadata={"meaning": meaning, "limits": Limits(**limits)}
    )


@dataclasses.dataclass(frozen=True)
class BaseSettings:
    """The base of all configurations and groups of settings: frozen dataclasses, checked when made.

    Attributes:
      group: str, the prefix of the names of its fields in messages and for `--set`, such as "run.";
        a class attribute, "" by default.
      beside: tuple of str, the names of what a file may have beside the settings, for others to
        read; a class attribute, () by default.
      added: dict, name of a field that was added later -> the value that older versions had, for
        `json_files` to read their files; a class attribute, {} by default.

    Raises:
      ConfigError: a field is out of its limits, or the fields do not go together.
    """

    group: ClassVar[str] = ""
    beside: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), self.group + field.name
            if "limits" in field.metadata:  # else a group, which has checked itself
                _check_limits(field.metadata["limits"], value, name)
        self.check_together()

    def check_together(self) -> None:
        """Raises a ConfigError if a configuration's settings do not go together; here, never."""


def _check_limits(limits: Limits, value: Any, name: str) -> None:
    """Checks the value of a setting, and returns nothing.

    Args:
      limits: the setting's limits.
      value: the value, of the setting's type.
      name: the setting's name, for the message.

    Raises:
      ConfigError: the value is out of the limits, an int of 2**31 or more, or a float of 3.4e38 or
        more.
    """
    most, bound = _TOO_LARGE.get(type(value), (None, ""))
    require(limits.allow(value), f"{name} must be {limits}, not {shown(value)}")
    require(most is None or value < most, f"{name} must be {bound}, not {shown(value)}")


def require(condition: bool, message: str) -> None:
    """Raises a ConfigError, with the text `message`, if a configuration's `condition` is false."""
    if not condition:
        raise ConfigError(message)


def load(
    config_class: type[BaseSettings],
    hparams: str = "",
    overrides: Sequence[str] = (),
    defaults: Mapping[str, object] | None = None,
) -> Any:
    """Builds a configuration from a JSON file or object (`--hparams`) and from `--set`.

    Args:
      config_class: the dataclass to build, such as `PretrainingConfig`.
      hparams: path of a JSON file, or a JSON object as text; "" for the defaults. The object may
        have `sources`, texts by the names of its settings, which only the reader of the file needs.
      overrides: "name=value" each, as given to `--set`, which replace those of `hparams`; a dot
        reaches into a group.
      defaults: settings by their names, which the other two replace.

    Returns:
      An instance of `config_class`; settings that are nowhere given have its defaults.

    Raises:
      ConfigError: the file is missing, unreadable or no JSON object, or a setting is unknown, twice
        there, of another type or out of its limits; the message says what was expected.
    """
    origin, values = read(hparams)
    values = {name: value for name, value in values.items() if name not in config_class.beside}
    values = _merged(defaults or {}, values)
    for override in overrides:
        _apply_override(values, override)
    return build(config_class, values, origin)


def read(hparams: str) -> tuple[str, dict[str, Any]]:
    """Reads a configuration's `hparams`, as `load` takes it, and checks its `sources` alone.

    Returns its origin, for messages, and its values without the sources. Raises a ConfigError."""
    origin, text = _read(hparams)
    values = _parse(text, origin)
    if "vocab_sha256" in values:
        folder = os.path.dirname(origin) or "."
        raise ConfigError(
            f"--hparams={origin} is of a run, and has more than its settings: `tfbio convert "
            f"--from={folder} --to=FOLDER` writes them alone, in FOLDER/hparams.json."
        )
    try:
        _check_sources(values.pop("sources", {}), values)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error
    return origin, values


def build(config_class: type, values: Mapping[str, object], origin: str | os.PathLike) -> Any:
    """Builds a configuration from a dict of settings that were read from a file.

    Args:
      config_class: the dataclass to build, such as `PretrainingConfig`.
      values: the settings by their names, as JSON gives them; a group is a dict.
      origin: the path of the file, for the messages.

    Returns:
      An instance of `config_class`; settings that `values` lacks have its defaults.

    Raises:
      ConfigError: a setting is unknown, of another type or out of its limits; the message names
        the file and what was expected.
    """
    try:
        return _build(config_class, values, prefix="")
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error


class Described(NamedTuple):
    """A setting as `--help` has it.

    Attributes:
      name: str, the name as `--set` takes it, such as "run.jit_compile".
      default: str, the default in JSON.
      allowed: str, the values that it takes, such as "at least 1" or "true or false".
      meaning: str, one or more sentences.
    """

    name: str
    default: str
    allowed: str
    meaning: str


def describe_each(config_class: type, prefix: str = "") -> Iterator[Described]:
    """Yields a `Described` for each setting of a configuration, in the order of the fields.

    Those of a group (a field that is a dataclass) have names such as "run.jit_compile". `prefix` is
    text before each name.
    """
    types = _types(config_class)
    for field in dataclasses.fields(config_class):
        name, expected = prefix + field.name, types[field.name]
        if dataclasses.is_dataclass(expected):
            yield from describe_each(expected, f"{name}.")
        else:
            allowed = str(field.metadata["limits"]) or _WITHOUT_LIMITS[expected]
            default = json.dumps(field.default)
            yield Described(name, default, allowed, field.metadata["meaning"])


def names(config_class: type) -> list[str]:
    """Returns the names of all settings of a configuration as `--set` takes them, in order."""
    return [each.name for each in describe_each(config_class)]


def describe(config_class: type, only: Sequence[str] = ()) -> str:
    """Describes a configuration for `--help`: returns default, limits and meaning of each setting.

    The str has for each setting a line `  name = default (limits)` and indented lines with its
    meaning; also for those of groups (fields that are dataclasses). `only` are the names of the
    settings to describe, () for all.
    """
    indent = " " * 6
    lines = []
    for name, default, allowed, meaning in describe_each(config_class):
        if only and name not in only:
            continue
        lines.append(f"  {name} = {default} ({allowed})")
        lines += textwrap.wrap(meaning, 80, initial_indent=indent, subsequent_indent=indent)
    return "".join(f"{line}\n" for line in lines)


def _types(config_class: type) -> dict[str, type]:
    """Returns the types of the fields by their names."""
    hints = typing.get_type_hints(config_class)
    return {field.name: hints[field.name] for field in dataclasses.fields(config_class)}


def _read(hparams: str) -> tuple[str, str]:
    """Returns where settings are from, for messages, and their text; see `load`."""
    if hparams.lstrip().startswith("{"):
        return "--hparams", hparams
    if not hparams:
        return "--set", "{}"
    if not os.path.isfile(hparams):
        problem = "it is a folder" if os.path.isdir(hparams) else "no such file"
        raise ConfigError(
            f"--hparams={hparams}: {problem}; give a JSON file (see the folder hparams/) "
            'or an inline object such as {"learning_rate": 1e-4}.'
        )
    try:
        return hparams, Path(hparams).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = messages.reason(error)
        raise ConfigError(f"--hparams={hparams} cannot be read as text: {reason}.") from error


def _parse(text: str, origin: str) -> dict[str, Any]:
    """Parses a JSON object.

    Args:
      text: the object.
      origin: where it is from, for messages.
    """
    try:
        values = json.loads(text, object_pairs_hook=_once)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error
    except ValueError as error:  # also of a whole number of more digits than Python reads
        raise ConfigError(f"{origin} is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{origin} is not valid JSON: it is nested too deeply.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{origin} must hold one JSON object, not a {type(values).__name__}.")
    return values


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Makes an object of JSON, whose names must all be different."""
    values: dict[str, object] = {}
    for name, value in pairs:
        require(name not in values, f"{name!r} is there twice")
        values[name] = value
    return values


def _check_sources(sources: object, values: Mapping[str, object]) -> None:
    """Checks that each source is a text, and that of a setting that `values` has."""
    if not isinstance(sources, dict):
        raise ConfigError(
            'sources must be texts by the names of settings, {"learning_rate": "Table 7"}, '
            f"not {shown(sources)}"
        )
    for name, source in sources.items():
        value: object = values
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        require(
            value is not None,
            f"sources has {shown(name)}, which is no setting beside it: take it out, or set it",
        )
        require(
            isinstance(source, str) and bool(source.strip()),
            f"sources must say in a text where {shown(name)} is from, not {shown(source)}",
        )


def _apply_override(values: dict, override: str) -> None:
    """Changes one of `values` as "name=value" says."""
    name, equals, text = override.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {override}: expected name=value.")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except ConfigError as error:
        raise ConfigError(f"--set {override}: {error}.") from error
    except (ValueError, RecursionError):
        value = text  # a bare word is a string: --set run.precision=bfloat16
    *groups, key = name.split(".")
    for group in groups:
        values = values.setdefault(group, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override}: {group!r} is not a group of settings.")
    values.update(_merged(values, {key: value}))


def _merged(before: Mapping, changes: Mapping) -> dict:
    """Returns values with some changes; of a group, what these do not name stays as it is."""
    merged = dict(before)
    for name, value in changes.items():
        own = merged.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            value = _merged(own, value)
        merged[name] = value
    return merged


def _build(config_class: type, values: Mapping[str, object], prefix: str) -> Any:
    """Builds a configuration, or a group, whose names begin with `prefix`."""
    hints = _types(config_class)
    for key in values:
        if key not in hints:
            nearest = prefix + _nearest(key, config_class)
            raise ConfigError(f"unknown setting {prefix + key!r}; the nearest is {nearest!r}")
    return config_class(
        **{key: _convert(value, hints[key], prefix + key) for key, value in values.items()}
    )


def _convert(value: Any, expected: type, name: str) -> Any:
    """Returns a value as the type that the field declares; JSON's 1e6 is a whole number, too."""
    if dataclasses.is_dataclass(expected):
        if isinstance(value, dict):
            return _build(expected, value, prefix=f"{name}.")
        raise ConfigError(f"{name} is a group of settings, not {shown(value)}")
    if expected is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if expected is float and type(value) is int and abs(value) < 1e308:
        return float(value)
    if expected == _NUMBERS and isinstance(value, list | tuple):
        return tuple(_convert(each, int, name) for each in value)
    if type(value) is expected:
        return value
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    wanted[_NUMBERS] = _WITHOUT_LIMITS[_NUMBERS]
    raise ConfigError(f"{name} must be {wanted[expected]}, not {shown(value)}")


def _nearest(key: str, config_class: type) -> str:
    """Returns a class's or its groups' setting with these initials, as lr, or the most similar."""
    ends = [(name.rpartition(".")[2], name) for name in names(config_class)]
    for end, name in ends:
        if key == "".join(word[:1] for word in end.split("_")):
            return name
    whole = [(name, name) for name in (*names(config_class), *_types(config_class))]
    known = dict([*reversed(ends), *whole])  # of two settings with one end the first counts
    return known[difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]]
