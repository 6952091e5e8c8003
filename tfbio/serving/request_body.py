"""Reads and checks the body of a request, within limits, and says in a sentence what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
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


def schema(limits: RequestLimits) -> dict[str, Any]:
    """Returns the JSON schema of the bodies that `texts_of` takes."""
    text = {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.max_characters,
        "pattern": "^[^\\u0000]*$",
    }
    texts = {"type": "array", "minItems": 1, "maxItems": limits.max_texts, "items": text}
    return {
        "type": "object",
        "properties": {"texts": texts},
        "required": ["texts"],
        "additionalProperties": False,
        "example": {"texts": ["Imatinib inhibits BCR-ABL."]},
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


def texts_of(body: bytes, limits: RequestLimits) -> list[str]:
    """Parses the body of a request and checks it, as `schema` has it.

    Args:
      body: as `read` returns it.
      limits: of the number of texts and of their characters.

    Returns:
      The texts: none is empty, and all can be encoded.

    Raises:
      Refusal: it is no JSON, or not of the schema; the sentence names the first mistake.
    """
    value = _parsed(body)
    if not isinstance(value, dict):
        raise Refusal(422, f'the body is {_NAMES[type(value)]}: expected {{"texts": [...]}}.')
    for name in value:
        if name != "texts":
            shown = json.dumps(messages.cut(name, 40))
            raise Refusal(422, f"the field {shown} is unknown: texts is the only one.")
    if "texts" not in value:
        raise Refusal(422, 'the field texts is missing: expected {"texts": [...]}.')
    texts = value["texts"]
    if not isinstance(texts, list):
        raise Refusal(422, f"texts is {_NAMES[type(texts)]}: expected a list of strings.")
    if not texts:
        raise Refusal(422, "texts is empty: give one text at least.")
    if len(texts) > limits.max_texts:
        most = limits.max_texts
        raise Refusal(422, f"texts has {len(texts):,} texts: send at most {most:,} in a request.")
    for number, text in enumerate(texts):
        if problem := _problem_of(text, limits):
            raise Refusal(422, f"texts[{number}] {problem}.")
    return texts


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
