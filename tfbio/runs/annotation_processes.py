"""Annotates files in several processes, each with the model in memory, from one queue.

The processes are spawned, never forked, as TensorFlow's threads do not survive a fork. Each tells
this process of its progress through a pipe of its own, whose end says that it has died.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from data_prep.running import garbage_collection
from tfbio.base import signals
from tfbio.base.errors import UsageError, UserError
from tfbio.runs.annotated_file import AnnotatedFile, Job, ModelFacts, OutOfMemory

if TYPE_CHECKING:
    import tensorflow as tf

    from tfbio.runs.annotator import Annotator


# The libraries that split sentences would start a thread a core for small products.
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Loading(NamedTuple):
    """The arguments with which each process of an annotation loads the model.

    Attributes:
      model: the path of a fine-tuned model, see `predict.predict`.
      overrides: "name=value" each, for settings of the run.
    """

    model: str
    overrides: tuple[str, ...]


class Listener(Protocol):
    """The object that hears of the progress of an annotation, in the process that it began in."""

    def ready(self, facts: ModelFacts) -> str:
        """Hears that a process of the annotation has loaded the model.

        Returns:
          The precision in which all processes are to compute.

        Raises:
          UserError: the model is another one than the folder's.
        """

    def progress(self, job: Job, documents: int) -> None:
        """Hears how many documents of a file are annotated so far; returns nothing."""

    def done(self, job: Job, note: AnnotatedFile, made_before: bool = False) -> None:
        """Hears that a file of the annotation is done; returns nothing.

        Args:
          job: the file.
          note: the note on it.
          made_before: True if an earlier command's job annotated it.
        """

    def died(self, job: Job | None, code: int | None) -> None:
        """Hears that a process died at a file of the annotation, with its exit code.

        Returns nothing.
        """


def in_this_process(
    loading: Loading,
    jobs: Sequence[Job],
    listener: Listener,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
) -> None:
    """Annotates files one after another in this process, and returns nothing.

    Args:
      loading: the model.
      jobs: the files.
      listener: hears of the progress.
      strategy: where to compute; or a function that makes it.

    Raises:
      UserError: the model cannot be loaded, or the listener refuses it.
      OSError: an output cannot be written.
    """
    annotator = _load(loading, listener.ready, strategy)
    for job in jobs:
        listener.done(job, annotator.annotate(job, functools.partial(listener.progress, job)))


def in_processes(
    loading: Loading, jobs: Sequence[Job], listener: Listener, processes: int, threads: int
) -> None:
    """Annotates files in several new processes, which compute on the CPU; returns nothing.

    A process that dies loses its file; the others go on. However this function ends, the processes
    end with it.

    Args:
      loading: the model.
      jobs: the files, which the processes take in this order.
      listener: hears of the progress.
      processes: the number of processes.
      threads: the number of threads with which each computes.

    Raises:
      UserError: the model cannot be loaded, or the listener refuses it.
      OSError: an output cannot be written.
      RuntimeError: a process has failed in another way; the message is its traceback.
      SystemExit: this process was sent SIGTERM.
    """
    queue = collections.deque(jobs)
    workers: list[_Worker] = []
    with _ending_at_sigterm(), contextlib.ExitStack() as block:
        for _ in range(processes):
            with _signals_wait():  # else a process might start, and not be ended
                workers.append(_Worker(loading, threads))
                block.callback(workers[-1].end)
        while workers:
            for ready in multiprocessing.connection.wait([each.pipe for each in workers]):
                worker = next(each for each in workers if each.pipe is ready)
                if not _hear(worker, queue, listener):
                    workers.remove(worker)


class _Worker:
    """A process that annotates files.

    Attributes:
      pipe: the end of its pipe here.
      job: the file that it annotates, or None.
    """

    def __init__(self, loading: Loading, threads: int):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.job: Job | None = None
        arguments = (theirs, loading, threads)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        for name in LIBRARIES:
            os.environ.setdefault(name, "1")
        # Ctrl-C is for this process, which ends the others; there it stays blocked. The tracker
        # would unblock it if it were started with the process.
        resource_tracker.ensure_running()
        with signals.blocked(signal.SIGINT, signal.SIGTERM):
            self._process.start()
        theirs.close()  # so that the pipe ends with the process

    def send(self, message: object) -> None:
        """Sends the process a message; if it has died, the end of its pipe will say so."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(message)

    def next_job(self, queue: collections.deque[Job]) -> bool:
        """Sends the process the next file; returns False if there is none."""
        self.job = queue.popleft() if queue else None
        if self.job is not None:
            self.send(self.job)
        return self.job is not None

    def end(self) -> None:
        """Ends the process, which has nothing to save."""
        self.pipe.close()
        self._process.kill()
        self._process.join()

    def exit_code(self) -> int | None:
        """Waits until the process, whose pipe has ended, has ended too; returns its exit code."""
        self._process.join()
        return self._process.exitcode


