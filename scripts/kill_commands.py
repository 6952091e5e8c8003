"""Runs a command that `kills.py` kills at one of its writes, and compares the files it leaves."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "scripts" / "at_a_write"
LONGEST_SENTENCE = 300
LONGEST_RUN = 600  # seconds, of a stage that hangs


class Failed(Exception):
    """Says that a check did not hold."""


@dataclasses.dataclass(frozen=True)
class Done:
    """Tells how a command ended, and which changes of files it had begun."""

    code: int
    stdout: str
    stderr: str
    events: list[str]


def run(
    command: str, folder: Path, at: int | str = 0, sent: signal.Signals = signal.SIGKILL
) -> Done:
    """Runs a command, which gets a signal at its change number `at`, or when a file appears."""
    log = folder.with_name("events")
    log.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HOOK), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KILLS_FOLDER": str(folder),
        "KILLS_LOG": str(log),
        "KILLS_AT": str(at if isinstance(at, int) else 0),
        "KILLS_SIGNAL": str(int(sent)),
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
    }
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, *command.split()],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            if isinstance(at, str):
                end = time.monotonic() + LONGEST_RUN
                while process.poll() is None and not _is_there(folder, at):
                    if time.monotonic() > end:
                        raise subprocess.TimeoutExpired(command, LONGEST_RUN)
                    time.sleep(0.0005)
                if process.poll() is None:
                    os.killpg(process.pid, sent)
            code = process.wait(timeout=LONGEST_RUN)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for stream in (stdout, stderr):
            stream.seek(0)
        said = stdout.read(), stderr.read()
    lines = log.read_text("ascii").splitlines() if log.exists() else []
    return Done(code, *said, [line.rstrip() for line in lines])


def _is_there(folder: Path, pattern: str) -> bool:
    try:
        return any(folder.glob(pattern))
    except FileNotFoundError:  # a folder was renamed meanwhile
        return False


def sentence(done: Done) -> str:
    """Returns the one sentence with which a command failed, as docs/commands.md has it."""
    text = done.stdout + done.stderr
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    last = lines[-1] if lines else ""
    if done.code != 1:
        raise Failed(f"exit code {done.code}, not 1: {last}")
    if "Traceback" in text:
        raise Failed(f"a traceback: {last}")
    if errors != [last] or len(last) > LONGEST_SENTENCE:
        raise Failed(f"not one sentence at the end: {lines[-3:]}")
    return last


def files(folder: Path) -> dict[str, object]:
    """Returns the content of all files by name, without the parts that differ from run to run."""
    content: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            if not any(path.iterdir()):
                content[name] = "an empty folder"
        elif "tfevents" not in path.name and path.name != "fingerprint.pb":
            content[name] = _comparable(path)
    return content


def _comparable(path: Path) -> object:
    content = path.read_bytes()
    if path.name == "scores.json":
        return _without_seconds(json.loads(content))
    if path.name == "checkpoint":
        return re.sub(rb"\w+_timestamps?: .*\n", b"", content)
    return content


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_seconds(v) for k, v in value.items() if "seconds" not in k}
    return [_without_seconds(v) for v in value] if isinstance(value, list) else value


def compare(actual: dict[str, object], expected: dict[str, object]) -> None:
    """Raises Failed with the names of files that are missing, too many or not equal."""
    problems = [f"{name} is missing" for name in sorted(expected.keys() - actual.keys())]
    problems += [f"{name} is left over" for name in sorted(actual.keys() - expected.keys())]
    both = expected.keys() & actual.keys()
    problems += [f"{name} differs" for name in sorted(both) if actual[name] != expected[name]]
    if problems:
        raise Failed(", ".join(problems[:4]))


def empty(folder: Path) -> None:
    """Empties a folder, on which a file system may be mounted."""
    for path in folder.iterdir():
        remove(path)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
