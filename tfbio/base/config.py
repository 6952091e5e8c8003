"""Reads settings from JSON and `--set` into typed dataclasses, and lists them for `--help`.

A configuration is read from `--hparams` (a JSON file or an inline JSON object) and then changed
by any number of `--set name=value`, a dot reaching into a group: `--set run.jit_compile=true`.
An object may also say where its settings are from: `"sources": {"learning_rate": "Table 7"}`.

The dataclasses stand where their settings are used: `encoder_config`,
`pretraining_config` and `finetuning_config`. Settings that change what is learnt are fields of the
configuration itself or of its `encoder`. Settings that change only how fast a run goes, and what is
kept of it, are in `run`.
"""

import dataclasses
import difflib
import json
import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfbio.base import storage
from tfbio.base.cli import UsageError

# What float32 can hold.
MOST_OF_FLOAT32 = 3.4e38


class ConfigError(UsageError):
    """A setting that does not exist, or whose value is of the wrong type or out of range."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def require_numbers(settings: object, group: str = "") -> None:
    """Checks what holds for every number: it is from 0 on, and int32 or float32 can hold it."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if type(value) in (int, float):
            most, bound = MOST_OF_FLOAT32, "and finite in float32"
            if field.type is int:
                most, bound = 2**31, "below 2**31"
            require(
                0 <= value < most,
                f"{group}{field.name} must be a number from 0 on, {bound}, not {shown(value)}",
            )


def shown(value: object) -> str:
    """Returns a value as JSON has it, cut where it is long: a number can have 4,000 digits."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def load(
    config_class: type,
    hparams: str = "",
    overrides: Sequence[str] = (),
    defaults: Mapping[str, object] | None = None,
):
    """Builds a configuration.

    Args:
      config_class: the dataclass to build, such as `PretrainingConfig`.
      hparams: path of a JSON file, or a JSON object as text; "" for the defaults. The object may
        have `sources`, texts by the names of its settings, which only the reader of the file needs.
      overrides: "name=value" each, as given to `--set`; a dot reaches into a group.
      defaults: settings that come before both.

    Raises:
      ConfigError: naming the key, value or file at fault and what was expected.
    """
    if hparams.lstrip().startswith("{"):
        origin, text = "--hparams", hparams
    elif hparams:
        origin = hparams
        if not os.path.isfile(hparams):
            problem = "it is a folder" if os.path.isdir(hparams) else "no such file"
            raise ConfigError(
                f"--hparams={hparams}: {problem}; give a JSON file (see the folder hparams/) "
                'or an inline object such as {"learning_rate": 1e-4}.'
            )
        try:
            text = Path(hparams).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = storage.reason(error)
            raise ConfigError(f"--hparams={hparams} cannot be read as text: {reason}.") from error
    else:
        origin, text = "--set", "{}"
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

    try:
        _check_sources(values.pop("sources", {}), values)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error
    for override in overrides:
        _apply_override(values, override)
    return build(config_class, {**(defaults or {}), **values}, origin)


def build(config_class: type, values: Mapping[str, object], origin: str | os.PathLike):
    """Builds a configuration of settings that were read from a file.

    Args:
      config_class: the dataclass to build.
      values: the settings, as JSON gives them.
      origin: the file, for the messages.

    Raises:
      ConfigError: naming the file, the key or value at fault and what was expected.
    """
    try:
        return _build(config_class, values, prefix="")
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error


def names(config_class: type, prefix: str = "") -> list[str]:
    """The names of all settings, as `--set` takes them."""
    found = []
    for field in dataclasses.fields(config_class):
        group = dataclasses.is_dataclass(field.type)
        found += names(field.type, f"{prefix}{field.name}.") if group else [prefix + field.name]
    return found


def describe(config_class: type, prefix: str = "") -> str:
    """One line for each setting, `name = default`, for a command's `--help`."""
    lines = []
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            lines.append(describe(field.type, f"{prefix}{field.name}."))
        elif field.name != "comment":
            lines.append(f"  {prefix}{field.name} = {json.dumps(field.default)}\n")
    return "".join(lines)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON whose names are all different."""
    found: dict[str, object] = {}
    for name, value in pairs:
        require(name not in found, f"{name!r} is there twice")
        found[name] = value
    return found


def _check_sources(sources: object, values: Mapping[str, object]) -> None:
    """Checks that each source is a text, and that of a setting that `values` has."""
    require(
        isinstance(sources, dict),
        'sources must be texts by the names of settings, {"learning_rate": "Table 7"}, '
        f"not {shown(sources)}",
    )
    for name, source in sources.items():
        found: object = values
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        require(
            found is not None,
            f"sources has {shown(name)}, which is no setting beside it: take it out, or set it",
        )
        require(
            isinstance(source, str) and bool(source.strip()),
            f"sources must say in a text where {shown(name)} is from, not {shown(source)}",
        )


def _apply_override(values: dict, override: str) -> None:
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
    values[key] = value


def _build(config_class: type, values: Mapping[str, object], prefix: str):
    hints = typing.get_type_hints(config_class)
    for key in values:
        if key not in hints:
            nearest = prefix + _nearest(key, config_class)
            raise ConfigError(f"unknown setting {prefix + key!r}; the nearest is {nearest!r}")
    return config_class(
        **{key: _convert(value, hints[key], prefix + key) for key, value in values.items()}
    )


def _convert(value, expected: type, name: str):
    """`value` as the type that the field declares; JSON's 1e6 is a whole number too."""
    if dataclasses.is_dataclass(expected):
        if isinstance(value, dict):
            return _build(expected, value, prefix=f"{name}.")
        raise ConfigError(f"{name} is a group of settings, not {shown(value)}")
    if expected is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if expected is float and type(value) is int and abs(value) < 1e308:
        return float(value)
    if type(value) is expected:
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise ConfigError(f"{name} must be {kinds[expected]}, not {shown(value)}")


def _nearest(key: str, config_class: type) -> str:
    """The most similar setting of the class or of its groups."""
    names = {}
    for name, kind in typing.get_type_hints(config_class).items():
        names[name] = name
        if dataclasses.is_dataclass(kind):
            names.update({inner: f"{name}.{inner}" for inner in typing.get_type_hints(kind)})
    return names[difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]]
