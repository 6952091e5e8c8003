"""What the stages share: reuse of finished work, an interrupted run's working folder, and Beam.

A stage writes into its output folder. While it runs, `.work/` in that folder holds the settings
and one small file for each finished step; a run that finds a `.work/` with its own settings goes
on from there, and any other starts afresh. The manifest comes last, then `.work/` goes.
"""

from __future__ import annotations

import difflib
import gc
import json
import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from data_prep.running import left_out
from tfbio.base import cli, ctrl_c, storage
from tfbio.base.manifests import MANIFEST, Manifest, load_manifest, verify, write_manifest
from tfbio.base.shards import DataError, Shard

if TYPE_CHECKING:
    import apache_beam as beam

WORK = ".work"

# What the stages call their shards.
_SHARD = re.compile(r"(documents|train|heldout)-\d{5}(-of)?-\d{5}\.tfrecord")


def define_common_flags(runs_beam: bool = True) -> None:
    """Defines the flags that mean the same in every stage."""
    flags.DEFINE_bool("overwrite", False, "Replace finished output that has other settings.")
    if runs_beam:
        flags.DEFINE_integer(
            "workers", 0, "Worker processes of the local runner; 0: one a core.", lower_bound=0
        )
        flags.DEFINE_string(
            "runner",
            "local",
            "Where to run: local, or a Beam runner such as FlinkRunner, SparkRunner, "
            "DataflowRunner or PortableRunner, followed by Beam's own flags.",
        )


def leave_beam_flags(argv: list[str]) -> list[str]:
    """absl's flags parser for commands that hand flags they do not know on to Beam.

    One that Beam does not know either ends the process here, before anything is reused or removed.
    """
    rest = flags.FLAGS(argv, known_only=True)
    if flags.FLAGS.runner == "local":
        _check_flags(rest[1:])
    else:
        _check_runner(flags.FLAGS.runner)
    return rest


def say(message: str) -> None:
    """Prints a line for the user at once."""
    print(message, flush=True)


# --- Finished and interrupted work -------------------------------------------------------------


def finished(
    manifest_path: str | os.PathLike, kind: str, settings: dict[str, Any], overwrite: bool
) -> Manifest | None:
    """The manifest of an earlier run with the same settings, or None if there is work to do.

    Raises:
      DataError: there is finished output with other settings, or some of it is damaged; or, also
        with `overwrite`, of another stage.
    """
    path = storage.at(manifest_path)
    if not path.exists():
        return None
    if overwrite:
        found = kind
        with suppress(OSError, ValueError, AttributeError, RecursionError):  # it is replaced
            found = json.loads(path.read_text(encoding="utf-8")).get("kind", kind)
        if found != kind:
            raise DataError(
                f"{path.parent} holds {found}, which {kind} do not replace: give another --output."
            )
        return None
    manifest = load_manifest(path, kind)
    for name, value in _as_json(settings).items():
        before = manifest.settings.get(name)
        if before != value:
            raise DataError(
                f"{path.parent} holds {kind} made with {name}={_brief(before)}, not "
                f"{_brief(value)}: add --overwrite to replace them, or give another --output."
            )
    verify(path.parent, manifest)
    if path.name == MANIFEST:
        # The run may have been killed after its last word.
        _remove_leftovers(path.parent)
    return manifest


def open_work(folder: str | os.PathLike, settings: dict[str, Any], overwrite: bool) -> Path:
    """The working folder of a stage: an interrupted run's with the same settings, or a new one.

    A new one begins with the removal of what an earlier run left: its manifest first, so that
    the folder never looks finished with another run's shards in it.
    """
    folder = storage.at(folder)
    work = folder / WORK
    text = json.dumps(_as_json(settings), sort_keys=True)
    try:
        replaced = overwrite and (folder / MANIFEST).exists()
        resumes = not replaced and (work / "settings.json").read_text(encoding="utf-8") == text
    except OSError:
        resumes = False
    try:
        if not resumes:
            (folder / MANIFEST).unlink(missing_ok=True)
            for shard in folder.iterdir() if folder.is_dir() else ():
                if _SHARD.fullmatch(shard.name) or shard.name == left_out.FILE:
                    shard.unlink()
            storage.remove_folder(work)
            work.mkdir(parents=True)
            storage.write_text(work / "settings.json", text)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {storage.reason(error)}.") from error
    return work


def close_work(folder: str | os.PathLike, manifest: Manifest | None) -> None:
    """Ends a stage: writes its manifest (None: it failed), and removes the working folder."""
    folder = storage.at(folder)
    if manifest is not None:
        write_manifest(folder / MANIFEST, manifest)
    _remove_leftovers(folder)
    if manifest is None and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_leftovers(folder: Path) -> None:
    for pattern in ("*.tfrecord.*.tmp", "*.json.*.tmp", "*.jsonl.*.tmp"):
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)
    storage.remove_folder(folder / WORK)


