"""Counts and draws the errors of a run on mentions, by their type and by their length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfbio.reporting import drawing
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.tables import Table
from tfbio.task_types.outcomes import KINDS, RIGHT, SPURIOUS, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "all"
# Mentions of so many words and more are counted together.
_LONGEST = 6
# The most types in the chart, and the letters of one.
_MOST, _LETTERS = 12, 22

# The colour and the hatch of each kind of outcome.
_LOOKS = dict(
    zip(
        KINDS,
        (
            (drawing.BLUE, ""),
            (drawing.SKY, "////"),
            (drawing.ORANGE, "...."),
            (drawing.PURPLE, "xxxx"),
            (drawing.VERMILLION, ""),
            ("#ffffff", "\\\\\\\\"),
        ),
        strict=True,
    )
)

# A group of mentions -> how many there are of each kind.
Groups = dict[str, Counter[str]]


def by_type(outcomes: Mapping[Outcome, int]) -> Groups:
    """Counts the outcomes of mentions by their types: the true one, and of spurious ones theirs.

    Args:
      outcomes: how often each is there, over all seeds.

    Returns:
      `ALL`, and with several types each of these in the order of their names -> kind -> number.
    """
    groups: Groups = {ALL: Counter()}
    for name in sorted({x.true or x.predicted for x in outcomes}):
        groups[name] = Counter()
    for outcome, times in outcomes.items():
        for name in (ALL, outcome.true or outcome.predicted):
            groups[name][outcome.kind] += times
    return groups if len(groups) > 2 else {ALL: groups[ALL]}


def by_length(outcomes: Mapping[Outcome, int]) -> Groups:
    """Counts the outcomes of mentions by their length: "1" to "5" words, and "6 or more".

    Args:
      outcomes: how often each is there, over all seeds.

    Returns:
      The length of the true mention, and of spurious ones theirs -> kind -> number.
    """
    groups: dict[int, Counter[str]] = {}
    for outcome, times in outcomes.items():
        length = min(outcome.length, _LONGEST)
        groups.setdefault(length, Counter())[outcome.kind] += times
    return {
        f"{length} or more" if length == _LONGEST else str(length): groups[length]
        for length in sorted(groups)
    }


def are_mentions(outcomes: Mapping[Outcome, int]) -> bool:
    """Returns True if the outcomes are of mentions, which have a length."""
    return any(outcome.length for outcome in outcomes)


def table(title: str, first: str, groups: Groups) -> Table:
    """Makes a table of the errors in groups of mentions.

    Args:
      title: of the table.
      first: the heading of the groups.
      groups: the result of `by_type` or `by_length`.

    Returns:
      The table: for each group the true mentions, those of each kind, and the share of the true
      ones that are right (recall) in percent.
    """
    rows = []
    for name, counts in groups.items():
        true = _true(counts)
        recall = f"{100 * counts[RIGHT] / true:.2f}" if true else ""
        rows.append([name, f"{true:,}", *(f"{counts[kind]:,}" for kind in KINDS), recall])
    return Table(title, [first, "true", *KINDS, "recall"], rows, 0, [])


def _true(counts: Counter[str]) -> int:
    """Returns how many true mentions a group has."""
    return counts.total() - counts[SPURIOUS]


def draw(runs: Mapping[str, Mapping[Outcome, int]], folder: Path, name: str, title: str) -> Drawing:
    """Draws the errors on one data set, by type and below by length; models stand side by side.

    A bar has the mentions of each kind for 100 true ones. Writes a PNG and a PDF.

    Args:
      runs: name of a model -> its outcomes.
      folder: where the files go.
      name: of the files, without the ending.
      title: of the data set.

    Returns:
      The `Drawing`.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    groups = {model: (_most_frequent(by_type(own)), by_length(own)) for model, own in runs.items()}
    wide = min(2, len(groups))
    width = drawing.COLUMN if wide == 1 else drawing.PAGE
    # The bars, without the names of types with their numbers, and of the axis.
    letters = max(len(drawing.shortened(x, _LETTERS)) for own in groups.values() for x in own[0])
    bars = drawing.COLUMN - drawing.LETTER * (letters + len(" (1,000,000)")) - 0.3
    titles = {model: drawing.title(f"{title}: {model}", bars) for model in groups}
    rows = [list(groups.items())[i : i + wide] for i in range(0, len(groups), wide)]
    heights = [max(len(own[i]) for _, own in shown) + 0.2 for shown in rows for i in (0, 1)]
    # Numbers and names of the axes, titles, and the legend.
    around = 3 * len(heights) + 4
    around += sum(2 + max(titles[model].count("\n") for model, _ in shown) for shown in rows)
    with drawing.style():
        height = drawing.LINE * (1.3 * sum(heights) + around)
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.add_gridspec(len(heights), wide, height_ratios=heights)
        kinds: set[str] = set()
        for row, shown in enumerate(rows):
            for place, (model, own) in enumerate(shown):
                above = figure.add_subplot(grid[2 * row, place])
                axes = [above, figure.add_subplot(grid[2 * row + 1, place], sharex=above)]
                for panel, of, axis in zip(axes, own, ("type", "length (words)"), strict=True):
                    kinds |= _draw_bars(panel, of, axis)
                axes[0].set_title(titles[model])
        handles = [
            Patch(facecolor=_LOOKS[x][0], hatch=_LOOKS[x][1], edgecolor="black", label=x, lw=0.4)
            for x in KINDS
            if x in kinds
        ]
        drawing.legend(figure, handles, 2 if wide == 1 else 6)
        said = f"Errors on the mentions of {title}: {', '.join(groups)}"
        return drawing.save(figure, folder, name, said)


def _most_frequent(groups: Groups) -> Groups:
    """Returns the groups with the most true mentions, in their order."""
    kept = sorted(groups, key=lambda name: -_true(groups[name]))[: _MOST + 1]
    return {name: groups[name] for name in groups if name in kept}


def _draw_bars(axes: Axes, groups: Groups, axis: str) -> set[str]:
    """Draws a bar for each group, and returns the kinds that it has."""
    names = [drawing.shortened(name, _LETTERS) for name in groups]
    shown = set()
    left = [0.0] * len(names)
    for kind in KINDS:
        counts = [own[kind] for own in groups.values()]
        if not any(counts):
            continue
        shown.add(kind)
        # Of groups without true mentions the table alone tells: a bar would be as long as it likes.
        parts = [
            100 * x / _true(own) if _true(own) else 0.0
            for x, own in zip(counts, groups.values(), strict=True)
        ]
        color, hatch = _LOOKS[kind]
        axes.barh(
            range(len(names)),
            parts,
            0.75,
            left=left,
            color=color,
            hatch=hatch,
            edgecolor="black",
            linewidth=0.4,
        )
        left = [x + y for x, y in zip(left, parts, strict=True)]
    # Behind this line nothing is true.
    axes.axvline(100, color="black", linewidth=0.8)
    labels = [f"{name} ({_true(own):,})" for name, own in zip(names, groups.values(), strict=True)]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="mentions for 100 true ones", ylabel=axis)
    return shown
