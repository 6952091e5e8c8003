"""Ctrl-C in a command that is busy, that a library hides, and that is being imported."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfbio.base import ctrl_c

ROOT = Path(__file__).resolve().parents[3]

# A command that is busy in a library for a minute when the second one comes.
BUSY = """
import hashlib, sys, time
from tfbio.base import cli
def main(argv):
    try:
        print("begun", flush=True)
        time.sleep(60)
    except KeyboardInterrupt as interrupt:
        if "--verbosity=0" in sys.argv:
            print("cleaning up", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
        raise KeyboardInterrupt("two of three are saved") from interrupt
cli.run(main)
"""


@pytest.mark.parametrize("presses, said", [(1, "two of three are saved"), (2, "ended at once")])
def test_ctrl_c_says_what_is_saved_and_a_second_one_ends_at_once(presses, said, running):
    command = [sys.executable, "-c", BUSY, *["--verbosity=0"] * (presses == 2)]
    with running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in ("begun", "cleaning up")[:presses]:
            assert process.stdout.readline().strip() == line
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == f"interrupted: {said}\n"
        assert process.returncode == 130


# A library that gives an error of its own where Ctrl-C interrupts it.
ANOTHER_ERROR = """
import time
from tfbio.base import cli
def main(argv):
    try:
        print("begun", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        raise {} from None
cli.run(main)
"""


@pytest.mark.parametrize("error", ["TypeError('expected a message')", "ImportError(name='numpy')"])
def test_ctrl_c_is_no_error_of_the_library_that_it_interrupts(error, running):
    command = [sys.executable, "-c", ANOTHER_ERROR.format(error)]
    with running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == f"interrupted: {ctrl_c.INTERRUPTED}\n"
        assert process.returncode == 130


@pytest.mark.parametrize("command", [["-m", "data_prep.vocabulary"], ["run_finetuning.py"]])
def test_ctrl_c_while_a_command_is_imported_is_no_traceback(command, running):
    line = [sys.executable, "-v", *command, "--help"]
    with running(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for said in process.stdout:
            if said.startswith("import 'tfbio' "):
                break
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]
        assert process.returncode == 130
    assert "interrupted: " in said and "Traceback" not in said
