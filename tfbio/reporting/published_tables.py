"""Reads the results tables of five papers, cell by cell, from `published_tables.json`.

The file has a table as the paper prints it, a row on a line, so that it can be held beside the
paper. "data_sets" maps the printed name of a data set to a task and metric of tfbio. A note has a
row, a column ("" for each of them) and a sentence: it says where a printed mean is not that of its
cells, and where the paper's text or another paper has another figure. The papers:

  bioelectra   Kanakarajan et al. (2021): Tables 2 to 4
  pubmedbert   Gu et al. (2021), with BLURB: Tables 6 to 12
  biom         Alrowili and Vijay-Shanker (2021): Tables 1 to 3
  bio_lm       Lewis et al. (2020): Tables 2 to 6; its Appendix A.2, the tasks behind Tables 3 and
               6, is not in the text that the file was made from
  biomegatron  Shin et al. (2020): Tables 1 to 9

None of them prints a deviation.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import NamedTuple

from tfbio.reporting.tables import Table

_FILE = Path(__file__).with_suffix(".json")


class DataSet(NamedTuple):
    """Says what a printed name of a data set, or of a mean, stands for.

    Attributes:
      task: the task of `task_table.TASKS`; "" of a mean.
      metric: the name of the figure in scores.json, such as "f1"; "" of a mean.
      folds: "2 to 10" if the figure is the median over these folds; else "".
      mean: the name of a mean over data sets, such as "BLURB score" or "Clinical"; else "".
    """

    task: str = ""
    metric: str = ""
    folds: str = ""
    mean: str = ""


class Cell(NamedTuple):
    """A cell of a published table.

    Attributes:
      paper: one of `PAPERS`.
      table: the number of the table.
      row: the label of its row; several labels, between commas.
      column: the heading of its column.
      value: its text, as printed. Scores are percentages.
      model: of scores, the labels of row and column that are no data set or metric, such as
        "BioBERT (110m, BERT-cased)"; by the file's "names" for labels such as "ours" or "+PM".
      data_set: the data set and metric of a score; empty for other cells.
      note: the notes on the cell; else "".
    """

    paper: str
    table: int
    row: str
    column: str
    value: str
    model: str
    data_set: DataSet
    note: str

    @property
    def score(self) -> str:
        """Returns the score as printed, without a mark such as that of "87.2*"; "" for no score."""
        number = re.fullmatch(r"(\d+(?:\.\d+)?)[*†‡]?", self.value)
        return number[1] if number and any(self.data_set) else ""


@functools.cache
def _papers() -> dict:
    return json.loads(_FILE.read_text(encoding="utf-8"))


PAPERS = tuple(_papers())


def source(paper: str, table: int) -> str:
    """Names a published table as a reference: "Gu et al. (2021), Table 6".

    Args:
      paper: one of `PAPERS`.
      table: its number.

    Raises:
      KeyError: there is no such paper.
    """
    return f"{_papers()[paper]['citation']}, Table {table}"


def note(paper: str, table: int) -> str:
    """Returns the note on a whole published table, as text; "" if there is none.

    Args:
      paper: one of `PAPERS`.
      table: its number.

    Raises:
      KeyError: there is no such paper.
      StopIteration: it has no such table.
    """
    return next(x for x in _papers()[paper]["tables"] if x["number"] == table).get("note", "")


def data_set(paper: str, name: str) -> DataSet:
    """Looks up the data set, or the mean, that a paper prints under a name.

    Args:
      paper: one of `PAPERS`.
      name: of a data set or a mean in one of its tables.

    Raises:
      KeyError: there is no such paper or name.
    """
    return DataSet(**_papers()[paper]["data_sets"][name])


def tables_without_scores(paper: str) -> list[Table]:
    """Returns a paper's tables that are no tables of scores, as printed, such as times.

    Args:
      paper: one of `PAPERS`.

    Returns:
      A `Table` for each, in their order: the title begins with the reference that `source` gives;
      the notes are the note on the table, and those on its cells.

    Raises:
      KeyError: there is no such paper.
    """
    found = []
    for table in _papers()[paper]["tables"]:
        if not table.get("scores", True):
            title = f"{source(paper, table['number'])}: {table['title']}"
            notes = [table["note"]] if "note" in table else []
            for row, column, text in table.get("notes", ()):
                notes.append(f"{' of '.join(filter(None, (column, row)))}: {text}")
            found.append(Table(title, table["header"], table["rows"], 0, notes))
    return found


@functools.cache
def cells(paper: str) -> tuple[Cell, ...]:
    """Returns all cells of a paper's results tables, in the order in which they are printed.

    Args:
      paper: one of `PAPERS`.

    Returns:
      The `Cell`s, without labels, headings and cells that print nothing or "-".

    Raises:
      KeyError: there is no such paper.
    """
    found = []
    for table in _papers()[paper]["tables"]:
        number_of_labels = table.get("labels", 1)
        columns = table["header"][number_of_labels:]
        for row in table["rows"]:
            labels, values = row[:number_of_labels], row[number_of_labels:]
            found += [
                _cell(paper, table, labels, column, value)
                for column, value in zip(columns, values, strict=True)
                if value not in ("", "-")
            ]
    return tuple(found)


def _cell(paper: str, table: dict, labels: list[str], column: str, value: str) -> Cell:
    """Makes a cell from the labels of its row, the heading of its column, and its text."""
    row, names = ", ".join(labels), [*labels, column]
    no_score = ("", DataSet())
    model, measured = _measured(paper, table, names) if table.get("scores", True) else no_score
    notes = " ".join(
        text for of, at, text in table.get("notes", ()) if of in ("", row) and at in ("", column)
    )
    return Cell(paper, table["number"], row, column, value, model, measured, notes)


def _measured(paper: str, table: dict, names: list[str]) -> tuple[str, DataSet]:
    """Tells the model from the data set in a score's labels; returns both.

    Args:
      paper: one of `PAPERS`.
      table: as in the file. All of its scores may be of one "data_set", or of one "model", whose
        variants the labels name.
      names: the labels of row and column.
    """
    data_sets, metrics = _papers()[paper]["data_sets"], _papers()[paper].get("metrics", {})
    measured = DataSet()
    for name in [table.get("data_set", ""), *names]:
        if name in data_sets:
            measured = DataSet(**data_sets[name])
    for name in names:
        if name in metrics:
            measured = measured._replace(metric=metrics[name])
    if not any(measured):
        return "", measured
    called = _papers()[paper].get("names", {})
    rest = [
        called.get(name, name) for name in names if name not in data_sets and name not in metrics
    ]
    if table.get("model") and rest[0] != table["model"]:
        rest = [table["model"], *rest]
    variant = f" ({', '.join(rest[1:])})" if rest[1:] else ""
    return rest[0] + variant, measured
