"""The style sheet of the page of annotated documents that `html_page` writes.

Every colour is written out, so that `tests/tfbio/formats/test_html_style.py` can compute the
contrast of each one with its text. A type is told by its colour, by the style of its line, and by
its name behind the entity.
"""

from __future__ import annotations

from collections.abc import Sequence

# Paul Tol's "light" scheme for marked text (SRON/EPS/TN/09-002, issue 3.2, 2021, Figure 5), without
# light cyan and pear, which lie nearest to another colour of it.
COLORS = ("#77aadd", "#eedd88", "#ee8866", "#44bb99", "#ffaabb", "#aaaa00")
_LINES = ("solid", "dashed", "dotted", "double")
_GRAY = "#bbbbbb"

# The least score of each shade but the first, and the share of the colour in its background.
SCORES = (0.5, 0.7, 0.9, 0.99)
_LIGHT = (0.3, 0.45, 0.6, 0.8, 1.0)
_DARK = (0.12, 0.19, 0.26, 0.33, 0.4)
_WHITE, _BLACK, _NIGHT = "#ffffff", "#000000", "#15171a"

# The part that all pages share, and its colours in the dark.
PAGE = """
:root{color-scheme:light dark;--page:#ffffff;--ink:#1b1b1b;--faint:#5a5f66;--link:#0b57a4;\
--edge:#d5d9de}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);overflow-wrap:anywhere;\
font:100%/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}
header,main{max-width:52rem;margin:0 auto;padding:.75rem 1rem}
header{background:var(--page);border-bottom:1px solid var(--edge)}
h1{font-size:1.1rem;margin:0 0 .4rem}
"""
DARK_PAGE = """
:root{--page:#15171a;--ink:#eceff1;--faint:#a4abb3;--link:#8ab8f0;--edge:#3a3f45}
"""
_SHEET = """\
ul{list-style:none;margin:.3rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.35rem 1rem}
.scale{gap:.35rem}
header p,.id{color:var(--faint);font-size:.875rem;margin:.3rem 0}
a{color:var(--link)}
article{padding:1rem 0;border-bottom:1px solid var(--edge);content-visibility:auto;\
contain-intrinsic-size:auto 20rem}
.text{line-height:2}
.text>*{white-space:pre-wrap;margin:.4rem 0;tab-size:4}
h2{font-size:1.25rem;line-height:1.8}
h3{font-size:1.05rem}
mark,.key{color:var(--ink);background:none;border-bottom:2px solid;border-radius:3px;\
padding:.1em .2em;-webkit-box-decoration-break:clone;box-decoration-break:clone}
.text>mark{padding:0;border:0;white-space:normal}
mark:has(mark){padding-bottom:.4em}
mark:has(mark mark){padding-bottom:.7em}
mark::after{content:attr(data-type);font-size:.7rem;font-weight:600;margin-inline-start:.35em;\
unicode-bidi:plaintext}
body:has(#scores:checked) mark[data-score]::after{content:attr(data-type) " " attr(data-score)}
body:has(#names:not(:checked)) mark::after{content:none}
body:has(#names:not(:checked)):has(#scores:checked) mark[data-score]::after\
{content:attr(data-score)}
mark.cut::after{content:none!important}
@media screen and (min-width:48rem) and (min-height:40rem){\
header{position:sticky;top:0;z-index:1;max-height:40vh;overflow-y:auto}}
"""
_PRINT_SHEET = """
@media print{
:root{color-scheme:light}
input,.switches,.hint{display:none}
header,main{max-width:none;padding-left:0;padding-right:0}
article{content-visibility:visible}
h2,h3,.id{break-after:avoid}
mark,.key{-webkit-print-color-adjust:exact;print-color-adjust:exact}
a{color:inherit}
}
"""


def style(ranks: Sequence[int]) -> str:
    """Returns the style sheet of a page of annotated documents.

    Args:
      ranks: for the type whose entities have the class `t0`, `t1` and so on, its rank among all
        types, which chooses its colour and line.

    Returns:
      The content of a `style` element. An entity's class `s0` to `s4` is the shade of its score.
    """
    light = [_rules(".any", _GRAY, "solid", "")]
    dark = [_rules(".any", _GRAY, "solid", "dark")]
    switches = []
    for number, rank in enumerate(ranks):
        color = COLORS[rank % len(COLORS)]
        line = _LINES[rank // len(COLORS) % len(_LINES)]
        light.append(_rules(f".t{number}", color, line, ""))
        dark.append(_rules(f".t{number}", color, line, "dark"))
        off = f"body:has(#t{number}:not(:checked)) mark.t{number}"
        switches.append(
            f"{off}{{background:none;border-color:transparent}}"
            f"{off}::after{{content:none!important}}"
        )
    by_day, by_night, switched = map("\n".join, (light, dark, switches))
    in_the_dark = f"@media screen and (prefers-color-scheme:dark){{{DARK_PAGE}{by_night}}}"
    return f"{PAGE}{_SHEET}{by_day}\n{in_the_dark}\n{switched}{_PRINT_SHEET}"


def shade(score: float | None) -> int:
    """Returns the number of the shade of a score, from 0 to 4; of none that of the highest."""
    return len(SCORES) if score is None else sum(score >= least for least in SCORES)


def _rules(name: str, color: str, line: str, scheme: str) -> str:
    """Returns the rules of a class: its line, and its background in each shade."""
    shares, page = (_DARK, _NIGHT) if scheme else (_LIGHT, _WHITE)
    edge = color if scheme else _mixed(color, _BLACK, 0.65)
    # Two lines of a pixel each need one between them.
    width = ";border-bottom-width:4px" if line == "double" else ""
    shades = "".join(
        f"{name}.s{number}{{background:{_mixed(color, page, share)}}}"
        for number, share in enumerate(shares)
    )
    return f"{name}{{border-bottom-style:{line};border-color:{edge}{width}}}{shades}"


def _mixed(color: str, other: str, share: float) -> str:
    """Mixes two colours, "#rrggbb" each: `share` of the first, the rest of the other."""
    pairs = ((int(color[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * one + (1 - share) * two):02x}" for one, two in pairs)
