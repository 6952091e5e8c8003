"""The HTTP interface to a model: its endpoint, such as /annotate, health and metrics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import fastapi
import pydantic
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

import tfbio
from tfbio.base import messages
from tfbio.base.errors import UserError
from tfbio.serving import endpoints, request_body
from tfbio.serving.batching import Batcher
from tfbio.serving.endpoints import Endpoint
from tfbio.serving.limits import RequestLimits
from tfbio.serving.monitoring import Metrics, Observed
from tfbio.serving.request_body import Refusal

# Those beside the endpoint, each with the method that it takes.
_PATHS = {
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


class Problem(pydantic.BaseModel):
    """The answer to a request that is refused or failed."""

    error: str = pydantic.Field(description="Says what is wrong, and what was expected.")


class Health(pydantic.BaseModel):
    """The answer to a question for the server's health."""

    status: str = pydantic.Field(description='"live" or "ready".')


class _Service:
    """Answers requests with a model's thread, of so many at a time as the limits allow."""

    def __init__(
        self, endpoint: Endpoint, batcher: Batcher, limits: RequestLimits, metrics: Metrics
    ):
        self._endpoint, self._batcher = endpoint, batcher
        self._limits, self._metrics = limits, metrics
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

    async def answer(self, request: Request) -> dict[str, Any]:
        """Returns the answer to a request, for JSON.

        Raises:
          Refusal: the request is refused, or there are too many, or it waits too long.
          ClientDisconnect: the client is gone.
        """
        self.check_ready()
        self._waiting += 1
        self._metrics.waiting.set(self._waiting)
        try:
            body = await request_body.read(request, self._limits)
            inputs = request_body.inputs_of(body, self._limits, self._endpoint.fields)
            return self._endpoint.content(await self._computed(request, inputs))
        finally:
            self._waiting -= 1
            self._metrics.waiting.set(self._waiting)

    async def _computed(self, request: Request, inputs: list) -> list:
        """Returns the result for each input when they are computed, unless the client goes."""
        seconds = self._limits.answer_seconds
        job = asyncio.wrap_future(self._batcher.submit(inputs))
        gone = asyncio.create_task(_disconnected(request))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((job, gone), return_when=asyncio.FIRST_COMPLETED)
            if not job.done():
                raise ClientDisconnect
            return job.result()
        except UserError as error:  # as for a text without the entities that the model reads
            raise Refusal(422, str(error)) from None
        except TimeoutError:
            raise Refusal(
                503,
                f"the answer took more than {seconds:g} seconds: send fewer texts, or try later.",
                {"Retry-After": str(math.ceil(seconds / 10))},
            ) from None
        finally:
            # A job that waits is then left out of its batch.
            job.cancel()
            gone.cancel()


async def _disconnected(request: Request) -> None:
    """Returns when the client of a request, whose body has been read, is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make(
    model: Callable[[list], list], limits: RequestLimits, endpoint: Endpoint = endpoints.ANNOTATE
) -> tuple[fastapi.FastAPI, Batcher]:
    """Makes the application that serves a model over HTTP.

    Args:
      model: returns the result for each input of a list, such as a `tfbio.load`ed one: by default
        the list of `Entity` for each text.
      limits: of sizes, requests and time.
      endpoint: the path for the model's inputs, see `endpoints.for_model`.

    Returns:
      The application, and the `Batcher` whose thread computes, which is to be closed after it.
    """
    metrics = Metrics()
    batcher = Batcher(model, metrics.batch_texts.observe)
    # FastAPI's pages of documentation load scripts from elsewhere.
    app = fastapi.FastAPI(
        title="tfbio",
        version=tfbio.__version__,
        description=f"{endpoint.summary}.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # "/annotate/" is not there, as any other path
    )
    app.state.paths = {endpoint.path: "POST", **_PATHS}
    app.add_middleware(Observed, metrics=metrics, paths=app.state.paths)
    app.exception_handler(Refusal)(_refused)
    app.exception_handler(HTTPException)(_not_there)
    app.exception_handler(ClientDisconnect)(_gone)
    app.exception_handler(Exception)(_failed)
    service = _Service(endpoint, batcher, limits, metrics)
    _add_endpoint(app, endpoint, service, limits)
    _add_others(app, service, metrics)
    return app, batcher


def _add_endpoint(
    app: fastapi.FastAPI, endpoint: Endpoint, service: _Service, limits: RequestLimits
) -> None:
    """Adds the path of the model to an application."""
    schema = request_body.schema(limits, endpoint.fields)
    body = {"application/json": {"schema": schema}}

    @app.post(
        endpoint.path,
        summary=endpoint.summary,
        response_model=endpoint.answer,
        responses=_problems(*_PROBLEMS),
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def answer(request: Request) -> Response:
        return JSONResponse(await service.answer(request))


def _add_others(app: fastapi.FastAPI, service: _Service, metrics: Metrics) -> None:
    """Adds the paths about the server to an application."""

    # HEAD, which some that watch a server ask with, is not in the schema: it is GET without a body.
    @app.head("/health/live", include_in_schema=False)
    @app.get("/health/live", summary="Say that the server answers", response_model=Health)
    async def live() -> Response:
        return JSONResponse({"status": "live"})

    @app.head("/health/ready", include_in_schema=False)
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
        sentence = f"{path} takes {request.app.state.paths[path]} only."
    else:
        taken = ", ".join(f"{method} {path}" for path, method in request.app.state.paths.items())
        sentence = f"there is no {messages.cut(path, 100)}: there are {taken}."
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Returns the answer that nobody reads: the metrics count it."""
    return JSONResponse({"error": "the client closed the connection."}, 400)


def _failed(request: Request, error: Exception) -> Response:
    """Returns the answer to a request on which tfbio failed; the server prints the traceback."""
    return JSONResponse({"error": "the model failed on this request: see the server's log."}, 500)
