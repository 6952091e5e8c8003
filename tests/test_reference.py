"""The data of the tests: what is kept is what its source gave, and what is missing is said."""

import gzip
import hashlib
import os
import re
import subprocess
import sys

import pytest

from tests import reference


def test_nothing_is_said_where_all_data_is_at_hand():
    assert reference.summary(["('tests/test_a.py', 3, 'Skipped: could not import torch')"]) == ""


def test_cases_are_counted_by_what_they_lack():
    reasons = [
        f"('a.py', 3, 'Skipped: {reference.REASON}{name}')" for name in ("gad", "hoc", "hoc")
    ]
    said = reference.summary([*reasons, "Skipped: no compiler"])
    assert said.startswith("3 cases were left out") and "repository: hoc 2, gad 1." in said
    assert "tests/data/README.md" in said and "TFBIO_SHARED" in said
    assert reference.summary(reasons[:1]).startswith("1 case was left out")


@pytest.mark.parametrize("processes", [[], ["--numprocesses=2"]], ids=["alone", "xdist"])
def test_a_run_ends_with_what_it_left_out(processes, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    case = "tests/data_prep/selection/test_benchmark_files.py::test_ids_of_real_benchmarks"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *processes, case],
        cwd=reference.ROOT,
        env={**environment, "TFBIO_SHARED": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 cases were left out" in done.stdout
    assert "ebm_pico 2, hoc 2, chemprot 1, gad 1, jnlpba 1." in done.stdout


def test_kept_files_are_those_of_their_sources():
    """Each SOURCE.txt lists its files, two lines above the hash of what they hold."""
    listed = {}
    for source in reference.KEPT.glob("corpora/*/SOURCE.txt"):
        lines = source.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines):
            if re.fullmatch(r"  [0-9a-f]{64}", line):
                listed[source.parent / lines[number - 2]] = line.strip()
    kept = [x for x in (reference.KEPT / "corpora").rglob("*") if x.is_file()]
    assert {x for x in kept if x.name != "SOURCE.txt"} == listed.keys() and len(listed) == 25
    for path, expected in listed.items():
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        assert hashlib.sha256(data).hexdigest() == expected, path
    digest = hashlib.sha256(reference.PUBMEDBERT.read_bytes()).hexdigest()
    assert digest in (reference.PUBMEDBERT.parent / "SOURCE.txt").read_text(encoding="utf-8")


def test_what_is_asked_for_is_in_the_table():
    """A corpus that a test names is kept, or the table says where to get it."""
    table = (reference.KEPT / "README.md").read_text(encoding="utf-8").replace("corpora/", "")
    names = set()
    for path in (reference.ROOT / "tests").rglob("test_*.py"):
        names |= set(re.findall(r'reference\.corpus\(f?"(\w+)[/"]', path.read_text("utf-8")))
    assert {"hoc", "pubmedqa", "ddi2013"} <= names
    assert [
        name for name in sorted(names) if f"`{name}`" not in table.replace("corpora/", "")
    ] == []
