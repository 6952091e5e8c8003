"""Runs the mutated inputs by themselves: `make fuzz` and `make fuzz-coverage`.

    python -m tests.fuzz --profile=ci      # the inputs of the test suite, once
    python -m tests.fuzz --profile=hour    # others, until an hour was spent on them
    python -m tests.fuzz --coverage        # which branches of each reader the inputs reach

An hour is made of rounds, each of which has a seed of its own. What the rounds counted is kept in
`.fuzz/hour.json`, so that a run that was interrupted is continued; a finished one begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import harness

FOLDER = Path(".fuzz")
HOUR = 3600
# The readers, and their tests beside those here.
READERS = [
    "data_prep/articles.py",
    "data_prep/bioc.py",
    "data_prep/markup.py",
    "data_prep/pmc.py",
    "data_prep/pubmed.py",
    *(f"data_prep/corpora/{path.name}" for path in Path("data_prep/corpora").glob("[a-z]*.py")),
    "tfbio/annotation_formats.py",
    "tfbio/checkpoints.py",
    "tfbio/config.py",
    "tfbio/hugging_face.py",
    "tfbio/hugging_face_tokenizer.py",
    "tfbio/records.py",
    "tfbio/sentencepiece_model.py",
    "tfbio/task_files.py",
    "tfbio/tensorflow1.py",
    "tfbio/tokenization.py",
    "tfbio/weight_files.py",
]


def run_pytest(profile: str, *arguments: str, counts: str = "", coverage: bool = False) -> int:
    """Runs tests in a process of their own; returns its exit code."""
    command = [sys.executable, *(["-m", "coverage", "run", "--branch"] if coverage else [])]
    command += [
        *["-m", "pytest", "-q", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider"],
        *arguments,
    ]
    environment = {**os.environ, "FUZZ_PROFILE": profile, "FUZZ_COUNTS": counts}
    return subprocess.run(command, env=environment).returncode


def run_rounds(seconds: float, processes: int) -> int:
    """Runs rounds until so many seconds were spent on them; returns 1 if an input failed."""
    FOLDER.mkdir(exist_ok=True)
    log, of_round = FOLDER / "hour.json", FOLDER / "round.json"
    state = {"seconds": 0.0, "rounds": 0, "failed_rounds": 0, "counts": {}}
    if log.exists() and (before := json.loads(log.read_text()))["seconds"] < seconds:
        state = before
    while state["seconds"] < seconds:
        begun = time.monotonic()
        of_round.unlink(missing_ok=True)
        seed = f"--hypothesis-seed={state['rounds']}"
        parts = [f"--numprocesses={processes}", "--dist=loadfile"] if processes > 1 else []
        code = run_pytest("hour", "tests/fuzz", seed, *parts, counts=str(of_round))
        state["seconds"] += time.monotonic() - begun
        state["rounds"] += 1
        state["failed_rounds"] += code != 0
        counted = Counter(json.loads(of_round.read_text()) if of_round.exists() else {})
        state["counts"] = counted + Counter(state["counts"])
        log.write_text(json.dumps(state, indent=1) + "\n")
    print(
        f"\n{state['rounds']} rounds in {state['seconds']:.0f} seconds, of which "
        f"{state['failed_rounds']} had failures. Inputs:"
    )
    print(harness.table(state["counts"]))
    print(f"{sum(state['counts'].values()):,} inputs.")
    kept = sorted(path.relative_to(harness.FOUND) for path in harness.FOUND.glob("*/*/*"))
    print("\n".join(["Kept inputs:", *(f"  tests/fuzz/found/{path}" for path in kept)]))
    return int(state["failed_rounds"] > 0)


def measure() -> int:
    """Prints the share of the branches of each reader that the tests reach."""
    own = [path for reader in READERS if (path := _tests_of(reader)).exists()]
    code = run_pytest("ci", "tests/fuzz", *map(str, own), coverage=True)
    report = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(FOLDER / "coverage.json")]
    FOLDER.mkdir(exist_ok=True)
    subprocess.run([*report, f"--include={','.join(READERS)}"], check=True)
    files = json.loads((FOLDER / "coverage.json").read_text())["files"]
    print(f"{'reader':<42}{'branches':>9}{'reached':>9}{'%':>7}")
    for reader, found in sorted(files.items()):
        total, reached = (found["summary"][f"{x}_branches"] for x in ("num", "covered"))
        print(f"{reader:<42}{total:>9}{reached:>9}{100 * reached / max(total, 1):>7.1f}")
    return code


def _tests_of(reader: str) -> Path:
    folder, name = os.path.split(reader)
    return Path("tests", folder, f"test_{name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", choices=["ci", "hour"], default="ci")
    parser.add_argument("--seconds", type=float, default=HOUR, help="Length of the hour.")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--coverage", action="store_true")
    given = parser.parse_args()
    if given.coverage:
        return measure()
    if given.profile == "hour":
        return run_rounds(given.seconds, given.processes)
    parts = [f"--numprocesses={given.processes}", "--dist=loadfile"] if given.processes > 1 else []
    return run_pytest("ci", "tests/fuzz", *parts)


if __name__ == "__main__":
    sys.exit(main())
