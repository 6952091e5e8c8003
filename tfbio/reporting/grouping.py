"""Groups the runs of a report by data, model and task, and names unpublished test sets.

`report` calls it before the tables are made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tfbio.base.errors import UserError
from tfbio.reporting import published, test_sets
from tfbio.reporting.results import Run
from tfbio.task_types.metrics import Scores

KNOWN = (*published.BLURB, *published.BLUE, *published.OTHERS)

# Name of a model -> task -> its run.
Models = dict[str, dict[str, Run]]


class GroupingError(UserError):
    """The `UserError` for runs that cannot be grouped: two of a model and task, or of a fold."""


def by_data(runs: Sequence[Run]) -> list[Run]:
    """Groups a report's runs on data of the user's own: names their tasks after these data.

    Such a name, "reports (ner)", begins with the end of the path of their folder, as short as tells
    them from other data of the same `--task`; if no path does, the start of a hash stands beside
    it. Data of the same content are the same, wherever they lie. Without a path a task keeps its
    name.

    Args:
      runs: the runs of a report.

    Returns:
      A list of the runs in their order, with `task` replaced where it is named anew.
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
    """Groups a report's runs by test set: joins folds, and names those that are not as published.

    The task of a run whose test set is not the published one is called as the data set and what its
    test set is, "ChemProt, 1,000 of 15,745 test examples", with the start of a hash where two are
    called alike. So is that of runs with several test sets, none of which is known to be the
    published one. That of ten folds of one model is "euadr, ten folds". The first fold of GAD,
    which is BLURB's, keeps a run of its own beside.

    Args:
      lists: lists of runs; only runs of one list are joined.

    Returns:
      For each of the lists a list of its runs, with the joined ones behind the others, and tasks
      named anew.

    Raises:
      GroupingError: a fold of a model has two runs.
    """
    titles = {column.task: column.title for column in reversed(KNOWN)}
    titles["euadr"] = "EU-ADR"
    joined = [_with_joined_folds(_without_unverified(runs, lists), titles) for runs in lists]
    names: dict[str, dict[str, int]] = {}
    return [[_named(run, titles, names) for run in runs] for runs in joined]


def _without_unverified(runs: Sequence[Run], lists: Sequence[Sequence[Run]]) -> list[Run]:
    """Returns the runs; a test set that may not be another run's is not the published one."""
    contents: dict[str, set[str]] = {}
    for run in itertools.chain.from_iterable(lists):
        if _may_be_published(run):
            contents.setdefault(run.task, set()).add(_content_of(run))
    return [
        dataclasses.replace(
            run,
            part_of=run.task,
            match=run.match._replace(aside=f"{len(run.examples):,} test examples"),
        )
        if _may_be_published(run) and len(contents[run.task]) > 1
        else run
        for run in runs
    ]


def _may_be_published(run: Run) -> bool:
    """Returns True if a run's examples may be a published test set, which is not known."""
    return bool(run.match.unverified and run.examples and not run.data_set)


def _content_of(run: Run) -> str:
    """Returns the hash of the content of a run's test set."""
    return test_sets.describe(run.part_of or run.task, run.examples).content


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
            kept.append(joined([folds[x] for x in numbers], name))
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
    content = _content_of(run)
    number = names.setdefault(name, {}).setdefault(content, len(names[name]))
    return dataclasses.replace(run, task=f"{name} ({content[:4]})" if number else name)


def by_model(runs: Sequence[Run]) -> Models:
    """Groups a report's runs by model and task; a folder that is given twice counts once.

    Args:
      runs: the runs, with their tasks named by `by_data` and `by_test_set`.

    Returns:
      A dict of the name of a model -> a dict of the name of a task -> its run.

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


def _scores_of_folds(folds: Sequence[Run]) -> Scores:
    """Returns the scores that a draw of the examples of all folds has: the folds' mean."""
    sizes = [run.scores[0].size for run in folds]
    ends = np.cumsum(sizes)[:-1]

    def drawn(name: str, _: np.ndarray, times: np.ndarray) -> float:
        """Returns the mean over folds and seeds of a figure; times: float64 [size], of a draw."""
        parts = zip(folds, np.split(times, ends), strict=True)
        means = [np.mean([own.drawn(name, x) for own in run.scores]) for run, x in parts]
        return float(np.mean(means))

    names = sorted(frozenset.intersection(*(run.scores[0].drawable for run in folds)))
    # What is counted of each example is in the scores of its fold.
    return Scores({name: (np.zeros(sum(sizes)), partial(drawn, name)) for name in names})


def joined(folds: Sequence[Run], task: str) -> Run:
    """Joins the results of a model's runs on several folds into one run's, a seed for each fold.

    A fold's figure is the mean over its seeds. An interval is of the mean over the folds, as the
    test examples of all of them are drawn anew.

    Args:
      folds: the results on different test sets, at least one, each with its examples.
      task: the name that the task of the joined run gets.

    Returns:
      A `Run` with the first one's name and metric, the figures of each fold in `tests`, the
      examples of all, and the runs themselves in `folds`.
    """

    def means(rows: Sequence[Sequence[dict]]) -> list[dict[str, float]]:
        return [{x: float(np.mean([y[x] for y in own])) for x in own[0]} for own in rows]

    first = folds[0]
    trivial = [run.trivial for run in folds if run.trivial]
    return dataclasses.replace(
        first,
        folder=", ".join(dict.fromkeys(run.folder for run in folds)),
        task=task,
        tests=means([run.tests for run in folds]),
        examples=[example for run in folds for example in run.examples],
        scores=[_scores_of_folds(folds)],
        devs=means([run.devs for run in folds]) if all(run.devs for run in folds) else (),
        match=test_sets.Match(),
        part_of=first.task,
        outcomes=sum((Counter(run.outcomes) for run in folds), Counter()),
        trivial=joined(trivial, task) if trivial else None,
        folds=folds,
        train_seconds=[seconds for run in folds for seconds in run.train_seconds],
    )
