"""Lets a run that is told to end save its state first."""

import contextlib
import signal
from collections.abc import Callable
from types import TracebackType

import tensorflow as tf

from tfbio.base import ctrl_c, signals


class Preemption:
    """Notes SIGTERM at a preemption, or Ctrl-C, in a `with` block, and lets the process go on.

    So the run of a preempted machine, or one that a user ends, can be saved where it is, after the
    current loop of steps. A loop should take less than the machine is given to end, usually 30
    seconds: see `run.steps_per_loop`. A second Ctrl-C ends the process at once. Of several workers,
    all end where one was sent a signal, in the same place. The block yields this object. In any
    thread but the main one, entering it raises a ValueError.

    Args:
      strategy: the strategy of the run.
      saved: returns a line on what is saved, which the second Ctrl-C prints.

    Attributes:
      signal: the `signal.Signals` that was sent last; SIGTERM if nothing was.
    """

    def __init__(self, strategy: tf.distribute.Strategy, saved: Callable[[], str]):
        self._strategy, self._sent, self.signal = strategy, False, signal.SIGTERM
        self._several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._saved = saved
        self._block = contextlib.ExitStack()

    def __enter__(self) -> "Preemption":
        handlers: dict[int, Callable[..., object]] = {signal.SIGTERM: self._note}
        # A shell starts so what it does not wait for.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            handlers[signal.SIGINT] = self._note
        self._block.enter_context(signals.handling(handlers))
        first = "Ctrl-C: the run is saved after this loop of steps; again ends it at once"
        self._block.enter_context(ctrl_c.answering_ctrl_c(lambda: first, self._saved))
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._block.close()

    @property
    def signal_name(self) -> str:
        """The name of the signal for messages: "Ctrl-C", or "SIGTERM"."""
        return "Ctrl-C" if self.signal == signal.SIGINT else self.signal.name

    @property
    def sent(self) -> bool:
        """True if this process or another worker was sent a signal of preemption or Ctrl-C.

        All workers must ask equally often.
        """
        if self._several:
            # Asked anew each time: a signal that comes while the others answer counts then.
            return bool(self._over_workers(tf.constant(float(self._sent))))
        return self._sent

    @tf.function
    def _over_workers(self, value: tf.Tensor) -> tf.Tensor:
        values = self._strategy.run(lambda: tf.identity(value))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    def _note(self, number: int, _: object) -> None:
        self._sent, self.signal = True, signal.Signals(number)
