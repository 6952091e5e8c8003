"""Writes the table and the plot of `compare_families.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    per_step = statistics.median(cost["cpu_seconds_per_step"] for cost in costs)
    return per_step * runs[0]["steps"] / 60


def _pretraining(records: Sequence[dict]) -> list[str]:
    """Returns the table of the searches and of pretraining."""
    lines = [
        "## Pretraining\n",
        "| family | parameters of the encoder | learning rates, with their held-out losses "
        "| seeds | tokens | steps | CPU minutes | held-out figures of each seed |",
        "|---|--:|---|--:|--:|--:|--:|---|",
    ]
    at_the_end = []
    for name, family in FAMILIES.items():
        searched, runs = (
            scores.of(records, "search", family=name),
            scores.of(records, "pretraining", family=name),
        )
        if not searched:
            continue
        rates = ", ".join(
            f"{x['learning_rate']:g}: {_loss(x['held_out']['loss'])}" for x in searched
        )
        cells = [rates, str(len(runs))]
        if runs:
            run, minutes = runs[0], cpu_minutes(records, name)
            cells += [f"{run['tokens']:,}", f"{run['steps']:,}"]
            cells.append("" if minutes is None else f"{minutes:,.0f}")
            cells.append(_held_out(runs))
            cells.insert(0, f"{run['parameters'] / 1e6:.2f} M")
        else:
            cells = ["", *cells, "", "", "", ""]
        best = min(searched, key=lambda x: scores.rank(x["held_out"]["loss"]))
        ends = min(family.learning_rates), max(family.learning_rates)
        if len(searched) == len(family.learning_rates) and best["learning_rate"] in ends:
            at_the_end.append(family.title)
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


def _loss(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "not finite"


def _held_out(runs: Sequence[dict]) -> str:
    """Says the held-out figures of a family's runs, each with its value for each seed."""
    return "; ".join(
        f"{tag} {', '.join(f'{x:.3f}' for x in (run['held_out'][tag] for run in runs))}"
        for tag in runs[0]["held_out"]
    )


def _scores(records: Sequence[dict], task: str) -> list[str]:
    """Returns the tables of a task's scores on the test set, with sentences on what they show."""
    metric = scores.of(records, "finetuning", task=task)[0]["metric"]
    lines = [
        f"## {task}: {metric} on the test set, %\n",
        "| family | seeds of pretraining | pretrained | 95 % interval | random weights "
        "| standard errors apart |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    apart, of_one_seed = {}, []
    for name, family in FAMILIES.items():
        values, others = _values(records, task, name), _random(records, task, name)
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
    return [*lines, "", _verdict(apart, of_one_seed), "", *_pairs(records, task)]


def _pairs(records: Sequence[dict], task: str) -> list[str]:
    """Returns the table of the families with several seeds, compared with each other."""
    # Seeds of fine-tuning alone do not show how much two ways to pretrain differ.
    values = {
        name: _values(records, task, name)
        for name in FAMILIES
        if len(scores.of(records, "finetuning", task=task, family=name)) > 1
    }
    if len(values) < 2:
        return []
    lines = [
        f"Standard errors by which the family of a row is above that of a column on {task}:\n",
        f"| | {' | '.join(FAMILIES[name].title for name in values)} |",
        f"|---|{'--:|' * len(values)}",
    ]
    for name, own in values.items():
        cells = [
            "" if other == name else f"{scores.standard_errors_apart(own, theirs):.1f}"
            for other, theirs in values.items()
        ]
        lines.append(f"| {FAMILIES[name].title} | {' | '.join(cells)} |")
    return [*lines, ""]


def _values(records: Sequence[dict], task: str, name: str) -> list[float]:
    """Returns the scores of a pretrained family in percent, see `scores.in_percent`."""
    return scores.in_percent(scores.of(records, "finetuning", task=task, family=name))


def _random(records: Sequence[dict], task: str, name: str) -> list[float]:
    """Returns those of random weights of the family's encoder, which other families may share."""
    runs = scores.of(records, "pretraining", family=name)
    shapes = {run["encoder"] for run in runs}
    return [
        value
        for shape in shapes
        for value in scores.in_percent(
            scores.of(records, "finetuning", task=task, encoder=shape, start="random")
        )
    ]


def _verdict(apart: dict[str, float], of_one_seed: Sequence[str]) -> str:
    """Says for which families the task shows that they learnt something."""
    needed = scores.STANDARD_ERRORS
    shown = [FAMILIES[name].title for name, errors in apart.items() if errors >= needed]
    worse = [FAMILIES[name].title for name, errors in apart.items() if errors <= -needed]
    # What is not a number, as of scores that are all the same, is not apart.
    none = [FAMILIES[name].title for name, errors in apart.items() if not abs(errors) >= needed]
    sentences = []
    if shown:
        sentences.append(
            f"Pretraining helps by {needed:g} standard errors or more: {'; '.join(shown)}."
        )
    if worse:
        sentences.append(
            f"Pretraining harms by {needed:g} standard errors or more: {'; '.join(worse)}."
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
            values, others = _values(records, task, name), _random(records, task, name)
            if not values or not others:
                continue
            seeds = len(scores.of(records, "finetuning", task=task, family=name))
            # Families with the same encoder have the same scores of random weights, and one cross.
            for place, found, mark, colour, label in (
                (minutes[name], values, "o", f"C{number}", FAMILIES[name].title),
                (0, others, "x", "0.5", None),
            ):
                mean, (low, high) = statistics.fmean(found), scores.interval(found)
                bars = [[mean - low], [high - mean]]
                # Seeds of fine-tuning alone say less than those of pretraining.
                face = "none" if mark == "o" and seeds == 1 else colour
                axis.errorbar(
                    place, mean, bars, fmt=mark, capsize=3, color=colour, mfc=face, label=label
                )
        axis.set(xlabel="CPU minutes of pretraining", title=task)
        axis.set_ylabel(f"{scores.of(records, 'finetuning', task=task)[0]['metric']}, %")
        axis.grid(alpha=0.3)
    by_label: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(by_label.values()),
        list(by_label),
        loc="outside lower center",
        ncols=2 * len(tasks),
        title="x: random weights. Hollow: one seed of pretraining, the interval over fine-tuning.",
        fontsize=8,
        title_fontsize=8,
    )
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)
    return True
