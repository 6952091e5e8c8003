"""Groups the runs of a report by data, model and task, and names unpublished test sets.

`report` calls it before the tables are made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfbio.base.cli import UserError
from tfbio.reporting import published, results, test_sets
from tfbio.reporting.published import Column
from tfbio.reporting.results import Run

KNOWN = (*published.BLURB, *published.BLUE, *published.OTHERS)

# Name of a model -> task -> its run.
Models = dict[str, dict[str, Run]]


class GroupingError(UserError):
    """An error for runs that one report cannot hold, such as two of one model and task."""


def by_data(runs: Sequence[Run]) -> list[Run]:
    """Names the tasks of data of the user's own after these data, such as "reports (ner)".

    The name is the end of the path of their folder, as short as tells them from other data of the
    same `--task`; if no path does, the start of a hash stands beside it. Data of the same content
    are the same, wherever they lie. Without a path a task keeps its name.

    Args:
      runs: the runs of a report.

    Returns:
      The runs in their order, with `task` replaced where it is named anew.
    """
    sets: dict[tuple[str, str], str] = {}
    for run in runs:
        if run.data_set:
            sets.setdefault(_set_of(run), run.data_set)

    return [
        dataclasses.replace(run, task=_name_of_data(_set_of(run), sets)) if run.data_set else run
        for run in runs
    ]


def _name_of_data(key: tuple[str, str], sets: Mapping[tuple[str, str], str]) -> str:
    """Names a data set, see `by_data`.

    Args:
      key: see `_set_of`.
      sets: key -> the path of the folder, of all data sets.
    """
    task, _ = key
    others = [Path(x).parts for other, x in sets.items() if other[0] == task and other != key]
    parts = Path(sets[key]).parts
    for length in range(1, len(parts) + 1):
        end = parts[-length:]
        if all(other[-length:] != end for other in others):
            return f"{Path(*end).as_posix()} ({task})"
    digest = hashlib.sha256("".join(key).encode()).hexdigest()
    return f"{parts[-1]} {digest[:6]} ({task})"


def _set_of(run: Run) -> tuple[str, str]:
    """Returns what tells a run's data from other data: its task, and the hashes of its files."""
    return run.task, run.data


def by_test_set(*lists: Sequence[Run]) -> list[list[Run]]:
    """Joins the folds of a model, and tells test sets that are not the published ones apart.

    Such a run's task is called as the data set and what its test set is, "ChemProt, 1,000 of 15,745
    test examples", with the start of a hash where two are called alike; that of ten folds "euadr,
    ten folds". The first fold of GAD, which is BLURB's, keeps a run of its own beside.

    Args:
      lists: runs; only those of one list are joined.

    Returns:
      The lists, with the joined runs behind the others, and tasks named anew.

    Raises:
      GroupingError: a fold of a model has two runs.
    """
    titles = {column.task: column.title for column in reversed(KNOWN)}
    titles["euadr"] = "EU-ADR"
    joined = [_with_joined_folds(runs, titles) for runs in lists]
    names: dict[str, dict[str, int]] = {}
    return [[_named(run, titles, names) for run in runs] for runs in joined]


def _with_joined_folds(runs: Sequence[Run], titles: Mapping[str, str]) -> list[Run]:
    """Joins the folds of each model and task.

    Args:
      runs: of one list of `by_test_set`.
      titles: task -> the name of its data set.

    Raises:
      GroupingError: a fold of a model has two runs.
    """
    groups: dict[tuple[str, str], dict[int, Run]] = {}
    for run in runs:
        if run.match.fold:
            folds = groups.setdefault((run.name, run.task), {})
            _require_one(folds.setdefault(run.match.fold, run), run, f"fold {run.match.fold} of ")
    kept = [run for run in runs if not run.match.fold]
    for (_, task), folds in groups.items():
        numbers = sorted(folds)
        kept += [folds[x] for x in numbers if len(folds) == 1 or not folds[x].part_of]
        if len(folds) > 1:
            which = f"folds {', '.join(map(str, numbers))} of {test_sets.FOLDS}"
            name = f"{titles[task]}, {which}"
            if len(folds) == test_sets.FOLDS:
                name = f"{task}, ten folds"
            kept.append(results.joined([folds[x] for x in numbers], name))
    return kept


def _named(run: Run, titles: Mapping[str, str], names: dict[str, dict[str, int]]) -> Run:
    """Names the task of a run after its test set, if that is not the published one.

    Args:
      run: a run.
      titles: task -> the name of its data set.
      names: name -> hash of a test set -> its number among those of this name; grows.
    """
    if not run.part_of or run.folds:
        return run
    name = f"{titles.get(run.task, run.task)}, {run.match.aside}"
    content = test_sets.describe(run.part_of, run.examples).content
    number = names.setdefault(name, {}).setdefault(content, len(names[name]))
    return dataclasses.replace(run, task=f"{name} ({content[:4]})" if number else name)


def by_model(runs: Sequence[Run]) -> Models:
    """Returns the runs by model and task: name of a model -> task -> its run.

    A folder that is given twice counts once.

    Raises:
      GroupingError: a model has two runs of one task in different folders.
    """
    models: Models = {}
    for run in runs:
        _require_one(models.setdefault(run.name, {}).setdefault(run.task, run), run)
    return models


def _require_one(one: Run, other: Run, what: str = "") -> None:
    """Raises a GroupingError if two different folders are of one model and task."""
    if os.path.realpath(one.folder) != os.path.realpath(other.folder):
        raise GroupingError(
            f"{one.folder} and {other.folder} are both {what}{other.task} of {other.name!r}: give "
            f"one of them another name, 'NAME={other.folder}'."
        )


def columns_of(models: Models) -> list[Column]:
    """Returns the columns for which there is a run: first those of `KNOWN`, in their order.

    A task of which no paper has a figure has a column of its own, and each task of answers has one
    more for exact matches.

    Args:
      models: name of a model -> task -> its run.
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
    """Returns for each column a run that gives one answer to all its examples.

    Args:
      columns: of a table.
      models: name of a model -> task -> its run.

    Returns:
      Column -> `Run.trivial` of the first run with examples; a column without one is left out.
    """
    trivial: dict[Column, Run] = {}
    for column in columns:
        for runs in models.values():
            if column.task in runs and runs[column.task].trivial:
                trivial.setdefault(column, runs[column.task].trivial)
    return trivial


def percent(column: Column, run: Run) -> float:
    """Returns the figure of a run that stands in a column, in percent.

    Args:
      column: of a table; where its `of_others` is true, the figure is the median over all folds but
        the first, and otherwise the mean over the seeds.
      run: a run of the column's task.

    Raises:
      KeyError: the run has no figure of the column's metric.
    """
    of = run.median_of_others if column.of_others else run.mean
    return 100 * of(column.metric)
