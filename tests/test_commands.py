"""The commands that scripts run one after another."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

from scripts import commands

SAVES_AFTER_CTRL_C = """
import pathlib, sys, time
try:
    print("ready", flush=True)  # within, since Ctrl-C follows at once
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    pathlib.Path(sys.argv[1]).touch()
    sys.exit(130)
"""
RUNS_IT = """
import sys
from scripts import commands
try:
    commands.run(sys.argv[1])
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def start(program, saved):
    """Starts a process, with a session of its own, that runs a program as a command."""
    return subprocess.Popen(
        [sys.executable, "-c", RUNS_IT, shlex.join(["-c", program, str(saved)])],
        cwd=commands.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_command_is_given_the_time_to_save_after_ctrl_c(tmp_path):
    saved = tmp_path / "saved"
    with start(SAVES_AFTER_CTRL_C, saved) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait() == 1
        assert process.stderr.read() == "interrupted\n"
    assert saved.exists()


ENDS_AFTER_SIGTERM = """
import pathlib, signal, sys, time

def end(*_):
    time.sleep(1)
    pathlib.Path(sys.argv[1]).touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""


def test_sigterm_ends_the_command_too(tmp_path):
    """Or it would go on alone, with its folder locked."""
    saved = tmp_path / "saved"
    with start(ENDS_AFTER_SIGTERM, saved) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait() == 143
    assert saved.exists()


def test_the_exit_code_is_the_commands():
    assert commands.run("-c 'import sys; sys.exit(3)'") == 3
    with pytest.raises(KeyboardInterrupt):
        commands.run("-c 'import sys; sys.exit(130)'")
