"""Sweeps: every combination of some settings is run, and the development set chooses one.

Each combination is a run of `finetuning.finetune` in a folder of its own, so a sweep continues
where it was interrupted, and the choice can be run on with more seeds.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import statistics
from collections.abc import Callable, Sequence
from operator import attrgetter

from tfbio.base import storage
from tfbio.base.cli import UsageError, UserError
from tfbio.task_types.types import FinetuningConfig


def combinations(sweeps: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Returns which settings are swept, and all combinations of values; the last changes first.

    Args:
      sweeps: "name=value,value,..." each.

    Returns:
      The names; and for each combination its "name=value" texts, as `config.load` takes them. Of no
      sweeps: no names, and the one combination of nothing.

    Raises:
      UsageError: a text is of another form, a name stands twice.
    """
    names, choices = [], []
    for text in sweeps:
        name, _, values = text.partition("=")
        if not name or not all(values.split(",")):
            raise UsageError(f"--sweep {text}: expected name=value,value,...")
        if name in names:
            raise UsageError(
                f"--sweep {text}: {name} has a --sweep already; give all values in one."
            )
        names.append(name)
        choices.append([f"{name}={value}" for value in values.split(",")])
    return names, [list(chosen) for chosen in itertools.product(*choices)]


def run(
    swept: Sequence[str],
    settings: Sequence[FinetuningConfig],
    finetune: Callable[..., dict],
    output_dir: str,
) -> dict:
    """Runs all settings that are not finished yet, and chooses the best on the development set.

    That is the highest mean over the seeds, and the first of equals. The scores on the test set are
    shown for the choice alone. Where a loss is no longer a number, a setting is out.

    Writes into `output_dir`: `NAME=VALUE,.../` for each, see `finetuning.finetune`; `sweep.json`,
    and `sweep.md` with the same as a table.

    Args:
      swept: the names of the settings that differ.
      settings: of each run.
      finetune: `finetuning.finetune` with all arguments but the settings, `output_dir` and
        `show_test`.
      output_dir: made if need be.

    Returns:
      What `sweep.json` holds: task, metric; the settings, each with its values, its folder, and on
      the development set the score of each seed, mean and standard deviation (None where there is
      none); `chosen`, the folder of the best; and its `test`: mean, standard deviation and median.

    Raises:
      UserError: what is swept tells no run from another; no setting could be trained; or see
        `finetuning.finetune`.
    """
    # Late: TensorFlow takes seconds, and mistakes in flags should not.
    from tfbio.runs import finetuner, finetuning

    for name in swept:
        if name.partition(".")[0] in finetuning.NOT_IN_A_TRIAL:
            raise UsageError(f"--sweep {name}=...: {name} does not change what is learnt.")
    folders = {}
    for config in settings:
        values = {name: attrgetter(name)(config) for name in swept}
        folders[",".join(f"{name}={value}" for name, value in values.items())] = config, values
    paths = {kind: os.path.join(output_dir, f"sweep.{kind}") for kind in ("json", "md")}
    for path in paths.values():  # of a sweep before
        if os.path.exists(path):
            os.remove(path)
    rows = []
    for number, (folder, (config, values)) in enumerate(folders.items(), start=1):
        print(f"Setting {number} of {len(folders)}: {folder}", flush=True)
        row = {**values, "folder": folder, "dev": [], "mean": None, "std": None}
        rows.append(row)
        try:
            own = os.path.join(output_dir, folder)
            with storage.only_writer(own):  # which may be run alone as well
                scores = finetune(config, output_dir=own, show_test=False)
        except finetuner.DivergedError as error:
            print(f"{folder} is out: {error}", flush=True)
            continue
        finally:
            # A model's graphs refer to it and it to them: it must leave the device before the next.
            gc.collect()
        row["dev"] = [trial["dev"][scores["metric"]] for trial in scores["trials"]]
        row["mean"] = statistics.fmean(row["dev"])
        row["std"] = statistics.stdev(row["dev"]) if len(row["dev"]) > 1 else None
    trained = [row for row in rows if row["dev"]]
    if not trained:
        raise UserError("no setting could be trained: try lower learning rates.")
    chosen = max(trained, key=lambda row: row["mean"])["folder"]  # the first of equals
    # All trials are there: this only sums them up.
    own = os.path.join(output_dir, chosen)
    with storage.only_writer(own):
        scores = finetune(folders[chosen][0], output_dir=own, show_test=True)
    summary = {
        "task": scores["task"],
        "metric": scores["metric"],
        "settings": rows,
        "chosen": chosen,
        "test": {name: scores[name] for name in ("mean", "std", "median")},
    }
    storage.write_text(paths["json"], json.dumps(summary, indent=2) + "\n")
    table = _table(swept, summary)
    test = finetuning.describe_test(scores)
    storage.write_text(paths["md"], f"{table}\nChosen: `{chosen}`, {test}.\n")
    print(f"{table}\nChosen: {chosen}; see {paths['md']}", flush=True)
    return summary


def _table(swept: Sequence[str], summary: dict) -> str:
    """Returns the scores on the development set as Markdown, the choice in bold."""
    head = [*swept, f"dev {summary['metric']}", "standard deviation", "seeds"]
    lines = [head, ["---"] * len(head)]
    for row in summary["settings"]:
        scores = ["diverged" if row["mean"] is None else f"{row['mean']:.4f}"]
        scores.append("" if row["std"] is None else f"{row['std']:.4f}")
        cells = [*(str(row[name]) for name in swept), *scores, str(len(row["dev"]))]
        bold = row["folder"] == summary["chosen"]
        lines.append([f"**{cell}**" if bold and cell else cell for cell in cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
