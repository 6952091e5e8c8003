"""The chart of scores: its words are inside of it and explain its marks."""

import itertools
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from tfbio.reporting import published, score_chart


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Draws runs of two seeds, one in each column, and gives matplotlib's figure."""
    drawn = []
    save = Figure.savefig

    def savefig(figure, *arguments, **options):
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)

    def draw(columns, one_answer=None, beside=published.MODELS, **more):
        own = {"model": "ours", "figure": 80.0, "values": "79.0 81.0"} | more
        trivial = dict.fromkeys(columns, one_answer) if one_answer else {}
        figures = [{"data_set": column.title, **own} for column in columns]
        score_chart.draw(columns, figures, trivial, tmp_path / "report.png", beside)
        return drawn[-1]

    return draw


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_the_words_about_the_scores_are_inside_of_the_picture(panels, draw):
    aside = "3,000 of 4,797 test examples, or the folder with data of one's own"
    columns = [published.Column(f"task {number}, {aside}", "", "") for number in range(panels)]
    known = replace(published.MODELS[0], figures={columns[0].title: "82.00"})
    figure = draw(columns, one_answer=80.5, beside=(known,), low=78.0, high=82.0)
    caption = figure._supxlabel.get_window_extent()
    # All that it can say.
    said = " ".join(figure._supxlabel.get_text().split())
    assert said == (
        "blue: mean over seeds or folds and its interval; orange: each of them; grey: published; "
        "red: trivial, one answer to all"
    )
    assert caption.x0 >= 0 and caption.x1 <= figure.bbox.x1 and caption.y0 >= 0
    titles = [axis.title.get_window_extent() for axis in figure.axes]
    assert not [x for x in titles if not (x.x0 >= 0 and x.x1 <= figure.bbox.x1)]
    assert not any(x.overlaps(y) for i, x in enumerate(titles) for y in titles[:i])


@pytest.mark.parametrize(
    ("title", "drawn_too", "said"),
    [
        ("task", {}, "blue: mean over seeds or folds; orange: each of them"),
        (
            "task",
            {"low": 78.0, "high": 82.0},
            "blue: mean over seeds or folds and its interval; orange: each of them",
        ),
        (
            published.BLURB[0].title,
            {},
            "blue: mean over seeds or folds; orange: each of them; grey: published",
        ),
        (
            "task",
            {"one_answer": 80.5},
            "blue: mean over seeds or folds; orange: each of them; red: trivial, one answer to all",
        ),
        # So far from the others that no line is drawn; its number stands below the panel.
        ("task", {"one_answer": 3.0}, "blue: mean over seeds or folds; orange: each of them"),
    ],
)
def test_the_caption_explains_the_marks_that_are_there(title, drawn_too, said, draw):
    figure = draw([published.Column(title, "", "")], **drawn_too)
    assert " ".join(figure._supxlabel.get_text().split()) == said


@pytest.mark.parametrize("paper", ["", "pubmedbert", "biomegatron"])
def test_the_names_of_the_models_do_not_overlap(paper, draw):
    columns = [published.BLURB[0], published.BLURB[6]]
    figure = draw(columns, beside=published.models_of(paper) if paper else published.MODELS)
    # Saving left the figure with another number of dots an inch than its text was laid out for.
    figure.draw_without_rendering()
    for axis in figure.axes:
        names = [label.get_window_extent() for label in axis.get_yticklabels()]
        assert len(names) > 10 and not any(x.overlaps(y) for x, y in itertools.pairwise(names))
        assert min(name.x0 for name in names) >= 0
        # Room for the marks beside the longest name.
        assert axis.bbox.width > 0.4 * figure.bbox.width / 2
