"""Says what became of the mutated inputs."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz import harness


@pytest.fixture(autouse=True)
def counted(record_property):
    """Hands on what a test counted, also from a process of pytest-xdist."""
    before = harness.counts.copy()
    yield
    for key, count in (harness.counts - before).items():
        record_property("fuzz", [key, count])


def pytest_terminal_summary(terminalreporter):
    """Prints the inputs of each check, by what became of them."""
    totals = Counter()
    log = os.environ.get("FUZZ_COUNTS")  # of earlier rounds, too
    if log and Path(log).exists():
        totals.update(json.loads(Path(log).read_text()))
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "fuzz" and report.when == "teardown":
                    totals[value[0]] += value[1]
    if log:
        Path(log).write_text(json.dumps(totals))
    if totals:
        terminalreporter.section("mutated inputs")
        terminalreporter.write_line(harness.table(totals))
