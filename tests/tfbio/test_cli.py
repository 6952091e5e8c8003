import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = '''"""Says hello.

    python hello.py --name=World
"""
from absl import flags
from tfbio import cli

def define_flags():
    flags.DEFINE_string("name", "World", "Whom to greet.")

def main(argv):
    cli.no_arguments(argv)
    if flags.FLAGS.name == "Nobody":
        raise cli.UserError("nobody is here: give another --name.")
    if flags.FLAGS.name == "Interrupted":
        raise cli.Interrupted("the machine was taken away: run it again.")
    if flags.FLAGS.name == "Control-C":
        raise KeyboardInterrupt
    print("Hello,", flags.FLAGS.name)

if __name__ == "__main__":
    cli.run(main, define_flags)
'''


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "hello.py"
    path.write_text(SCRIPT)

    def run(*flags):
        return subprocess.run(
            [sys.executable, str(path), *flags],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    return run


def test_a_command_runs(script):
    assert script("--name=you").stdout == "Hello, you\n"


def test_help_shows_the_docstring_and_the_flags(script):
    said = script("--help").stdout
    assert "python hello.py --name=World" in said and "Whom to greet." in said


@pytest.mark.parametrize(
    ("flag", "code", "said"),
    [
        ("--name=Nobody", 1, "error: nobody is here: give another --name.\n"),
        ("--name=Interrupted", 75, "error: the machine was taken away: run it again.\n"),
        (
            "--name=Control-C",
            130,
            "interrupted: the same command continues with what is complete\n",
        ),
        ("you", 1, "error: 'you' is not a flag: write --name=value; --help lists the flags.\n"),
    ],
)
def test_what_users_do_wrong_is_one_sentence(script, flag, code, said):
    done = script(flag)
    assert (done.returncode, done.stderr, done.stdout) == (code, said, "")
