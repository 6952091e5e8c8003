"""Runs an application on a socket until a signal, and answers all that it has begun before."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfbio.base import messages, signals
from tfbio.base.errors import UserError
from tfbio.serving.limits import RequestLimits

# A connection without a request is kept so long, in seconds: longer than proxies keep theirs (nginx
# and others 60), which then never send a request on one that is about to be closed.
_KEPT = 75
# How much longer than the body may take a connection may take for the whole request, in seconds:
# the application answers 408 before.
_LONGER = 5


def open_socket(host: str, port: int) -> socket.socket:
    """Opens the socket that a server listens on, on which nobody can connect yet.

    Args:
      host: the name or address of this machine's interface.
      port: its port; 0: any that is free.

    Returns:
      A socket that is bound and does not listen.

    Raises:
      UserError: there is no such interface, or the port is taken or not allowed.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UserError(f"--host={host}: it is no interface of this machine ({error}).") from error
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise _cannot_listen(host, port, error) from error
    return opened


def _cannot_listen(host: str, port: int, error: OSError) -> UserError:
    """Returns the error of an interface and a port that cannot be had."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return UserError(
        f"--host={host} --port={port} cannot be listened on: {why}; give another --port."
    )


def make(app: Any, limits: RequestLimits) -> Server:
    """Makes the server of an application, which its `serve_on` runs.

    Args:
      app: an ASGI application.
      limits: of time.
    """
    config = uvicorn.Config(
        app,
        # One parser and one loop, whatever else is installed.
        http=functools.partial(  # type: ignore[arg-type]  # any function that makes one will do
            _Protocol, limits.body_seconds + _LONGER
        ),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # texts and addresses are private
        server_header=False,
        timeout_keep_alive=_KEPT,
        timeout_graceful_shutdown=math.ceil(limits.body_seconds + limits.answer_seconds + _LONGER),
    )
    return Server(config)


class Server(uvicorn.Server):
    """A uvicorn server that says where it listens, and by which signal it ended.

    Attributes:
      ended_by: the number of the signal that ended it; None without one.
      url: where it listens; "" before.
    """

    ended_by: int | None = None
    url = ""

    def serve_on(self, opened: socket.socket) -> None:
        """Answers requests until SIGTERM or SIGINT, or until `should_exit` is set.

        Then it takes no more connections, answers the requests that have come, and returns.

        Args:
          opened: as `open_socket` returns it; it is closed.

        Raises:
          UserError: another program has begun to listen there since it was opened.
        """
        asyncio.run(self.serve([opened]))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says where."""
        host, port = (sockets or [])[0].getsockname()[:2]
        try:
            await super().startup(sockets)
        except OSError as error:  # two servers may open one port, and the first that listens has it
            raise _cannot_listen(host, port, error) from error
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        messages.say(f"{self.url}: listening; Ctrl-C or SIGTERM ends it.")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Answers the two signals within its block; uvicorn would raise them again after it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with signals.handling(
            {number: self.handle_exit for number in (signal.SIGTERM, signal.SIGINT)}
        ):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server when it has answered."""
        self.ended_by, self.should_exit = sig, True


class _Protocol(H11Protocol):
    """A connection that is closed if a request takes too long to arrive; uvicorn waits for ever.

    Args:
      seconds: from the first byte of a request, or from the beginning of the connection.
      **given: as uvicorn gives them.
    """

    def __init__(self, seconds: float, **given: Any):
        super().__init__(**given)
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Lets the time run while a request arrives, and not while it is answered."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._seconds, self.transport.close)

    def _forget(self) -> None:
        """Stops the time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
