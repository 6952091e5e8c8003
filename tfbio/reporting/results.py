"""Reads fine-tuning runs: their test scores, with intervals, and tests of their differences.

Test examples are resampled (documents, where the score is by document): the paired bootstrap of
Berg-Kirkpatrick et al. (2012), which Dror et al. (2018) advise for scores such as F1, whose
distribution is not known. Neither says what to do with several seeds. Here a run's figure is the
mean over its seeds, all scored on the same draw, so an interval says how that mean varies with the
test set; how it varies with the seed is what the standard deviation says.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import run_folders
from tfbio.base.errors import UserError
from tfbio.formats.task_examples import Example
from tfbio.reporting import test_sets
from tfbio.task_types import (
    bootstraps,
    finetuning_config,
    finetuning_files,
    own_data,
    task_table,
    types,
)
from tfbio.task_types.finetuning_files import RunScores
from tfbio.task_types.metrics import Scores
from tfbio.task_types.outcomes import Outcome

if TYPE_CHECKING:
    from tfbio.task_types.task_type import Score, TaskType

# Draws for an interval and for a p-value.
SAMPLES = 10_000


class ResultsError(UserError):
    """The `UserError` for a folder without results of a run, or for results that do not match."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The results of a finished fine-tuning run, read from its output folder for the report.

    Attributes:
      folder: the path of that folder.
      name: the model's name, for tables.
      task: `--task`; see `grouping.by_data` for data of the user's own.
      metric: the name of the task's first figure, such as "f1".
      tests: for each seed the figures of the test set by name, in [0, 1] or [-1, 1].
      examples: the test examples with their labels; none if the predictions cannot be resampled.
      scores: the `Scores` of each seed, by the task's own function; none with no examples.
      data_set: the path of the folder of data of the user's own; else "".
      data: the hashes of the files of data of the user's own, as text; else "".
      devs: for each seed the figures of the development set; {} for one that is not known.
      dev_set: which part of the development set that is, "200 of 11,268"; "" for all of it.
      match: how the test examples compare with the published ones.
      part_of: the task whose published test set this is not; "" where it is, or none is published.
      trivial: the results of one answer to all test examples, as a run with one seed, whose
        `folder` says which answer; None with no examples.
      outcomes: how often each outcome is there, over all seeds; none where the task has no labels.
      type_name: the name of the task's type, one of `types.TYPES`; "" with no examples.
      folds: the runs that were joined to this one, see `joined`; () for others.
      train_seconds: for each seed how long training took, with its evaluations, in seconds; 0 where
        that is not known. Of joined folds for each seed of each fold.
    """

    folder: str
    name: str
    task: str
    metric: str
    tests: list[dict[str, float]]
    examples: Sequence[Example]
    scores: Sequence[Scores] = ()
    data_set: str = ""
    data: str = ""
    devs: Sequence[dict[str, float]] = ()
    dev_set: str = ""
    match: test_sets.Match = test_sets.Match()
    part_of: str = ""
    trivial: Run | None = None
    outcomes: Mapping[Outcome, int] = dataclasses.field(default_factory=Counter)
    type_name: str = ""
    folds: Sequence[Run] = ()
    train_seconds: Sequence[float] = ()

    def values(self, metric: str = "") -> np.ndarray:
        """Returns the test results of a run, one of each seed (or joined fold), float64 [seeds].

        Args:
          metric: the name of the figure, in [0, 1] or [-1, 1]; "" for the task's first.

        Raises:
          KeyError: the test scores have no such figure.
        """
        return np.array([test[metric or self.metric] for test in self.tests])

    def mean(self, metric: str = "") -> float:
        """Returns the mean of `values(metric)`, a run's results over the seeds; no percentage."""
        return float(self.values(metric).mean())

    def median_of_others(self, metric: str = "") -> float:
        """Returns the median result over all folds but the first, a fraction; see `values`.

        bio-lm reports it (Lewis et al., 5.2).
        """
        return float(np.median(self.values(metric)[1:]))

    def can_draw(self, metric: str = "") -> bool:
        """Returns True if the result `metric` ("": the first) can be had for drawn examples."""
        return bool(self.scores) and (metric or self.metric) in self.scores[0].drawable

    def drawn(self, rows: np.ndarray, metric: str = "") -> float:
        """Returns the result for a draw of test examples, the mean over the seeds, as a fraction.

        Args:
          rows: int64 [size], the numbers of the examples that were drawn, with repetitions.
          metric: a figure for which `can_draw` is True; "" for the task's first.
        """
        times = np.bincount(rows, minlength=self.scores[0].size).astype(float)
        return float(np.mean([own.drawn(metric or self.metric, times) for own in self.scores]))

    def interval(self, metric: str = "") -> tuple[float, float]:
        """Returns the 95 % bootstrap interval of a result, two fractions; see `drawn`."""
        size = self.scores[0].size
        return bootstraps.bootstrap(lambda rows: self.drawn(rows, metric), size, 0, SAMPLES)


