"""The chart of scores: a panel for each data set, with published models and our runs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfbio.base import storage
from tfbio.reporting import published
from tfbio.reporting.published import Column


def draw(
    columns: Sequence[Column],
    figures: Sequence[dict],
    trivial: Mapping[Column, float],
    path: Path,
    beside: Sequence[published.Model] = published.MODELS,
) -> None:
    """Draws the chart of scores: a panel for each column, with published models and our runs.

    A panel has the published figures, ours with their intervals, and that of each seed or fold, in
    percent. Writes a PNG file and returns nothing.

    Args:
      columns: the columns of our runs, at least one.
      figures: a dict for each run and column, see `score_tables.figures_of`.
      trivial: column -> the figure of one answer to all its examples, in percent.
      path: the PNG file to write.
      beside: the published models.

    Raises:
      ZeroDivisionError: there are no columns.
    """
    from matplotlib.figure import Figure

    wide = min(4, len(columns))
    high = -(-len(columns) // wide)
    width, height = _size_of_panel(columns, figures, beside)
    figure = Figure(figsize=(width * wide, height * high), layout="constrained")
    axes = list(figure.subplots(high, wide, squeeze=False).flat)
    # What the marks that are drawn mean, by their colours.
    interval = " and its interval" if any("low" in one for one in figures) else ""
    marks = {"blue": f"mean over seeds or folds{interval}", "orange": "each of them"}
    for axis, column in zip(axes, columns, strict=False):
        title = column.title
        others = [(x.name, float(x.figures[title])) for x in beside if title in x.figures]
        own = [one for one in figures if one["data_set"] == title]
        names = [name for name, _ in others] + [one["model"] for one in own]
        if others:
            axis.plot([value for _, value in others], range(len(others)), "o", color="grey")
            marks["grey"] = "published"
        for place, one in enumerate(own, start=len(others)):
            mean = one["figure"]
            ends = [[max(0, mean - one.get("low", mean))], [max(0, one.get("high", mean) - mean)]]
            axis.errorbar(mean, place, xerr=ends, fmt="o", color="C0", capsize=3)
            values = [float(value) for value in one["values"].split()]
            axis.plot(values, [place + 0.3] * len(values), "|", color="C1")
        axis.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_title(textwrap.fill(title, 38), parse_math=False)
        axis.grid(alpha=0.3, axis="x")
        if column in trivial:
            answer = trivial[column]
            low, high = axis.get_xlim()
            if low <= answer <= high:
                axis.axvline(answer, color="C3", linestyle="--", linewidth=1)
                marks["red"] = "trivial, one answer to all"
            axis.set_xlabel(f"trivial: {answer:.2f}", fontsize=8)
    for axis in axes[len(columns) :]:
        axis.remove()
    colours = [colour for colour in ("blue", "orange", "grey", "red") if colour in marks]
    caption = "; ".join(f"{colour}: {marks[colour]}" for colour in colours)
    figure.supxlabel(textwrap.fill(caption, 48 * wide), fontsize="medium")
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def _size_of_panel(
    columns: Sequence[Column], figures: Sequence[dict], beside: Sequence[published.Model]
) -> tuple[float, float]:
    """Returns the width and height of a panel in inches: more for many names, and for long ones."""
    names = [
        [x.name for x in beside if column.title in x.figures]
        + [one["model"] for one in figures if one["data_set"] == column.title]
        for column in columns
    ]
    # A name is 8 points high, and about half as wide a letter; 24 letters and 18 names fit into 4.6
    # by 4 inches.
    longest = max(len(name) for of_column in names for name in of_column)
    most = max(map(len, names))
    return 4.6 + 0.06 * max(0, longest - 24), 4 + 0.17 * max(0, most - 18)
