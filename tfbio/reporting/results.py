"""Reads fine-tuning runs: their test scores, with intervals, and tests of their differences.

Test examples are resampled (documents, where the score is by document): the paired bootstrap of
Berg-Kirkpatrick et al. (2012), which Dror et al. (2018) advise for scores such as F1, whose
distribution is not known. Neither says what to do with several seeds. Here a run's figure is the
mean over its seeds, all of which are scored on the same draw, so an interval says how that mean
varies with the test set. How it varies with the seed is what the standard deviation says.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import run_folders
from tfbio.base.cli import UserError
from tfbio.formats.task_examples import Example
from tfbio.reporting import test_sets
from tfbio.task_types import bootstraps, finetuning_files, own_data, tasks, types
from tfbio.task_types.finetuning_files import RunScores
from tfbio.task_types.scores import Scores

if TYPE_CHECKING:
    from tfbio.task_types.finetuning_settings import FinetuningSettings
    from tfbio.task_types.task_type import Score, TaskType

# Draws for an interval and for a p-value, of which the least is 2 / 10,001.
SAMPLES = 10_000


class ResultsError(UserError):
    """An error for a folder that holds no results, or for results that do not belong together."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The output folder of a finished fine-tuning run.

    Attributes:
      folder: where it lies.
      name: of the model, for tables.
      task: `--task`; see `grouping.by_data` for data of the user's own.
      metric: the task's first figure.
      tests: for each seed the figures of the test set, in [0, 1] or [-1, 1].
      examples: of the test set, with what is true; none if the predictions cannot be resampled.
      scores: of each seed, by the task's own function; none with no examples.
      data_set: the path of the folder of data of the user's own; else "".
      data: the hashes of the files of data of the user's own, as text; else "".
      devs: for each seed the figures of the development set; none if one is not known.
      dev_set: which part of the development set that is, "200 of 11,268"; "" for all of it.
      match: how the test examples compare with the published ones.
      part_of: the task whose published test set this is not; "" where it is, or none is published.
      trivial: what one answer to all test examples reaches, as a run with one seed, whose folder
        says which answer; None with no examples.
      folds: the runs that were joined to this one, see `joined`.
    """

    folder: str
    name: str
    task: str
    metric: str
    tests: list[dict[str, float]]
    examples: list[Example]
    scores: Sequence[Scores] = ()
    data_set: str = ""
    data: str = ""
    devs: Sequence[dict[str, float]] = ()
    dev_set: str = ""
    match: test_sets.Match = test_sets.Match()
    part_of: str = ""
    trivial: Run | None = None
    folds: Sequence[Run] = ()

    def values(self, metric: str = "") -> np.ndarray:
        """Returns a figure of each seed, float64 [seeds]; by default the task's first.

        Raises:
          KeyError: the test scores have no such figure.
        """
        return np.array([test[metric or self.metric] for test in self.tests])

    def mean(self, metric: str = "") -> float:
        """Returns the mean of a figure over the seeds, no percentage; by default the first."""
        return float(self.values(metric).mean())

    def median_of_others(self, metric: str = "") -> float:
        """Returns the median over all folds but the first, as bio-lm does (Lewis et al., 5.2)."""
        return float(np.median(self.values(metric)[1:]))

    def can_draw(self, metric: str = "") -> bool:
        """Returns True if a figure can be computed for a draw of test examples."""
        return bool(self.scores) and (metric or self.metric) in self.scores[0].drawable

    def drawn(self, rows: np.ndarray, metric: str = "") -> float:
        """Returns the mean over the seeds of a figure of a draw; only where `can_draw` is True.

        Args:
          rows: int64 [size], the numbers of the examples that were drawn, with repetitions.
          metric: the figure; by default the task's first.
        """
        times = np.bincount(rows, minlength=self.scores[0].size).astype(float)
        return float(np.mean([own.drawn(metric or self.metric, times) for own in self.scores]))

    def interval(self, metric: str = "") -> tuple[float, float]:
        """Returns lower and upper end of the 95 % bootstrap interval of the mean over the seeds.

        Args:
          metric: a figure for which `can_draw` is True; by default the task's first.
        """
        size = self.scores[0].size
        return bootstraps.bootstrap(lambda rows: self.drawn(rows, metric), size, 0, SAMPLES)


class _FoldScores:
    """Scores a draw of the examples of all folds by the folds' mean; see `scores.Scores`."""

    def __init__(self, folds: Sequence[Run]):
        self._folds = folds
        sizes = [run.scores[0].size for run in folds]
        self._ends = np.cumsum(sizes)[:-1]
        self.size = sum(sizes)
        self.drawable = frozenset.intersection(*(run.scores[0].drawable for run in folds))

    def drawn(self, name: str, times: np.ndarray) -> float:
        """Returns the mean over the folds and their seeds of a figure of a draw.

        Args:
          name: of the figure.
          times: float64 [size], how often each example was drawn.
        """
        parts = zip(self._folds, np.split(times, self._ends), strict=True)
        means = [np.mean([own.drawn(name, x) for own in run.scores]) for run, x in parts]
        return float(np.mean(means))


