"""Sets and resets what the process does when it is sent a signal.

Every `signal.signal` of the package stands here, so that a reader finds in one place who answers
Ctrl-C: `cli` for each command, `data_prep.running.local_workers` for one with worker processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def handling(handlers: Mapping[int, Callable[..., object]]) -> Iterator[None]:
    """Sets other handlers of signals within its block, and restores the earlier ones after it.

    It is a context manager.

    Args:
      handlers: the handler of each signal, by the signal's number; it gets the number and the
        current frame.

    Yields:
      None, once.

    Raises:
      ValueError: this is not the main thread, and `handlers` is not empty.
    """
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def blocked(*numbers: int) -> Iterator[None]:
    """Blocks signals within its block, for this thread and the processes that it starts there.

    It is a context manager. A signal to this thread takes effect after the block; processes that
    were started within it never get it. Other threads of this process do.

    Args:
      *numbers: the signals' numbers, such as `signal.SIGINT`.

    Yields:
      None, once.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore(number: int) -> None:
    """Makes this process ignore a signal from now on, but not processes that it starts.

    Returns nothing.

    Args:
      number: the signal's number, such as `signal.SIGINT`.

    Raises:
      ValueError: this is not the main thread.
    """
    signal.signal(number, lambda *_: None)


def exit_at(number: int) -> None:
    """Makes this process end at once, with exit code 128 + `number`, when it is sent a signal.

    Sets the handler and returns nothing.

    Args:
      number: the signal's number, such as `signal.SIGINT`.

    Raises:
      ValueError: this is not the main thread.
    """
    signal.signal(number, lambda *_: os._exit(128 + number))
