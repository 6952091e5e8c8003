"""`scripts/fuzz.py`: an hour of rounds, in which pytest is not run."""

import itertools
import json
from types import SimpleNamespace

import pytest

from scripts import fuzz


@pytest.fixture
def run_rounds(tmp_path, monkeypatch):
    """Runs rounds of 10 s each up to 30 s, which end with these codes; gives code and seeds."""
    clock = itertools.count(0, 10)
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path)
    monkeypatch.setattr(fuzz, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    def run_rounds(*codes):
        left, seeds = iter(codes), []

        def run_pytest(profile, folder, seed, *arguments, counts):
            seeds.append(seed)
            return next(left)

        monkeypatch.setattr(fuzz, "run_pytest", run_pytest)
        code = fuzz.run_rounds(30, 1)
        assert not list(left)
        return code, [seed.removeprefix("--hypothesis-seed=") for seed in seeds]

    return run_rounds


def read_state(folder):
    return json.loads((folder / "hour.json").read_text())


def test_rounds_without_a_failure_end_well(run_rounds, tmp_path):
    assert run_rounds(0, 0, 0) == (0, ["0", "1", "2"])
    assert read_state(tmp_path) == {"seconds": 30, "rounds": 3, "failed_rounds": 0}


def test_one_failed_round_fails_the_hour(run_rounds, tmp_path):
    assert run_rounds(0, 1, 0) == (1, ["0", "1", "2"])
    assert read_state(tmp_path) == {"seconds": 30, "rounds": 3, "failed_rounds": 1}
    # The next hour begins anew.
    assert run_rounds(0, 0, 0) == (0, ["0", "1", "2"])


def test_a_failed_round_counts_after_an_interruption_too(run_rounds, tmp_path):
    assert run_rounds(1, 130) == (130, ["0", "1"])
    assert read_state(tmp_path) == {"seconds": 20, "rounds": 1, "failed_rounds": 1}
    # The interrupted round is run again.
    assert run_rounds(0) == (1, ["1"])


def test_where_pytest_cannot_run_no_round_counts(run_rounds, tmp_path):
    assert run_rounds(4) == (4, ["0"])
    assert not (tmp_path / "hour.json").exists()
