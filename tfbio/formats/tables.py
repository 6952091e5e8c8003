"""Reads the tables of tasks: tab-separated columns, of released data and of the user's own.

A line that is not as its format says stops the reading: nothing is mended or left out in silence.

The user's own have columns that the first line names (text and label, pair for a second text, id)
in any order; without such a line they are text and label, for the type pair text, pair and label.
The labels of a multi-label text stand between bars, `a|b`, and nothing for none; a comma is a part
of a label, as in MeSH's "Neoplasms, Experimental".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tfbio.formats import label_sets
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.task_file_errors import Where, is_none_of, mistake
from tfbio.formats.task_files import not_empty
from tfbio.formats.text_files import read_lines

# The content of a column of the user's own table -> the names that it may have.
_OWN_COLUMNS = {
    "id": ("id", "index"),
    "text": ("text", "sentence", "sentence1"),
    "pair": ("pair", "sentence2"),
    "label": ("label", "labels", "score"),
}
# The same by these names.
_HELD_BY = {name: held for held, names in _OWN_COLUMNS.items() for name in names}
# The column of a table that has the labels -> what makes a label of its cell.
_LABEL_OF: dict[str, Callable[[str], str | float | tuple[str, ...]]] = {
    "label": str,
    "score": float,
    "labels": label_sets.labels_between_bars,
}


def read_table(
    path: str,
    columns: Sequence[str] = ("id", "text", "label"),
    header: Sequence[str] | None = None,
    labels: Collection[str] | None = None,
    score_range: tuple[float, float] = (-math.inf, math.inf),
) -> list[LabelledText]:
    """Reads a task's table of tab-separated columns into `LabelledText`s, in the lines' order.

    BLURB has ChemProt and DDI (id, text, label, no header), GAD (header index, sentence, label),
    BIOSSES (pair_id, sent1, sent2, score), PubMedQA and BioASQ (id, question, context, label, no
    header); BLUE has i2b2 2010 (as GAD) and MedNLI (index, sentence1, sentence2, label).

    Args:
      path: the file.
      columns: what each column holds: "id" (without one the number of the line is the id), "text",
        "pair" (a second text), "context" (one that may be empty), "document", one of "label",
        "score" (a number) and "labels" (`a|b`), or "".
      header: the names in the first line; None where the first line is an example.
      labels: all labels; None for any.
      score_range: the lowest and the highest score.

    Returns:
      At least one example. Its `label` is a str for a column "label", a float for "score", and a
      tuple of str for "labels".

    Raises:
      TaskFileError: the file cannot be read or is empty, the header or the number of columns is
        another, a text is missing, a label is not one of `labels`, or a score not in its range.
      ValueError: `columns` has none, or more than one, of "label", "score" and "labels".
    """
    (kind,) = _LABEL_OF.keys() & columns
    # Where a label may stand by mistake. Without a list of labels any text may be one.
    others = ["text", "pair"] if labels or kind == "score" else []
    # An id may be a number, as a score is and as the labels of GAD are.
    if labels and not any(label.isdigit() for label in labels):
        others.append("id")
    examples = []
    for number, cells in read_rows(path, len(columns), header):
        cell = dict(zip(columns, cells, strict=True))
        problem = _label_problem(kind, cell[kind], labels, score_range)
        if problem:
            fit = [
                columns.index(other)
                for other in others
                if other in cell and not _label_problem(kind, cell[other], labels, score_range)
            ]
            raise mistake((path, number), problem + stands_in(kind, fit))
        _require_texts(cell, columns, (path, number))
        name, text = cell.get("id", str(number)), cell["text"]
        pair = cell.get("pair", cell.get("context", ""))
        label = _LABEL_OF[kind](cell[kind])
        document = cell.get("document", "")
        examples.append(LabelledText(name, text, label, pair, document, where=(path, number)))
    return not_empty(path, examples)


def read_own_table(
    path: str,
    wanted: Sequence[str] = ("text", "label"),
    labels: Collection[str] | None = None,
) -> list[LabelledText]:
    """Reads a table of the user's own data into `LabelledText`s in the order of its lines.

    The first line may name the columns in any order: id (or index), text (sentence, sentence1),
    pair (sentence2) and label (labels, score); without it they are those of `wanted`.

    Args:
      path: the file.
      wanted: the columns that it must have, in their order where no line names them: "text", "pair"
        for a second text, and "label", "score" or "labels", as for `read_table`.
      labels: all labels; None for any.

    Returns:
      At least one example. Its `label` is a str, for "score" a float, and for "labels" a tuple of
      str.

    Raises:
      TaskFileError: the file cannot be read or is empty, the columns are not clear, a text is
        missing, or a label or a score is not as `wanted` and `labels` say.
    """
    label = wanted[-1]
    wanted = [*wanted[:-1], "label"]
    first = read_lines(path)[0].split("\t")
    named = [_HELD_BY.get(name.strip().lower(), "") for name in first]
    header = first if any(named) else None
    columns = named if header else wanted
    twice = any(columns.count(held) > 1 for held in _OWN_COLUMNS)
    if twice or not set(wanted) <= set(columns) or len(columns) != len(first):
        message = (
            f"expected one column for each of {', '.join(wanted)}, found {', '.join(first)!r:.200}"
        )
        if len(first) == 1 and len(first[0].split(",")) >= len(wanted):
            raise mistake((path, 1), f"{message}: separate columns by tabs, not by commas")
        raise mistake((path, 1), f"{message}: name the columns in the first line")
    roles = [label if held == "label" else held for held in columns]
    examples = read_table(path, roles, header, labels)
    _require_unquoted(examples)
    if label == "labels" and labels is None:
        _require_bars(examples)
    # A first line that names the columns is believed.
    if header is None and label != "score" and labels is None and len(examples) >= 10:
        # Labels repeat themselves more than texts do, but for the smallest files.
        values = [len({getattr(x, held) for x in examples}) for held in wanted]
        fewest = values.index(min(values))
        if values[fewest] < values[-1]:
            guess = stands_in("label", [fewest])
            message = f"expected the columns {', '.join(wanted)}{guess}"
            raise mistake((path, 1), f"{message}: name the columns in the first line")
    return examples


def read_unlabelled_table(path: str) -> list[LabelledText]:
    """Reads a table of unlabelled texts: tab-separated columns that the first line names.

    These are text (or sentence, sentence1), and perhaps pair (sentence2) and id (index), in any
    order; others are passed over.

    Args:
      path: the file.

    Returns:
      A list of at least one `LabelledText`, each with the label "". Without a column id the id is
      the number of the line.

    Raises:
      TaskFileError: the file cannot be read, there is no column of texts, a text is missing, or a
        line has another number of columns.
    """
    header = read_lines(path)[0].split("\t")
    columns = [_HELD_BY.get(name.strip().lower(), name) for name in header]
    if columns.count("text") != 1 or columns.count("pair") > 1 or columns.count("id") > 1:
        message = "expected a column text, and at most one pair and id"
        raise mistake((path, 1), f"{message}: name the columns so, found {header!r:.200}")
    examples = []
    for number, cells in read_rows(path, len(columns), header):
        cell = dict(zip(columns, cells, strict=True))
        _require_texts(cell, columns, (path, number))
        name, pair = cell.get("id", str(number)), cell.get("pair", "")
        examples.append(LabelledText(name, cell["text"], "", pair, where=(path, number)))
    _require_unquoted(examples)
    return not_empty(path, examples)


def _require_texts(cell: Mapping[str, str], columns: Sequence[str], where: Where) -> None:
    """Raises a TaskFileError if a line of a table lacks a text, or the second one of a pair."""
    for name in ("text", "pair"):
        if not cell.get(name, name).strip():
            number = columns.index(name) + 1
            raise mistake(where, f"expected a {name} in column {number}, found none")


def _require_unquoted(examples: Sequence[LabelledText]) -> None:
    """Raises a TaskFileError if a text is quoted, as pandas and spreadsheets write one with quotes.

    Such a text has quotes around it, and each quote in it is there twice. Tables of corpora have
    quotes as they are, and are not checked.
    """
    for example in examples:
        for text in (example.text, example.pair):
            inner = text[1:-1]
            is_around = len(text) > 1 and text[0] == text[-1] == '"'
            if is_around and '""' in inner and '"' not in inner.replace('""', ""):
                raise mistake(
                    example.where,
                    f"{text!r:.40} is quoted: quotes are ordinary characters here, so write the "
                    "table without quoting (in pandas with quoting=csv.QUOTE_NONE)",
                )


def _require_bars(examples: Sequence[LabelledText]) -> None:
    """Raises a TaskFileError if no cell has bars between labels, and one has another character.

    What is on either side of it must be a label by itself: a comma may be a part of a label.
    """
    cells = [(x.where, x.label) for x in examples if isinstance(x.label, tuple)]
    if any(len(labels) > 1 for _, labels in cells):
        return
    single = {label for _, labels in cells for label in labels}
    for where, labels in cells:
        for cell in labels:
            if remedy := _remedy_of_bars(cell, single):
                raise mistake(where, f"{cell!r:.60} has several labels of a text{remedy}")


def _remedy_of_bars(cell: str, labels: Collection[str]) -> str:
    """Returns the end of a message on a cell with ";" or "," between labels; "" for any other."""
    for separator in ";,":
        parts = [part.strip() for part in cell.split(separator)]
        if len(parts) > 1 and set(parts) <= set(labels):
            return f": write bars, {'|'.join(parts)!r:.60}"
    return ""


def read_rows(
    path: str, width: int, header: Sequence[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Reads the rows of a table of tab-separated columns below its header.

    Args:
      path: the file.
      width: the number of columns.
      header: the names in the first line; None where the first line is an example.

    Yields:
      The number of the line, from 1, and its cells, a list of `width` str.

    Raises:
      TaskFileError: the file cannot be read or is empty, the header is another, or a line is empty
        or has another number of columns.
    """
    lines = read_lines(path)
    names = ", ".join(header or ())
    if header is not None and lines[0].split("\t") != list(header):
        order = " in this order" if sorted(lines[0].split("\t")) == sorted(header) else ""
        message = f"expected the header {names}{order}, tab-separated, found {lines[0]!r:.200}"
        raise mistake((path, 1), message)
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if not line.strip():
            raise mistake((path, number), "the line is empty: take it out")
        if len(cells) != width:
            named = f" ({names})" if names else ""
            message = f"expected {width} tab-separated columns{named}, found {len(cells)}"
            if any(cell.startswith('"') for cell in cells):
                message += "; quotes do not hold a tab or a line end together: take these out"
            raise mistake((path, number), message)
        if header is None or number > 1:
            yield number, cells