def p_value(run: Run, baseline: Run, metric: str = "") -> float | None:
    """Computes the p-value of the difference between two runs' results, two-sided, with all seeds.

    Args:
      run: the results of a run.
      baseline: those of another run of the same task, scored on the same draws of examples.
      metric: a figure for which `Run.can_draw` is True of both; "" for the task's first.

    Returns:
      A float above 0, at most 1: twice the p-value of `bootstraps.paired_bootstrap` in the
      direction of the difference. None where the same examples stand in another order, or in
      another number of documents or questions: a draw would then be of different ones.

    Raises:
      ResultsError: the content of their test examples differs, see `TaskType.content`.
    """
    ours, theirs = _contents(run), _contents(baseline)
    if ours != theirs and sorted(ours) != sorted(theirs):
        raise ResultsError(
            f"{run.folder} and {baseline.folder} were tested on different data, so they cannot be "
            "compared: run one of them again with the other's --data_dir."
        )
    if ours != theirs or run.scores[0].size != baseline.scores[0].size:
        return None
    better, worse = sorted((run, baseline), key=lambda one: one.mean(metric), reverse=True)
    one_sided = bootstraps.paired_bootstrap(
        lambda rows: better.drawn(rows, metric),
        lambda rows: worse.drawn(rows, metric),
        run.scores[0].size,
        0,
        SAMPLES,
    )
    return min(1.0, 2 * one_sided)


def _contents(run: Run) -> list[tuple[list[str], list[str]]]:
    """Returns the content of each test example of a run, as `test_sets` compares them."""
    return [types.TYPES[run.type_name].content(example) for example in run.examples]


def least_p() -> float:
    """Returns the least p-value of two results that `SAMPLES` draws can give; see `p_value`."""
    return 2 / (SAMPLES + 1)


