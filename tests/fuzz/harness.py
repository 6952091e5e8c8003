"""Judges what a reader makes of mutated files; every test of this folder goes through `judge`.

A check is a function of a folder: it reads the files in it, and asserts what must hold of them. So
an input on which a check failed can be kept as the files alone: each in `.fuzz/failed/`, and the
smallest of each kind in `found/MODULE/CHECK/`, which every later run checks again: `rerun`.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis

from tfbio.base import cli
from tfbio.formats.text_files import STDIN

FOUND = Path(__file__).parent / "found"
EVERY = Path(__file__).parents[2] / ".fuzz" / "failed"
COMMON = {
    "database": None,  # `FOUND` has what failed
    "deadline": None,  # see `limits`
    "suppress_health_check": list(hypothesis.HealthCheck),
    "verbosity": hypothesis.Verbosity.quiet,
    "phases": set(hypothesis.Phase) - {hypothesis.Phase.explain},
}
# The same inputs in every run, as a part of all the tests; and other inputs in every run.
hypothesis.settings.register_profile("ci", max_examples=120, derandomize=True, **COMMON)
hypothesis.settings.register_profile("hour", max_examples=400, **COMMON)
hypothesis.settings.load_profile(os.environ.get("FUZZ_PROFILE", "ci"))
# For tests whose inputs take long: a third, or a fifteenth, of the profile's examples.
few = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples // 3)
very_few = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples // 15)
# What one input may take: of the processor's time, of anybody's, and of memory.
CPU_SECONDS, SECONDS, BYTES = 20, 120, 1 << 30
# A file that is kept is compressed from this size on.
LARGE = 20_000

Check = Callable[[Path], object]

# "MODULE CHECK OUTCOME" -> how many inputs; an outcome is read, refused or failed.
counts: Counter[str] = Counter()


class OverTime(BaseException):
    """Not an Exception, which a reader might take for a fault of its file."""


def judge(check: Check, files: Mapping[str, bytes]) -> object:
    """Runs a check on files within the limits.

    Args:
      check: takes the folder of the files; what it returns is returned.
      files: path in the folder -> content.

    Returns:
      What the check returned; None where it refused the files in a proper sentence.

    Raises:
      AssertionError: it failed, took too long or too much, or raised anything but a `UserError` of
        one sentence that names a file or a flag. The files are then kept in `FOUND`; those that end
        the process stay in the folder for temporary files, in one whose name begins with "fuzz".
    """
    module = check.__module__.rpartition(".")[2]
    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        found: list[object] = []
        said = io.StringIO()
        try:
            with limits(), contextlib.redirect_stderr(said):
                refused = cli.exit_code(lambda: found.append(check(folder)))
            if refused == 128 + signal.SIGINT:
                raise KeyboardInterrupt  # of whoever runs the tests, and no file's
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            cause, problem = error, f"{type(error).__name__}: {str(error):.600}"
        else:
            cause, problem = None, _problem(said.getvalue(), folder, files) if refused else ""
        _go_on_measuring()
    outcome = "failed" if problem else "refused" if refused else "read"
    counts[f"{module.removeprefix('test_')} {check.__name__} {outcome}"] += 1
    if problem:
        kept = _keep(module, check.__name__, files, cause)
        raise AssertionError(f"{module}.{check.__name__}: {problem} (kept in {kept})") from cause
    return found[0] if found else None


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Ends what takes too long, and lets what takes too much memory fail with a MemoryError."""

    def stop(*_: object) -> None:
        raise OverTime(f"after {CPU_SECONDS} seconds of the processor, or {SECONDS} in all")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = [signal.signal(number, stop) for number in (signal.SIGVTALRM, signal.SIGALRM)]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for number, handler in zip((signal.SIGVTALRM, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)


def _go_on_measuring() -> None:
    """Starts coverage's measurement anew, where a lack of memory has ended it without a word."""
    measured = sys.modules.get("coverage") and sys.modules["coverage"].Coverage.current()
    if measured and sys.gettrace() is None:
        measured.stop()
        measured.start()


def _problem(said: str, folder: Path, files: Mapping[str, bytes]) -> str:
    """Why what a command would say of the files is of no use; "" if it is."""
    parts = {part for path in files for part in Path(path).parts}
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    if len(lines) != 1 or not said.endswith(f"{lines[0]}\n") or len(lines[0]) > 300:
        return f"refused, but not in one short line: {said!r:.600}"
    if not any(part in said for part in (str(folder), "--", STDIN, *parts)):
        return f"refused, but without naming a file or a flag: {said!r:.600}"
    return ""


def _keep(module: str, check: str, files: Mapping[str, bytes], error: BaseException) -> Path:
    """Keeps the files of every failure in `EVERY`, and those of the last of one place in `FOUND`.

    While Hypothesis makes them smaller, the last that fails is the smallest.
    """
    trace = error.__traceback__ if error else None
    frames = [(f.filename.rpartition("/")[2], f.name) for f in traceback.extract_tb(trace)]
    place = hashlib.sha256(repr((type(error).__name__, frames)).encode()).hexdigest()[:8]
    kind = type(error).__name__ if error else "sentence"
    kept = FOUND / module / check / f"{kind}-{place}"
    content = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    for folder in (kept, EVERY / module / check / f"{kind}-{place}" / content):
        shutil.rmtree(folder, ignore_errors=True)
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if len(data) > LARGE:
                path, data = f"{path}.compressed", gzip.compress(data, mtime=0)
            (folder / path).write_bytes(data)
    return kept


def found(module_file: str) -> list[str]:
    """The inputs that are kept of the checks in a module, as `rerun` takes them."""
    folder = FOUND / Path(module_file).stem
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))


def rerun(case: str, module: Mapping[str, object]) -> None:
    """Runs a check once more on an input on which it failed.

    Args:
      case: CHECK/NAME, see `found`.
      module: the globals of the check's module.
    """
    check = module[case.partition("/")[0]]
    folder = FOUND / module["__name__"].rpartition(".")[2] / case
    files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            if name.endswith(".compressed"):
                name, content = name.removesuffix(".compressed"), gzip.decompress(content)
            files[name] = content
    judge(check, files)


def table(totals: Mapping[str, int]) -> str:
    """What was counted, as a line for each check."""
    outcomes = ("read", "refused", "failed")
    lines = [f"{'reader':<20}{'check':<28}" + "".join(f"{name:>10}" for name in outcomes)]
    for name in sorted({key.rpartition(" ")[0] for key in totals}):
        reader, check = name.split(" ")
        columns = "".join(f"{totals.get(f'{name} {x}', 0):>10,}" for x in outcomes)
        lines.append(f"{reader:<20}{check:<28}{columns}")
    return "\n".join(lines)
