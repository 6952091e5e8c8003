"""What fine-tuning runs reached on the test set: their figures, how sure they are, which differ.

Test examples are resampled (documents, where the score is by document): the paired bootstrap of
Berg-Kirkpatrick et al. (2012), which Dror et al. (2018) advise for scores such as F1, whose
distribution is not known. Neither says what to do with several seeds. Here a run's figure is the
mean over its seeds, all of which are scored on the same draw, so an interval says how that mean
varies with the test set. How it varies with the seed is what the standard deviation says.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import run_folders, storage
from tfbio.base.cli import UserError
from tfbio.formats.task_examples import Example
from tfbio.reporting import test_sets
from tfbio.task_types import bootstraps, own_data, tasks, types
from tfbio.task_types.scores import Scores

if TYPE_CHECKING:
    from tfbio.task_types.task_type import Score, TaskType

# Draws for an interval and for a p-value, of which the least is 2 / 10,001.
SAMPLES = 10_000


class ResultsError(UserError):
    """A folder that holds no results, or results that do not belong together."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The output folder of a finished fine-tuning run.

    Attributes:
      folder: where it lies.
      name: of the model, for tables.
      task: `--task`; see `apart` for data of the user's own.
      metric: the task's first figure.
      tests: for each seed the figures of the test set, in [0, 1] or [-1, 1].
      examples: of the test set, with what is true; none if the predictions cannot be resampled.
      scores: of each seed, by the task's own function; none with no examples.
      data_set: of data of the user's own the path of their folder; else "".
      data: of data of the user's own what tells their content; "" if that is not known.
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
        """A figure of each seed, float64 [seeds]; by default the task's first."""
        return np.array([test[metric or self.metric] for test in self.tests])

    def mean(self, metric: str = "") -> float:
        """The mean over the seeds."""
        return float(self.values(metric).mean())

    def median_of_others(self, metric: str = "") -> float:
        """The median over all folds but the first, as bio-lm reports (Lewis et al., 5.2)."""
        return float(np.median(self.values(metric)[1:]))

    def can_draw(self, metric: str = "") -> bool:
        """Whether a figure can be had for a draw of test examples."""
        return bool(self.scores) and (metric or self.metric) in self.scores[0].drawable

    def drawn(self, rows: np.ndarray, metric: str = "") -> float:
        """The mean over the seeds of a figure of a draw, int64 [size] numbers; see `can_draw`."""
        times = np.bincount(rows, minlength=self.scores[0].size).astype(float)
        return float(np.mean([own.drawn(metric or self.metric, times) for own in self.scores]))

    def interval(self, metric: str = "") -> tuple[float, float]:
        """The bootstrap interval of the mean over the seeds, at 95 %; see `can_draw`."""
        size = self.scores[0].size
        return bootstraps.bootstrap(lambda rows: self.drawn(rows, metric), size, 0, SAMPLES)


class _FoldScores:
    """The mean over folds, of any draw of the examples of all; see `scores.Scores`."""

    def __init__(self, folds: Sequence[Run]):
        self._folds = folds
        sizes = [run.scores[0].size for run in folds]
        self._ends = np.cumsum(sizes)[:-1]
        self.size = sum(sizes)
        self.drawable = frozenset.intersection(*(run.scores[0].drawable for run in folds))

    def drawn(self, name: str, times: np.ndarray) -> float:
        parts = zip(self._folds, np.split(times, self._ends), strict=True)
        means = [np.mean([own.drawn(name, x) for own in run.scores]) for run, x in parts]
        return float(np.mean(means))


