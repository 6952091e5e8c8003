"""The worker processes of a Beam pipeline on this machine: their start, their deaths and Ctrl-C.

Beam's own runner waits for ever where a worker dies, and for one that is still starting when the
pipeline fails. `watched` lets neither happen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tfbio.base import ctrl_c, signals

if TYPE_CHECKING:
    import apache_beam as beam


@dataclasses.dataclass
class Workers:
    """Holds what is known of the worker processes of a pipeline.

    Attributes:
      deaths: the error of the first process that died; none or one.
      is_death_new: True from a death until the main thread has been interrupted for it.
      are_ending: True when the workers have been told to end, so that they may.
    """

    deaths: list[BaseException] = dataclasses.field(default_factory=list)
    is_death_new: bool = False
    are_ending: bool = False


def runner(workers: int) -> beam.runners.PipelineRunner:
    """Returns Beam's in-process runner, with worker processes whose stderr is thrown away.

    Failures are raised, so nothing is lost. In a file their stderr could fill the disk, and a
    worker whose stderr cannot be written answers no more, while Beam waits for it for ever.

    This is `--runner=FnApiRunner --direct_running_mode=multi_processing` without the stderr.
    DirectRunner would not do: it may hand over to a runner that it has to download.

    Args:
      workers: the number of processes; with 1 it is this process.
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


@contextlib.contextmanager
def watched(workers: Workers, is_local: bool) -> Iterator[None]:
    """Ends a pipeline that runs in a `with` block if a worker process dies, or at Ctrl-C.

    Threads that lose a connection print no traceback.

    Args:
      workers: the workers of the pipeline's `runner`; gets the first death.
      is_local: False where another runner has the workers, which then end nothing here.

    Yields:
      Nothing.

    Raises:
      KeyboardInterrupt: a process died, see `workers.deaths`. After Ctrl-C this process ends.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_deaths_told(workers))
        if is_local:
            _end_late_workers(workers)
            stack.enter_context(_ctrl_c(workers))
        yield


@contextlib.contextmanager
def _deaths_told(workers: Workers) -> Iterator[None]:
    """Interrupts the main thread when a worker process dies: Beam would wait for ever.

    Beam only raises in the thread that waits for the process (local_job_service.py,
    SubprocessSdkWorker.run), and goes on waiting for messages of the process.
    """
    import grpc

    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        error, thread, main = arguments.exc_value, arguments.thread, threading.main_thread().ident
        if thread is not None and thread.name == "run_worker":
            if not workers.deaths and not workers.are_ending:
                assert error is not None and main is not None
                workers.deaths.append(error)
                workers.is_death_new = True
                signal.pthread_kill(main, signal.SIGINT)
        elif not workers.deaths and not isinstance(error, grpc.RpcError):
            # An RpcError after a death is that of a thread that reads from the dead process.
            before(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


@contextlib.contextmanager
def _ctrl_c(workers: Workers) -> Iterator[None]:
    """Lets Ctrl-C end the command and its workers where they are.

    Beam would wait, for minutes or for ever, for workers that are only starting. Unfinished parts
    are made again, as after SIGKILL.
    """
    # A shell starts background processes so.
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def end(*_: object) -> None:
        if workers.is_death_new:
            workers.is_death_new = False
            if not workers.are_ending:  # else Beam waits for the ends of processes alone
                raise KeyboardInterrupt
            return
        if is_ignored:
            return
        workers.are_ending = True
        _kill_children()
        if sys.stderr.isatty():
            print(file=sys.stderr)  # after the bar
        os._exit(ctrl_c.interrupted())

    with signals.handling({signal.SIGINT: end}):
        yield


def _kill_children() -> None:
    for children in Path("/proc/self/task").glob("*/children"):
        pids: list[str] = []
        with contextlib.suppress(OSError):  # the thread has ended
            pids = children.read_text().split()
        for pid in pids:
            with contextlib.suppress(OSError):  # the process has ended
                os.kill(int(pid), signal.SIGKILL)


def _end_late_workers(workers: Workers) -> None:
    """Lets a worker end that connects only after the pipeline has failed.

    When a step has failed, Beam tells the workers to end that have connected by then, and waits for
    all: for ever, where one was still starting (worker_handlers.py, ControlConnection.close).
    """
    from apache_beam.portability import python_urns
    from apache_beam.runners.portability.fn_api_runner import worker_handlers
    from apache_beam.utils.sentinel import Sentinel

    class Worker(worker_handlers.SubprocessSdkWorkerHandler):
        def close(self) -> None:
            workers.are_ending = True
            self.control_conn.push(Sentinel.sentinel)  # the worker ends when it reads this
            super().close()

    register = worker_handlers.WorkerHandler.register_environment
    register(python_urns.SUBPROCESS_SDK, bytes)(Worker)
