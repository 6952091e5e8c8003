"""Runs every combination of some settings, and chooses one by the scores on the development set.

Each combination is a run of `finetuning.finetune` in its folder, so a sweep continues where it was
interrupted, and the chosen run can get more seeds. `run_finetuning.py` calls it for `--sweep`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import json
import os
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tfbio.base import config, storage
from tfbio.base.errors import UsageError, UserError
from tfbio.base.messages import shown
from tfbio.task_types.finetuning_config import FinetuningConfig

if TYPE_CHECKING:  # TensorFlow takes seconds, and mistakes in flags should not.
    from tfbio.runs import finetuning


def combinations(sweeps: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Combines the values of the settings that a sweep tries; the last setting changes first.

    Args:
      sweeps: "name=value,value,..." each.

    Returns:
      A list of the names; and for each combination a list of its "name=value" texts, as
      `config.load` takes them. Without sweeps: no names, and one empty combination.

    Raises:
      UsageError: a text is of another form, or a name stands twice.
    """
    names, choices = [], []
    for text in sweeps:
        name, _, values = text.partition("=")
        if not name or not all(values.split(",")):
            raise UsageError(f"--sweep {text}: expected name=value,value,...")
        if name in names:
            raise UsageError(
                f"--sweep {name}=... is given twice. List all values in one flag: --sweep "
                f"{name}=VALUE,VALUE."
            )
        names.append(name)
        choices.append([f"{name}={value}" for value in values.split(",")])
    return names, [list(chosen) for chosen in itertools.product(*choices)]


def load(
    hparams: str,
    changes: Sequence[str],
    chosen: Sequence[str],
    defaults: Mapping[str, object],
    of_flags: Collection[str],
) -> FinetuningConfig:
    """Builds the settings of one combination of a sweep.

    Args:
      hparams, defaults: see `config.load`.
      changes: "name=value" each, as given to --set.
      chosen: the same of the combination; none without a sweep.
      of_flags: the names of the settings that have a --sweep; others have their values from
        `hparams`.

    Returns:
      The settings.

    Raises:
      ConfigError: a setting is wrong. If all are right without the combination, the message names
        --sweep, or the file whose search has the value.
    """
    try:
        return config.load(FinetuningConfig, hparams, [*changes, *chosen], defaults)
    except config.ConfigError as error:
        config.load(FinetuningConfig, hparams, changes, defaults)
        _, _, said = str(error).partition(": ")
        of_file = [text for text in chosen if text.partition("=")[0] not in of_flags]
        if of_file:
            names = ", ".join(text.partition("=")[0] for text in of_file)
            said += f" {names}: from the search in {hparams}; give one value with --set."
        swept = " ".join(f"--sweep {text}" for text in chosen if text not in of_file)
        raise config.ConfigError(f"{swept or ' '.join(of_file)}: {said}") from error


def with_those_of(hparams: str, sweeps: Sequence[str], fixed: Collection[str]) -> list[str]:
    """Adds to the sweeps of a command line those of its settings file, a published search.

    The file has them as `"sweep": {"learning_rate": [1e-5, 3e-5], "tagging": {"head": [...]}}`. Its
    values of a setting give way to those of the command line.

    Args:
      hparams: the file, as `config.load` takes it.
      sweeps: "name=value,value,..." each, those of the command line.
      fixed: the names of the settings that have one value on the command line.

    Returns:
      Such texts: first those of the file, in its order.

    Raises:
      ConfigError: the file cannot be read, or its `sweep` does not list values of settings, or one
        of them has a value in the file, too.
    """
    origin, values = config.read(hparams)
    given = {text.partition("=")[0] for text in sweeps} | set(fixed)
    of_file = []
    for name, choices in _listed(values.get("sweep", {}), "", origin):
        if _has(values, name):
            raise config.ConfigError(f"{origin}: {name} has a value and a sweep: give one of them.")
        if name not in given:
            texts = (x if isinstance(x, str) else json.dumps(x) for x in choices)
            of_file.append(f"{name}={','.join(texts)}")
    return [*of_file, *sweeps]


