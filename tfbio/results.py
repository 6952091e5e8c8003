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
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tfbio import metrics, predictions, sweep, tasks
from tfbio.cli import UserError
from tfbio.task_files import Example

# Draws for an interval and for a p-value, of which the least is 2 / 10,001.
SAMPLES = 10_000

KINDS = ("tagging", "classification", "regression", "multilabel")
# Of data of the user's own, where that is not `--task` itself.
OWN_KINDS = {"ner": "tagging", "pair": "classification"}

# int64 [n] numbers of test examples, drawn with replacement -> float64 [seeds].
Score = Callable[[np.ndarray], np.ndarray]


class ResultsError(UserError):
    """A folder that holds no results, or results that do not belong together."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The output folder of a finished fine-tuning run.

    Attributes:
      folder: where it lies.
      name: of the model, for tables.
      task: `--task`; of data of the user's own with the name of their folder, "reports (ner)".
      metric: the task's first figure.
      tests: for each seed the figures of the test set, in [0, 1] or [-1, 1].
      examples: of the test set, with what is true; none if the predictions cannot be resampled.
      size: what there is to draw: examples or documents.
      score: the metric of a draw; None with no examples.
    """

    folder: str
    name: str
    task: str
    metric: str
    tests: list[dict[str, float]]
    examples: list[Example]
    size: int = 0
    score: Score | None = None

    def values(self, metric: str = "") -> np.ndarray:
        """A figure of each seed, float64 [seeds]; by default the task's first."""
        return np.array([test[metric or self.metric] for test in self.tests])

    def mean(self) -> float:
        """The mean over the seeds."""
        return float(self.values().mean())

    def interval(self) -> tuple[float, float]:
        """The bootstrap interval of the mean over the seeds, at 95 %; needs `score`."""
        return metrics.bootstrap(lambda rows: self.score(rows).mean(), self.size, 0, SAMPLES)


def p_value(run: Run, baseline: Run) -> float:
    """How probable so large a difference of two runs is, to either side, if none is real.

    Twice the p-value of `metrics.paired_bootstrap` in the direction that was found, at most 1. Both
    runs, with all their seeds, are scored on the same draws. Both need `score`.

    Raises:
      ResultsError: their test sets differ.
    """
    if run.examples != baseline.examples:
        raise ResultsError(
            f"{run.folder} and {baseline.folder} were tested on different data, so they cannot be "
            "compared: run one of them again with the other's --data_dir."
        )
    better, worse = sorted((run, baseline), key=Run.mean, reverse=True)
    one_sided = metrics.paired_bootstrap(
        lambda rows: better.score(rows).mean(),
        lambda rows: worse.score(rows).mean(),
        run.size,
        0,
        SAMPLES,
    )
    return min(1.0, 2 * one_sided)


def figures(run: Run, metric: str, baseline: Run | None = None) -> dict[str, str | int | float]:
    """What a table says of a run, in percent; intervals and p-values are of the first figure only.

    Args:
      run: of a task.
      metric: the figure.
      baseline: a run of the same task, or this one; None for no comparison.

    Returns:
      "model", "task", "metric", "figure" (the mean over the seeds), "median", "seeds", "values" (of
      the seeds, in their order), "source"; where there is more than one seed "std" (n - 1); where
      test examples can be drawn "low" and "high"; of a comparison "baseline", "difference", "p".

    Raises:
      ResultsError: see `p_value`.
    """
    values = 100 * run.values(metric)
    row = {
        "model": run.name,
        "task": run.task,
        "metric": metric,
        "figure": float(values.mean()),
        "median": float(np.median(values)),
        "seeds": len(values),
        "values": " ".join(map(str, values.tolist())),
        "source": run.folder,
    }
    if len(values) > 1:
        row["std"] = float(values.std(ddof=1))
    if run.score and metric == run.metric:
        row["low"], row["high"] = (100 * end for end in run.interval())
        if baseline not in (None, run):
            row["baseline"] = baseline.name
            row["difference"] = 100 * (run.mean() - baseline.mean())
            row["p"] = p_value(run, baseline)
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
    finished = [x for x in folders if Path(sweep.chosen(x), "scores.json").exists()]
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
    folder = sweep.chosen(str(folder))
    path = Path(folder) / "scores.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        task, metric, init = (scores[key] for key in ("task", "metric", "init"))
        seeds, tests = zip(*((x["seed"], x["test"]) for x in scores["trials"]), strict=True)
        for test in tests:
            test[metric]
        settings_file = path.with_name("config.json")
        settings = json.loads(settings_file.read_text()) if settings_file.is_file() else {}
        kind = settings.get("trained_on", {}).get("kind")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResultsError(
            f"{path} cannot be read ({type(error).__name__}: {error}): give the --output_dir of a "
            "finished run_finetuning.py run."
        ) from error
    if kind is None:  # of an earlier version
        kind = tasks.TASKS[task].kind if task in tasks.TASKS else OWN_KINDS.get(task, task)
    if task in tasks.OWN and "data_set" in settings:
        task = f"{settings['data_set']} ({task})"
    run = Run(str(folder), name or _model_of(init), task, metric, list(tests), [])
    if kind not in KINDS:
        return run
    files = [Path(folder, f"trial_{seed}", "test_predictions.tsv") for seed in seeds]
    contents = [predictions.read(str(file), kind) for file in files]
    examples = contents[0][0]
    for file, (others, _) in zip(files, contents, strict=True):
        if others != examples:
            raise ResultsError(f"{file} and {files[0]} are of different data: run the run again.")
    size, score = scorer(task, kind, metric, examples, [found for _, found in contents])
    for file, found, value in zip(files, score(np.arange(size)), run.values(), strict=True):
        # A sum of rounded numbers depends on its order.
        if not abs(found - value) < 1e-9:
            raise ResultsError(
                f"{file} gives the {metric} {found:.6f}, but {path} says {value:.6f}: they are not "
                "of one run; run it again."
            )
    return dataclasses.replace(run, examples=examples, size=size, score=score)


