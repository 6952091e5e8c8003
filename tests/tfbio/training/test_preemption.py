"""Signals within a block that a run is trained in."""

import os
import signal

import pytest

from tfbio.base import signals
from tfbio.training.preemption import Preemption


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_within_the_block_alone(number, cpu):
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with Preemption(cpu, lambda: "nothing is saved") as preemption:
        assert not preemption.sent
        os.kill(os.getpid(), number)
        assert preemption.sent and preemption.signal is number
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_ctrl_c_that_is_ignored_stays_so(cpu):
    """Leaves it to the foreground: a shell starts so what it does not wait for."""
    with signals.handling({signal.SIGINT: signal.SIG_IGN}), Preemption(cpu, str) as preemption:
        os.kill(os.getpid(), signal.SIGINT)
        assert not preemption.sent