def names_in(change: str) -> list[str]:
    """Returns the names of the settings that the text of a `--set` changes, with dots for groups.

    Args:
      change: "name=value"; the value of a group is an object of JSON, of whose names each counts.
    """
    name, _, text = change.partition("=")
    try:
        value = json.loads(text)
    except ValueError:
        value = None

    def names(prefix: str, value: object) -> list[str]:
        if not isinstance(value, Mapping):
            return [prefix]
        return [x for key, each in value.items() for x in names(f"{prefix}.{key}", each)]

    return names(name, value)


def _listed(tree: object, prefix: str, origin: str) -> Iterator[tuple[str, list]]:
    """Yields the names and values in a file's `sweep`, whose groups are objects in it."""
    if isinstance(tree, Mapping):
        for name, each in tree.items():
            yield from _listed(each, f"{prefix}.{name}" if prefix else name, origin)
        return
    scalars = (bool, int, float, str)
    if not (prefix and tree and isinstance(tree, list) and all(type(x) in scalars for x in tree)):
        name = f"sweep.{prefix}" if prefix else "sweep"
        raise config.ConfigError(
            f"{origin}: {name} must list the values of settings to try, "
            f'{{"learning_rate": [1e-5, 3e-5]}}, not {shown(tree)}.'
        )
    yield prefix, tree


def _has(values: Mapping, name: str) -> bool:
    """Returns True if the settings of a file have the one of this name."""
    tree: object = values
    for key in name.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            return False
        tree = tree[key]
    return True


def run(
    of: finetuning.Run,
    swept: Sequence[str],
    settings: Sequence[FinetuningConfig],
    keep_weights: str = "all",
) -> dict[str, Any]:
    """Runs a sweep: all settings that are not finished yet, of which dev's scores choose the best.

    The best has the highest mean over the seeds; among equals the first is chosen. The scores on
    the test set are shown for the chosen settings alone. Settings whose loss is no longer a number
    are out.

    Writes into `output_dir`: `NAME=VALUE,.../` for each, see `finetuning.finetune`; `sweep.json`,
    and `sweep.md` with the same as a table.

    Args:
      of: the run, whose `output_dir` is that of the sweep, and whose settings are not used.
      swept: the names of the settings that differ.
      settings: the settings of each run.
      keep_weights: "all"; or "best" to remove the weights of all trials but the best one of the
        chosen settings, as soon as there is a better one.

    Returns:
      A dict, the content of `sweep.json`, scores as fractions: the strings "task" and "metric";
      "settings", a list of a dict for each with its values by name, "folder" (its name in
      `output_dir`), "dev" (the score of each seed on the development set, none if it diverged),
      "mean" and "std" (None where there is none); "chosen", the folder of the best; "test", a dict
      of its "mean", "std" and "median" on the test set.

    Raises:
      UsageError: a swept setting does not affect results, or two values are equal.
      UserError: no setting could be trained; the data, the checkpoint or a setting cannot be used;
        or a folder holds a run with other settings, or another process writes there.
      SystemExit: the process was told to end; what is done is saved.
    """
    from tfbio.runs import finetuning, finetuning_folder

    for name in swept:
        if name.partition(".")[0] in finetuning_folder.NOT_IN_A_TRIAL:
            raise UsageError(f"--sweep {name}=...: {name} does not change what is learnt.")
    runs, rows = _runs(of, swept, settings)
    paths = {form: os.path.join(of.output_dir, f"sweep.{form}") for form in ("json", "md")}
    if of.overwrite and of.is_chief:
        _remove(paths.values())  # what they tell of may be replaced
    began = [each for each in runs if finetuning_folder.began(each.output_dir)]
    first = (began or runs)[0].output_dir
    runs = [dataclasses.replace(each, precision_of=first) for each in runs]
    has_weights = True  # those that were chosen
    for number, (each, row) in enumerate(zip(runs, rows, strict=True), start=1):
        of.say(f"Setting {number} of {len(rows)}: {row['folder']}")
        row |= _scores_on_dev(each)
        if number == 1 and of.is_chief:
            _remove(paths.values())  # of a sweep before: this one was not refused
        if keep_weights == "best" and of.is_chief:
            has_weights = _keep_best(runs, rows[:number])
    chosen = _chosen(rows)
    if chosen is None:
        raise UserError("no setting could be trained: try lower learning rates.")
    if not has_weights:
        of.say(
            f"{chosen['folder']} has no weights: a sweep with more settings or seeds removed them, "
            "and those of other trials stay. Remove the folder and run the same command to have "
            "them."
        )
    # All trials are there: this only sums them up.
    scores = _finetune(runs[rows.index(chosen)])
    summary = {
        "task": scores["task"],
        "metric": scores["metric"],
        "settings": rows,
        "chosen": chosen["folder"],
        "test": {name: scores[name] for name in ("mean", "std", "median")},
    }
    if of.is_chief:
        storage.write_text(paths["json"], json.dumps(summary, indent=2) + "\n")
        table = _table(swept, summary)
        test = finetuning.describe_test(scores)
        storage.write_text(paths["md"], f"{table}\nChosen: `{chosen['folder']}`, {test}.\n")
        of.say(f"{table}\nChosen: {chosen['folder']}; see {paths['md']}")
    return summary


