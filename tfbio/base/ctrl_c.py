"""Answers Ctrl-C at once, while a library works, and prints the last line of a command.

`cli` does so for every command, `training.preemption` for training.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

from tfbio.base import messages, signals

# The line after a Ctrl-C, unless a command gives another one.
INTERRUPTED = "the same command takes over what is complete, if anything is, and makes the rest"


def interrupted(saved: str = "") -> int:
    """Prints the last line of a command that Ctrl-C ends ("interrupted: ...") on stderr.

    Args:
      saved: text on what is saved and what the same command will do; "" if that is not known.

    Returns:
      The exit code for the process, 130 (128 + SIGINT). The process is not ended here.
    """
    messages.print_last(f"interrupted: {saved or INTERRUPTED}")
    return 128 + signal.SIGINT


@contextlib.contextmanager
def answering_ctrl_c(
    first: Callable[[], str] = lambda: "", second: Callable[[], str] = lambda: "ended at once"
) -> Iterator[threading.Event]:
    """Answers Ctrl-C at once within its block, as a context manager; a second one ends the process.

    Python handles signals only between two of its instructions, and a library may work for hours in
    one of them, so a thread answers. An inner block answers in place of an outer one. In another
    thread than the main one, which gets no signals, nothing is answered.

    Args:
      first: returns the line that the first Ctrl-C prints on stderr; "" for none.
      second: returns the end of the line that the second one prints, after "interrupted: ".

    Yields:
      A `threading.Event` that is set when a `KeyboardInterrupt` is raised in the block.

    Raises:
      KeyboardInterrupt: in the block, at the first Ctrl-C, unless SIGINT has another handler than
        Python's. The second Ctrl-C ends the process with exit code 130.
    """
    raised = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield raised  # only the main thread gets signals
        return
    told, tells = socket.socketpair()
    tells.setblocking(False)
    before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)

    def answer() -> None:
        pressed = 0
        with told:
            while byte := told.recv(1):
                pressed += byte[0] == signal.SIGINT
                if byte[0] != signal.SIGINT:
                    continue
                if pressed == 1 and (line := first()):
                    messages.print_last(line)
                elif pressed > 1:
                    os._exit(interrupted(second()))

    def interrupt_once(*_: object) -> None:
        signals.ignore(signal.SIGINT)  # the thread answers
        raised.set()
        raise KeyboardInterrupt

    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        with signals.handling({signal.SIGINT: interrupt_once} if is_default else {}):
            threading.Thread(target=answer, daemon=True).start()
            yield raised
    finally:
        signal.set_wakeup_fd(before)
        tells.close()