def write_step(work: str | os.PathLike, name: str, content: dict[str, Any]) -> None:
    """Notes in the working folder that a step is finished, and what it counted."""
    storage.write_text(storage.at(work, f"{name}.json"), json.dumps(content, sort_keys=True))


def read_step(work: str | os.PathLike, name: str) -> dict[str, Any] | None:
    """The note of one step, or None if it is not finished."""
    try:
        return json.loads(storage.at(work, f"{name}.json").read_text(encoding="utf-8"))
    except OSError:
        return None


def read_steps(work: str | os.PathLike, prefix: str) -> list[dict[str, Any]]:
    """The notes of all finished steps whose name begins with `prefix`, in order of name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in _steps(work, prefix)]


def shard_is_done(folder: str | os.PathLike, shard_file: str) -> bool:
    """Whether an interrupted run already finished a shard, which is still as it wrote it.

    Where the shard was noted without a hash, nothing had to be written.
    """
    try:
        written = Shard(**read_step(storage.at(folder, WORK), shard_file)["shard"]).sha256
        return not written or storage.sha256_of(storage.at(folder, shard_file)) == written
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _steps(work: str | os.PathLike, prefix: str) -> list[Path]:
    return sorted(storage.at(work).glob(f"{prefix}*.json"))


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Looks for cycles of objects once for a million new ones, not once for 700.

    Parts of texts are many small objects and hardly any cycles: the search took from 6 % (making
    documents) to a quarter (making examples) of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


# --- Beam --------------------------------------------------------------------------------------


def run(
    build: Callable[[beam.Pipeline], None],
    runner: str,
    workers: int,
    beam_args: Sequence[str],
    work: Path,
    steps: dict[str, int | str],
) -> None:
    """Runs a Beam pipeline to its end, showing progress.

    Args:
      build: adds the transforms to the pipeline.
      runner: "local" (Beam's in-process runner with `workers` processes), or a Beam runner.
      workers: processes of the local runner; 0 means one a core.
      beam_args: flags for Beam.
      work: the working folder, in which steps note that they are finished.
      steps: how many steps there will be, by the prefix of their names; a pattern of the working
        folder's files where their number is only known once other steps are done.

    Raises:
      UserError: a flag in `beam_args` that Beam does not know either.
    """
    _calm(quiet=runner == "local")
    import apache_beam as beam

    args = list(beam_args)
    if runner == "local":
        _check_flags(beam_args)
        workers = workers or len(os.sched_getaffinity(0))
        args.append(f"--direct_num_workers={workers}")
        engine = _local_runner(workers)
    else:
        args.append(f"--runner={runner}")
        engine = None
    options = beam.options.pipeline_options.PipelineOptions(args)
    result = None
    with _progress(work, steps), _deaths_of_workers() as deaths, _ctrl_c(runner, deaths):
        try:
            pipeline = beam.Pipeline(runner=engine, options=options)
            build(pipeline)
            result = pipeline.run()
            result.wait_until_finish()
        except BaseException as error:
            if deaths:
                raise cli.UserError(
                    f"a worker process died ({deaths[0]}; -9 says that memory ran out): run the "
                    "same command again, perhaps with fewer --workers; it continues."
                ) from error
            if result is not None:
                # The job does not end with this process, and would write beside the next run's.
                with suppress(Exception):
                    result.cancel()
            if runner == "local" and (refused := _of_system(error)):
                raise refused from error
            if runner != "local" and isinstance(error, RuntimeError):
                raise cli.UserError(
                    f"the job on {runner} failed: {_last_line(error)}: see its logs, and run the "
                    "same command again; it continues."
                ) from error
            raise


def _of_system(error: BaseException) -> OSError | None:
    """Finds an operating system's refusal in the text of a traceback, which Beam raises."""
    line = r"^\w+Error: \[Errno (\d+)\] ([^:\n]+): '([^'\n]+)'"
    found = re.findall(line, str(error), re.MULTILINE)
    if not isinstance(error, RuntimeError) or not found:
        return None
    number, reason, path = found[-1]
    return OSError(int(number), reason, path)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _brief(lines[-1]).rstrip(".") if lines else type(error).__name__


@contextmanager
def _deaths_of_workers() -> Iterator[list[BaseException]]:
    """Interrupts the main thread when a local worker process dies: Beam would wait for ever.

    Beam only raises in the thread that waits for the process (local_job_service.py,
    SubprocessSdkWorker.run), and goes on waiting for what the process would have sent.
    """
    import grpc

    deaths: list[BaseException] = []
    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is not None and arguments.thread.name == "run_worker":
            if not deaths:
                deaths.append(arguments.exc_value)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        elif not deaths and not isinstance(arguments.exc_value, grpc.RpcError):
            # Such an error is that of a thread which reads what the dead process would have sent.
            before(arguments)

    threading.excepthook = hook
    try:
        yield deaths
    finally:
        threading.excepthook = before


@contextmanager
def _ctrl_c(runner: str, deaths: list[BaseException]) -> Iterator[None]:
    """Lets Ctrl-C end the command and its workers where they are.

    Beam would wait, for minutes or for ever, for workers that are only starting. What is not
    finished is made again, as after SIGKILL. The job of another runner is cancelled, see `run`.
    """

    def end(*_) -> None:
        if deaths:
            raise KeyboardInterrupt
        if before is signal.SIG_IGN:  # as a shell starts what it does not wait for
            return
        for children in Path("/proc/self/task").glob("*/children"):
            for worker in children.read_text().split():
                os.kill(int(worker), signal.SIGKILL)
        if sys.stderr.isatty():
            print(file=sys.stderr)  # after the bar
        os._exit(ctrl_c.interrupted())

    if runner != "local":
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _local_runner(workers: int) -> beam.runners.PipelineRunner:
    """Beam's in-process runner, with worker processes whose chatter goes nowhere.

    What fails is raised. In a file on a disk that is full, nobody could say so: a worker whose
    stderr cannot be written answers no more, and Beam waits for it for ever.

    This is what `--runner=FnApiRunner --direct_running_mode=multi_processing` does, but for the
    chatter. DirectRunner would not do: it may hand over to a runner that it has to download.
    """
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    if workers == 1:
        return FnApiRunner()
    command = (
        # Ctrl-C is for the command, which ends its workers.
        "trap '' INT; "
        f"PYTHONPATH={shlex.quote(os.pathsep.join(filter(None, sys.path)))} "
        f"exec {shlex.quote(sys.executable)} -m apache_beam.runners.worker.sdk_worker_main "
        "2>/dev/null"
    )
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(command))


