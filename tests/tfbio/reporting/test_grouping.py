"""The runs of a report by data, model and task."""

import dataclasses
import re

import numpy as np
import pytest
from scipy import stats

from tests.tfbio.reporting.runs_by_hand import run_of, texts
from tfbio.reporting import grouping, results, test_sets


def test_data_of_ones_own_are_told_apart_by_the_shortest_end_of_their_path():
    def named(*sets):
        runs = [results.Run("", "m", task, "f1", [], [], (), *own) for task, *own in sets]
        return [run.task for run in grouping.by_data(runs)]

    # The same name, other data; the same data elsewhere; another kind of task; a run of before.
    assert named(
        ("ner", "/home/notes/data", "1"),
        ("ner", "/home/papers/data", "2"),
        ("ner", "/copy/data", "1"),
        ("pair", "/home/notes/data", "3"),
        ("ner", "", ""),
    ) == ["notes/data (ner)", "papers/data (ner)", "notes/data (ner)", "data (pair)", "ner"]
    assert named(("ner", "/a/x/data", "1"), ("ner", "/b/x/data", "2")) == [
        "a/x/data (ner)",
        "b/x/data (ner)",
    ]
    assert named(("ner", "/a/reports", "1"), ("ner", "/a/notes", "2")) == [
        "reports (ner)",
        "notes (ner)",
    ]
    # No path tells them apart: the files were changed.
    one, other = named(("ner", "/a/data", "1"), ("ner", "/a/data", "2"))
    assert one != other and all(re.fullmatch(r"data [0-9a-f]{6} \(ner\)", x) for x in (one, other))
    assert named(("ner", "data", "1"), ("ner", "/a/data", "2"))[1] == "a/data (ner)"


def test_folds_are_to_a_joined_run_what_seeds_are_to_another(monkeypatch):
    """Figures by hand; the interval by scipy, which draws the numbers of all examples."""
    generator = np.random.default_rng(6)
    right = [generator.random((seeds, 60)) < 0.5 + seeds / 10 for seeds in (1, 2, 4, 3)]
    runs = [run_of(own, name=f"fold {i}") for i, own in enumerate(right)]
    runs[0] = dataclasses.replace(runs[0], devs=[{"accuracy": 0.5}])
    run = grouping.joined(runs, "ten folds")
    means = [own.mean() for own in right]
    assert run.values() == pytest.approx(means) and run.devs == ()
    assert run.mean() == pytest.approx(np.mean(means))
    assert run.median_of_others() == pytest.approx(np.median(means[1:]))
    assert run.median_of_others() != pytest.approx(np.mean(means[1:]))
    assert len(run.examples) == 240 and run.can_draw() and not run.can_draw("macro_f1")
    of_example = np.concatenate([own.mean(axis=0) for own in right])
    fold = np.repeat(np.arange(4), 60)

    def mean_of_folds(rows):
        return np.mean([of_example[rows[fold[rows] == i]].mean() for i in range(4)])

    rows = generator.integers(240, size=240)
    assert run.drawn(rows) == pytest.approx(mean_of_folds(rows))
    expected = stats.bootstrap(
        (np.arange(240),), mean_of_folds, vectorized=False, method="percentile",
        n_resamples=3000, random_state=0,
    ).confidence_interval  # fmt: skip
    # The ends of 3,000 draws have a standard error of 0.002.
    assert run.interval() == pytest.approx(tuple(expected), abs=0.008)
    monkeypatch.setattr(results, "SAMPLES", 50)
    row = results.figures(run, "accuracy")
    assert row["std"] == pytest.approx(100 * np.std(means, ddof=1))
    assert (row["folds"], row["seeds"], row["task"]) == (4, 4, "bioasq")


def test_folds_of_different_sizes_count_alike_in_a_draw():
    right = [[1, 0], [1, *[0] * 7]]
    run = grouping.joined([run_of([own], name=str(i)) for i, own in enumerate(right)], "folds")
    assert run.mean() == run.drawn(np.arange(10)) == 5 / 16


def test_test_sets_that_are_not_known_to_be_the_published_one_are_told_apart():
    """Their figures would stand in one column, beside the published ones."""
    unverified = test_sets.Match(unverified="of 140 test examples, which were not at hand")

    def run(name, labels, match=unverified):
        right = np.ones((1, len(labels)), bool)
        return dataclasses.replace(run_of(right, name, texts(labels)), match=match)

    def tasks(*runs):
        grouped, baselines = grouping.by_test_set(runs[1:], runs[:1])
        return [(each.task, each.part_of) for each in [*baselines, *grouped]]

    same = [run("a", ["yes", "no"]), run("b", ["yes", "no"])]
    assert tasks(*same) == [("bioasq", "")] * 2
    one, again, other = tasks(*same, run("c", ["yes", "no", "yes"]))
    assert one == again == ("BioASQ, 2 test examples", "bioasq")
    assert other == ("BioASQ, 3 test examples", "bioasq")
    of_one_size = tasks(same[0], run("c", ["no", "no"]))
    assert len(set(of_one_size)) == 2
    # What is known to be published stays so.
    assert tasks(run("d", ["yes"], test_sets.Match()), same[0]) == [("bioasq", "")] * 2
