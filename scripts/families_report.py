"""Writes the table and the plot of `compare_families.py`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from scripts import scores
from scripts.families import FAMILIES
from tfbio.base import storage


def write(records: Sequence[dict], folder: str) -> None:
    """Writes comparison.md, and comparison.png once there are scores and CPU times.

    Args:
      records: the lines of scores.jsonl.
      folder: where to.
    """
    text = [
        "# Families of models at one small size\n",
        *_pretraining(records),
        *(line for task in scores.tasks(records) for line in _scores(records, task)),
    ]
    if _draw(records, Path(folder, "comparison.png")):
        text.append("![Scores against the CPU time of pretraining](comparison.png)")
    storage.write_text(Path(folder, "comparison.md"), "\n".join(text) + "\n")


def cpu_minutes(records: Sequence[dict], family: str) -> float | None:
    """Returns the CPU minutes of a family's pretraining; None where they are not measured yet.

    Args:
      records: the lines of scores.jsonl.
      family: its key in `FAMILIES`.
    """
    costs, runs = (
        scores.of(records, "cost", family=family),
        scores.of(records, "pretraining", family=family),
    )
    if not costs or not runs:
        return None
    return costs[0]["cpu_seconds_per_step"] * runs[0]["steps"] / 60


def _pretraining(records: Sequence[dict]) -> list[str]:
    """Returns the table of the searches and of pretraining."""
    lines = [
        "## Pretraining\n",
        "| family | parameters of the encoder | learning rates, with their held-out losses "
        "| seeds | tokens | steps | CPU minutes |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    at_the_end = []
    for name, family in FAMILIES.items():
        searched, runs = (
            scores.of(records, "search", family=name),
            scores.of(records, "pretraining", family=name),
        )
        if not searched:
            continue
        rates = ", ".join(f"{x['learning_rate']:g}: {x['held_out_loss']:.3f}" for x in searched)
        cells = [rates, str(len(runs))]
        if runs:
            run, minutes = runs[0], cpu_minutes(records, name)
            cells += [f"{run['tokens']:,}", f"{run['steps']:,}"]
            cells.append("" if minutes is None else f"{minutes:,.0f}")
            cells.insert(0, f"{run['parameters'] / 1e6:.2f} M")
            if run["learning_rate"] in (min(family.learning_rates), max(family.learning_rates)):
                at_the_end.append(family.title)
        else:
            cells = ["", *cells, "", "", ""]
        lines.append(f"| {family.title} | {' | '.join(cells)} |")
    processors = sorted({record["processor"] for record in scores.of(records, "cost")})
    if processors:
        lines.append(f"\nCPU minutes are those of {' and of '.join(processors)}.")
    if at_the_end:
        lines.append(
            f"\nThe best learning rate is at an end of the three for {', '.join(at_the_end)}: a "
            "further one may be better."
        )
    return [*lines, ""]


def _scores(records: Sequence[dict], task: str) -> list[str]:
    """Returns the table of a task's scores on the test set, with a sentence on what it shows."""
    metric = scores.of(records, "finetuning", task=task)[0]["metric"]
    lines = [
        f"## {task}: {metric} on the test set, %\n",
        "| family | seeds of pretraining | pretrained | 95 % interval | random weights "
        "| standard errors apart |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    apart, of_one_seed = {}, []
    for name, family in FAMILIES.items():
        values, others = _values(records, task, name, "pretrained"), _values(records, task, name)
        if not values or not others:
            continue
        seeds = len(scores.of(records, "finetuning", task=task, family=name, start="pretrained"))
        if seeds == 1:
            of_one_seed.append(family.title)
        low, high = scores.interval(values)
        apart[name] = scores.standard_errors_apart(values, others)
        lines.append(
            f"| {family.title} | {seeds} | {statistics.fmean(values):.2f} | {low:.2f} to {high:.2f}"
            f" | {statistics.fmean(others):.2f} | {apart[name]:.1f} |"
        )
    return [*lines, "", _verdict(apart, of_one_seed), ""]


def _values(records: Sequence[dict], task: str, name: str, start: str = "random") -> list[float]:
    """Returns the scores of a family in percent, see `scores.in_percent`."""
    return scores.in_percent(scores.of(records, "finetuning", task=task, family=name, start=start))


def _verdict(apart: dict[str, float], of_one_seed: Sequence[str]) -> str:
    """Says for which families the task shows that they learnt something."""
    shown = [
        FAMILIES[name].title for name, errors in apart.items() if errors >= scores.STANDARD_ERRORS
    ]
    # What is not a number, as of scores that are all the same, is not apart.
    none = [
        FAMILIES[name].title
        for name, errors in apart.items()
        if not errors >= scores.STANDARD_ERRORS
    ]
    sentences = []
    if shown:
        sentences.append(
            f"Pretraining helps by {scores.STANDARD_ERRORS:g} standard errors or more: "
            f"{'; '.join(shown)}."
        )
    if none:
        sentences.append(f"This task shows nothing of: {'; '.join(none)}.")
    if of_one_seed:
        sentences.append(
            "With one seed of pretraining, the interval is over seeds of fine-tuning alone: "
            f"{'; '.join(of_one_seed)}."
        )
    return " ".join(sentences)


def _draw(records: Sequence[dict], path: Path) -> bool:
    """Draws the scores against CPU minutes, a panel for each task; returns False without any."""
    from matplotlib.figure import Figure

    tasks = scores.tasks(records)
    minutes = {name: cpu_minutes(records, name) for name in FAMILIES}
    drawn = [name for name in FAMILIES if minutes[name] is not None]
    if not tasks or not drawn:
        return False
    figure = Figure(figsize=(5 * len(tasks), 4.4), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(panels, tasks, strict=True):
        for number, name in enumerate(drawn):
            values, others = (
                _values(records, task, name, "pretrained"),
                _values(records, task, name),
            )
            if not values or not others:
                continue
            colour, title = f"C{number}", FAMILIES[name].title
            for place, found, mark in ((minutes[name], values, "o"), (0, others, "x")):
                mean, (low, high) = statistics.fmean(found), scores.interval(found)
                bars = [[mean - low], [high - mean]]
                label = title if mark == "o" else None
                axis.errorbar(place, mean, bars, fmt=mark, capsize=3, color=colour, label=label)
        axis.set(xlabel="CPU minutes of pretraining (x: random weights)", title=task)
        axis.set_ylabel(f"{scores.of(records, 'finetuning', task=task)[0]['metric']}, %")
        axis.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)
    return True