def joined(folds: Sequence[Run], task: str) -> Run:
    """Joins the runs of several folds of a task to one, whose folds count as its seeds.

    A fold's figure is the mean over its seeds. An interval is of the mean over the folds, as the
    test examples of all of them are drawn anew.

    Args:
      folds: runs of one model on different test sets, each with its examples.
      task: the name of the task.

    Returns:
      A run with the first one's name and metric, the figures of each fold in `tests`, the examples
      of all, and the runs themselves in `folds`.
    """

    def means(rows: Sequence[Sequence[dict]]) -> list[dict[str, float]]:
        return [{x: float(np.mean([y[x] for y in own])) for x in own[0]} for own in rows]

    first = folds[0]
    return dataclasses.replace(
        first,
        folder=", ".join(dict.fromkeys(run.folder for run in folds)),
        task=task,
        tests=means([run.tests for run in folds]),
        examples=[example for run in folds for example in run.examples],
        scores=[_FoldScores(folds)],
        devs=means([run.devs for run in folds]) if all(run.devs for run in folds) else (),
        match=test_sets.Match(),
        part_of=first.task,
        trivial=joined([run.trivial for run in folds], task) if first.trivial else None,
        folds=folds,
    )


def p_value(run: Run, baseline: Run, metric: str = "") -> float:
    """Computes how probable so large a difference of two runs is, to either side, by chance.

    It is twice the p-value of `bootstraps.paired_bootstrap` in the direction of the difference,
    above 0 and at most 1. Both runs, with all their seeds, are scored on the same draws.

    Args:
      run: a run.
      baseline: another run of the same task.
      metric: a figure for which `Run.can_draw` is True of both; by default the task's first.

    Raises:
      ResultsError: their test sets differ.
    """
    if run.examples != baseline.examples:
        raise ResultsError(
            f"{run.folder} and {baseline.folder} were tested on different data, so they cannot be "
            "compared: run one of them again with the other's --data_dir."
        )
    better, worse = sorted((run, baseline), key=lambda one: one.mean(metric), reverse=True)
    one_sided = bootstraps.paired_bootstrap(
        lambda rows: better.drawn(rows, metric),
        lambda rows: worse.drawn(rows, metric),
        run.scores[0].size,
        0,
        SAMPLES,
    )
    return min(1.0, 2 * one_sided)


def figures(run: Run, metric: str, baseline: Run | None = None) -> dict[str, str | int | float]:
    """Returns the figures of a run for a table, in percent.

    Args:
      run: of a task.
      metric: the figure.
      baseline: a run of the same task, or this one; None for no comparison.

    Returns:
      "model", "task", "metric", "figure" (the mean over the seeds), "median", "seeds", "values" (of
      the seeds, in their order), "source", "test_set" (what is not the published one, or not
      verified); where it is known "dev", the mean on the development set, and "dev_set", which part
      of it that is; where there is more than one seed "std" (n - 1); where the figure can be had
      for draws "low" and "high", and of a comparison "baseline", "difference", "p". Of joined folds
      mean, median, "std" and "values" are over the folds, of which "folds" is the number.

    Raises:
      ResultsError: see `p_value`.
    """
    values = 100 * run.values(metric)
    row = {
        "model": run.name,
        "task": run.part_of or run.task,
        "metric": metric,
        "figure": float(values.mean()),
        "median": float(np.median(values)),
        "seeds": len(values),
        "values": " ".join(map(str, values.tolist())),
        "source": run.folder,
        "test_set": run.match.aside or ("not verified" if run.match.unverified else ""),
    }
    if run.folds:
        row |= {"folds": len(run.folds), "seeds": max(len(fold.tests) for fold in run.folds)}
    if run.devs and all(metric in dev for dev in run.devs):
        row["dev"] = 100 * float(np.mean([dev[metric] for dev in run.devs]))
        row["dev_set"] = run.dev_set
    if len(values) > 1:
        row["std"] = float(values.std(ddof=1))
    if run.can_draw(metric):
        row["low"], row["high"] = (100 * end for end in run.interval(metric))
        if baseline not in (None, run) and baseline.can_draw(metric):
            row["baseline"] = baseline.name
            row["difference"] = 100 * (run.mean(metric) - baseline.mean(metric))
            row["p"] = p_value(run, baseline, metric)
    return row


def find(argument: str) -> list[Run]:
    """Reads the runs of a folder or a pattern, perhaps with `NAME=` before it.

    A folder that matches a pattern and holds no scores.json is named and left out.

    Args:
      argument: a folder, a glob pattern of folders, or NAME=FOLDER, which names the model.

    Returns:
      One run of a folder, or those of a pattern in the order of their paths.

    Raises:
      UserError: there is no run, or its files cannot be read or do not belong together.
    """
    name, pattern = "", argument
    if "=" in argument and not glob.glob(argument):
        name, _, pattern = argument.partition("=")
    if os.path.isdir(pattern):
        return [read(pattern, name)]
    folders = sorted(filter(os.path.isdir, glob.glob(pattern)))
    finished = [x for x in folders if Path(run_folders.chosen(x), "scores.json").exists()]
    unfinished = [folder for folder in folders if folder not in finished]
    if unfinished:
        print(f"Left out, with no scores.json: {', '.join(unfinished)}.", flush=True)
    if not finished:
        raise ResultsError(
            f"{argument}: no finished run is there; give the --output_dir of a run of "
            "run_finetuning.py."
        )
    return [read(folder, name) for folder in finished]


