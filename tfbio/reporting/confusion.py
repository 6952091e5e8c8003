"""Counts and draws which labels a run takes for which others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfbio.reporting import drawing
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.tables import Table
from tfbio.task_types.outcomes import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The row of what is not true, and the column of what is not predicted.
NONE, OTHERS = "(none)", "(others)"
# The most labels of a matrix, the width of a cell in inches, in which "100" fits, that of one in a
# matrix of two columns, and the letters of a label, in the latter for a row.
_MOST, _CELL, _WIDE_CELL, _LETTERS, _WIDE_LETTERS = 20, 0.23, 0.26, 22, 40


class Confusion(NamedTuple):
    """A confusion matrix.

    Attributes:
      labels: the names of its rows and columns.
      counts: int64 [labels, labels], how often each true label (row) got each predicted one.
    """

    labels: list[str]
    counts: np.ndarray


def matrix(outcomes: Mapping[Outcome, int]) -> Confusion:
    """Counts a confusion matrix.

    Args:
      outcomes: how often each is there, over all seeds.

    Returns:
      The matrix, its labels in the order of their names. Where labels are missed or spurious, the
      last one is `NONE`. If there are more than 20, the rarest are together as `OTHERS`, before it.
    """
    used: Counter[str] = Counter()
    for outcome, times in outcomes.items():
        used.update({outcome.true: times, outcome.predicted: times})
    del used[""]
    kept = {label for label, _ in used.most_common(_MOST if len(used) <= _MOST else _MOST - 1)}
    names = sorted(kept) + [OTHERS] * (len(kept) < len(used))
    if any(not (x.true and x.predicted) for x in outcomes):
        names.append(NONE)
    place = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    for outcome, times in outcomes.items():
        row, column = (
            place[(x if x in kept else OTHERS) if x else NONE]
            for x in (outcome.true, outcome.predicted)
        )
        counts[row, column] += times
    return Confusion(names, counts)


def has_several_labels(outcomes: Mapping[Outcome, int]) -> bool:
    """Returns True if there are two labels or more that could be confused."""
    return len({name for x in outcomes for name in (x.true, x.predicted)} - {""}) > 1


def table(title: str, confusion: Confusion) -> Table:
    """Makes a table of the counts of a confusion matrix, with the true labels as rows.

    Args:
      title: of the table.
      confusion: the matrix.
    """
    header = ["true label", *(f"as {label}" for label in confusion.labels)]
    rows = [
        [label, *(f"{count:,}" for count in counts)]
        for label, counts in zip(confusion.labels, confusion.counts.tolist(), strict=True)
    ]
    return Table(title, header, rows, 0, [])


def draw(runs: Mapping[str, Mapping[Outcome, int]], folder: Path, name: str, title: str) -> Drawing:
    """Draws the confusion matrices of models on one data set, a panel for each.

    A cell has the share of the true label in percent. Writes a PNG and a PDF.

    Args:
      runs: name of a model -> its outcomes.
      folder: where the files go.
      name: of the files, without the ending.
      title: of the data set.

    Returns:
      The `Drawing`.
    """
    from matplotlib.figure import Figure

    matrices = {model: matrix(own) for model, own in runs.items()}
    most = max(len(own.labels) for own in matrices.values())
    letters = min(_LETTERS, max(len(x) for own in matrices.values() for x in own.labels))
    # Beside the cells stand the labels, the name of their axis and the scale.
    beside = drawing.LETTER * letters + 0.85
    fits = most * _CELL <= drawing.COLUMN - beside
    panel = drawing.COLUMN if fits else drawing.PAGE
    width = panel if len(matrices) == 1 or not fits else drawing.PAGE
    wide = min(len(matrices), 2 if fits else 1)
    # Two matrices of the broader kind fit on a page; a title fits above a small one.
    cells = min(max(1.5, (0.4 if fits else _WIDE_CELL) * most), panel - beside)
    titles = [drawing.title(f"{title}: {model}", cells) for model in matrices]
    lines = max(text.count("\n") for text in titles)
    height = cells + drawing.LETTER * letters + 0.6 + drawing.LINE * lines
    # Beside a small matrix of two columns there is room for longer names.
    room = min(_WIDE_LETTERS, max(letters, int((panel - cells - 0.85) / drawing.LETTER)))
    high = -(-len(matrices) // wide)
    with drawing.style():
        figure = Figure(figsize=(width, high * height), layout="constrained")
        panels = list(figure.subplots(high, wide, squeeze=False).flat)
        for axes, own, text in zip(panels, matrices.values(), titles, strict=False):
            _draw_matrix(axes, own, room)
            axes.set_title(text)
        for axes in panels[len(matrices) :]:
            axes.remove()
        said = f"Confusion of labels on {title}: {', '.join(matrices)}"
        return drawing.save(figure, folder, name, said)


def _draw_matrix(axes: Axes, confusion: Confusion, letters: int) -> None:
    """Draws a matrix with its scale; the names of rows have at most so many letters."""
    counts = confusion.counts
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    names = [drawing.shortened(label, _LETTERS) for label in confusion.labels]
    axes.set_xticks(range(len(names)), names, rotation=90)
    rows = [drawing.shortened(label, letters) for label in confusion.labels]
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.set(xlabel="predicted label", ylabel="true label")
    for (row, column), share in np.ndenumerate(shares):
        if counts[row, column]:
            color = "white" if share > 60 else "black"
            axes.text(column, row, f"{share:.0f}", ha="center", va="center", color=color)
    scale = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    scale.set_label("share of the true label (%)")
    scale.outline.set_visible(False)


def scores_table(title: str, outcomes: Mapping[Outcome, int]) -> Table:
    """Makes a table of the precision, recall and F1 of each label.

    Args:
      title: of the table.
      outcomes: how often each is there, over all seeds.

    Returns:
      The table, a row for each label, with its most frequent confusion.
    """
    labels = sorted({name for x in outcomes for name in (x.true, x.predicted)} - {""})
    # The unit of the errors, in which not every task has its score.
    if any(x.length for x in outcomes):
        note = "Counted by mention, with exact boundaries; PICO's score is by word."
    else:
        note = "Counted by example; HoC's score is by document, and its examples are sentences."
    return Table(title, list(_HEADER), [_scores_row(x, outcomes) for x in labels], 0, [note])


_HEADER = (
    "label",
    "true",
    "predicted",
    "right",
    "precision",
    "recall",
    "F1",
    "most often taken for",
)


def _scores_row(label: str, outcomes: Mapping[Outcome, int]) -> list[str]:
    """Returns the row of a label in `scores_table`."""
    true = sum(times for x, times in outcomes.items() if x.true == label)
    found = sum(times for x, times in outcomes.items() if x.predicted == label)
    right = sum(times for x, times in outcomes.items() if x.true == label and x.is_right)
    wrong: Counter[str] = Counter()
    for x, times in outcomes.items():
        if x.true == label != x.predicted:
            wrong[x.predicted or NONE] += times
    taken = [f"{name} ({times:,})" for name, times in wrong.most_common(1)]
    figures = [right / found if found else 0.0, right / true if true else 0.0]
    figures.append(2 * right / (true + found))
    shown = [f"{100 * figure:.2f}" for figure in figures]
    return [label, f"{true:,}", f"{found:,}", f"{right:,}", *shown, *(taken or [""])]
