"""The colours of the page, by the formulas of WCAG 2.2 and of Machado et al. (2009)."""

import itertools
import re

import numpy as np
import pytest

from tests import html_pages
from tfbio.formats import html_style

SCHEMES = ("light", "dark")

# Of linear RGB to what those without green and without red cones see (Machado, Oliveira and
# Fernandes, 2009, severity 1.0), and to CIE XYZ (IEC 61966-2-1).
SEEN = {
    "all cones": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(color):
    values = np.frombuffer(bytes.fromhex(color[1:]), np.uint8) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """The contrast ratio of WCAG 2.2."""
    lights = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def lab(rgb):
    xyz = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.fixture(scope="module")
def colors():
    return html_pages.colors(html_style.style(range(len(html_style.COLORS))))


def test_contrast_is_wcag_s():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # The lightest grey that is enough on white.
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_has_enough_contrast(colors, scheme):
    own = colors[scheme]
    backgrounds = [color for key, color in own.items() if key[1:] and key[1] != "line"]
    assert len(backgrounds) == 5 * (len(html_style.COLORS) + 1)
    for color in [*backgrounds, own["page",]]:
        assert contrast(own["ink",], color) >= 4.5, color
    for name in ("faint", "link"):
        assert contrast(own[name,], own["page",]) >= 4.5, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_higher_score_has_a_stronger_colour(colors, scheme):
    own = colors[scheme]
    for number in range(len(html_style.COLORS)):
        steps = [contrast(own[f"t{number}", f"s{shade}"], own["page",]) for shade in range(5)]
        assert steps == sorted(steps) and len(set(steps)) == 5, number
    scores = (0, 0.499, 0.5, 0.7, 0.9, 0.98, 0.99, 1, None)
    assert [html_style.shade(score) for score in scores] == [0, 0, 1, 2, 3, 3, 4, 4, 4]


@pytest.mark.parametrize("cones", SEEN)
def test_types_are_told_apart(colors, cones):
    """Tells types by the background in the light scheme, and by the line in the dark one."""
    for own in (
        [colors["light"][f"t{n}", "s4"] for n in range(len(html_style.COLORS))],
        [colors["dark"][f"t{n}", "line"] for n in range(len(html_style.COLORS))],
    ):
        for one, other in itertools.combinations(own, 2):
            seen = [lab(SEEN[cones] @ linear(color)) for color in (one, other)]
            # A difference of 2.3 (CIE76) is just noticed (Mahy, Van Eycken and Oosterlinck, 1994).
            assert np.linalg.norm(seen[0] - seen[1]) >= 10, (one, other)


def test_types_beyond_the_colours_have_other_lines():
    rules = html_style.style(range(24)).split("@media screen and (prefers")[0]
    found = re.findall(r"\.t\d+\{border-bottom-style:(\w+);border-color:(#\w+)", rules)
    assert len(set(found)) == 24