def _calm(quiet: bool) -> None:
    """One thread a worker process for matrix products, and no chatter of libraries."""
    if quiet:
        logging.getLogger().setLevel(logging.ERROR)
        # What fails is raised; Beam also logs what a dead worker's connections say, at length.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def _check_runner(name: str) -> None:
    """Refuses a runner that Beam does not know, or whose packages are not installed."""
    from apache_beam.runners.runner import create_runner

    try:
        create_runner(name)
    except (ImportError, ValueError, AttributeError, TypeError) as error:
        raise cli.UsageError(
            f"--runner={name}: expected local or a runner that Beam has here, such as FlinkRunner, "
            f"SparkRunner or PortableRunner ({_brief(str(error).splitlines()[0])})."
        ) from error


def _check_flags(args: Sequence[str]) -> None:
    """Refuses flags that neither the command nor Beam knows; Beam would only log a warning.

    A job server may know more than Beam, so this is for the local runner.
    """
    if not args:
        return
    from apache_beam.options import pipeline_options

    parser = pipeline_options._BeamArgumentParser(allow_abbrev=False)
    for group in pipeline_options.PipelineOptions.__subclasses__():
        group._add_argparse_args(parser)
    unknown = parser.parse_known_args(args)[1]
    if unknown:
        known = [f"--{name}" for name in flags.FLAGS] + list(parser._option_string_actions)
        near = difflib.get_close_matches(unknown[0].split("=")[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else "see --help."
        raise cli.UsageError(f"neither this command nor Beam knows {unknown[0]!r}: {hint}")


@contextmanager
def _progress(work: Path, steps: dict[str, int | str]) -> Iterator[None]:
    """Watches the working folder from a thread: a bar on a terminal, else a line now and then."""
    from tqdm import tqdm

    stop = threading.Event()
    terminal = sys.stderr.isatty()
    bar = tqdm(disable=not terminal, unit="step")
    said = ""

    def show() -> None:
        nonlocal said
        done = {prefix: len(_steps(work, prefix)) for prefix in steps}
        totals = {
            prefix: len(list(work.glob(total))) if isinstance(total, str) else total
            for prefix, total in steps.items()
        }
        text = ", ".join(f"{prefix} {n}/{totals[prefix]}" for prefix, n in done.items())
        bar.total = sum(totals.values())
        bar.set_description(text, refresh=False)
        bar.update(sum(done.values()) - bar.n)
        if not terminal and text != said:
            print(f"progress: {text}", file=sys.stderr, flush=True)
        said = text

    def watch() -> None:
        while not stop.wait(0.5 if terminal else 10):
            show()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
        show()
    finally:
        stop.set()
        thread.join()
        bar.close()
