"""Reads and checks the body of a request, within limits, and says in a sentence what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic_core
from starlette.requests import Request

from tfbio.base import messages
from tfbio.serving.limits import RequestLimits

# How JSON's values are called in messages.
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
# An input of each field of a body.
_EXAMPLES: dict[str, Any] = {
    "texts": "Imatinib inhibits BCR-ABL.",
    "pairs": ["Imatinib inhibits BCR-ABL.", "BCR-ABL is inhibited."],
    "questions": {
        "question": "What does imatinib inhibit?",
        "context": "Imatinib inhibits BCR-ABL.",
    },
}
# What the list of each field has.
_EXPECTED = {
    "texts": "strings",
    "pairs": "lists of two strings",
    "questions": "objects with question and context",
}
# Else the server would read the rest of the body, however slowly it comes.
_CLOSE = {"Connection": "close"}


class Refusal(Exception):
    """A request that is refused, with what the answer says.

    Args:
      status: the status of the answer, from 400.
      sentence: says what is wrong, and what was expected.
      headers: of the answer.

    Attributes:
      status, sentence, headers: as given.
    """

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def schema(limits: RequestLimits, fields: Sequence[str] = ("texts",)) -> dict[str, Any]:
    """Returns the JSON schema of the bodies that `inputs_of` takes.

    Args:
      limits: of the number of inputs and of their characters.
      fields: the fields of which a body has one: "texts", "pairs" or "questions".
    """
    text = {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.max_characters,
        "pattern": "^[^\\u0000]*$",
    }
    items = {
        "texts": text,
        "pairs": {"type": "array", "minItems": 2, "maxItems": 2, "items": text},
        "questions": _object({"question": text, "context": text}),
    }
    bodies = []
    for field in fields:
        several = {
            "type": "array",
            "minItems": 1,
            "maxItems": limits.max_texts,
            "items": items[field],
        }
        bodies.append({**_object({field: several}), "example": {field: [_EXAMPLES[field]]}})
    return bodies[0] if len(bodies) == 1 else {"oneOf": bodies}


def example(field: str) -> str | tuple[str, str]:
    """Returns an input as a call of the model takes it, of a field of the body, such as "texts"."""
    return _input(field, _EXAMPLES[field], field, RequestLimits())


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of an object that has all of some fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


async def read(request: Request, limits: RequestLimits) -> bytes:
    """Reads the body of a request: no more of it than the limits allow is ever in memory.

    Args:
      request: its headers are read, and the body is not.
      limits: of the body's bytes, and of the time in which it must arrive.

    Returns:
      The body.

    Raises:
      Refusal: it is no JSON by its headers, it is compressed, or it is too large or too slow.
      starlette.requests.ClientDisconnect: the client is gone.
    """
    _check_headers(request.headers, limits)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                chunks.append(chunk)
                size += len(chunk)
                if size > limits.max_body_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise Refusal(
            408,
            f"the body did not arrive within {limits.body_seconds:g} seconds: send it at once.",
            _CLOSE,
        ) from None
    return b"".join(chunks)


def _check_headers(headers: Mapping[str, str], limits: RequestLimits) -> None:
    """Raises a Refusal for a body that is not JSON in UTF-8 as it stands, or larger than it may."""
    media_type, *parameters = headers.get("content-type", "").lower().split(";")
    if media_type.strip() != "application/json":
        raise Refusal(415, "expected the header Content-Type: application/json.")
    for name, _, value in (parameter.strip().partition("=") for parameter in parameters):
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise Refusal(415, f"the charset {messages.cut(value, 40)} is not read: send UTF-8.")
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Refusal(
            415,
            f"the Content-Encoding {messages.cut(coding, 40)} is not read: send the body as it is.",
            {"Accept-Encoding": "identity"},
        )
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.max_body_bytes:
        raise _too_large(limits)


def _too_large(limits: RequestLimits) -> Refusal:
    """Returns the refusal of a body that is too large."""
    most = limits.max_body_bytes
    return Refusal(413, f"the body has more than {most:,} bytes: send fewer texts in a request.")


def inputs_of(
    body: bytes, limits: RequestLimits, fields: Sequence[str] = ("texts",)
) -> list[str | tuple[str, str]]:
    """Parses the body of a request and checks it, as `schema` has it.

    Args:
      body: as `read` returns it.
      limits: of the number of inputs and of their characters.
      fields: the fields of which the body must have one, see `schema`.

    Returns:
      The inputs, as a call of the model takes them: a text each, or a tuple of two texts for a pair
      or for a question and its context. No text is empty, and all can be encoded.

    Raises:
      Refusal: it is no JSON, or not of the schema; the sentence names the first mistake.
    """
    name, inputs = _field_of(_parsed(body), fields)
    if not isinstance(inputs, list):
        raise Refusal(
            422, f"{name} is {_NAMES[type(inputs)]}: expected a list of {_EXPECTED[name]}."
        )
    if not inputs:
        raise Refusal(422, f"{name} is empty: give one {name[:-1]} at least.")
    if len(inputs) > limits.max_texts:
        most = limits.max_texts
        raise Refusal(
            422, f"{name} has {len(inputs):,} {name}: send at most {most:,} in a request."
        )
    return [_input(name, value, f"{name}[{number}]", limits) for number, value in enumerate(inputs)]


def _field_of(value: Any, fields: Sequence[str]) -> tuple[str, Any]:
    """Returns the name and the value of the one field of a body."""
    expected = " or ".join(f'{{"{field}": [...]}}' for field in fields)
    if not isinstance(value, dict):
        raise Refusal(422, f"the body is {_NAMES[type(value)]}: expected {expected}.")
    for name in value:
        if name not in fields:
            shown = json.dumps(messages.cut(name, 40))
            known = " and ".join(fields)
            only = "is the only one" if len(fields) == 1 else "are the only ones"
            raise Refusal(422, f"the field {shown} is unknown: {known} {only}.")
    if not value:
        missing = " or ".join(fields)
        raise Refusal(422, f"the field {missing} is missing: expected {expected}.")
    if len(value) > 1:
        raise Refusal(422, f"the body has {' and '.join(value)}: give one of them.")
    return next(iter(value.items()))


def _input(field: str, value: Any, place: str, limits: RequestLimits) -> str | tuple[str, str]:
    """Returns an input of a field of the body; `place` names it in messages."""
    if field == "texts":
        return _text(value, place, limits)
    if field == "pairs":
        if not isinstance(value, list):
            kind = _NAMES[type(value)]
            raise Refusal(422, f"{place} is {kind}: expected a list of two strings.")
        if len(value) != 2:
            raise Refusal(422, f"{place} has {len(value):,} texts: give two.")
        return _text(value[0], f"{place}[0]", limits), _text(value[1], f"{place}[1]", limits)
    if not isinstance(value, dict):
        raise Refusal(422, f"{place} is {_NAMES[type(value)]}: expected an object.")
    if value.keys() != {"question", "context"}:
        raise Refusal(422, f"{place} must have the fields question and context, and no others.")
    return (
        _text(value["question"], f"{place}.question", limits),
        _text(value["context"], f"{place}.context", limits),
    )


def _text(value: Any, place: str, limits: RequestLimits) -> str:
    """Returns a text of the body, if nothing is wrong with it."""
    if problem := _problem_of(value, limits):
        raise Refusal(422, f"{place} {problem}.")
    return value


def _parsed(body: bytes) -> Any:
    """Returns the value of a body of JSON."""
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False, cache_strings=False)
    except ValueError as error:
        sentence = f"the body is no JSON: {error}"
        # So it says of "\ud800", too.
        if "hex escape" in str(error):
            sentence += " (half of a surrogate pair is no character)"
        raise Refusal(400, f"{sentence}.") from error


def _problem_of(text: Any, limits: RequestLimits) -> str:
    """Returns what is wrong with a text; "" for nothing."""
    if not isinstance(text, str):
        return f"is {_NAMES[type(text)]}: expected a string"
    if not text:
        return "is empty: leave it out"
    if len(text) > limits.max_characters:
        most = limits.max_characters
        return f"has {len(text):,} characters: send at most {most:,} in a text"
    if "\0" in text:
        return f"has the character U+0000 at {text.index(chr(0)):,}, which is no text: remove it"
    return ""
