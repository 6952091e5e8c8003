"""The HTTP interface to a model that finds entities: /annotate, health and metrics."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import fastapi
import pydantic
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

import tfbio
from tfbio.api.results import Entity
from tfbio.base import messages
from tfbio.serving import request_body
from tfbio.serving.batching import Batcher
from tfbio.serving.limits import RequestLimits
from tfbio.serving.monitoring import Metrics, Observed
from tfbio.serving.request_body import Refusal

# Each with the method that it takes.
_PATHS = {
    "/annotate": "POST",
    "/health/live": "GET",
    "/health/ready": "GET",
    "/metrics": "GET",
    "/openapi.json": "GET",
}
_PROBLEMS = {
    400: "The body is no JSON.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not sent as JSON, or it is compressed.",
    422: "The body is JSON, but not what is expected.",
    500: "The model failed.",
    503: "Too many requests wait, or this one waited too long: try again.",
}


class Annotations(pydantic.BaseModel):
    """The answer to a request for annotation."""

    entities: list[list[Entity]] = pydantic.Field(
        description="For each text, in the order of the request, its entities by their starts."
    )


class Problem(pydantic.BaseModel):
    """The answer to a request that is refused or failed."""

    error: str = pydantic.Field(description="Says what is wrong, and what was expected.")


class Health(pydantic.BaseModel):
    """The answer to a question for the server's health."""

    status: str = pydantic.Field(description='"live" or "ready".')


class _Service:
    """Answers requests with a model's thread, of so many at a time as the limits allow."""

    def __init__(self, batcher: Batcher, limits: RequestLimits, metrics: Metrics):
        self._batcher, self._limits, self._metrics = batcher, limits, metrics
        self._waiting = 0

    def check_ready(self) -> None:
        """Raises a Refusal if another request would not be computed."""
        if not self._batcher.is_alive:
            raise Refusal(503, "the thread that computes has ended: start the server again.")
        if self._waiting >= self._limits.max_requests:
            raise Refusal(
                503,
                f"{self._waiting:,} requests wait already: try again later.",
                {"Retry-After": str(math.ceil(self._limits.answer_seconds / 10))},
            )

    async def annotate(self, request: Request) -> list[list[Entity]]:
        """Returns the entities of each text of a request.

        Raises:
          Refusal: the request is refused, or there are too many, or it waits too long.
          ClientDisconnect: the client is gone.
        """
        self.check_ready()
        self._waiting += 1
        self._metrics.waiting.set(self._waiting)
        try:
            body = await request_body.read(request, self._limits)
            return await self._computed(request_body.texts_of(body, self._limits))
        finally:
            self._waiting -= 1
            self._metrics.waiting.set(self._waiting)

    async def _computed(self, texts: list[str]) -> list[list[Entity]]:
        """Returns the entities of each text when they are computed."""
        seconds = self._limits.answer_seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(self._batcher.submit(texts))
        except TimeoutError:
            raise Refusal(
                503,
                f"the answer took more than {seconds:g} seconds: send fewer texts, or try later.",
                {"Retry-After": str(math.ceil(seconds / 10))},
            ) from None


def make(
    model: Callable[[list[str]], list], limits: RequestLimits
) -> tuple[fastapi.FastAPI, Batcher]:
    """Makes the application that serves a model over HTTP.

    Args:
      model: returns the list of `Entity` for each text of a list, such as a `tfbio.load`ed one.
      limits: of sizes, requests and time.

    Returns:
      The application, and the `Batcher` whose thread computes, which is to be closed after it.
    """
    metrics = Metrics()
    batcher = Batcher(model, metrics.batch_texts.observe)
    # FastAPI's pages of documentation load scripts from elsewhere.
    app = fastapi.FastAPI(
        title="tfbio",
        version=tfbio.__version__,
        description="Entities in biomedical texts.",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Observed, metrics=metrics, paths=_PATHS)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _failed)
    _add_routes(app, _Service(batcher, limits, metrics), limits, metrics)
    return app, batcher


def _add_routes(
    app: fastapi.FastAPI, service: _Service, limits: RequestLimits, metrics: Metrics
) -> None:
    """Adds the paths to an application."""
    body = {"application/json": {"schema": request_body.schema(limits)}}

    @app.post(
        "/annotate",
        summary="Find the entities of texts",
        response_model=Annotations,
        responses=_problems(*_PROBLEMS),
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def annotate(request: Request) -> Response:
        found = await service.annotate(request)
        rows = [[dataclasses.asdict(entity) for entity in entities] for entities in found]
        return JSONResponse({"entities": rows})

    @app.get("/health/live", summary="Say that the server answers", response_model=Health)
    async def live() -> Response:
        return JSONResponse({"status": "live"})

    @app.get(
        "/health/ready",
        summary="Say whether another request would be computed",
        response_model=Health,
        responses=_problems(503),
    )
    async def ready() -> Response:
        service.check_ready()
        return JSONResponse({"status": "ready"})

    @app.get(
        "/metrics",
        summary="Give metrics to Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def give_metrics() -> Response:
        return Response(metrics.text(), headers={"Content-Type": metrics.content_type})


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns what the schema says of answers with some statuses."""
    return {status: {"model": Problem, "description": _PROBLEMS[status]} for status in statuses}


def _refused(request: Request, error: Refusal) -> Response:
    """Returns the answer to a request that is refused."""
    return JSONResponse({"error": error.sentence}, error.status, error.headers)


def _not_there(request: Request, error: HTTPException) -> Response:
    """Returns the answer for a path that is not there, or a method that it does not take."""
    path = request.url.path
    if error.status_code == 405:
        sentence = f"{path} takes {_PATHS[path]} only."
    else:
        taken = ", ".join(f"{method} {path}" for path, method in _PATHS.items())
        sentence = f"there is no {messages.cut(path, 100)}: there are {taken}."
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Returns the answer that nobody reads: the metrics count it."""
    return JSONResponse({"error": "the client closed the connection."}, 400)


def _failed(request: Request, error: Exception) -> Response:
    """Returns the answer to a request on which tfbio failed; the server prints the traceback."""
    return JSONResponse({"error": "the model failed on this request: see the server's log."}, 500)