def _runs(
    of: finetuning.Run, swept: Sequence[str], settings: Sequence[FinetuningConfig]
) -> tuple[list[finetuning.Run], list[dict[str, Any]]]:
    """Returns the run of each setting, and its row: the swept values and its folder."""
    runs: list[finetuning.Run] = []
    rows: list[dict[str, Any]] = []
    for each in settings:
        values = {name: attrgetter(name)(each) for name in swept}
        folder = ",".join(f"{name}={value}" for name, value in values.items())
        if any(row["folder"] == folder for row in rows):
            raise UsageError(f"--sweep: {folder} stands there twice; leave one out.")
        output_dir = os.path.join(of.output_dir, folder)
        runs.append(dataclasses.replace(of, config=each, output_dir=output_dir))
        rows.append({**values, "folder": folder})
    return runs, rows


def _remove(paths: Iterable[str]) -> None:
    """Removes the files of these paths that are there."""
    for path in filter(os.path.exists, paths):
        os.remove(path)


def _chosen(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the row of the settings that dev's scores choose; None if none could be trained."""
    trained = [row for row in rows if row["dev"]]
    return max(trained, key=lambda row: row["mean"], default=None)  # the first of equals


def _keep_best(runs: Sequence[finetuning.Run], rows: Sequence[dict[str, Any]]) -> bool:
    """Removes the weights of all trials but the best one of the settings chosen so far.

    Returns False if an earlier command removed those; then all others stay.
    """
    from tfbio.runs import kept_weights

    chosen = _chosen(rows)
    if chosen and not kept_weights.keep_best(runs[rows.index(chosen)].output_dir):
        return False
    for run, row in zip(runs, rows, strict=False):
        if row is not chosen:
            kept_weights.remove_all(run.output_dir)
    return True


def _scores_on_dev(run: finetuning.Run) -> dict[str, Any]:
    """Runs a setting; returns `dev`, the score of each seed, with their `mean` and `std`."""
    from tfbio.runs import trial

    try:
        scores = _finetune(dataclasses.replace(run, show_test=False))
    except trial.DivergedError as error:
        run.say(f"{os.path.basename(run.output_dir)} is out: {error}")
        return {"dev": [], "mean": None, "std": None}
    finally:
        # A model's graphs refer to it and it to them: it must leave the device before the next.
        gc.collect()
    dev = [trial["dev"][scores["metric"]] for trial in scores["trials"]]
    std = statistics.stdev(dev) if len(dev) > 1 else None
    return {"dev": dev, "mean": statistics.fmean(dev), "std": std}


def _finetune(run: finetuning.Run) -> dict[str, Any]:
    """Runs a setting, alone in its folder: it may be run without the sweep as well."""
    from tfbio.runs import finetuning

    with storage.only_writer(run.output_dir) if run.is_chief else contextlib.nullcontext():
        return finetuning.finetune(run)


def _table(swept: Sequence[str], summary: dict) -> str:
    """Formats the scores on the development set as a Markdown table, with the choice in bold."""
    head = [*swept, f"dev {summary['metric']}", "standard deviation", "seeds"]
    lines = [head, ["---"] * len(head)]
    for row in summary["settings"]:
        scores = ["diverged" if row["mean"] is None else f"{row['mean']:.4f}"]
        scores.append("" if row["std"] is None else f"{row['std']:.4f}")
        cells = [*(str(row[name]) for name in swept), *scores, str(len(row["dev"]))]
        bold = row["folder"] == summary["chosen"]
        lines.append([f"**{cell}**" if bold and cell else cell for cell in cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
