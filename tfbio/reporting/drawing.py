"""Draws the report's figures in the sizes, letters and colours that journals ask for.

A figure is as wide as one column (89 mm) or two (183 mm) of Nature's pages, and its texts have 7
points at that width (nature.com/documents/nature-final-artwork.pdf: 5 to 7). Its PDF has its fonts
embedded as TrueType (Type 42), since many journals refuse Type 3.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbio.base import storage

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# The width of a figure in inches: one column, or two with the space between.
COLUMN, PAGE = 3.5, 7.2
# The size of all texts in points, and in inches the height of a line of them, and the width of most
# letters, bold ones too.
_POINTS, LINE, LETTER, _BOLD = 7.0, 0.13, 0.062, 0.071

# The palette of Okabe and Ito (2008), "Color Universal Design", which people with any colour
# blindness can tell apart; yellow, which is hard to see on white, is left to areas.
BLACK, GREY = "#000000", "#767676"
BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = SERIES = (
    *("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"),
)
# Colour is never alone: a series has a line and a marker, too.
LINES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P")

# Addresses and a time, which would stand in each SVG.
_SVG_METADATA = ("Creator", "Date", "Format", "Type")
# Metrics that are no shares.
CORRELATIONS = ("pearson", "spearman")

_STYLE: dict[RcKeyType, Any] = {
    "font.size": _POINTS,
    **dict.fromkeys(
        ("axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), _POINTS
    ),
    "legend.fontsize": _POINTS,
    "axes.titleweight": "bold",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.color": "#d9d9d9",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    # The resolution for which the texts are laid out, and in which the PNG is saved.
    "figure.dpi": 300,
    "savefig.dpi": "figure",
    # A name between dollars is no formula.
    "text.parse_math": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "tfbio",
}


class Drawing(NamedTuple):
    """A figure of the report.

    Attributes:
      name: the name of its files, without the ending.
      title: a line that says what it shows, which stands in for it where it cannot be seen.
      svg: the figure as SVG, whose letters are outlines, so that it needs no font.
      width: in inches.
    """

    name: str
    title: str
    svg: str
    width: float


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draws, in its block, all figures with the report's fonts, lines and resolution."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def save(figure: Figure, folder: Path, name: str, title: str) -> Drawing:
    """Writes a figure as PNG and PDF.

    Args:
      figure: made in a block of `style`, with a layout engine.
      folder: where the files go.
      name: of the files, without the ending.
      title: see `Drawing`.

    Returns:
      The `Drawing`.

    Raises:
      OSError: a file cannot be written.
    """
    with style():
        figure.draw_without_rendering()
        # Laid out once, so that all files look the same, and in a third of the time.
        figure.set_layout_engine("none")
        for ending, said in (("png", "Software"), ("pdf", "CreationDate")):
            with storage.written_whole(folder / f"{name}.{ending}") as stream:
                # The same figure gives the same bytes.
                figure.savefig(stream, format=ending, metadata={said: None})
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(_SVG_METADATA))
    # It names a file elsewhere, which a browser does not need.
    text = re.sub(r"<!DOCTYPE[^>]*>\s*", "", svg.getvalue())
    return Drawing(name, title, text, figure.get_size_inches()[0])


def shortened(text: str, letters: int) -> str:
    """Returns a text, or its beginning with an ellipsis if it has more than so many letters."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}\u2026"


def title(text: str, inches: float) -> str:
    """Returns a title on as many lines as it needs, at most 4, to be above a panel so wide."""
    return textwrap.fill(text, max(8, int(inches / _BOLD)), max_lines=4, placeholder="\u2026")


def metric_name(metric: str) -> str:
    """Returns the name of an axis for a metric of `scores.json`, with its unit."""
    unit = "\u00d7 100" if metric in (*CORRELATIONS, "mrr") else "%"
    name = metric.replace("_", " ").replace("f1", "F1").replace("mrr", "MRR")
    return f"{name.title() if metric in CORRELATIONS else name} ({unit})"


def legend(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """Puts a legend below the panels of a figure; returns nothing.

    Args:
      figure: with constrained layout.
      handles: artists with labels.
      columns: how many stand side by side.
    """
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)
