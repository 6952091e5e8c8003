"""Stages that are killed as they write, interrupted, and have no room: a share of `make kills`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import kill_commands

ROOT = Path(__file__).parents[1]
# Those that take seconds; of all stages, as many times as the variable says.
CHEAP = ("vocabulary", "sentence_roles", "corpus")
TIMES = int(os.environ.get("TFBIO_KILLS", "0"))


def test_each_stage_ends_with_the_bytes_of_an_undisturbed_run(tmp_path):
    command = [sys.executable, "scripts/kills.py", f"--work={tmp_path}"]
    command += [f"--kills={TIMES or 2}", f"--interrupts={TIMES or 1}", f"--disks={TIMES or 1}"]
    command += [] if TIMES else [f"--stages={','.join(CHEAP)}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line[:1] == "|"]
    assert len(rows) - 2 == (13 if TIMES else len(CHEAP))
    for name, *numbers, disks in rows[2:]:
        counts = list(map(int, numbers))
        expected = [TIMES or 2] * 3 + [TIMES or 1] * 3
        # A stage with fewer changes of files than that is killed at each of them.
        assert all(0 < n <= most for n, most in zip(counts, expected, strict=True)), (name, counts)
        assert counts[0] == counts[1] == counts[2] and counts[3] == counts[4] == counts[5], name
        held, tried = map(int, re.fullmatch(r"(\d+) of (\d+)", disks).groups())
        assert held == tried, name


def test_files_that_differ_are_named():
    expected = {"a": b"1", "c": b"1", "d": b"1"}
    with pytest.raises(kill_commands.Failed, match="^a is missing, b is left over, c differs$"):
        kill_commands.compare({"b": b"1", "c": b"2", "d": b"1"}, expected)
    kill_commands.compare(dict(expected), expected)


def test_each_byte_of_a_file_counts_but_for_times(tmp_path):
    scores, weights = tmp_path / "scores.json", tmp_path / "of_a_run" / "weights"
    weights.parent.mkdir()
    weights.write_bytes(b"ab")
    scores.write_text('{"trials": [{"f1": 0.5, "train_seconds": 7}]}')
    before = kill_commands.files(tmp_path)
    scores.write_text('{"trials": [{"f1": 0.5, "train_seconds": 8}]}')
    (tmp_path / "events.out.tfevents.1").touch()
    assert kill_commands.files(tmp_path) == before
    scores.write_text('{"trials": [{"f1": 0.6, "train_seconds": 7}]}')
    weights.write_bytes(b"ac")
    (tmp_path / "empty").mkdir()
    words = "^empty is left over, of_a_run/weights differs, scores.json differs$"
    with pytest.raises(kill_commands.Failed, match=words):
        kill_commands.compare(kill_commands.files(tmp_path), before)
