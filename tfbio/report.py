"""One page about a run: how pretraining went, and what it was worth on a task.

  python -m tfbio.report --pretraining=work/model --finetuning=work/finetuned \\
      --finetuning=work/from_scratch --output=work/report

Reads the TensorBoard logs of the pretraining run and the scores.json of each fine-tuning run, and
writes report.md and report.png. The first --finetuning is compared with each of the others.
"""

from __future__ import annotations

import glob
import json
import math
import os
from pathlib import Path

from absl import flags

from tfbio import cli

# Tag in the logs, and how the report calls it.
PRETRAINING_SCALARS = (
    ("loss", "loss"),
    ("generator_loss", "generator loss"),
    ("generator_accuracy", "generator accuracy"),
    ("discriminator_loss", "discriminator loss"),
    ("discriminator_auc", "discriminator AUC"),
)

Curve = list[tuple[int, float]]


class ReportError(cli.UserError):
    """A folder that holds no results."""


def read_curves(log_dir: str | os.PathLike) -> dict[str, Curve]:
    """The scalars of a folder of TensorBoard event files.

    Where a run was interrupted and went over some steps again, the later value counts.

    Returns:
      Tag -> (step, value) pairs in the order of the steps.

    Raises:
      ReportError: there are no scalars.
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
        raise ReportError(
            f"{log_dir} holds no TensorBoard scalars: give the --model_dir of a "
            "run_pretraining.py run."
        )
    return {tag: sorted(points.items()) for tag, points in curves.items()}


def read_scores(folder: str | os.PathLike) -> dict:
    """The scores.json of a fine-tuning run.

    Raises:
      ReportError: there is none, or it cannot be read.
    """
    path = Path(folder) / "scores.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        missing = {"task", "metric", "init", "trials", "mean", "std"} - scores.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise ReportError(
            f"{path} cannot be read ({error}): give the --output_dir of a finished "
            "run_finetuning.py run."
        ) from error
    if missing:
        raise ReportError(f"{path} lacks {', '.join(sorted(missing))}: run the run again.")
    return scores


def compare(scores: dict, baseline: dict) -> str:
    """One sentence: the difference of two runs' means, in terms of the spread of the seeds.

    The spread is the pooled standard deviation, sqrt((s1^2 + s2^2) / 2).
    """
    difference = scores["mean"] - baseline["mean"]
    sentence = (
        f"{scores['init']} against {baseline['init']}: test {scores['metric']} "
        f"{'higher' if difference >= 0 else 'lower'} by {abs(difference):.4f}"
    )
    if scores["std"] is None or baseline["std"] is None:
        return f"{sentence}; a single seed has no spread to compare that with."
    spread = math.sqrt((scores["std"] ** 2 + baseline["std"] ** 2) / 2)
    if not spread:
        return f"{sentence}; the seeds do not differ at all."
    return (
        f"{sentence}, which is {abs(difference) / spread:.1f} times the standard deviation of "
        f"the seeds ({spread:.4f})."
    )


def write_report(pretraining: str, finetuning: list[str], output: str) -> Path:
    """Writes report.md and report.png.

    Args:
      pretraining: model folder of a pretraining run.
      finetuning: output folders of fine-tuning runs of one task.
      output: made if need be.

    Returns:
      The path of report.md.

    Raises:
      ReportError: a folder holds no results, or the runs are of different tasks.
    """
    curves = {name: read_curves(Path(pretraining) / "logs" / name) for name in ("train", "heldout")}
    runs = [read_scores(folder) for folder in finetuning]
    tasks = sorted({run["task"] for run in runs})
    if len(tasks) > 1:
        raise ReportError(f"the fine-tuning runs are of different tasks: {', '.join(tasks)}.")
    os.makedirs(output, exist_ok=True)
    _draw(curves, runs, Path(output) / "report.png")
    path = Path(output) / "report.md"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(_markdown(pretraining, curves, finetuning, runs), encoding="utf-8")
    os.replace(temporary, path)
    return path


def _markdown(
    pretraining: str, curves: dict[str, dict[str, Curve]], finetuning: list[str], runs: list[dict]
) -> str:
    last_step = curves["heldout"]["loss"][-1][0]
    lines = [
        "# Report",
        "",
        "![Loss of pretraining, and scores by initial weights](report.png)",
        "",
        "## Pretraining",
        "",
        f"`{pretraining}`, at step {last_step}. The training figures are means over the last "
        "logged steps; the held-out articles are not trained on.",
        "",
        "| | training | held out |",
        "|---|---|---|",
    ]
    for tag, name in PRETRAINING_SCALARS:
        figures = [curves[split].get(tag) for split in ("train", "heldout")]
        shown = [f"{points[-1][1]:.4f}" if points else "" for points in figures]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    metric = runs[0]["metric"]
    others = [name for name in runs[0]["trials"][0]["test"] if name != metric]
    lines += [
        "",
        f"## Fine-tuning: {runs[0]['task']}",
        "",
        "| initial weights | seed | dev " + " | ".join([metric, f"test {metric}"]),
    ]
    lines[-1] += "".join(f" | test {name}" for name in others) + " |"
    lines.append("|---" * (4 + len(others)) + "|")
    for run in runs:
        for trial in run["trials"]:
            figures = [trial["dev"][metric], trial["test"][metric]]
            figures += [trial["test"][name] for name in others]
            shown = " | ".join(f"{figure:.4f}" for figure in figures)
            lines.append(f"| {run['init']} | {trial['seed']} | {shown} |")
    lines += [
        "",
        f"| initial weights | test {metric}, mean | standard deviation | seeds | results in |",
        "|---|---|---|---|---|",
    ]
    for run, folder in zip(runs, finetuning, strict=True):
        spread = "" if run["std"] is None else f"{run['std']:.4f}"
        lines.append(
            f"| {run['init']} | {run['mean']:.4f} | {spread} | {len(run['trials'])} | `{folder}` |"
        )
    for baseline in runs[1:]:
        lines += ["", f"From {compare(runs[0], baseline)}"]
    return "\n".join(lines) + "\n"


def _draw(curves: dict[str, dict[str, Curve]], runs: list[dict], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 3.6), layout="constrained")
    *pretraining_axes, scores_axis = figure.subplots(1, 4)
    drawn = ("generator_loss", "discriminator_loss", "discriminator_auc")
    for axis, tag in zip(pretraining_axes, drawn, strict=True):
        for split, label, style in (("train", "training", "-"), ("heldout", "held out", "o--")):
            axis.plot(*zip(*curves[split][tag], strict=True), style, label=label, markersize=4)
        axis.set(xlabel="step", title=f"Pretraining: {dict(PRETRAINING_SCALARS)[tag]}")
        axis.legend()
        axis.grid(alpha=0.3)
    metric = runs[0]["metric"]
    for place, run in enumerate(runs):
        values = [trial["test"][metric] for trial in run["trials"]]
        scores_axis.plot([place] * len(values), values, "o", alpha=0.6)
        # The mean, and a standard deviation to each side.
        scores_axis.errorbar(
            place + 0.12, run["mean"], yerr=run["std"] or 0.0, fmt="_", color="black", capsize=4
        )
    scores_axis.set(title=f"{runs[0]['task']}: test {metric}", xlim=(-0.6, len(runs) - 0.4))
    scores_axis.set_xticks(range(len(runs)), [run["init"] for run in runs])
    scores_axis.grid(alpha=0.3, axis="y")
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", dpi=120)
    os.replace(temporary, path)


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("pretraining", None, "Model folder of a pretraining run.", required=True)
    flags.DEFINE_multi_string(
        "finetuning", None, "Output folder of a fine-tuning run.", required=True
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    flag = flags.FLAGS
    print(write_report(flag.pretraining, flag.finetuning, flag.output))


if __name__ == "__main__":
    cli.run(main, define_flags)
