"""Looks at a figure as a reader does: by the texts and colours that matplotlib really draws."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

# The RGB of a screen as it looks without one of the three cones: Machado, Oliveira and Fernandes
# (2009), "A physiologically-based model for simulation of color vision deficiency", Table 1,
# severity 1.0. The matrices are of linear RGB.
COLOR_BLINDNESS = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
# sRGB (IEC 61966-2-1), and its white.
_TO_XYZ = np.array(
    (
        (0.4124564, 0.3575761, 0.1804375),
        (0.2126729, 0.7151522, 0.0721750),
        (0.0193339, 0.1191920, 0.9503041),
    )
)
_WHITE = _TO_XYZ.sum(axis=1)


def drawn_texts(figure: Figure) -> list[tuple[Text, Bbox]]:
    """Draws a figure, and returns each text in it with its box in pixels."""
    seen: dict[int, Text] = {}
    draw = Text.draw

    def record(text, renderer):
        if text.get_visible() and text.get_text().strip():
            seen[id(text)] = text
        draw(text, renderer)

    # Of an axis's labels some are never drawn, which only drawing tells.
    with mock.patch.object(Text, "draw", record):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    renderer = canvas.get_renderer()
    return [(text, text.get_window_extent(renderer)) for text in seen.values()]


def mistakes(figure: Figure, least: float = 7.0) -> list[str]:
    """Returns what a journal would send a figure back for, as sentences; none if it is good.

    Args:
      figure: the figure.
      least: the smallest size of a text in points, in print. There the figure is one column wide or
        two, 3.5 or 7.2 in (Nature's 89 and 183 mm), which is nearer to its own width.
    """
    found = []
    width = figure.get_size_inches()[0]
    printed = 3.5 if width < 5.35 else 7.2
    texts = drawn_texts(figure)
    for text, box in texts:
        said = text.get_text().replace("\n", " ")
        edges = (box.x0, box.y0, figure.bbox.x1 - box.x1, figure.bbox.y1 - box.y1)
        if min(edges) < 0:
            found.append(f"{said!r} is cut by {-min(edges):.0f} pixels")
        size = text.get_fontsize() * min(1, printed / width)
        if size < least - 1e-6:
            found.append(f"{said!r} has {size:.1f} points")
    for (one, box), (other, its_box) in itertools.combinations(texts, 2):
        shared = Bbox.intersection(box, its_box)
        if shared is not None and shared.width > 0 and shared.height > 0:
            found.append(f"{one.get_text()!r} is over {other.get_text()!r}")
    for axes in figure.axes:
        shared_y = [x for x in figure.axes if axes.get_shared_y_axes().joined(axes, x)]
        if not axes.axison:
            continue
        # The scale of a matrix has numbers on one side alone.
        has_numbers = any(box for text, box in texts if text in axes.get_xticklabels())
        if has_numbers and not axes.get_xlabel():
            found.append(f"the x axis of {axes.get_title()!r} has no name")
        if not any(x.get_ylabel() for x in [axes, *shared_y]):
            found.append(f"the y axis of {axes.get_title()!r} has no name")
    return found


def lab(color, blindness: str = "") -> np.ndarray:
    """Returns CIE L*a*b* of a colour as one sees it with a colour blindness, or without any.

    Args:
      color: a colour of matplotlib's.
      blindness: one of `COLOR_BLINDNESS`, or "".
    """
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    if blindness:
        linear = np.clip(np.array(COLOR_BLINDNESS[blindness]) @ linear, 0, 1)
    ratio = _TO_XYZ @ linear / _WHITE
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


def nearest(colors, blindness: str = "") -> float:
    """Returns the smallest difference between two colours of several, CIE 1976 (Delta E)."""
    seen = [lab(color, blindness) for color in colors]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))
