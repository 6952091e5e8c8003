"""Errors of mentions by type and length, worked out by hand, and their figure."""

import pytest

from tests import figure_checks
from tfbio.reporting import mention_errors
from tfbio.task_types.outcomes import (
    BOTH,
    BOUNDARIES,
    KINDS,
    LABEL,
    MISSED,
    RIGHT,
    SPURIOUS,
    Outcome,
)

OUTCOMES = {
    Outcome("gene", "gene", RIGHT, 1): 6,
    Outcome("gene", "gene", BOUNDARIES, 2): 1,
    Outcome("gene", "drug", LABEL, 1): 2,
    Outcome("gene", "", MISSED, 9): 1,
    Outcome("drug", "drug", RIGHT, 6): 3,
    Outcome("drug", "gene", BOTH, 2): 1,
    Outcome("", "drug", SPURIOUS, 1): 4,
}


def test_the_counts_by_type_and_length():
    rows = mention_errors.table("x", "type", mention_errors.by_type(OUTCOMES)).rows
    # true, right, wrong boundaries, wrong label, both, missed, spurious, recall
    assert rows == [
        ["all", "14", "9", "1", "2", "1", "1", "4", "64.29"],
        ["drug", "4", "3", "0", "0", "1", "0", "4", "75.00"],
        ["gene", "10", "6", "1", "2", "0", "1", "0", "60.00"],
    ]
    rows = mention_errors.table("x", "length", mention_errors.by_length(OUTCOMES)).rows
    assert rows == [
        ["1", "8", "6", "0", "2", "0", "0", "4", "75.00"],
        ["2", "2", "0", "1", "0", "1", "0", "0", "0.00"],
        ["6 or more", "4", "3", "0", "0", "0", "1", "0", "75.00"],
    ]
    one_type = {Outcome("", "drug", SPURIOUS, 1): 4}
    (row,) = mention_errors.table("x", "type", mention_errors.by_type(one_type)).rows
    assert row == ["all", "0", "0", "0", "0", "0", "0", "4", ""]
    assert mention_errors.are_mentions(OUTCOMES)
    assert not mention_errors.are_mentions({Outcome("a", "b", LABEL): 1})


@pytest.mark.parametrize(
    ("models", "width"),
    [(["ours"], 3.5), (["ours", "a model with a long name, 100k steps" * 3, "third"], 7.2)],
)
def test_a_journal_takes_it(models, width, drawn, tmp_path):
    long = {Outcome("a type with a very long name", "gene", LABEL, 3): 2}
    runs = dict.fromkeys(models, OUTCOMES | long)
    kept = mention_errors.draw(runs, tmp_path, "errors_x", "BC5-chem, 3,000 of 4,797 test examples")
    (figure,) = drawn
    assert figure_checks.mistakes(figure) == [] and kept.width == width
    assert len(figure.axes) == 2 * len(models)
    shown = figure.legends[0].get_patches()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(KINDS)
    # Kinds are told apart by colour, or else by hatch.
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in shown}
    assert len(looks) == len(KINDS)
    for blindness in ("", *figure_checks.COLOR_BLINDNESS):
        assert figure_checks.nearest([x.get_facecolor() for x in shown], blindness) > 10
    # Of 10 genes 6 are right.
    bars = dict(zip(KINDS, figure.axes[0].containers, strict=True))
    gene = [label.get_text() for label in figure.axes[0].get_yticklabels()].index("gene (10)")
    widths = [bars[kind][gene].get_width() for kind in KINDS]
    assert widths == pytest.approx([60, 10, 20, 0, 10, 0])


def test_of_many_types_the_most_frequent_are_shown(drawn, tmp_path):
    outcomes = {Outcome(f"{i:02}", f"{i:02}", RIGHT, 1): 100 - i for i in range(20)}
    mention_errors.draw({"ours": outcomes}, tmp_path, "errors_x", "i2b2-2014")
    (figure,) = drawn
    names = [label.get_text().partition(" ")[0] for label in figure.axes[0].get_yticklabels()]
    assert names == ["all", *(f"{i:02}" for i in range(12))]


def test_a_group_without_true_mentions_has_no_bar(drawn, tmp_path):
    """Its 40 spurious mentions would be 4,000 for 100 true ones, beside which all others vanish."""
    outcomes = {Outcome("a", "a", RIGHT, 1): 100, Outcome("", "a", SPURIOUS, 6): 40}
    mention_errors.draw({"ours": outcomes}, tmp_path, "errors_x", "BC5-chem")
    (figure,) = drawn
    assert max(axes.get_xlim()[1] for axes in figure.axes) < 200
