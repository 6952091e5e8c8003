"""Chooses the columns of a table of results, and the figure of a run in each."""

from __future__ import annotations

from collections.abc import Sequence

from tfbio.reporting.grouping import KNOWN, Models
from tfbio.reporting.published import Column
from tfbio.reporting.results import Run


def columns_of(models: Models) -> list[Column]:
    """Chooses the columns of the report's tables: those for which there is a run.

    First come those of `KNOWN`, in their order. A task of which no paper has a figure has a column
    of its own, and each task of answers has one more for exact matches.

    Args:
      models: name of a model -> task -> its run.

    Returns:
      A list of `Column`s, each with the name of a task in `models`.
    """
    runs = {run.task: run for of_model in models.values() for run in of_model.values()}
    columns = [x for x in KNOWN if x.task in runs and x.metric in runs[x.task].tests[0]]
    named = {column.task for column in columns}
    columns += [Column(x.task, x.task, x.metric) for x in runs.values() if x.task not in named]
    return columns + [
        Column(f"{x.title}, exact match", x.task, "exact_match")
        for x in columns
        if "exact_match" in runs[x.task].tests[0]
    ]


def trivial_runs(columns: Sequence[Column], models: Models) -> dict[Column, Run]:
    """Returns for each column of a table a run that gives one answer to all its examples.

    Args:
      columns: the columns of a table.
      models: name of a model -> task -> its run.

    Returns:
      A dict of a column -> `Run.trivial` of the first run with examples; a column without one is
      left out.
    """
    trivial: dict[Column, Run] = {}
    for column in columns:
        for runs in models.values():
            if column.task in runs and (run := runs[column.task].trivial):
                trivial.setdefault(column, run)
    return trivial


def percent(column: Column, run: Run) -> float:
    """Returns the figure of a run that stands in its cell of a table's column, in percent.

    Args:
      column: a column of a table; where its `of_others` is true, the figure is the median over all
        folds but the first, and otherwise the mean over the seeds.
      run: a run of the column's task.

    Returns:
      The figure, a float, from -100 to 100.

    Raises:
      KeyError: the run has no figure of the column's metric.
    """
    of = run.median_of_others if column.of_others else run.mean
    return 100 * of(column.metric)
