"""Sets and resets what the process does when it is sent a signal.

Every `signal.signal` of the package stands here, so that a reader finds in one place who answers
Ctrl-C: `cli` for each command, `data_prep.running.pipeline` for one with worker processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def handling(handlers: Mapping[int, Callable[..., object]]) -> Iterator[None]:
    """Calls other handlers within its block, and restores those before it.

    Args:
      handlers: the handler of each signal; it gets the signal's number and the current frame.

    Raises:
      ValueError: this is not the main thread, and `handlers` is not empty.
    """
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore(number: int) -> None:
    """Does nothing at a signal from now on, in this process; processes that it starts still do.

    Args:
      number: of the signal.

    Raises:
      ValueError: this is not the main thread.
    """
    signal.signal(number, lambda *_: None)


def exit_at(number: int) -> None:
    """Ends the process at once when it is sent a signal, with exit code 128 + `number`.

    Args:
      number: of the signal.

    Raises:
      ValueError: this is not the main thread.
    """
    signal.signal(number, lambda *_: os._exit(128 + number))
