"""The chart of scores: a journal takes it, and its marks are at the scores."""

from dataclasses import replace

import numpy as np
import pytest

from tests import figure_checks
from tfbio.reporting import published, score_chart

OWN = published.Column("sentence_roles", "sentence_roles", "accuracy")
ASIDE = "3,000 of 4,797 test examples, or the folder with data of one's own"
LONG = "a model with a name that is far longer than any other one, 100k steps"


@pytest.fixture
def draw(tmp_path, drawn):
    """Draws runs of two seeds in each column, and gives matplotlib's figure."""

    def draw(columns, one_answer=None, beside=published.MODELS, models=("ours",), **more):
        own = {"figure": 80.0, "values": "79.0 81.0"} | more
        trivial = dict.fromkeys(columns, one_answer) if one_answer else {}
        figures = [{"data_set": x.title, "model": name} | own for x in columns for name in models]
        score_chart.draw(columns, figures, trivial, tmp_path, beside)
        assert {path.name for path in tmp_path.iterdir()} == {"report.png", "report.pdf"}
        return list(drawn)[-1]

    return draw


def said_by(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


ALL = {"one_answer": 80.5, "low": 78.0, "high": 82.0}


@pytest.mark.parametrize(
    ("width", "columns", "more"),
    [
        (3.5, [OWN], {"models": ("pretrained", "random weights"), **ALL}),
        (3.5, [OWN], {"values": "80.0"}),
        (3.5, published.BLURB[:1], ALL),
        (7.2, published.BLURB, {"models": ("ours", "random weights"), **ALL}),
        (3.5, [published.Column("", "", "balanced_accuracy")._replace(title=ASIDE)], ALL),
        (3.5, [OWN], {"models": (LONG, "$\\frac$"), **ALL}),
        (7.2, [OWN._replace(title=f"task {i}, {ASIDE}", metric="pearson") for i in range(6)], ALL),
    ],
    ids=["own", "one_seed", "one_of_blurb", "13", "long_title", "long_name", "6_long_titles"],
)
def test_a_journal_takes_it(width, columns, more, draw):
    figure = draw(columns, **more)
    assert figure.get_size_inches()[0] == width
    # A page has 247 mm (Nature).
    assert figure.get_size_inches()[1] < 247 / 25.4
    assert figure_checks.mistakes(figure) == []
    assert len(figure.axes) == len(columns)


def test_the_marks_are_at_the_scores(draw):
    """Those of Gu et al. (2021), Table 6, among them."""
    known = published.MODELS[:1]
    columns = published.BLURB[:2]
    figure = draw(columns, beside=known, low=78.5, high=82.0, one_answer=84.0)
    for axes, score in zip(figure.axes, (92.85, 84.70), strict=True):
        names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert names == [known[0].name, "ours"]
        points = {
            (float(x), round(float(y)))
            for line in axes.lines
            if line.get_marker() in ("o", "|")
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
        }
        assert {(score, 0), (80.0, 1), (79.0, 1), (81.0, 1)} <= points
        (ends,) = (x for x in axes.collections if len(x.get_segments()) == 1)
        np.testing.assert_allclose(np.array(ends.get_segments()[0])[:, 0], [78.5, 82.0])
        assert axes.get_xlabel() == "F1 (%)\ntrivial: 84.00"
    assert [axes.get_title() for axes in figure.axes] == ["BC5-chem", "BC5-disease"]


def test_models_of_one_name_share_a_row_unless_their_data_sets_do(draw):
    """BioBERT has figures of BLURB from one paper, and of BLUE from another."""
    columns = [published.BLURB[0], published.BLUE[0]]
    figure = draw(columns)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names.count("BioBERT") == 1
    twice = [replace(published.MODELS[0], figures={"BC5-chem": "9.00"}), published.MODELS[0]]
    names = draw(columns, beside=twice).axes[0].get_yticklabels()
    assert [label.get_text() for label in names] == ["BioBERT", "BioBERT", "ours"]


@pytest.mark.parametrize(
    ("title", "more", "said"),
    [
        ("task", {}, ["our mean", "each seed"]),
        ("task", {"folds": 10}, ["our mean", "each fold"]),
        ("task", {"low": 78.0, "high": 82.0}, ["our mean, 95 % interval", "each seed"]),
        (published.BLURB[0].title, {}, ["published", "our mean", "each seed"]),
        ("task", {"one_answer": 80.5}, ["our mean", "each seed", "trivial"]),
        # So far from the others that no line is drawn; its number stands below the panel.
        ("task", {"one_answer": 3.0}, ["our mean", "each seed"]),
    ],
)
def test_the_legend_explains_the_marks_that_are_there(title, more, said, draw):
    assert said_by(draw([published.Column(title, "", "")], **more)) == said


def test_a_median_over_folds_is_no_mean(draw):
    column = OWN._replace(of_others=True)
    assert said_by(draw([column], folds=10)) == ["our median", "each fold"]


@pytest.mark.parametrize("first", [0, 1])
def test_an_interval_is_explained_though_another_column_has_none(first, tmp_path, drawn):
    columns = [OWN, OWN._replace(title="other")]
    figures = [
        {"data_set": column.title, "model": "ours", "figure": 80.0, "values": "79.0 81.0"}
        for column in columns
    ]
    figures[first] |= {"low": 78.0, "high": 82.0}
    score_chart.draw(columns, figures, {}, tmp_path)
    assert said_by(list(drawn)[-1]) == ["our mean, 95 % interval", "each seed"]