def joined(folds: Sequence[Run], task: str) -> Run:
    """Returns one run of several folds of a task, in which folds are what seeds are in another.

    A fold's figure is the mean over its seeds. An interval is of the mean over the folds, as the
    test examples of all of them are drawn anew.

    Args:
      folds: runs of one model on different test sets, each with its examples.
      task: the name of the task.
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
    """How probable so large a difference of two runs is, to either side, if none is real.

    Twice the p-value of `bootstraps.paired_bootstrap` in the direction that was found, at most 1.
    Both runs, with all their seeds, are scored on the same draws; see `Run.can_draw`.

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
    """What a table says of a run, in percent.

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

    What a pattern matches and holds no scores.json is named and left out.

    Raises:
      ResultsError: there is no run, or a folder holds other results than it should.
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
      folder: `--output_dir` of a run.
      name: of the model; by default the last folder of its `--init_checkpoint`.

    Raises:
      ResultsError: there are no scores, or the predictions give others.
      TaskFileError: predictions cannot be read.
    """
    folder = run_folders.chosen(str(folder))
    path = Path(folder) / "scores.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        task, metric, init = (scores[key] for key in ("task", "metric", "init"))
        seeds, tests = zip(*((x["seed"], x["test"]) for x in scores["trials"]), strict=True)
        for test in tests:
            test[metric]
        devs = [trial["dev"] for trial in scores["trials"] if "dev" in trial]
        settings_file = path.with_name("config.json")
        settings = json.loads(settings_file.read_text()) if settings_file.is_file() else {}
        data = json.dumps(settings["data_sha256"]) if "data_sha256" in settings else ""
        if task in own_data.OWN:
            known = settings["trained_on"]
            task_type, labels, data_set = known["task_type"], known["labels"], settings["data_set"]
        used = scores.get("examples", {})
        *_, drawn_of = used.get("test", [0])
        dev_used, dev_of = used.get("dev", [0, 0])
    except FileNotFoundError as error:
        raise ResultsError(
            f"there is no scores.json in {folder}: give the --output_dir of a finished "
            "run_finetuning.py run."
        ) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ResultsError(
            f"{path}, or config.json beside it, cannot be read ({storage.reason(error)}): give the "
            "--output_dir of a finished run_finetuning.py run."
        ) from error
    run = Run(str(folder), name or _model_of(init), task, metric, list(tests), [])
    run = dataclasses.replace(run, match=test_sets.compare(task, []))
    if len(devs) == len(tests):
        part = f"{dev_used:,} of {dev_of:,}" if dev_used < dev_of else ""
        run = dataclasses.replace(run, devs=devs, dev_set=part)
    if task in own_data.OWN:
        run = dataclasses.replace(run, data_set=data_set, data=data)
        score = own_data.own_score(task, labels)
    elif task in tasks.TASKS:
        task_type, score = tasks.TASKS[task].task_type, tasks.TASKS[task].score
    else:
        return run
    task_type = types.TYPES[task_type]
    files = [Path(folder, f"trial_{seed}", task_type.predictions_file("test")) for seed in seeds]
    contents = [task_type.read_predictions(str(file)) for file in files]
    examples = contents[0][0]
    for file, (others, _) in zip(files, contents, strict=True):
        if others != examples:
            raise ResultsError(f"{file} and {files[0]} are of different data: run the run again.")
    own_scores = [score(examples, found) for _, found in contents]
    for file, found, value in zip(files, own_scores, run.values(), strict=True):
        # A sum of rounded numbers depends on its order.
        if not abs(found[metric] - value) < 1e-9:
            raise ResultsError(
                f"{file} gives the {metric} {found[metric]:.6f}, but {path} says {value:.6f}: they "
                "are not of one run; run it again."
            )
    match = test_sets.compare(task, examples, drawn_of)
    return dataclasses.replace(
        run,
        examples=examples,
        scores=own_scores,
        match=match,
        part_of=task if match.aside else "",
        trivial=_trivial(run, task_type, score, files[0], examples),
    )


def _trivial(
    run: Run, task_type: type[TaskType], score: Score, file: Path, examples: Sequence[Example]
) -> Run:
    """See `Run.trivial`; without predictions on the development set the answer is the test's."""
    path = file.with_name(task_type.predictions_file("dev"))
    dev = task_type.read_predictions(str(path))[0] if path.exists() else examples
    answer, scores = task_type.one_answer(score, dev, examples)
    return Run(answer, "trivial", run.task, run.metric, [scores], examples, [scores])


def apart(runs: Sequence[Run]) -> list[Run]:
    """The runs, their tasks of data of the user's own named after these, "reports (ner)".

    The name is the end of the path of their folder, as short as tells them from other data of the
    same `--task`; if no path does, the start of what tells their content stands beside it. Data of
    the same content are the same, wherever they lie. Without a path a task keeps its name.
    """
    sets: dict[tuple[str, str], str] = {}
    for run in runs:
        if run.data_set:
            sets.setdefault(_set_of(run), run.data_set)

    def name(key: tuple[str, str]) -> str:
        others = [Path(x).parts for own, x in sets.items() if own[0] == key[0] and own != key]
        parts = Path(sets[key]).parts
        for length in range(1, len(parts) + 1):
            end = parts[-length:]
            if all(other[-length:] != end for other in others):
                return f"{Path(*end).as_posix()} ({key[0]})"
        digest = hashlib.sha256("".join(key).encode()).hexdigest()
        return f"{parts[-1]} {digest[:6]} ({key[0]})"

    return [
        dataclasses.replace(run, task=name(_set_of(run))) if run.data_set else run for run in runs
    ]


def _set_of(run: Run) -> tuple[str, str]:
    """Tells a run's data from other data; without their content by their folder."""
    return run.task, run.data or run.data_set


def _model_of(init: str) -> str:
    """The name of the folder of a pretrained model, from which perhaps another run was trained."""
    settings = Path(init).parent / "config.json"
    if Path(init).name.startswith("trial_") and settings.is_file():
        before = json.loads(settings.read_text(encoding="utf-8"))["init_checkpoint"]
        return _model_of(before)
    return Path(init).name
