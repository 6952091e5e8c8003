"""Writes the report as one page of HTML, which needs nothing beside it.

The figures are in it as SVG, in data URIs. Its policy lets a browser load nothing else.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence

from tfbio.formats import html_parts, html_style
from tfbio.formats.html_parts import escaped
from tfbio.reporting.drawing import COLUMN, Drawing
from tfbio.reporting.tables import Table, is_text

_SHEET = """\
main,header{max-width:72rem}
h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
.wide{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--edge)}
td{white-space:nowrap}
th{overflow-wrap:normal;color:var(--faint);font-weight:600;vertical-align:bottom;border-bottom-width:2px}
.w{text-align:left}
.ours td{font-weight:600}
.ours.first td{border-top:2px solid var(--faint)}
.notes{color:var(--faint);font-size:.8125rem;padding-left:1.1rem}
figure{margin:1rem 0}
figure img{display:block;background:#ffffff}
.column{max-width:100%;height:auto}
figcaption{color:var(--faint);font-size:.875rem;margin-top:.3rem}
summary{cursor:pointer;color:var(--link);margin:.4rem 0}
@media print{details,.wide{overflow:visible}h2,figure{break-after:avoid;break-inside:avoid}\
:root{color-scheme:light}header,main{max-width:none;padding:0}}
"""
# A part of the report: a table, a figure, or tables that are folded away below a line of text.
Part = Table | Drawing | tuple[str, Sequence[Table]]


def text(title: str, parts: Sequence[Part]) -> str:
    """Returns the report as a page of HTML.

    Args:
      title: of the page.
      parts: the tables and figures in their order; tables with a text before them can be unfolded.
    """
    night = f"@media screen and (prefers-color-scheme:dark){{{html_style.DARK_PAGE}}}\n"
    style = f"{html_style.PAGE}{_SHEET}{night}"
    body = "".join(line for part in parts for line in _part(part))
    return (
        f"{html_parts.head(escaped(title), style, 'img-src data:; ')}"
        f"<header>\n<h1>{escaped(title)}</h1>\n</header>\n"
        f"<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _part(part: Part) -> Iterator[str]:
    """Writes a table, a figure or folded tables."""
    if isinstance(part, Drawing):
        yield from _figure(part)
    elif isinstance(part, Table):
        yield from _table(part)
    else:
        said, own = part
        yield f"<details>\n<summary>{escaped(said)}</summary>\n"
        for table in own:
            yield from _table(table)
        yield "</details>\n"


def _figure(drawing: Drawing) -> Iterator[str]:
    """Writes a figure at its size in print; on a phone a broad one can be moved sideways."""
    source = base64.b64encode(drawing.svg.encode()).decode()
    title = escaped(drawing.title)
    yield "<figure>\n"
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{title}">'
    narrow = ' class="column"' if drawing.width <= COLUMN else ""
    yield f'<img{narrow} width="{96 * drawing.width:.0f}" alt="{title}" '
    yield f'src="data:image/svg+xml;base64,{source}"></div>\n'
    yield f"<figcaption>{title} ({drawing.name}.pdf)</figcaption>\n</figure>\n"


def _table(table: Table) -> Iterator[str]:
    """Writes a table with its title and its notes."""
    title = escaped(table.title)
    yield f"<h2>{title}</h2>\n"
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{title}">\n<table>\n<tr>'
    kinds = [' class="w"' if is_text(heading) else "" for heading in table.header]
    for heading, kind in zip(table.header, kinds, strict=True):
        yield f"<th{kind}>{escaped(heading)}</th>"
    yield "</tr>\n"
    for number, row in enumerate(table.rows):
        ours = ' class="ours"' if 0 < table.above < number else ""
        yield '<tr class="ours first">' if 0 < table.above == number else f"<tr{ours}>"
        for cell, kind in zip(row, kinds, strict=True):
            yield f"<td{kind}>{escaped(cell)}</td>"
        yield "</tr>\n"
    yield "</table>\n</div>\n"
    if table.notes:
        yield '<ul class="notes">\n'
        for note in table.notes:
            code = re.sub("`([^`]+)`", r"<code>\1</code>", escaped(note))
            yield f"<li>{code}</li>\n"
        yield "</ul>\n"
