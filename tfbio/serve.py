r"""Serves a fine-tuned model over HTTP.

  python -m tfbio.serve --model=out/bc5cdr_chem --port=8000

  curl http://127.0.0.1:8000/annotate -H "Content-Type: application/json" \
      -d '{"texts": ["Imatinib inhibits BCR-ABL."]}'

The answer has the entities of each text, with text, label, start, end and score, as
`tfbio.load("out/bc5cdr_chem")(texts)` gives them:

  {"entities": [[{"text": "Imatinib", "label": "Chemical", "start": 0, "end": 8, "score": 0.99}]]}

A model that labels texts or pairs is served at /label, and one that answers questions at /answer:

  {"texts": ["..."]}, {"pairs": [["...", "..."]]} -> {"labels": [{"label": ..., ...}]}
  {"questions": [{"question": "...", "context": "..."}]} -> {"answers": [{"text": ..., ...}]}

GET /health/live and /health/ready say how the server is, /metrics has metrics for Prometheus, and
/openapi.json the schema. Requests that come at the same time are computed together. The --max and
--..._seconds flags limit what a request may have and how long it may take; a request beyond them,
or a wrong one, is answered with a status from 400 and a sentence, {"error": "..."}.

Without --host only programs on this machine can connect. The server has no passwords and no
encryption: put a proxy before it (docs/serving.md). Ctrl-C and SIGTERM end it when the requests
that have come are answered.

The packages are those of the extra `serve`.
"""

from __future__ import annotations

import dataclasses
import signal
import socket
from typing import TYPE_CHECKING

from absl import flags

from tfbio.base import cli, extras, path_checks
from tfbio.base.errors import UserError
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.runs import prediction_flags
from tfbio.serving.limits import RequestLimits

if TYPE_CHECKING:
    from tfbio.api.loading import Model


def define_flags() -> None:
    """Defines the absl flags of the command that serves a model, and returns nothing.

    They are `--model`, `--set`, `--host`, `--port`, and one for each field of `RequestLimits`.
    """
    flags.DEFINE_string(
        "model",
        None,
        "The --output_dir of a fine-tuning run, whose best trial is taken, one of its trials, or a "
        "fine-tuned model of `transformers`.",
        required=True,
    )
    flags.DEFINE_multi_string(
        "set",
        [],
        "Changes one setting of the model's run, name=value, such as run.precision=float32 or "
        "run.eval_batch_size=8. May be repeated.",
    )
    flags.DEFINE_string(
        "host", "127.0.0.1", "The address to listen on; 0.0.0.0: all, for other machines, too."
    )
    flags.DEFINE_integer(
        "port", 8000, "The port to listen on; 0: any.", lower_bound=0, upper_bound=65_535
    )
    for field in dataclasses.fields(RequestLimits):
        limits = field.metadata["limits"]
        define = flags.DEFINE_integer if type(field.default) is int else flags.DEFINE_float
        define(
            field.name,
            field.default,
            field.metadata["meaning"],
            lower_bound=limits.at_least,
            upper_bound=limits.at_most,
        )


def main(argv: list[str]) -> None:
    """Runs the command `python -m tfbio.serve`, which serves a model until a signal ends it.

    Prints where it listens, and before, if it is not the best, which package splits the sentences
    of a model that finds entities. Returns nothing.

    Args:
      argv: the command line without its flags: the program alone.

    Raises:
      UsageError: there are arguments, or a setting is unknown or out of range.
      UserError: the model is missing or has no head, the port is taken, or a package is not
        installed.
      KeyboardInterrupt: Ctrl-C ended it.
    """
    cli.no_arguments(argv)
    prediction_flags.check_settings(flags.FLAGS["set"].value)
    path_checks.require_checkpoint("model", flags.FLAGS.model, takes_runs=True)
    limits = RequestLimits(
        **{x.name: flags.FLAGS[x.name].value for x in dataclasses.fields(RequestLimits)}
    )
    extras.require("fastapi", "prometheus_client", "uvicorn")
    from tfbio.serving import server

    # Before the model is loaded, which takes seconds.
    with server.open_socket(flags.FLAGS.host, flags.FLAGS.port) as opened:
        ended_by = _serve(opened, limits)
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt("the requests that had come are answered")


def _serve(opened: socket.socket, limits: RequestLimits) -> int | None:
    """Serves the model of --model on a socket, and returns the signal that ended it."""
    from tfbio.api import loading
    from tfbio.runs import predict
    from tfbio.serving import application, endpoints, request_body, server

    path = flags.FLAGS.model
    settings = dict(each.split("=", 1) for each in flags.FLAGS["set"].value)
    model = loading.load(path, settings)
    if model.predictor is None:
        raise UserError(
            f"--model={path} is an encoder without a head for a task: fine-tune it, and give the "
            "--output_dir."
        )
    if model.predicts == "entities":
        predict.tell_splitter()
    endpoint = endpoints.for_model(model.predicts, model.predictor.known.pairs)
    _warm_up(model, request_body.example(endpoint.fields[0]))
    app, batcher = application.make(model, limits, endpoint)
    served = server.make(app, limits)
    served.serve_on(opened)
    batcher.close()
    return served.ended_by


def _warm_up(model: Model, example: str | tuple[str, str]) -> None:
    """Calls the model once, as the first call takes seconds."""
    try:
        model(example)
    except TaskFileError:  # of a model that reads two marked entities
        model("[S1] Imatinib [E1] inhibits [S2] BCR-ABL [E2].")


if __name__ == "__main__":
    cli.run(main, define_flags)
