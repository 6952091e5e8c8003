"""Runs the tests of mutated inputs alone: `make fuzz` and `make fuzz-coverage`.

    python scripts/fuzz.py --profile=ci      # the inputs of the test suite, once
    python scripts/fuzz.py --profile=hour    # other inputs, for an hour
    python scripts/fuzz.py --coverage        # the branches of each reader that the inputs reach

An hour is made of rounds, each with another seed. `.fuzz/hour.json` keeps their counts, so that an
interrupted run continues; after a finished one, the next begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(".fuzz")
HOUR = 3600
# The share of the branches, in percent, that the inputs must reach in each reader.
LEAST = 90
READERS = [
    "data_prep/selection/articles.py",
    "tfbio/formats/bioc.py",
    "tfbio/formats/markup.py",
    "tfbio/formats/safe_xml.py",
    *(path.as_posix() for path in sorted(Path("data_prep/readers").glob("pmc*.py"))),
    "data_prep/readers/note_events.py",
    "data_prep/readers/plain_text.py",
    "data_prep/readers/pubmed.py",
    "data_prep/readers/text_lines.py",
    "data_prep/readers/wikipedia.py",
    *(path.as_posix() for path in sorted(Path("data_prep/corpora").glob("[a-z]*.py"))),
    "tfbio/formats/bigbio.py",
    "tfbio/formats/pubtator.py",
    "tfbio/weights/checkpoint_source.py",
    "tfbio/weights/checkpoint_settings.py",
    "tfbio/weights/checkpoint_weights.py",
    "tfbio/base/config.py",
    "tfbio/weights/hugging_face_settings.py",
    "tfbio/weights/hugging_face_weights.py",
    "tfbio/text/hugging_face_tokenizer.py",
    "tfbio/base/document_records.py",
    "tfbio/base/tf_example.py",
    "tfbio/base/manifests.py",
    "tfbio/base/shards.py",
    "tfbio/text/sentencepiece_model.py",
    "tfbio/formats/splits.py",
    "tfbio/formats/tables.py",
    "tfbio/formats/task_examples.py",
    "tfbio/formats/bioasq_factoid.py",
    "tfbio/formats/clinical_sts.py",
    "tfbio/formats/hoc.py",
    "tfbio/formats/squad.py",
    "tfbio/formats/tagged_words.py",
    "tfbio/formats/task_files.py",
    "tfbio/formats/text_files.py",
    "tfbio/runs/document_formats.py",
    "tfbio/weights/megatron_checkpoint.py",
    "tfbio/weights/tensorflow1_checkpoint.py",
    "tfbio/weights/tensorflow1_settings.py",
    "tfbio/weights/tensorflow1_weights.py",
    "tfbio/text/fast_tokenizer.py",
    "tfbio/text/byte_bpe.py",
    "tfbio/text/tokenization.py",
    "tfbio/text/tokenizer_json.py",
    "tfbio/text/vocabularies.py",
    "tfbio/text/wordpiece.py",
    "tfbio/weights/weight_files.py",
]


def run_pytest(profile: str, *arguments: str, counts: str = "", coverage: bool = False) -> int:
    """Runs tests in another process; returns its exit code, 130 after Ctrl-C.

    Args:
      profile: "ci" or "hour", see tests/fuzz/harness.py.
      *arguments: of pytest.
      counts: the file in which the tests count their inputs; "": none.
      coverage: True to record the branches that they reach.
    """
    command = [sys.executable, *(["-m", "coverage", "run", "--branch"] if coverage else [])]
    command += [
        *["-m", "pytest", "-q", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider"],
        *arguments,
    ]
    environment = {**os.environ, "FUZZ_PROFILE": profile, "FUZZ_COUNTS": counts}
    interrupted = []
    # The tests get the Ctrl-C, too, and may end with their counts.
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
    try:
        code = subprocess.run(command, env=environment).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return 130 if interrupted else code


def run_rounds(seconds: float, processes: int) -> int:
    """Runs rounds for so many seconds; returns 1 if an input failed, 130 after Ctrl-C.

    Another exit code is that of pytest, which cannot run.
    """
    FOLDER.mkdir(exist_ok=True)
    log, counts = FOLDER / "hour.json", FOLDER / "counts.json"
    state = {"seconds": 0.0, "rounds": 0, "failed_rounds": 0}
    if log.exists() and (before := json.loads(log.read_text()))["seconds"] < seconds:
        state = before
    else:
        counts.unlink(missing_ok=True)
    code = 0
    while state["seconds"] < seconds and code != 130:
        begun = time.monotonic()
        seed = f"--hypothesis-seed={state['rounds']}"
        code = run_pytest("hour", "tests/fuzz", seed, *_divided(processes), counts=str(counts))
        if code > 1 and code != 130:
            return code  # pytest cannot run; below 0 an input has ended it
        state["seconds"] += time.monotonic() - begun
        if code != 130:  # an interrupted round begins anew
            state["rounds"] += 1
            state["failed_rounds"] += code != 0
        log.write_text(json.dumps(state) + "\n")
        total = sum(json.loads(counts.read_text()).values()) if counts.exists() else 0
        print(
            f"{total:,} inputs in {state['rounds']} rounds and {state['seconds']:.0f} of "
            f"{seconds:.0f} seconds; {state['failed_rounds']} rounds had failures.",
            flush=True,
        )
    if state["failed_rounds"]:
        print("Every input that failed is in .fuzz/failed, the smallest in tests/fuzz/found.")
    if code == 130:
        print("interrupted: the same command goes on with these counts.", file=sys.stderr)
        return code
    return int(state["failed_rounds"] > 0)


def _divided(processes: int) -> list[str]:
    """Returns pytest's arguments for so many processes."""
    return [f"--numprocesses={processes}", "--dist=loadfile"] if processes > 1 else []


def measure() -> int:
    """Prints the share of each reader's branches that the inputs reach; returns 1 if one is low."""
    FOLDER.mkdir(exist_ok=True)
    code = run_pytest("ci", "tests/fuzz", coverage=True)
    report = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(FOLDER / "coverage.json")]
    subprocess.run([*report, f"--include={','.join(READERS)}"], check=True)
    files = json.loads((FOLDER / "coverage.json").read_text())["files"]
    shares = {}
    print(f"{'reader':<42}{'branches':>9}{'reached':>9}{'%':>7}  not reached")
    for reader in READERS:
        total, reached = (files[reader]["summary"][f"{x}_branches"] for x in ("num", "covered"))
        shares[reader] = 100 * reached / max(total, 1)
        # Branches from line to line, or to the end of the function.
        missing = (f"{a}-{b if b > 0 else 'exit'}" for a, b in files[reader]["missing_branches"])
        print(f"{reader:<42}{total:>9}{reached:>9}{shares[reader]:>7.1f}  {' '.join(missing)}")
    low = [reader for reader, share in shares.items() if share < LEAST]
    print(f"Below {LEAST} %: {', '.join(low)}" if low else f"At least {LEAST} % in every reader.")
    return code or int(bool(low))


def main() -> int:
    """Runs what the flags say; returns the exit code."""
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
    return run_pytest("ci", "tests/fuzz", *_divided(given.processes))


if __name__ == "__main__":
    sys.exit(main())
