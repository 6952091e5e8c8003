"""Reads the curves of a pretraining run from its TensorBoard logs, and draws them."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from tfbio.base import storage
from tfbio.base.errors import UserError

# Tag in the logs, and how the report calls it.
_PRETRAINING_SCALARS = (
    ("loss", "loss"),
    ("accuracy", "accuracy"),
    ("generator_loss", "generator loss"),
    ("generator_accuracy", "generator accuracy"),
    ("discriminator_loss", "discriminator loss"),
    ("discriminator_auc", "discriminator AUC"),
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
    if not curves:
        raise CurvesError(
            f"{log_dir} holds no TensorBoard scalars: give the --model_dir of a "
            "run_pretraining.py run."
        )
    return {tag: sorted(points.items()) for tag, points in curves.items()}


def read_run(model_dir: str | os.PathLike) -> dict[str, dict[str, Curve]]:
    """Reads the curves of a pretraining run, in training and on the held-out articles.

    Args:
      model_dir: the path of the run's `--model_dir`.

    Returns:
      A dict of "train" and "heldout" -> a dict of a tag, such as "loss" -> a list of pairs of a
      step, an int, and a value, a float, in the order of the steps.

    Raises:
      CurvesError: one of both has no scalars.
    """
    return {split: read(Path(model_dir, "logs", split)) for split in ("train", "heldout")}


def section(folder: str, curves: dict[str, dict[str, Curve]]) -> str:
    """Returns a report's section on the curves of a pretraining run, a table of their last values.

    The text is Markdown; it names the last step, and refers to the picture pretraining.png.

    Args:
      folder: the run's folder, as the section is to call it.
      curves: the result of `read_run`.

    Raises:
      KeyError: the curves have no held-out "loss".
    """
    lines = [
        "## Pretraining",
        "",
        f"`{folder}`, at step {curves['heldout']['loss'][-1][0]}. The training figures are means "
        "over the last logged steps; the held-out articles are not trained on.",
        "",
        "| | training | held out |",
        "|---|---|---|",
    ]
    for tag, name in _PRETRAINING_SCALARS:
        points = [curves[split].get(tag) for split in ("train", "heldout")]
        if any(points):
            shown = [f"{own[-1][1]:.4f}" if own else "" for own in points]
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", "![Losses of pretraining](pretraining.png)"])


def draw(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Draws the curves of a pretraining run as a PNG file; returns nothing.

    It has a panel for each loss, accuracy and AUC among the held-out curves, with that of training.

    Args:
      curves: the result of `read_run`.
      path: the file to write.

    Raises:
      ValueError: the held-out curves have none of these figures.
    """
    from matplotlib.figure import Figure

    drawn = [(tag, name) for tag, name in _PRETRAINING_SCALARS if tag in curves["heldout"]]
    figure = Figure(figsize=(4 * len(drawn), 3.6), layout="constrained")
    for axis, (tag, name) in zip(
        figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True
    ):
        for split, label, style in (("train", "training", "-"), ("heldout", "held out", "o--")):
            points = curves[split].get(tag, [])
            axis.plot([x for x, _ in points], [y for _, y in points], style, label=label)
        axis.set(xlabel="step", title=f"Pretraining: {name}")
        axis.legend()
        axis.grid(alpha=0.3)
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)