def _label_problem(
    kind: str, cell: str, labels: Collection[str] | None, score_range: tuple[float, float]
) -> str:
    """Says why a cell holds no "label", "score" or "labels"; "" if it does."""
    if kind == "score":
        low, high = score_range
        try:
            score = float(cell)
        except ValueError:
            score = math.nan
        if math.isfinite(score) and low <= score <= high:
            return ""
        within = "" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}"
        remedy = ": write a decimal point" if re.search(r"\d,\d", cell) else ""
        return f"expected a number{within}, found {cell!r:.60}{remedy}"
    names = label_sets.labels_between_bars(cell) if kind == "labels" else (cell,)
    for name in names:
        if not name or name != name.strip():
            return f"expected a label (with no blank around it), found {name!r:.60}"
        if labels is not None and name not in labels:
            remedy = _remedy_of_bars(name, labels) if kind == "labels" else ""
            return f"the label {name!r:.60} {is_none_of(labels)}{remedy}"
    return f"a label stands twice in {cell!r:.60}" if len(set(names)) < len(names) else ""


def stands_in(what: str, columns: Sequence[int]) -> str:
    """Guesses in which column of a table's line a cell stands, for the end of an error's message.

    Args:
      what: the name of the cell's content, such as "label".
      columns: the numbers of the columns that fit, counted from 0; the first is named.

    Returns:
      A str such as " (the label seems to stand in column 3)", counted from 1; "" without columns.
    """
    return f" (the {what} seems to stand in column {columns[0] + 1})" if columns else ""
