"""Clients that send good and bad requests to a server, and look at the answers; see `serving`."""

from __future__ import annotations

import dataclasses
import gzip
import http.client
import json
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

_JSON = {"Content-Type": "application/json"}
# The server's --body_seconds, so that slow clients do not take the default's 10.
BODY_SECONDS = 2
# How often each kind comes, in percent, and the statuses that it may get.
KINDS = {
    "valid": (55, {200}),
    "valid, in pieces": (3, {200}),
    "wrong": (18, {400, 415, 422}),
    "lone surrogates": (5, {400}),
    "gzip bomb": (5, {415}),
    "too large": (3, {413}),
    "too large, in chunks": (3, {413}),
    "too slow": (2, {408}),
    "client leaves": (3, {0}),
    "health": (3, {200}),
}
# The bytes of a body that are sent with the headers where it comes in pieces.
FIRST_BYTES = 5
_BOMB = gzip.compress(bytes(50_000_000))
_WRONG = (
    b"",
    b"texts",
    b'{"texts": ["a"',
    b"[" * 50_000,
    b'{"texts": ["\xff"]}',
    b'{"texts": []}',
    b'{"texts": [""]}',
    b'{"texts": [1]}',
    b'{"texts": "a"}',
    b'{"texts": ["a\\u0000"]}',
    b'{"texts": ["a"], "b": 1}',
    b'{"text": ["a"]}',
    json.dumps({"texts": ["a"] * 33}).encode(),
    json.dumps({"texts": ["a" * 10_001]}).encode(),
)
_SURROGATES = (b'{"texts": ["\\ud800"]}', b'{"texts": ["a\\udfffb"]}', b'{"texts": ["\\ud83dx"]}')


@dataclasses.dataclass(frozen=True)
class Expected:
    """A text, and its entities by the API: text, label, start, end, and the score apart."""

    text: str
    entities: list[tuple]
    scores: list[float]


@dataclasses.dataclass(frozen=True)
class Done:
    """A request that was sent: its kind, its status (0: none), seconds, and what is wrong."""

    kind: str
    status: int
    seconds: float
    problem: str = ""


class Client:
    """Sends requests of any kind, and keeps its connection where it can."""

    def __init__(self, port: int, expected: Sequence[Expected], seed: int):
        self._port, self._expected, self._rng = port, expected, random.Random(seed)
        self._kept: http.client.HTTPConnection | None = None

    def send(self, kind: str) -> Done:
        """Sends a request, and looks at the answer."""
        chosen = self._rng.choices(self._expected, k=self._rng.choice((1, 1, 1, 2)))
        start = time.perf_counter()
        try:
            status, answer = self._answer(kind, json.dumps({"texts": [x.text for x in chosen]}))
        except (OSError, http.client.HTTPException) as error:
            self._close()
            return Done(kind, 0, 0.0, f"no answer: {error!r}")
        seconds = time.perf_counter() - start
        return Done(kind, status, seconds, problem_of(kind, status, answer, chosen))

    def _answer(self, kind: str, body: str) -> tuple[int, bytes]:
        """Sends a request of a kind; returns the status and the body of the answer."""
        if kind in ("valid, in pieces", "too slow", "client leaves"):
            return self._drip(kind, body.encode())
        if kind == "health":
            return self._request("GET", self._rng.choice(("/health/live", "/health/ready")))
        bodies: dict[str, bytes | Iterator[bytes]] = {
            "valid": body.encode(),
            "wrong": self._rng.choice(_WRONG),
            "lone surrogates": self._rng.choice(_SURROGATES),
            "gzip bomb": _BOMB,
            "too large": b" " * 2_000_000,
            "too large, in chunks": (b" " * 50_000 for _ in range(40)),
        }
        headers = _JSON | ({"Content-Encoding": "gzip"} if kind == "gzip bomb" else {})
        if kind == "wrong" and self._rng.random() < 0.1:
            headers = {"Content-Type": "text/plain"}
        return self._request("POST", "/annotate", bodies[kind], headers)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Sends a request on the connection that is kept."""
        if self._kept is None:
            self._kept = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        self._kept.request(method, path, body, headers or {})
        answer = self._kept.getresponse()
        found = answer.status, answer.read()
        if answer.will_close:
            self._close()
        return found

    def _close(self) -> None:
        """Closes the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _drip(self, kind: str, body: bytes) -> tuple[int, bytes]:
        """Sends a request on a connection of its own, in pieces, and not to the end if too slow."""
        with begun(self._port, body) as own:
            if kind == "client leaves":
                if self._rng.random() < 0.5:
                    own.sendall(body[FIRST_BYTES:])  # and does not wait for the answer
                return 0, b""
            if kind == "too slow":
                for _ in range(2):
                    time.sleep(BODY_SECONDS / 4)
                    own.sendall(b" ")
            else:
                for part in range(FIRST_BYTES, len(body), 40):
                    time.sleep(0.01)
                    own.sendall(body[part : part + 40])
            return answered(own)


def begun(port: int, body: bytes) -> socket.socket:
    """Begins a request with the first bytes of its body, on a connection of its own."""
    connection = socket.create_connection(("127.0.0.1", port), 300)
    connection.sendall(
        b"POST /annotate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:FIRST_BYTES])
    )
    return connection


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """Returns the status and the body of the answer on a connection."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read()


def problem_of(kind: str, status: int, answer: bytes, chosen: Sequence[Expected]) -> str:
    """Returns what is wrong with an answer; "" if it suits its request.

    Args:
      kind: of the request, one of `KINDS`.
      status: of the answer.
      answer: its body.
      chosen: the texts of the request.
    """
    shown = f"{answer[:200]!r}"
    if status not in KINDS[kind][1]:
        return f"status {status}: {shown}"
    try:
        if status == 200 and kind.startswith("valid"):
            return difference(json.loads(answer)["entities"], chosen)
        if status >= 400 and not json.loads(answer)["error"].endswith("."):
            return f"no sentence: {shown}"
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return f"an answer of another form ({error!r}): {shown}"
    return ""


def difference(answer: list[list[dict]], chosen: Sequence[Expected]) -> str:
    """Returns how the entities of texts differ from those by the API; "" if they are the same."""
    if len(answer) != len(chosen):
        return f"{len(answer)} lists of entities for {len(chosen)} texts"
    for own, expected in zip(answer, chosen, strict=True):
        entities = [(x["text"], x["label"], x["start"], x["end"]) for x in own]
        if entities != expected.entities:
            return f"{expected.text[:60]!r}: {entities} and not {expected.entities}"
        for one, score in zip(own, expected.scores, strict=True):
            if abs(one["score"] - score) > 1e-4:
                return f"{expected.text[:60]!r}: the score {one['score']} and not {score}"
    return ""
