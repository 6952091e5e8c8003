"""`mypy` checks all packages, scripts and benchmarks: a wrong call is an error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# For each of some rooms, code that is wrong there, and the error that it must give.
PLANTED = {
    "tfbio/training": (
        "from tfbio.training.trainer import Trainer\n\n\n"
        "def planted(trainer: Trainer) -> int:\n"
        "    return trainer.fit('1000', 2000, lambda steps: {}, dict)\n",
        'Argument 1 to "fit" of "Trainer" has incompatible type "str"; expected "int"',
    ),
    "data_prep/sentences": (
        "from data_prep.sentences import splitters\n\n\n"
        "def planted() -> object:\n"
        "    return splitters.load(3)\n",
        'Argument 1 to "load" has incompatible type "int"; expected "str"',
    ),
    "scripts": (
        "from scripts.scores import interval\n\n\n"
        "def planted() -> object:\n"
        "    return interval(3)\n",
        'Argument 1 to "interval" has incompatible type "int"; expected "Sequence[float]"',
    ),
    "benchmarks": (
        "from benchmarks.best_options import medians\n\n\n"
        "def planted() -> object:\n"
        "    return medians(3)\n",
        'Argument 1 to "medians" has incompatible type "int"; expected "Sequence[Sequence[float]]"',
    ),
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a copy of what mypy reads, and of its settings."""
    folder = tmp_path_factory.mktemp("copied")
    for package in ("tfbio", "data_prep", "scripts", "benchmarks"):
        shutil.copytree(ROOT / package, folder / package)
    for file in ("pyproject.toml", "run_finetuning.py", "run_pretraining.py"):
        shutil.copy(ROOT / file, folder)
    cache = ROOT / ".mypy_cache"
    if cache.is_dir():  # of `make check`
        shutil.copytree(cache, folder / "cache")
    return folder


def check(folder: Path) -> subprocess.CompletedProcess:
    """Runs mypy in a folder; all runs in it share a cache, without which each takes longer."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache")],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        text=True,
        capture_output=True,
    )


def check_with(folder: Path, texts: dict[str, str]) -> subprocess.CompletedProcess:
    """Runs mypy while each room of a table has one more module, `planted.py`, with its text."""
    for room, text in texts.items():
        (folder / room / "planted.py").write_text(text)
    try:
        return check(folder)
    finally:
        for room in texts:
            (folder / room / "planted.py").unlink()


def test_the_rooms_have_no_errors(copied):
    ended = check(copied)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_wrong_call_is_an_error(copied):
    ended = check_with(copied, {room: text for room, (text, _) in PLANTED.items()})
    assert ended.returncode == 1, ended.stdout + ended.stderr
    for room, (_, error) in PLANTED.items():
        assert f"{room}/planted.py:5: error: {error}" in ended.stdout
    assert "Found 4 errors in 4 files" in ended.stdout


def test_a_function_without_types_is_an_error(copied):
    ended = check_with(copied, dict.fromkeys(PLANTED, "def planted(step):\n    return step\n"))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    for room in PLANTED:
        assert f"{room}/planted.py:1: error: Function is missing" in ended.stdout
    assert "Found 4 errors in 4 files" in ended.stdout
