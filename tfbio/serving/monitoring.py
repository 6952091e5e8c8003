"""Counts the requests and batches of a server, as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

_Message = MutableMapping[str, Any]

# Of a request: Prometheus's, which end at 10, and others up to twice --answer_seconds's default.
_SECONDS = (*Histogram.DEFAULT_BUCKETS[:-1], 20.0, 30.0, 60.0, 120.0)
# Texts of a batch.
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counts of one server.

    Attributes:
      content_type: the Content-Type of `text`.
      requests: the requests that have ended, by path and status.
      seconds: how long they took, from their headers to the end of the answer, by path.
      waiting: the requests to the model that are read, wait or are computed.
      batch_texts: the texts of each batch.
    """

    content_type = prometheus_client.CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        # Its memory, CPU time and open files.
        prometheus_client.ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "tfbio_requests",
            "Requests that have ended.",
            ["path", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "tfbio_request_seconds",
            "Seconds from the headers of a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.waiting = Gauge(
            "tfbio_requests_waiting",
            "Requests to the model that are read, wait or are computed.",
            registry=self._registry,
        )
        self.batch_texts = Histogram(
            "tfbio_batch_texts",
            "Texts that are computed together.",
            buckets=_SIZES,
            registry=self._registry,
        )

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's format."""
        return prometheus_client.generate_latest(self._registry)


class Observed:
    """An ASGI application that counts the requests of another one.

    Args:
      app: the other application.
      metrics: what counts them.
      paths: those that have a count of their own. Clients choose all others, so these share one.
    """

    def __init__(self, app: Callable, metrics: Metrics, paths: Collection[str]):
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(
        self, scope: _Message, receive: Callable, send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        """Answers a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else "other"
        statuses = []
        start = time.perf_counter()

        async def send_and_look(message: _Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        finally:
            self._metrics.requests.labels(path, str(statuses[0] if statuses else 500)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)