def _hear(worker: _Worker, queue: collections.deque[Job], listener: Listener) -> bool:
    """Receives a message of a process; returns False if that has ended, or has nothing to do.

    Raises:
      Exception: that with which the process failed.
    """
    try:
        kind, *content = worker.pipe.recv()
    except (EOFError, OSError):  # the latter if it died within a message
        listener.died(worker.job, worker.exit_code())
        return False
    if kind == "failed":
        raise content[0]
    if kind == "progress":
        assert worker.job is not None
        listener.progress(worker.job, *content)
        return True
    if kind == "loaded":
        worker.send(listener.ready(*content))
        return True
    if kind == "done":
        assert worker.job is not None
        listener.done(worker.job, *content)
    if worker.next_job(queue):
        return True
    worker.end()
    return False


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM take effect after its block.

    Raises:
      KeyboardInterrupt: Ctrl-C came in the block, unless this process ignores it.
      SystemExit: SIGTERM did.
    """
    sent: list[int] = []

    def note(number: int, _: object) -> None:
        sent.append(number)

    handlers: dict[int, Callable[[int, object], None]] = {}
    if threading.current_thread() is threading.main_thread():
        handlers[signal.SIGTERM] = note
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            handlers[signal.SIGINT] = note
    with signals.handling(handlers):
        yield
    if signal.SIGINT in sent:
        raise KeyboardInterrupt
    if sent:
        raise SystemExit(128 + signal.SIGTERM)


@contextlib.contextmanager
def _ending_at_sigterm() -> Iterator[None]:
    """Ends this process at SIGTERM as at an error, so that the other processes end as well."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    in_main = threading.current_thread() is threading.main_thread()
    with signals.handling({signal.SIGTERM: end} if in_main else {}):
        yield


# --- In the new processes ------------------------------------------------------------------------


@garbage_collection.rare_garbage_collection()
def _work(pipe: multiprocessing.connection.Connection, loading: Loading, threads: int) -> None:
    """Annotates the files that come through a pipe, until it ends."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # TensorFlow reads them when it is imported.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
    # Of several processes each would take all memory of a GPU.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(*message: object) -> None:
        with _ending_with_pipe():
            pipe.send(message)

    def receive() -> Any:
        with _ending_with_pipe():
            return pipe.recv()

    def agree(facts: ModelFacts) -> str:
        send("loaded", facts)
        return receive()

    try:
        annotator = _load(loading, agree, _one_cpu)
        send("ready")
        while True:
            note = annotator.annotate(receive(), functools.partial(send, "progress"))
            send("done", note)
    except (MemoryError, OutOfMemory):
        # As the system ends it where memory runs out later: the other processes go on.
        os.kill(os.getpid(), signal.SIGKILL)
    except BaseException as error:
        with contextlib.suppress(EOFError, OSError):
            pipe.send(("failed", _portable(error)))
            pipe.recv()  # the other side ends this process
        os._exit(1)


@contextlib.contextmanager
def _ending_with_pipe() -> Iterator[None]:
    """Ends this process, which has nothing left to do, if the pipe has ended that its block uses.

    Loading and annotating stay outside: their errors may be of these classes, too.
    """
    try:
        yield
    except (EOFError, BrokenPipeError):
        os._exit(0)


def _end_with_parent() -> None:
    """Ends this process when the one that started it has ended, however that was."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _one_cpu() -> tf.distribute.Strategy:
    from tfbio.training import distribution

    return distribution.make_strategy(strategy="one_device")


def _load(
    loading: Loading,
    agree: Callable[[ModelFacts], str],
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
) -> Annotator:
    """Loads the model, in the precision that `agree` says for the model that was loaded first."""
    from tfbio.runs.annotator import Annotator

    strategy = strategy() if callable(strategy) else strategy
    annotator = Annotator(loading.model, strategy, loading.overrides)
    precision = agree(annotator.facts)
    if precision != annotator.facts.precision:
        # "auto" may choose differently in each process, and the output would depend on which it is.
        overrides = (*loading.overrides, f"run.precision={precision}")
        annotator = Annotator(loading.model, strategy, overrides)
    return annotator


def _portable(error: BaseException) -> Exception:
    """Returns an error that says the same in another process, where not all can be unpickled."""
    if isinstance(error, UserError):
        return (UsageError if isinstance(error, UsageError) else UserError)(str(error))
    if isinstance(error, OSError) and error.strerror:
        return OSError(error.errno, error.strerror, error.filename)
    text = "".join(traceback.format_exception(error))
    if isinstance(error, ImportError):
        return ImportError(str(error), name=error.name)
    return RuntimeError(text)
