"""The seconds of steps, on a clock of the test's, and the figures of a report by hand."""

from collections import Counter

import pytest

from tfbio.runs import step_times
from tfbio.runs.step_times import StepTimes


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows `now[0]`."""
    now = [100.0]
    monkeypatch.setattr(step_times.time, "perf_counter", lambda: now[0])
    return now


def test_making_and_consuming_items_are_apart(clock):
    def made():
        for number in range(3):
            clock[0] += 2.0
            yield number
        clock[0] += 1.0

    def consume(items):
        for number in items:
            clock[0] += 10.0 * number

    times = StepTimes()
    times.writing(consume, times.each("reading", made()))
    with pytest.raises(ZeroDivisionError), times.of("products"):
        clock[0] += 5.0
        raise ZeroDivisionError
    assert times.seconds == {"reading": 7.0, "writing": 30.0, "products": 5.0}


def test_a_report_has_shares_and_what_pubmed_takes():
    seconds = Counter({"reading": 10.0, "products": 70.0, "writing": 20.0})
    # 20 citations a second: 1.8 million seconds.
    assert step_times.report(seconds, 1000, 50.0, 4) == (
        "seconds by step: reading 10.0 (10%), splitting 0.0 (0%), tokenizing 0.0 (0%), "
        "products 70.0 (70%), writing 20.0 (20%); 20.0 documents/s\n"
        "at this speed all of PubMed (36 million citations) takes 500 hours on 4 core(s), 2,000 "
        "core-hours"
    )
    assert "PubMed" not in step_times.report(seconds, 999, 50.0, 4)
