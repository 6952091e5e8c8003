"""Slow clients are cut off, and a server that ends answers what has come."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.conftest import ROOT
from tfbio.base.errors import UserError
from tfbio.serving import server
from tfbio.serving.limits import RequestLimits

BODY = json.dumps({"texts": ["the cell binds"]}).encode()
HEADERS = (
    b"POST /annotate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)


def nothing(texts):
    """No entities for each text."""
    return [[] for _ in texts]


def connect(client):
    """Returns a connection to the server of a client."""
    return socket.create_connection(("127.0.0.1", client.port), timeout=30)


def read_all(connection):
    """Returns what comes until the connection is closed, or reset since we sent more."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(10_000):
            found += part
    return found


def drip(connection, data, seconds):
    """Sends a byte at a time for so long, or until the other side has closed the connection."""
    until = time.monotonic() + seconds
    try:
        for number in range(len(data)):
            if time.monotonic() > until:
                return
            connection.sendall(data[number : number + 1])
            time.sleep(0.02)
    except ConnectionError:
        return


def test_a_body_that_drips_in_is_cut_off(serve):
    with serve(nothing, body_seconds=0.2) as (client, _), connect(client) as connection:
        connection.sendall(HEADERS)
        drip(connection, BODY[:-1], 0.3)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 0.2 seconds" in answer
        assert client.annotate(BODY) == (200, {"entities": [[]]})


def test_connections_without_a_whole_request_are_cut_off(serve, monkeypatch):
    """Headers that drip in, a connection on which nothing comes, the rest of a body too large."""
    monkeypatch.setattr(server, "_LONGER", 0.2)
    with (
        serve(nothing, body_seconds=0.1, max_body_bytes=10) as (client, _),
        connect(client) as silent,
        connect(client) as slow,
        connect(client) as large,
    ):
        large.sendall(HEADERS + BODY[:5])
        drip(slow, HEADERS[:-4], 0.4)
        assert read_all(silent) == read_all(slow) == b""
        assert read_all(large).startswith(b"HTTP/1.1 413 ")


def test_a_connection_that_is_kept_may_have_pauses(serve, monkeypatch):
    """The time for a request does not run between two of them, or while one is computed."""
    monkeypatch.setattr(server, "_LONGER", 0.1)

    def slowly(texts):
        time.sleep(0.3)
        return nothing(texts)

    with serve(slowly, body_seconds=0.1) as (client, _), connect(client) as connection:
        for _ in range(2):
            connection.sendall(HEADERS + BODY)
            answer = b""
            while not answer.endswith(b'{"entities":[[]]}'):
                answer += connection.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.3)


def test_what_has_begun_is_answered_before_the_server_ends(serve):
    begun, released = threading.Event(), threading.Event()

    def held(texts):
        begun.set()
        assert released.wait(30)
        return nothing(texts)

    with serve(held) as (client, served), connect(client) as computed, connect(client) as sent:
        computed.sendall(HEADERS + BODY)
        sent.sendall(HEADERS + BODY[:5])
        assert begun.wait(30)
        served.should_exit = True
        while True:
            try:
                connect(client).close()
            except ConnectionRefusedError:
                break
            except ConnectionResetError:  # just now
                continue
        released.set()
        sent.sendall(BODY[5:])
        for connection in (computed, sent):
            answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b'{"entities":[[]]}')


@pytest.mark.parametrize(
    ("given", "seconds"), [({}, 75), ({"body_seconds": 0.5, "answer_seconds": 0.7}, 7)]
)
def test_a_server_that_ends_waits_no_longer_than_a_request_may_take(given, seconds):
    """As the manual has it: five seconds more than both limits, rounded up."""
    made = server.make(nothing, RequestLimits(**given))
    assert made.config.timeout_graceful_shutdown == seconds


def test_a_connection_is_kept_for_longer_than_a_proxy_keeps_it():
    """nginx and others keep theirs for 60 seconds."""
    assert server.make(nothing, RequestLimits()).config.timeout_keep_alive == 75


# A command as `tfbio.serve`, with a model that takes a minute.
SLOW = """
import time
from tfbio.base import cli
from tfbio.serving import application, limits, server
def compute(texts):
    print("computing", flush=True)
    time.sleep(60)
def main(argv):
    app, batcher = application.make(compute, limits.RequestLimits())
    server.make(app, limits.RequestLimits()).serve_on(server.open_socket("127.0.0.1", 0))
    batcher.close()
cli.run(main)
"""


def test_a_second_ctrl_c_ends_the_command_in_a_slow_batch(running):
    with running([sys.executable, "-c", SLOW], cwd=ROOT, stdout=subprocess.PIPE, text=True) as slow:
        port = int(re.search(r":(\d+): listening", slow.stdout.readline())[1])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(HEADERS + BODY)
            assert slow.stdout.readline() == "computing\n"
            slow.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                slow.wait(1)
            slow.send_signal(signal.SIGINT)
            assert slow.communicate(timeout=30)[0] == "interrupted: ended at once\n"
        assert slow.returncode == 130


def test_a_port_or_interface_that_cannot_be_had_is_named():
    with server.open_socket("127.0.0.1", 0) as opened:
        opened.listen()
        port = opened.getsockname()[1]
        with pytest.raises(UserError, match=f"--port={port} cannot be .*: Address already in use"):
            server.open_socket("127.0.0.1", port)
    # Another server has opened it, too, and loads its model faster.
    with server.open_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with server.open_socket("127.0.0.1", port) as second:
            first.listen()
            made = server.make(nothing, RequestLimits())
            with pytest.raises(UserError, match=f"--host=127.0.0.1 --port={port} cannot be .*use;"):
                made.serve_on(second)
    with pytest.raises(UserError, match="--host=no/name: it is no interface of this machine"):
        server.open_socket("no/name", 0)
    with pytest.raises(UserError, match="--host=192.0.2.1 --port=0 cannot be listened on"):
        server.open_socket("192.0.2.1", 0)
