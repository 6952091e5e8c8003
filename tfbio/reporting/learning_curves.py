"""Draws the learning curves of pretraining and of fine-tuning."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbio.reporting import curves, drawing
from tfbio.reporting.curves import Curve
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.grouping import Models
from tfbio.reporting.published import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# A panel's height in inches, how many letters fit beside it, and how many stand side by side on two
# columns.
_HEIGHT, _LETTERS_HIGH, _WIDE = 1.6, 18, 3


def draw_pretraining(logged: Mapping[str, Mapping[str, Curve]], folder: Path) -> Drawing:
    """Draws the curves of a pretraining run, with the points of the held-out articles.

    It writes pretraining.png and pretraining.pdf, with a panel for each loss, accuracy and AUC
    among the held-out curves.

    Args:
      logged: the result of `curves.read_run`.
      folder: where the files go.

    Returns:
      The `Drawing`.

    Raises:
      ZeroDivisionError: the held-out curves have none of these figures.
    """
    drawn = [own for own in curves.PRETRAINING_SCALARS if own[0] in logged["heldout"]]
    with drawing.style():
        figure, panels, inches = _figure_of(len(drawn))
        handles: list[Line2D] = []
        for axes, (tag, name, unit) in zip(panels, drawn, strict=True):
            handles = []
            for split, label, marker in (("train", "training", ""), ("heldout", "held out", "o")):
                points = logged[split].get(tag, [])
                color, line = (drawing.VERMILLION, "--") if marker else (drawing.BLUE, "-")
                handles += axes.plot(
                    [x for x, _ in points],
                    [y for _, y in points],
                    color=color,
                    linestyle=line,
                    marker=marker,
                    label=label,
                )
            _name(axes, f"{name[0].upper()}{name[1:]}", unit, inches)
        drawing.legend(figure, handles, 2)
        return drawing.save(figure, folder, "pretraining", "Learning curves of pretraining")


def draw_finetuning(columns: Sequence[Column], models: Models, folder: Path) -> Drawing | None:
    """Draws the curves of fine-tuning: for each column the training loss, and the score on dev.

    It writes fine_tuning.png and fine_tuning.pdf. Each seed has a line, and a point for each
    evaluation; without any during training, the only one is that of the weights that were kept.
    Joined folds are left out.

    Args:
      columns: the columns of our runs.
      models: our runs, name of a model -> task -> its run.
      folder: where the files go.

    Returns:
      The `Drawing`; None if no run has logs.
    """
    names = list(models)
    read: dict[str, dict[str, dict[str, list[dict[str, Curve]]]]] = {}
    for name, runs in models.items():
        for task, run in runs.items():
            if run.folds:  # each has curves of its own
                continue
            found = curves.read_trials(run.folder)
            if found["train"] or found["dev"]:
                read.setdefault(task, {})[name] = found
    shown = [column for column in columns if column.task in read and not column.of_others]
    if not shown:
        return None
    with drawing.style():
        figure, panels, inches = _figure_of(2 * len(shown), wide=4)
        handles: dict[str, Any] = {}
        for place, column in enumerate(shown):
            train, dev = panels[2 * place : 2 * place + 2]
            for name, found in read[column.task].items():
                style = _style_of(names.index(name)) | {"label": drawing.shortened(name, 40)}
                for trial in found["train"]:
                    handles[name] = _plot(train, trial.get("loss", []), 1, style | {"marker": ""})
                for trial in found["dev"]:
                    handles[name] = _plot(dev, trial.get(column.metric, []), 100, style)
            # The only evaluation may be the last one.
            dev.sharex(train)
            unit = f"training loss ({_unit_of_loss(column.metric)})"
            _name(train, column.title, unit, inches)
            _name(dev, column.title, f"dev {drawing.metric_name(column.metric)}", inches)
        drawing.legend(figure, list(handles.values()), 4)
        return drawing.save(figure, folder, "fine_tuning", "Learning curves of fine-tuning")


def _figure_of(panels: int, wide: int = _WIDE) -> tuple[Figure, list[Axes], float]:
    """Makes a figure of so many panels and a legend: one column wide for one or two.

    Returns:
      The figure, its panels, and the inches that one has of its width.
    """
    from matplotlib.figure import Figure

    width = drawing.COLUMN if panels <= 2 and wide > 2 or panels == 1 else drawing.PAGE
    wide = min(panels, 2 if width == drawing.COLUMN else wide)
    high = -(-panels // wide)
    figure = Figure(figsize=(width, _HEIGHT * high + 2 * drawing.LINE), layout="constrained")
    grid = figure.add_gridspec(high, wide)
    axes = [figure.add_subplot(grid[i // wide, i % wide]) for i in range(panels)]
    return figure, axes, width / wide


def _plot(axes: Axes, points: Curve, scale: float, style: dict[str, Any]) -> Any:
    """Draws a curve, its values times `scale`, and returns its line."""
    (line,) = axes.plot([x for x, _ in points], [scale * y for _, y in points], **style)
    return line


def _style_of(number: int) -> dict[str, Any]:
    """Returns the colour, line and marker of a model by its number."""
    return {
        "color": drawing.SERIES[number % len(drawing.SERIES)],
        "linestyle": drawing.LINES[number % len(drawing.LINES)],
        "marker": drawing.MARKERS[number % len(drawing.MARKERS)],
    }


def _unit_of_loss(metric: str) -> str:
    return "squared error" if metric in drawing.CORRELATIONS else "nats"


def _name(axes: Axes, title: str, unit: str, inches: float) -> None:
    """Names a panel, so wide, and its axes; three numbers fit below it."""
    axes.locator_params(axis="x", nbins=3)
    axes.locator_params(axis="y", nbins=5)
    # Beside the panel stand numbers, and the name of their axis on two lines.
    title = drawing.title(title, inches - 0.6)
    axes.set(xlabel="step", ylabel=textwrap.fill(unit, _LETTERS_HIGH), title=title)
    axes.grid()
    axes.set_axisbelow(True)
