import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tfbio.base import signals

ROOT = Path(__file__).resolve().parents[3]


def test_a_handler_answers_within_its_block_alone():
    sent, before = [], signal.getsignal(signal.SIGUSR1)
    with signals.handling({signal.SIGUSR1: lambda number, _: sent.append(number)}):
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(ZeroDivisionError), signals.handling({signal.SIGUSR1: signal.SIG_IGN}):
            os.kill(os.getpid(), signal.SIGUSR1)
            raise ZeroDivisionError
        os.kill(os.getpid(), signal.SIGUSR1)
    assert sent == [signal.SIGUSR1] * 2
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_blocked_signal_waits_for_the_end_of_the_block():
    sent = []
    with signals.handling({signal.SIGUSR1: lambda number, _: sent.append(number)}):
        with signals.blocked(signal.SIGUSR1):
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            script = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)"
            assert subprocess.run([sys.executable, "-c", script]).returncode == 0
            assert not sent
        assert sent == [signal.SIGUSR1]


def test_a_process_ignores_a_signal_and_ends_at_another():
    script = (
        "import os, signal\n"
        "from tfbio.base import signals\n"
        "signals.ignore(signal.SIGINT)\n"
        "signals.exit_at(signal.SIGTERM)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('goes on', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('not reached', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "goes on\n", "")
