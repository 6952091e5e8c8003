"""Runs command lines one after another in one process each command, and says how each ended.

  python tests/flag_walk.py < lines.json

`tests/test_every_flag.py` starts it: hundreds of processes would take minutes. On stdin is a JSON
object: "files", a folder with what `VALUES` names; "base", for commands the flags without which
nothing begins; "lines", for commands a list of lists of flags, which are run beside those that
`walk` makes of every flag by its type. Printed is one JSON object a line: the command, its flags,
the exit code, what is on stdout and on stderr, and what began.

A command begins its work where it imports TensorFlow (or PyTorch, or spaCy), starts a process or
Beam, or reads documents. There it is stopped: all that flags can do wrong is to be said before.
What only wrong data can do wrong has tests of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import shutil
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from absl import app, flags  # noqa: E402

from data_prep import documents, examples  # noqa: E402, F401
from data_prep.running import pipeline  # noqa: E402, F401
from tfbio import report  # noqa: E402, F401
from tfbio.base import cli, document_records  # noqa: E402

FLAGS = flags.FLAGS
HEAVY = ("tensorflow", "torch", "spacy")
# Of every type; the last four are paths in the folder "files".
VALUES = ("", "x", "-1", "0", "NaN", "inf", "1e30", "missing/path", "missing", "folder", "file")
KEPT: set[Path] = set()


class Begun(BaseException):
    """The command has checked its flags, and begins."""


class NothingHeavy:
    """Stops the import of what takes seconds."""

    def find_spec(self, name: str, *_: object) -> None:
        """Called by Python for every module that is not imported yet."""
        if name.partition(".")[0] in HEAVY:
            raise Begun(f"import {name}")


def begin(*_: object, **__: object) -> None:
    """Takes the place of functions that begin the work."""
    raise Begun("work")


def load(command: str) -> tuple:
    """The arguments with which a command calls `cli.run`, as `python command` would."""
    given = []
    run, cli.run = cli.run, lambda *args, **options: given.append((args, options))
    try:
        if command.endswith(".py"):
            runpy.run_path(str(ROOT / command), run_name="__main__")
        else:
            runpy.run_module(command, run_name="__main__", alter_sys=True)
    finally:
        cli.run = run
    (args, options) = given[0]
    names = ("main", "define_flags", "flags_parser", "settings")
    return dict(zip(names, args, strict=False)) | options


def run(command: str, args: list[str], loaded: dict) -> dict:
    """How a command line ends."""
    FLAGS.unparse_flags()
    # As Python has it; --help shows the flags of this name.
    sys.argv = [str(ROOT / command) if command.endswith(".py") else command, *args]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    begun = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.run(**loaded)
            code = None
        except SystemExit as error:
            code = error.code
        except Begun as error:
            code, begun = 0, str(error)
        except BaseException:
            code = 1
            traceback.print_exc()
    for path in {*Path().iterdir(), *Path("folder").iterdir()} - KEPT:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    out.flush()
    err.flush()
    said, complained = (x.buffer.getvalue().decode("utf-8", "replace") for x in (out, err))
    ended = {"command": command, "args": args, "code": code, "out": said, "err": complained}
    return ended | {"begun": begun}


def walk(name: str) -> list[list[str]]:
    """The command lines that try one flag: every value of `VALUES`, and the flag given twice."""
    flag = FLAGS[name]
    lines = [[f"--{name}={value}"] for value in VALUES]
    if flag.boolean:
        return [*lines, [f"--{name}", f"--no{name}"]]
    first = getattr(flag.parser, "lower_bound", None) or 0
    choices = getattr(flag.parser, "enum_values", None) or [first, first + 1]
    return [*lines, [f"--{name}={choices[0]}", f"--{name}={choices[-1]}"]]


def kind_of(name: str) -> str:
    """The type of a flag, as the test's rules know it."""
    flag = FLAGS[name]
    if isinstance(flag, flags.MultiFlag):
        return "list"
    if flag.boolean:
        return "boolean"
    if isinstance(flag.parser, flags.EnumParser):
        return "choice"
    for parser, kind in ((flags.IntegerParser, "integer"), (flags.FloatParser, "number")):
        if isinstance(flag.parser, parser):
            return kind
    return "text"


def run_all(label: str, base: list[str] | None, lines: list[list[str]]) -> None:
    """Runs all lines of a command, and prints how each ended; after its name may be a note."""
    command = label.partition(" ")[0]
    app.define_help_flags()
    before = set(FLAGS)
    document_records.read_documents = begin  # before a command imports it
    loaded = load(command)
    run(command, ["--help"], loaded)  # which defines its flags
    loaded.pop("define_flags", None)
    names = sorted(set(FLAGS) - before)
    if base is None:  # what is required, as far as it can be guessed
        required = [name for name in names if FLAGS[name].value is None and FLAGS[name].validators]
        base = [f"--{name}={'new' if name == 'output' else 'folder'}" for name in required]
    sys.meta_path.insert(0, NothingHeavy())
    pipeline.run = begin
    import subprocess
    from concurrent.futures import ProcessPoolExecutor

    subprocess.Popen = subprocess.run = ProcessPoolExecutor.__init__ = begin

    def say(args: list[str], **more: str | list[str]) -> None:
        given = {arg.partition("=")[0].replace("--no", "--") for arg in args}
        rest = [arg for arg in base if arg.partition("=")[0] not in given]
        ended = run(command, [*rest, *args], loaded)
        print(json.dumps(ended | {"command": label} | more), flush=True)

    say([], kind="base")
    for flag in ("--help", "--helpshort", "--helpfull"):
        say([flag], kind="help", names=names)
    say([f"--{names[0]}x=1"], kind="unknown", name=f"{names[0]}x")
    say(["y"], kind="unknown", name="y")
    for name in names:
        for args in walk(name):
            say(args, kind=kind_of(name), name=name)
    for args in lines:
        say(args, kind="line")


def main() -> None:
    """Forks a process for each command, which has the modules that all of them import."""
    asked = json.load(sys.stdin)
    os.chdir(asked["files"])
    KEPT.update(Path().iterdir())
    for command, base in asked["base"].items():
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            run_all(command, base, asked["lines"].get(command, []))
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{command} ended the process")


if __name__ == "__main__":
    main()