def _model_of(init: str) -> str:
    """The name of the folder of a pretrained model, from which perhaps another run was trained."""
    settings = Path(init).parent / "config.json"
    if Path(init).name.startswith("trial_") and settings.is_file():
        before = json.loads(settings.read_text(encoding="utf-8"))["init_checkpoint"]
        return _model_of(before)
    return Path(init).name


def scorer(
    task: str, kind: str, metric: str, examples: Sequence[Example], predicted: Sequence[Sequence]
) -> tuple[int, Score]:
    """A task's metric as a function of the examples that are drawn.

    Args:
      task: its name.
      kind: see `Task.kind`.
      metric: the task's first figure.
      examples: of the test set.
      predicted: for each seed what was predicted for each example.

    Returns:
      How many examples (or documents) there are, and the function.
    """
    truth = [example.tags if kind == "tagging" else example.label for example in examples]
    if kind == "regression":
        true, found = np.array(truth), np.array(predicted)
        return len(truth), lambda rows: _pearson(true[rows], found[:, rows])
    if metric == "accuracy":
        right = np.array([[a == b for a, b in zip(truth, x, strict=True)] for x in predicted])
        return len(truth), lambda rows: right[:, rows].mean(axis=1)

    # All others are F1. In relation extraction one label says that there is no relation.
    keywords = getattr(tasks.TASKS[task].score, "keywords", {}) if task in tasks.TASKS else {}
    negative = {keywords.get("negative")}

    def items(labels: Sequence) -> list[set[tuple]]:
        if kind == "tagging":
            return [
                (metrics.words if metric == "macro_f1" else metrics.entities)(x) for x in labels
            ]
        sets = [{x} - negative if isinstance(x, str) else set(x) for x in labels]
        if metric == "micro_f1":
            sets = metrics.by_document([example.document for example in examples], sets).values()
        return [{(label,) for label in own} for own in sets]

    true, *found = map(items, (truth, *predicted))
    types = sorted({item[0] for sets in (true, *found) for own in sets for item in own})
    if metric == "macro_f1":
        types = metrics.PICO_ELEMENTS
    counts = np.stack([metrics.count(true, own, types) for own in found], axis=1)
    if metric != "macro_f1":
        counts = counts.sum(axis=2, keepdims=True)  # the macro F1 of one type is the micro F1
    size, flat = len(counts), counts.reshape(len(counts), -1).astype(float)

    def score(rows: np.ndarray) -> np.ndarray:
        # The sum over the rows, as a product with how often each was drawn, which is faster.
        sums = (np.bincount(rows, minlength=size) @ flat).reshape(counts.shape[1:])
        return np.array([metrics.macro_f1(own[np.newaxis]) for own in sums])

    return size, score


def _pearson(true: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Of truth [n] and predictions [seeds, n]; 0 if undefined, as in `metrics`; float64 [seeds]."""
    x, y = true - true.mean(), found - found.mean(axis=1, keepdims=True)
    norm = np.sqrt((x @ x) * (y * y).sum(axis=1))
    defined = (np.ptp(true) > 0) & (np.ptp(found, axis=1) > 0)
    return np.where(defined, (y @ x) / np.where(defined, norm, 1.0), 0.0)
