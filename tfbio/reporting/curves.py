"""Reads the learning curves of runs from their TensorBoard logs."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from tfbio.base import file_paths
from tfbio.base.errors import UserError
from tfbio.reporting.tables import Table
from tfbio.task_types import finetuning_files

# Tag in the logs, how the report calls it, and its unit.
PRETRAINING_SCALARS = (
    ("loss", "loss", "nats"),
    ("accuracy", "accuracy", "share of masked tokens"),
    ("generator_loss", "generator loss", "nats per masked token"),
    ("generator_accuracy", "generator accuracy", "share of masked tokens"),
    ("discriminator_loss", "discriminator loss", "nats per token"),
    ("discriminator_auc", "discriminator AUC", "area under the ROC curve"),
)

Curve = list[tuple[int, float]]


class CurvesError(UserError):
    """The `UserError` for a folder without curves: its event files hold no TensorBoard scalars."""


def read(log_dir: str | os.PathLike) -> dict[str, Curve]:
    """Reads the curves, TensorBoard's scalars by step, in a folder of event files.

    Where a run was interrupted and went over some steps again, the later value counts.

    Args:
      log_dir: the path of the folder, such as out/model/logs/train.

    Returns:
      A dict of a tag, such as "generator_loss" -> a list of pairs of a step, an int, and a value, a
      float, in the order of the steps.

    Raises:
      CurvesError: there is no event file, or none has scalars.
    """
    if not (curves := _scalars(log_dir)):
        raise CurvesError(
            f"{log_dir} holds no TensorBoard scalars: give the --model_dir of a "
            "run_pretraining.py run."
        )
    return curves


def _scalars(log_dir: str | os.PathLike) -> dict[str, Curve]:
    """Returns the curves as `read` does; {} if there are none."""
    from tensorboard.backend.event_processing import event_file_loader
    from tensorboard.util import tensor_util

    curves: dict[str, dict[int, float]] = {}
    # TensorFlow puts the time of the start into the names, so they sort by time.
    for path in sorted(glob.glob(os.path.join(glob.escape(str(log_dir)), "*tfevents*"))):
        for event in event_file_loader.EventFileLoader(path).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = tensor_util.make_ndarray(value.tensor).item()
                    curves.setdefault(value.tag, {})[event.step] = number
    return {tag: sorted(points.items()) for tag, points in curves.items()}


def read_run(model_dir: str | os.PathLike) -> dict[str, dict[str, Curve]]:
    """Reads the curves of a pretraining run, in training and on the held-out articles.

    Args:
      model_dir: the path of the run's `--model_dir`.

    Returns:
      A dict of "train" and "heldout" -> a dict of a tag, such as "loss" -> a list of pairs of a
      step, an int, and a value, a float, in the order of the steps.

    Raises:
      CurvesError: one of both has no scalars, as before the first evaluation, or the run is in an
        object store.
    """
    if file_paths.is_remote(model_dir):
        raise CurvesError(
            f"{model_dir} is in an object store, whose curves are not read: copy its folder logs, "
            "and give the folder with the copy."
        )
    train = read(Path(model_dir, "logs", "train"))
    if not (held_out := _scalars(Path(model_dir, "logs", "heldout"))):
        raise CurvesError(
            f"the run in {model_dir} has had no evaluation yet: continue it by the same command, "
            "to the first one at least (run.eval_every_steps)."
        )
    return {"train": train, "heldout": held_out}


def read_trials(folder: str | os.PathLike) -> dict[str, list[dict[str, Curve]]]:
    """Reads the curves of a fine-tuning run, in training and on the development set.

    Args:
      folder: the path of the run.

    Returns:
      A dict of "train" and "dev" -> the curves of each trial that has some, as `read` returns them.
      Trials that are not in the run's `scores.json` are left out.

    Raises:
      SchemaError: there is no `scores.json`, or it is not as a run writes it.
    """
    seeds = [trial.seed for trial in finetuning_files.read_scores(folder).trials]
    found: dict[str, list[dict[str, Curve]]] = {}
    for split in ("train", "dev"):
        folders = (Path(folder, "logs", f"trial_{seed}", split) for seed in seeds)
        found[split] = [*filter(None, map(_scalars, folders))]  # logs may have been removed
    return found


def table(folder: str, curves: dict[str, dict[str, Curve]]) -> Table:
    """Returns a report's table of the last values of the curves of a pretraining run.

    Args:
      folder: the run's folder, as the note is to call it.
      curves: the result of `read_run`.

    Raises:
      KeyError: the curves have no held-out "loss".
    """
    rows = []
    for tag, name, _ in PRETRAINING_SCALARS:
        points = [curves[split].get(tag) for split in ("train", "heldout")]
        if any(points):
            rows.append([name, *(f"{own[-1][1]:.4f}" if own else "" for own in points)])
    note = (
        f"`{folder}`, at step {curves['heldout']['loss'][-1][0]}. The training figures are means "
        "over the last logged steps; the held-out articles are not trained on."
    )
    return Table("Pretraining", ["figure", "training", "held out"], rows, 0, [note])