def figures(run: Run, metric: str, baseline: Run | None = None) -> dict[str, str | int | float]:
    """Sums up the results of a run in one metric for a report, in percent.

    Args:
      run: the results.
      metric: the name of the figure.
      baseline: the results of a run of the same task, or `run`; None for no comparison.

    Returns:
      A dict of the strings "model", "task", "metric", "source" (the folder), "test_set" (what is
      not the published one, or "not verified") and "values" (of the seeds, in their order, between
      blanks); the int "seeds"; and the floats "figure" (the mean over the seeds) and "median".
      Where it is known "dev", the mean on the development set, and "dev_set", which part of it that
      is, as text; with more than one seed "std" (n - 1); where the figure can be had for draws
      "low" and "high", and of a comparison "baseline" (its name), "difference" and "p", a fraction
      (left out where `p_value` is None); where it is known of all seeds "train_seconds", the mean.
      Of joined folds mean, median, "std" and "values" are over the folds, of which "folds" is the
      number.

    Raises:
      KeyError: the run has no such figure.
      ResultsError: see `p_value`.
    """
    values = 100 * run.values(metric)
    row: dict[str, str | int | float] = {
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
            if (p := p_value(run, baseline, metric)) is not None:
                row["p"] = p
    if run.train_seconds and all(run.train_seconds):
        row["train_seconds"] = float(np.mean(run.train_seconds))
    return row


def _name_and_pattern(argument: str) -> tuple[str, str]:
    """Returns the name in NAME=FOLDER, "" if there is none, and the folder or pattern.

    Each may have "=" in it, as the folders of a sweep's combinations have.
    """
    if "=" not in argument or glob.glob(argument):
        return "", argument
    words = argument.split("=")
    for end in range(1, len(words)):
        name, pattern = "=".join(words[:end]), "=".join(words[end:])
        if os.path.isdir(pattern) or glob.glob(pattern):
            return name, pattern
    return words[0], "=".join(words[1:])


def find(argument: str) -> list[Run]:
    """Reads the results of the runs that a folder or pattern names, perhaps with `NAME=` before it.

    Args:
      argument: a folder, a glob pattern of folders, or NAME=FOLDER, which names the model. A folder
        of a pattern that holds no scores.json is printed and left out.

    Returns:
      A list of one `Run` of a folder, or those of a pattern in the order of their paths.

    Raises:
      UserError: there is no run, or its files cannot be read or do not belong together.
    """
    name, pattern = _name_and_pattern(argument)
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
    """Reads the results of one fine-tuning run, and checks its scores against its predictions.

    Args:
      folder: the path of the `--output_dir` of a run, or of a sweep, whose chosen run is taken.
      name: the model's name; by default the last folder of its `--init_checkpoint`, of one of
        a run's kept checkpoints with its name, "general/kept-1000".

    Returns:
      The `Run`, with its test examples and their scores where its task is known.

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
        train_seconds=[trial.train_seconds for trial in scores.trials],
    )
    if task in own_data.OWN:
        settings = finetuning_config.read_settings(folder)
        known, data = settings.trained_on, json.dumps(settings.data_sha256)
        run = dataclasses.replace(run, data_set=settings.data_set, data=data)
        own_score = own_data.own_score(task, known.labels)
        return _with_examples(run, known.task_type, own_score, scores, known.entity_type)
    if task in task_table.TASKS:
        own = task_table.TASKS[task]
        return _with_examples(run, own.task_type, own.score, scores, own.entity_type)
    return run


def _dev_set(scores: RunScores) -> str:
    """Returns which part of the development set was used, "200 of 11,268"; "" for all of it."""
    used, total = scores.examples["dev"]
    return f"{used:,} of {total:,}" if used < total else ""


def _with_examples(
    run: Run, type_name: str, score: Score, scores: RunScores, entity_type: str
) -> Run:
    """Adds a run's test examples, the scores of its predictions, by the task's, and their outcomes.

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
    outcomes: Counter[Outcome] = Counter()
    for _, predicted in contents:
        outcomes.update(task_type.outcomes(examples, predicted, entity_type or "entity"))
    _, total = scores.examples["test"]
    match = test_sets.compare(run.task, examples, total)
    return dataclasses.replace(
        run,
        examples=examples,
        scores=own_scores,
        match=match,
        part_of=run.task if match.aside else "",
        trivial=_trivial(run, task_type, score, files[0], examples),
        outcomes=outcomes,
        type_name=type_name,
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
    """Returns the name of a model's folder; of a trial's run that of its `--init_checkpoint`.

    A TensorFlow 1 checkpoint, such as `bert_model.ckpt`, has the name of the folder around it; the
    `kept-STEP` of a run has both names, as runs keep the same steps.
    """
    path = Path(run_folders.followed(init))  # "." has a name, too
    run = path.parent
    if path.name.startswith("trial_") and Path(run, run_folders.CONFIG).is_file():
        return _model_of(finetuning_config.read_settings(run).init_checkpoint)
    if re.search(r"^kept-\d+$", path.name):
        return f"{run.name}/{path.name}"
    is_checkpoint = re.search(r"\.ckpt\b|^ckpt-\d+$", path.name)
    return run.name if is_checkpoint else path.name
