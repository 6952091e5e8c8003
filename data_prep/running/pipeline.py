"""Runs a Beam pipeline: on this machine with worker processes, or on another runner.

The two stages that read large inputs, `data_prep.documents` and `data_prep.examples`, call `run`,
and so does the annotation of many files on a cluster.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import logging
import os
import pkgutil
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from absl import flags

from data_prep.running import local_workers
from tfbio.base import errors, messages

if TYPE_CHECKING:
    import apache_beam as beam


@dataclasses.dataclass(frozen=True)
class Runner:
    """The place where a Beam pipeline runs; the output is the same everywhere.

    Attributes:
      name: "local", Beam's in-process runner with worker processes; or a Beam runner, such as
        "FlinkRunner".
      workers: the number of worker processes of the local runner; 0: one a core.
      beam_args: flags for Beam, as they stand on the command line.
    """

    name: str = "local"
    workers: int = 0
    beam_args: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """True if the Beam pipeline runs in worker processes on this machine, else False."""
        return self.name == "local"


LOCAL = Runner()

# What Beam adds to the message of an error in a step.
_STEP = re.compile(r" \[while running '[^\n]*'\]$")


def check_reachable(runner: Runner) -> None:
    """Checks that a job service answers at `--job_endpoint`, if it is given; returns nothing.

    Call it before anything is replaced. It waits for the service as long as Beam does.

    Args:
      runner: the place where a pipeline will run.

    Raises:
      UserError: nothing answers there, or a flag in `beam_args` is one that Beam does not know.
    """
    if runner.is_local:
        return
    import grpc
    from apache_beam.options.pipeline_options import PortableOptions

    options = _engine(runner)[1].view_as(PortableOptions)
    if options.job_endpoint in (None, "", "embed"):  # a service that Beam starts
        return
    with grpc.insecure_channel(options.job_endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=options.job_server_timeout)
        except grpc.FutureTimeoutError as error:
            raise errors.UserError(
                f"--job_endpoint={options.job_endpoint}: no job service has answered there within "
                f"{options.job_server_timeout} seconds: start it, or give its address."
            ) from error


def run(
    build: Callable[[beam.Pipeline], None],
    runner: Runner,
    shown: contextlib.AbstractContextManager[None],
) -> None:
    """Runs a Beam pipeline to its end, and shows its progress; returns nothing.

    Args:
      build: a function that adds the transforms to the pipeline that it is given.
      runner: the place where it runs.
      shown: the context that shows the progress while the pipeline runs, such as `progress.shown`.

    Raises:
      UserError: a flag in `beam_args` that Beam does not know either; a step found a mistake of the
        user's; a worker process died; the job on another runner failed.
      OSError: the operating system refused a worker something, such as room on the disk.
      RuntimeError: a step failed otherwise on the local runner, as Beam tells it.
    """
    _silence_libraries(runner.is_local)
    engine, options = _engine(runner)
    result = None
    workers = local_workers.Workers()
    with shown, local_workers.watched(workers, runner.is_local):
        try:
            result = _start(build, engine, options)
            result.wait_until_finish()
        except BaseException as error:
            if not workers.deaths and result is not None:
                # The job does not end with this process, and would write beside the next run's.
                with contextlib.suppress(Exception):
                    result.cancel()
            has_begun = result is not None
            if (mistake := _mistake(error, runner, workers.deaths, has_begun)) is not None:
                raise mistake from error
            raise


def _engine(
    runner: Runner,
) -> tuple[beam.runners.PipelineRunner | None, beam.options.pipeline_options.PipelineOptions]:
    """Returns Beam's runner, None where it is named among the options, and Beam's options."""
    import apache_beam as beam
    import joblib

    engine, args = None, list(runner.beam_args)
    if runner.is_local:
        check_flags(args)
        workers = runner.workers or joblib.cpu_count()
        args.append(f"--direct_num_workers={workers}")
        engine = local_workers.runner(workers)
    else:
        args.append(f"--runner={runner.name}")
    return engine, beam.options.pipeline_options.PipelineOptions(args)


def _start(
    build: Callable[[beam.Pipeline], None],
    engine: beam.runners.PipelineRunner | None,
    options: beam.options.pipeline_options.PipelineOptions,
) -> beam.runners.runner.PipelineResult:
    """Starts the pipeline; the local runner returns when it has ended."""
    import apache_beam as beam

    pipeline = beam.Pipeline(runner=engine, options=options)
    build(pipeline)
    return pipeline.run()


def _mistake(
    error: BaseException,
    runner: Runner,
    deaths: Sequence[BaseException],
    has_begun: bool = False,
) -> Exception | None:
    """Returns the error that tells the user what to do, or None if `error` is all that is known.

    Args:
      error: the error that ended the run.
      runner: the place where the pipeline ran.
      deaths: the errors of local worker processes that died.
      has_begun: True if the job had been submitted to the runner.
    """
    if deaths:
        return errors.UserError(
            f"a worker process died ({deaths[0]}; -9 says that memory ran out): run the "
            "same command again, perhaps with fewer --workers; it continues."
        )
    if runner.is_local:
        return _users_mistake(error) or _refusal(error)
    # A runner has errors of its own: Dataflow's of a failed job is a plain `Exception`.
    is_jobs = has_begun and isinstance(error, Exception) and not isinstance(error, errors.UserError)
    if not is_jobs and not isinstance(error, RuntimeError) and not _is_of_grpc(error):
        return None
    return errors.UserError(
        f"the job on {runner.name} failed: {_last_line(error)}: see its logs, and run the "
        "same command again; it continues."
    )


def _is_of_grpc(error: BaseException) -> bool:
    """Returns True for an error of the connection with another runner, which is no RuntimeError."""
    import grpc

    return isinstance(error, (grpc.RpcError, grpc.FutureTimeoutError))


def _users_mistake(error: BaseException) -> errors.UserError | None:
    """Returns the `UserError` that a local step raised, without the name of the step.

    From this process Beam raises the error itself. From a worker process, and where it cannot make
    an error of the same class, it raises a RuntimeError whose text ends with the error's line.
    """
    if isinstance(error, errors.UserError) and _STEP.search(str(error)):
        return type(error)(_STEP.sub("", error.args[0]), *error.args[1:])
    if not isinstance(error, RuntimeError):
        return None
    last = str(error).rstrip().rpartition("\n")[2].removeprefix("RuntimeError: ")
    name, _, sentence = last.partition(": ")
    return errors.UserError(_STEP.sub("", sentence)) if sentence and _is_users(name) else None


def _is_users(name: str) -> bool:
    """Returns True for the full name of a class of `UserError`s, as tracebacks show it."""
    if not re.fullmatch(r"(tfbio|data_prep)(\.\w+)+", name):
        return False
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and issubclass(found, errors.UserError)


def _refusal(error: BaseException) -> OSError | None:
    """Returns an operating system's refusal from the text of a traceback, which Beam raises."""
    if not isinstance(error, RuntimeError):
        return None
    # Of a path with an apostrophe, and no other quotes, Python shows the repr in double quotes.
    path = r"'(?:[^'\\\n]|\\.)*'" r'|"(?:[^"\\\n]|\\.)*"'
    line = rf"^\w+Error: \[Errno (\d+)\] ([^:\n]+): ({path})"
    matches = re.findall(line, str(error), re.MULTILINE)
    if not matches:
        return None
    number, reason, shown = matches[-1]
    return OSError(int(number), reason, ast.literal_eval(shown))