def read(folder: str | os.PathLike, name: str = "") -> Run:
    """Reads a run and checks its scores against its predictions.

    Args:
      folder: `--output_dir` of a run, or of a sweep, whose chosen run is taken.
      name: of the model; by default the last folder of its `--init_checkpoint`.

    Returns:
      The run, with its test examples and their scores where its task is known.

    Raises:
      ResultsError: the predictions give other scores, or are of different data.
      SchemaError: `scores.json` or `config.json` is missing, or is not as a run writes it.
      TaskFileError: predictions cannot be read.
    """
    folder = run_folders.chosen(str(folder))
    scores = finetuning_files.read_scores(folder)
    task, metric = scores.task, scores.metric
    run = Run(
        folder,
        name or _model_of(scores.init),
        task,
        metric,
        tests=[trial.test for trial in scores.trials],
        examples=[],
        devs=[trial.dev for trial in scores.trials],
        dev_set=_dev_set(scores),
        match=test_sets.compare(task, []),
    )
    if task in own_data.OWN:
        settings = _read_settings(folder)
        known, data = settings.trained_on, json.dumps(settings.data_sha256)
        run = dataclasses.replace(run, data_set=settings.data_set, data=data)
        return _with_examples(run, known.task_type, own_data.own_score(task, known.labels), scores)
    if task in tasks.TASKS:
        return _with_examples(run, tasks.TASKS[task].task_type, tasks.TASKS[task].score, scores)
    return run


def _read_settings(folder: str | os.PathLike) -> FinetuningSettings:
    """Reads the `config.json` of a run, see `finetuning_settings.read_settings`."""
    # Imported late: it knows the settings of all task types, and so imports TensorFlow.
    from tfbio.task_types import finetuning_settings

    return finetuning_settings.read_settings(folder)


def _dev_set(scores: RunScores) -> str:
    """Returns which part of the development set was used, "200 of 11,268"; "" for all of it."""
    used, total = scores.examples["dev"]
    return f"{used:,} of {total:,}" if used < total else ""


def _with_examples(run: Run, type_name: str, score: Score, scores: RunScores) -> Run:
    """Adds the test examples of a run and the scores of its predictions.

    Args:
      run: without these.
      type_name: the name of the task type.
      score: see `Task.score`.
      scores: of the run.

    Raises:
      ResultsError: the predictions give other scores than `scores`, or are of different data.
      TaskFileError: predictions cannot be read.
    """
    task_type = types.TYPES[type_name]
    name = task_type.predictions_file("test")
    files = [Path(run.folder, f"trial_{trial.seed}", name) for trial in scores.trials]
    contents = [task_type.read_predictions(str(file)) for file in files]
    examples = contents[0][0]
    for file, (others, _) in zip(files, contents, strict=True):
        if others != examples:
            raise ResultsError(f"{file} and {files[0]} are of different data: run the run again.")
    own_scores = [score(examples, predicted) for _, predicted in contents]
    for file, own, value in zip(files, own_scores, run.values(), strict=True):
        # A sum of rounded numbers depends on its order.
        if not abs(own[run.metric] - value) < 1e-9:
            raise ResultsError(
                f"{file} gives the {run.metric} {own[run.metric]:.6f}, but "
                f"{Path(run.folder, finetuning_files.SCORES)} says {value:.6f}: they are not of "
                "one run; run it again."
            )
    _, total = scores.examples["test"]
    match = test_sets.compare(run.task, examples, total)
    return dataclasses.replace(
        run,
        examples=examples,
        scores=own_scores,
        match=match,
        part_of=run.task if match.aside else "",
        trivial=_trivial(run, task_type, score, files[0], examples),
    )


def _trivial(
    run: Run, task_type: type[TaskType], score: Score, file: Path, examples: Sequence[Example]
) -> Run:
    """Returns `Run.trivial`; without predictions for the development set the test set chooses."""
    path = file.with_name(task_type.predictions_file("dev"))
    dev = task_type.read_predictions(str(path))[0] if path.exists() else examples
    answer, scores = task_type.one_answer(score, dev, examples)
    return Run(answer, "trivial", run.task, run.metric, [scores], examples, [scores])


def _model_of(init: str) -> str:
    """Returns the name of the folder of a pretrained model.

    Args:
      init: the folder, or a trial of a run, whose own `--init_checkpoint` counts then.
    """
    run = Path(init).parent
    if Path(init).name.startswith("trial_") and Path(run, finetuning_files.CONFIG).is_file():
        return _model_of(_read_settings(run).init_checkpoint)
    return Path(init).name
