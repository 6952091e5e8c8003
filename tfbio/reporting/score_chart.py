"""The chart of scores: a panel for each data set, with published models and our runs.

The panels of a row share the names of the models. A score has a mark and not a bar, since the axis
does not begin at 0: published models lie a few points apart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbio.reporting import drawing, published
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.published import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The least width of a panel in inches, the letters of a name of a model, and lines above and below
# a panel: title, numbers and name of the axis, and the space between.
_PANEL, _LETTERS, _LINES_AROUND = 1.02, 30, 5
# In the order of the legend.
_SERIES = ("published", "our mean", "our median", "each seed", "each fold", "trivial")


def draw(
    columns: Sequence[Column],
    figures: Sequence[dict],
    trivial: Mapping[Column, float],
    folder: Path,
    beside: Sequence[published.Model] = published.MODELS,
) -> Drawing:
    """Draws the chart of scores: a panel for each column, with published models and our runs.

    A panel has the published figures, ours with their intervals, and that of each seed or fold, in
    percent. Writes report.png and report.pdf, of one column's width if the panels fit.

    Args:
      columns: the columns of our runs, at least one.
      figures: a dict for each run and column, see `score_tables.figures_of`.
      trivial: column -> the figure of one answer to all its examples, in percent.
      folder: where the files go.
      beside: the published models.

    Returns:
      The `Drawing`.

    Raises:
      ValueError: there are no columns.
    """
    from matplotlib.figure import Figure

    names = [x.name for x in beside if any(c.title in x.figures for c in columns)]
    names += [one["model"] for one in figures]
    names = [_wrapped(name) for name in names]
    # The names, and that of their axis.
    beyond = drawing.LETTER * max(len(x) for name in names for x in name.split("\n")) + 0.4
    pitch = 1.9 if any("\n" in name for name in names) else 1.0
    width = drawing.COLUMN
    if len(columns) * _PANEL > width - beyond:
        width = drawing.PAGE
    wide = min(len(columns), int((width - beyond) / _PANEL))
    inches = (width - beyond) / wide - 0.08
    letters = int(inches / drawing.LETTER)
    parts = [columns[start : start + wide] for start in range(0, len(columns), wide)]
    rows = [(shown, _rows_of(shown, figures, beside)) for shown in parts]
    # In lines: the rows of a panel, and all of it.
    heights = [pitch * len(own) + 0.4 for _, own in rows]
    around = sum(_LINES_AROUND + _most_lines(shown, inches) for shown, _ in rows)
    around += 3 if width == drawing.COLUMN else 2
    with drawing.style():
        height = drawing.LINE * (1.15 * sum(heights) + around)
        figure = Figure(figsize=(width, height), layout="constrained")
        # Three numbers fit below a narrow panel.
        numbers = 3 if inches < 1.5 else 5
        grid = figure.add_gridspec(len(rows), wide, height_ratios=heights)
        marks: dict[str, Any] = {}
        for row, (shown, own) in enumerate(rows):
            panels: list[Axes] = []
            for place, column in enumerate(shown):
                first = panels[0] if panels else None
                axes = figure.add_subplot(grid[row, place], sharey=first)
                axes.tick_params(labelleft=first is None, length=0, axis="y")
                panels.append(axes)
                _draw_panel(axes, column, own, figures, marks)
                axes.locator_params(axis="x", nbins=numbers)
                _draw_trivial(axes, column, trivial, marks)
                axes.set_title(drawing.title(column.title, inches))
                words = axes.get_xlabel().split("\n")
                axes.set_xlabel("\n".join(textwrap.fill(line, letters) for line in words))
            _name_rows(panels[0], own)
        handles = [marks[series] for series in _SERIES if series in marks]
        drawing.legend(figure, handles, 2 if width == drawing.COLUMN else 4)
        said = "Scores on the test sets beside the published ones"
        return drawing.save(figure, folder, "report", said)


def _wrapped(name: str) -> str:
    """Returns the name of a model on one line, or two; a longer one ends with an ellipsis."""
    return textwrap.fill(name, _LETTERS, max_lines=2, placeholder="\u2026")


def _most_lines(columns: Sequence[Column], inches: float) -> int:
    """Returns how many lines more than one the longest title of a row of panels has."""
    return max(drawing.title(column.title, inches).count("\n") for column in columns)


# A row of the chart: the name of its model, and for a published one its figures.
_Row = tuple[str, Mapping[str, str] | None]


def _rows_of(
    columns: Sequence[Column], figures: Sequence[dict], beside: Sequence[published.Model]
) -> list[_Row]:
    """Returns the rows of some panels: published models, and ours below them.

    Figures of one name from several papers share a row where they are of different data sets.
    """
    titles = {column.title for column in columns}
    rows: list[tuple[str, dict[str, str]]] = []
    for model in beside:
        own = {title: model.figures[title] for title in titles & model.figures.keys()}
        fitting = [x for name, x in rows if name == model.name and not x.keys() & own.keys()]
        if own and fitting:
            fitting[0].update(own)
        elif own:
            rows.append((model.name, own))
    ours = dict.fromkeys(one["model"] for one in figures if one["data_set"] in titles)
    return [*rows, *((name, None) for name in ours)]


def _draw_panel(
    axes: Axes,
    column: Column,
    rows: Sequence[_Row],
    figures: Sequence[dict],
    marks: dict[str, Any],
) -> None:
    """Draws the scores of a data set.

    Args:
      axes: of the panel.
      column: the data set.
      rows: of the panel.
      figures: a dict for each run and column.
      marks: name of a series -> a handle for the legend; grows.
    """
    title = column.title
    printed = {
        place: float(others[title])
        for place, (_, others) in enumerate(rows)
        if others and title in others
    }
    if printed:
        (marks["published"],) = axes.plot(
            list(printed.values()),
            list(printed),
            label="published",
            color=drawing.GREY,
            marker="o",
            linestyle="",
            fillstyle="none",
        )
    own = {one["model"]: one for one in figures if one["data_set"] == title}
    for place, (name, others) in enumerate(rows):
        if others is not None or name not in own:
            continue
        one = own[name]
        middle, series = one["figure"], "our median" if column.of_others else "our mean"
        ends = [
            [max(0, middle - one.get("low", middle))],
            [max(0, one.get("high", middle) - middle)],
        ]
        label = f"{series}, 95 % interval" if "low" in one else series
        mark = axes.errorbar(
            middle, place, xerr=ends, label=label, fmt="o", color=drawing.BLUE, capsize=2, zorder=3
        )
        # The legend has one with an interval, if there is any.
        if series not in marks or "low" in one:
            marks[series] = mark
        values = [float(value) for value in one["values"].split()]
        label = "each fold" if "folds" in one else "each seed"
        (marks[label],) = axes.plot(
            values,
            [place + 0.33] * len(values),
            label=label,
            color=drawing.VERMILLION,
            marker="|",
            linestyle="",
            zorder=4,
        )
    axes.margins(x=0.08)
    axes.set_xlabel(drawing.metric_name(column.metric))
    axes.grid(axis="both")
    axes.set_axisbelow(True)


def _draw_trivial(
    axes: Axes, column: Column, trivial: Mapping[Column, float], marks: dict[str, Any]
) -> None:
    """Draws the score of one answer to all, as a line if it is in sight, and as a number below."""
    if column not in trivial:
        return
    answer = trivial[column]
    low, high = axes.get_xlim()
    if low <= answer <= high:
        marks["trivial"] = axes.axvline(
            answer, label="trivial", color=drawing.BLACK, linestyle="--", linewidth=0.8
        )
    axes.set_xlabel(f"{axes.get_xlabel()}\ntrivial: {answer:.2f}")


def _name_rows(axes: Axes, rows: Sequence[_Row]) -> None:
    """Writes the names of the models left of the first of a row of panels, and ours in bold."""
    axes.set_yticks(range(len(rows)), [_wrapped(name) for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_ylabel("model")
    for label, (_, figures) in zip(axes.get_yticklabels(), rows, strict=True):
        if figures is None:
            label.set(color=drawing.BLUE, weight="bold")