def _last_line(error: BaseException) -> str:
    """Returns the last line of an error's text without its period, or the error's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return messages.cut(lines[-1], 200).rstrip(".") if lines else type(error).__name__


def _silence_libraries(is_local: bool) -> None:
    """Gives each worker process one thread for matrix products, and quiets the libraries.

    Args:
      is_local: also quiet Beam, whose logs the user must see on other runners.
    """
    if is_local:
        logging.getLogger().setLevel(logging.ERROR)
        # Failures are raised; Beam also logs at length that a dead worker's connections broke.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def check_runner(name: str) -> None:
    """Checks that Beam knows a pipeline's runner and has its packages; returns nothing.

    Args:
      name: the name of the runner, such as "FlinkRunner".

    Raises:
      UsageError: Beam does not know the runner, or its packages are not installed.
    """
    from apache_beam.runners.runner import create_runner

    try:
        create_runner(name)
    except (ImportError, ValueError, AttributeError, TypeError) as error:
        raise errors.UsageError(
            f"--runner={name}: expected local or a runner that Beam has here, such as FlinkRunner, "
            f"SparkRunner or PortableRunner ({messages.cut(str(error).splitlines()[0], 200)})."
        ) from error


def check_flags(args: Sequence[str], is_local: bool = True) -> None:
    """Checks that Beam knows a pipeline's flags, of which it would only log a warning.

    It returns nothing.

    Args:
      args: the flags, as they stand on the command line.
      is_local: False for another runner, whose job server may know more than Beam: then only those
        are refused that are nearly a flag of this command.

    Raises:
      UsageError: one is unknown.
    """
    if not args:
        return
    from apache_beam.options import pipeline_options

    parser = pipeline_options._BeamArgumentParser(allow_abbrev=False)
    for group in pipeline_options.PipelineOptions.__subclasses__():
        group._add_argparse_args(parser)
    own = [f"--{name}" for name in flags.FLAGS if len(name) > 1]
    for unknown in parser.parse_known_args(args)[1]:
        name = unknown.split("=")[0]
        if not is_local and not difflib.get_close_matches(name, own, n=1, cutoff=0.8):
            continue
        near = difflib.get_close_matches(name, [*own, *parser._option_string_actions], n=1)
        hint = f"did you mean {near[0]}?" if near else "see --help."
        raise errors.UsageError(f"neither this command nor Beam knows {unknown!r}: {hint}")
