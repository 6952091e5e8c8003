"""The style of figures: what a journal asks of a file, and of colours and texts."""

import re

import pytest
from matplotlib.figure import Figure

from tests import figure_checks
from tfbio.reporting import drawing


def made(size=(3.5, 2.0), layout="constrained"):
    figure = Figure(figsize=size, layout=layout)
    axes = figure.add_subplot()
    axes.plot([1, 2, 3], [1, 4, 9], label="$x$ \u03b2-catenin")
    axes.set(xlabel="step", ylabel="loss (nats)", title="a title")
    axes.legend()
    return figure


def test_the_files_are_those_that_a_journal_takes(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        with drawing.style():
            kept = drawing.save(made(), folder, "curve", "a curve")
    png, pdf = ((folders[0] / f"curve.{ending}").read_bytes() for ending in ("png", "pdf"))
    # 3.5 inches of 300 dots, in the header's big-endian width.
    assert png.startswith(b"\x89PNG") and int.from_bytes(png[16:20], "big") == 1050
    assert pdf.startswith(b"%PDF")
    # Its letters are TrueType outlines in the file, and none are of Type 3.
    assert b"/CIDFontType2" in pdf and b"/FontFile2" in pdf and b"/Type3" not in pdf
    # No time and no address makes two reports on the same runs differ.
    for ending in ("png", "pdf"):
        one, other = ((folder / f"curve.{ending}").read_bytes() for folder in folders)
        assert one == other
    assert b"/CreationDate" not in pdf
    assert (kept.name, kept.title, kept.width) == ("curve", "a curve", 3.5)
    # An SVG that needs no font and no other file; names of XML are no addresses.
    addresses = set(re.findall(r'https?://[^"\s<]+', kept.svg))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r'href="(.)', kept.svg)) <= {"#"} and "<text" not in kept.svg


@pytest.mark.parametrize("blindness", ["", *figure_checks.COLOR_BLINDNESS])
def test_series_are_told_apart_by_colour(blindness):
    # A just noticeable difference is 2.3 (Mahy et al., 1994); red and green of one lightness fall
    # below the limit.
    used = [drawing.BLACK, drawing.GREY, *drawing.SERIES]
    assert figure_checks.nearest(used, blindness) > 10
    assert figure_checks.nearest(["#d62728", "#808000"], "deuteranopia") < 10
    assert len(set(drawing.LINES)) > 3 and len(set(drawing.MARKERS)) > 5


def test_the_simulation_is_that_of_the_paper():
    """White and greys stay as they are; a protanope sees red as a dark olive."""
    for blindness in figure_checks.COLOR_BLINDNESS:
        for grey in ("#ffffff", "#777777"):
            assert figure_checks.lab(grey, blindness) == pytest.approx(
                figure_checks.lab(grey), abs=0.1
            )
    # CIE's L*a*b* of sRGB's red.
    assert figure_checks.lab("#ff0000") == pytest.approx((53.24, 80.09, 67.20), abs=0.05)
    assert figure_checks.lab("#ff0000", "protanopia")[0] < 50


def test_the_check_sees_what_is_wrong():
    with drawing.style():
        assert figure_checks.mistakes(made()) == []
        # The caption of the first report, which was cut on both sides.
        figure = made()
        figure.text(
            0.5, 0.5, "blue: mean over seeds or folds and its interval; orange: each of them"
        )
        figure.axes[0].text(1.5, 4, "one")
        figure.axes[0].text(1.5, 4, "other")
        figure.axes[0].set_xlabel("")
        figure.text(0.1, 0.1, "small", fontsize=6)
        said = "; ".join(figure_checks.mistakes(figure))
    assert re.search(r"'blue: mean.*' is cut by \d+ pixels", said)
    assert "'one' is over 'other'" in said and "'small' has 6.0 points" in said
    assert "the x axis of 'a title' has no name" in said
