"""Tables of a report, as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        # After a line's end these would begin an argument, or be one.
        "[": "{[}",
        "*": "{*}",
        # Other characters in LaTeX's own fonts.
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": "{`}",  # with ? or ! before it another character
    }
)
# A number, or an interval of two.
_NUMBERS = re.compile(r"-?[\d.]+( to -?[\d.]+)?")
# Headings of columns of words.
_TEXT = (
    *("data set", "model", "metric", "against", "figure", "label", "true label", "type"),
    *("length in words", "most often taken for"),
    # Of papers' tables.
    *("Model", "Corpus", "Vocabulary", "Sub-word vocabulary", "PubMed Corpus", "Task", "Dataset"),
    *("Task group", "Tasks in group"),
)


class Table(NamedTuple):
    """A table of a report as text, which `markdown` and `latex` lay out.

    Attributes:
      title: its title.
      header: the names of its columns.
      rows: its cells, a list of strings for each row, as long as the header.
      above: how many rows, the first ones, a rule parts from the others.
      notes: sentences below it.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    above: int
    notes: list[str]


def is_text(heading: str) -> bool:
    """Returns True if the cells of a table's column with this heading are words, and no numbers."""
    return heading in _TEXT


def markdown(table: Table) -> str:
    """Returns a report's table as Markdown text: its title as a heading, the rows, the notes.

    Args:
      table: the table; numbers are aligned to the right, and the rule above rows is left out.
    """
    rule = ["---" if is_text(heading) else "---:" for heading in table.header]
    header, *lines = [
        " | ".join(cell.replace("|", "\\|") for cell in row) for row in (table.header, *table.rows)
    ]
    lines = [f"| {line} |" for line in (header, " | ".join(rule), *lines)]
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"## {table.title}", "", *lines, "", *notes])


def _latex_text(text: str) -> str:
    """Returns text that LaTeX shows as it is; hyphens in a row would join to a dash."""
    return re.sub("-(?=-)", "-{}", text.translate(_LATEX))


def _latex_cell(text: str) -> str:
    """Returns a cell as LaTeX shows it; in numbers and intervals a hyphen is a minus sign."""
    return text.replace("-", "$-$") if _NUMBERS.fullmatch(text) else _latex_text(text)


def latex(table: Table) -> str:
    """Returns a report's table as LaTeX text: a table* in booktabs' style, at most as wide as text.

    Title and notes are its caption; its label is `tab:` and the title, in lower case with hyphens.
    Special characters are escaped.

    Args:
      table: the table; a rule stands below its first `above` rows.
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_latex_cell, cells)) + r" \\"

    rows = [line(row) for row in table.rows]
    if 0 < table.above < len(rows):
        rows.insert(table.above, r"\midrule")
    layout = "".join("l" if is_text(heading) else "r" for heading in table.header)
    caption = _latex_text(" ".join([f"{table.title}.", *table.notes]))
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            r"\begin{adjustbox}{max width=\textwidth}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            line(table.header),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{table.title.lower().replace(' ', '-')}}}",
            r"\end{table*}",
            "",
        ]
    )
