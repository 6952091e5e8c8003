"""Confusion matrices, against scikit-learn, and their figures as a journal sees them."""

import random

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tests import figure_checks
from tfbio.reporting import confusion
from tfbio.task_types.outcomes import BOUNDARIES, MISSED, RIGHT, SPURIOUS, Outcome, of_labels

NAMES = ["sustaining proliferative signaling", "resisting cell death", "x", "<b>|", "$\\frac$"]


def labels(count, names, seed=0):
    generator = random.Random(seed)
    truth = [generator.choice(names) for _ in range(count)]
    return truth, [generator.choice([true, true, *names]) for true in truth]


def test_the_counts_are_those_of_scikit_learn():
    truth, found = labels(500, NAMES)
    outcomes = of_labels(truth, found)
    own = confusion.matrix(outcomes)
    assert own.labels == sorted(NAMES)
    np.testing.assert_array_equal(own.counts, confusion_matrix(truth, found, labels=own.labels))
    (note,) = confusion.scores_table("all", outcomes).notes
    assert "HoC's score is by document" in note
    (note,) = confusion.scores_table("all", {Outcome("a", "a", RIGHT, 2): 5}).notes
    assert "PICO's score is by word" in note
    table = confusion.table("all", own)
    assert table.rows[0] == [own.labels[0], *map(str, own.counts[0])]
    scores = precision_recall_fscore_support(truth, found, labels=own.labels)
    for row, *expected in zip(confusion.scores_table("all", outcomes).rows, *scores, strict=True):
        precision, recall, f1, true = expected
        assert row[1] == str(true)
        assert row[4:7] == [f"{100 * x:.2f}" for x in (precision, recall, f1)]
    x = own.labels.index("x")
    wrong = [0 if i == x else count for i, count in enumerate(own.counts[x])]
    assert f"{own.labels[int(np.argmax(wrong))]} ({max(wrong)})" == row_of("x", outcomes)[-1]


def row_of(label, outcomes):
    return next(x for x in confusion.scores_table("", outcomes).rows if x[0] == label)


def test_missed_and_spurious_have_a_row_and_a_column():
    outcomes = {Outcome("a", "a", RIGHT): 5, Outcome("a", "", MISSED): 2}
    # With the right label and other boundaries it is not right.
    outcomes |= {Outcome("", "b", SPURIOUS): 3, Outcome("a", "a", BOUNDARIES): 1}
    own = confusion.matrix(outcomes)
    assert own.labels == ["a", "b", "(none)"]
    assert own.counts.tolist() == [[6, 0, 2], [0, 0, 0], [0, 3, 0]]
    assert row_of("a", outcomes)[1:] == ["8", "6", "5", "83.33", "62.50", "71.43", "(none) (2)"]
    assert row_of("b", outcomes)[1:] == ["0", "3", "0", "0.00", "0.00", "0.00", ""]
    assert confusion.has_several_labels(outcomes)
    assert not confusion.has_several_labels({Outcome("a", "", MISSED): 2})


def test_of_many_labels_the_rarest_are_together():
    outcomes = {Outcome(f"{i:02}", f"{i:02}", RIGHT): 100 - i for i in range(23)}
    own = confusion.matrix(outcomes)
    assert own.labels == [*(f"{i:02}" for i in range(19)), "(others)"]
    assert own.counts[-1, -1] == sum(100 - i for i in range(19, 23))
    assert own.counts.sum() == sum(outcomes.values())


@pytest.mark.parametrize(
    ("names", "models", "width"),
    [
        (["yes", "no"], ["ours"], 3.5),
        (["background", "conclusions", "methods", "objective", "results"], ["a", "b", "c"], 7.2),
        ([f"{i}, {NAMES[0]}" for i in range(20)], ["a model with a long name " * 5], 7.2),
    ],
)
def test_a_journal_takes_it(names, models, width, drawn, tmp_path):
    truth, found = labels(300, names)
    runs = dict.fromkeys(models, of_labels(truth, found))
    kept = confusion.draw(runs, tmp_path, "confusion_x", "a data set, 3 of 40 test examples")
    (figure,) = drawn
    assert figure_checks.mistakes(figure) == []
    assert (kept.name, kept.width) == ("confusion_x", width)
    matrices = [axes for axes in figure.axes if axes.get_xlabel() == "predicted label"]
    assert len(matrices) == len(models)
    expected = 100 * confusion_matrix(truth, found, normalize="true")
    for axes in matrices:
        np.testing.assert_allclose(axes.images[0].get_array(), expected)
        # Numbers can be read on their cells: WCAG's contrast of 4.5.
        for text in axes.texts:
            share = float(expected[int(text.get_position()[1]), int(text.get_position()[0])])
            assert text.get_text() == f"{share:.0f}"
            cell = axes.images[0].to_rgba(np.array([[share]]))[0, 0, :3]
            high, low = sorted((light(cell), light(text.get_color())), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5


def light(color):
    """WCAG's relative luminance, which is Y of CIE XYZ."""
    lightness = figure_checks.lab(color)[0]
    return ((lightness + 16) / 116) ** 3 if lightness > 8 else lightness / 903.3
