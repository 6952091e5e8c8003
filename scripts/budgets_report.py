"""Writes the tables and the plot of `compare_budgets.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scripts import budget_arms, scores
from scripts.budget_arms import ARMS
from tfbio.base import storage

OTHERS = ("hugging_face_mlm", "hugging_face_rows")  # the arms that tfbio's are compared with


class Result(NamedTuple):
    """An arm's scores at a budget on a task."""

    arm: str
    minutes: float
    seeds: int  # of pretraining
    values: list[float]  # percent, see `scores.in_percent`
    from_random: float  # standard errors from the random weights' mean


def write(records: Sequence[dict], folder: str) -> None:
    """Writes budgets.md, and budgets.png once there are scores.

    Args:
      records: the lines of scores.jsonl.
      folder: where to.
    """
    text = [
        "# What a fixed CPU time of pretraining is worth\n",
        *_costs(records),
        *_searches(records),
        *_pretraining(records),
        *(line for task in scores.tasks(records) for line in _scores(records, task)),
    ]
    if _draw(records, Path(folder, "budgets.png")):
        text.append("![Scores against the CPU minutes of pretraining](budgets.png)")
    storage.write_text(Path(folder, "budgets.md"), "\n".join(text) + "\n")


def _costs(records: Sequence[dict]) -> list[str]:
    """Returns the table of the CPU time of a step."""
    lines = [
        "## CPU time of a step\n",
        "| arm | form of the step | batch | CPU seconds | measured in turns with other arms |",
        "|---|---|--:|--:|---|",
    ]
    found = scores.of(records, "cost")
    names = list(ARMS)
    steps: dict[tuple[str, str, int], list[dict]] = {
        (x["arm"], x["form"], x["batch"]): [] for x in found
    }
    for record in found:
        steps[record["arm"], record["form"], record["batch"]].append(record)
    for (arm, form, batch), of_step in sorted(steps.items(), key=lambda x: names.index(x[0][0])):
        alone, *in_turns = [x["cpu_seconds_per_step"] for x in of_step]
        lines.append(
            f"| {ARMS[arm].title} | {form} | {batch} "
            f"| {f'{alone:.3f}' if math.isfinite(alone) else 'it failed'} "
            f"| {', '.join(f'{seconds:.3f}' for seconds in in_turns)} |"
        )
    processors = sorted({record["processor"] for record in found})
    if processors:
        lines.append(f"\nCPU seconds are those of {' and of '.join(processors)}.")
    return [*lines, ""]


def _searches(records: Sequence[dict]) -> list[str]:
    """Returns the table of the searches, which begins with the best of each arm."""
    lines = [
        "## Search for batch and learning rate\n",
        "| arm | batch | learning rate | steps | held-out loss | further held-out figures |",
        "|---|--:|--:|--:|--:|---|",
    ]
    at_the_end = []
    for name, arm in ARMS.items():
        found = scores.of(records, "search", arm=name)
        found.sort(key=lambda x: scores.rank(x["held_out"]["loss"]))
        for record in found:
            further = ", ".join(
                f"{tag} {value:.3f}" for tag, value in record["held_out"].items() if tag != "loss"
            )
            lines.append(
                f"| {arm.title} | {record['batch']} | {record['learning_rate']:g} "
                f"| {record['steps']:,} | {record['held_out']['loss']:.3f} | {further} |"
            )
        best = found[0] if found else {}
        if best.get("learning_rate") in _ends(budget_arms.LEARNING_RATES):
            at_the_end.append(f"{arm.title} (learning rate)")
        if best.get("batch") in _ends(budget_arms.BATCHES):
            at_the_end.append(f"{arm.title} (batch)")
    lines.append("\nA held-out loss compares with those of the same arm alone.")
    if at_the_end:
        lines.append(
            f"\nThe best is at an end of those tried for {'; '.join(at_the_end)}: a further one "
            "may be better."
        )
    return [*lines, ""]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _pretraining(records: Sequence[dict]) -> list[str]:
    """Returns the table of pretraining."""
    lines = [
        "## Pretraining\n",
        "| CPU minutes | arm | seeds | steps | batch | tokens | CPU minutes with start-up and "
        "evaluation | held-out |",
        "|--:|---|--:|--:|--:|--:|--:|---|",
    ]
    processors = {record["processor"] for record in scores.of(records, "cost")}
    for minutes in _budgets(records):
        for name, arm in ARMS.items():
            runs = scores.of(records, "pretraining", arm=name, minutes=minutes)
            if not runs:
                continue
            # A run on another processor than that of the measured steps tells its score alone.
            used = [
                run["cpu_seconds"] / 60
                for run in runs
                if run["cpu_seconds"] is not None and run["processor"] in processors
            ]
            tags = ", ".join(
                f"{tag} {statistics.fmean(run['held_out'][tag] for run in runs):.3f}"
                for tag in runs[0]["held_out"]
            )
            lines.append(
                f"| {minutes:g} | {arm.title} | {len(runs)} | {runs[0]['steps']:,} "
                f"| {runs[0]['batch']} | {runs[0]['tokens']:,} "
                f"| {f'{statistics.fmean(used):.1f}' if used else 'unknown'} | {tags} |"
            )
    return [*lines, ""]


def _budgets(records: Sequence[dict]) -> list[float]:
    return sorted({record["minutes"] for record in scores.of(records, "pretraining")})


def _random(records: Sequence[dict], task: str) -> list[float]:
    return scores.in_percent(scores.of(records, "finetuning", task=task, start="random"))


def _results(records: Sequence[dict], task: str) -> list[Result]:
    """Returns the results on a task, by budget and arm."""
    random, results = _random(records, task), []
    for minutes in _budgets(records):
        for name in ARMS:
            found = scores.of(records, "finetuning", task=task, arm=name, minutes=minutes)
            if found:
                values = scores.in_percent(found)
                apart = scores.standard_errors_apart(values, random) if random else math.nan
                results.append(Result(name, minutes, len(found), values, apart))
    return results


def _scores(records: Sequence[dict], task: str) -> list[str]:
    """Returns the table of a task's scores on the test set, with sentences on what it shows."""
    metric = scores.of(records, "finetuning", task=task)[0]["metric"]
    lines = [
        f"## {task}: {metric} on the test set, %\n",
        "| CPU minutes | arm | seeds of pretraining | mean | 95 % interval "
        "| standard errors from random weights "
        f"{''.join(f'| from {ARMS[other].title} ' for other in OTHERS)}|",
        f"|--:|---|--:|--:|--:|--:|{'--:|' * len(OTHERS)}",
    ]
    random, results = _random(records, task), _results(records, task)
    if random:
        low, high = scores.interval(random)
        mean = statistics.fmean(random)
        lines.append(
            f"| 0 | random weights | | {mean:.2f} | {low:.2f} to {high:.2f} | |{' |' * len(OTHERS)}"
        )
    for result in results:
        low, high = scores.interval(result.values)
        from_others = (_apart(result, results, other) for other in OTHERS)
        from_random = "" if math.isnan(result.from_random) else f"{result.from_random:.1f}"
        lines.append(
            f"| {result.minutes:g} | {ARMS[result.arm].title} | {result.seeds} "
            f"| {statistics.fmean(result.values):.2f} | {low:.2f} to {high:.2f} "
            f"| {from_random} | {' | '.join(from_others)} |"
        )
    return [*lines, "", _verdict(results), ""]


def _apart(result: Result, results: Sequence[Result], other: str) -> str:
    """Returns how many standard errors a result is above another arm's at the same budget."""
    # Seeds of fine-tuning alone do not show how much two ways to pretrain differ.
    found = [each for each in results if (each.arm, each.minutes) == (other, result.minutes)]
    if not found or result.arm == other or min(found[0].seeds, result.seeds) < 2:
        return ""
    return f"{scores.standard_errors_apart(result.values, found[0].values):.1f}"


def _verdict(results: Sequence[Result]) -> str:
    """Says what the task shows."""
    needed = scores.STANDARD_ERRORS
    shown = [result for result in results if result.from_random >= needed]
    sentences = []
    if shown:
        sentences.append(
            f"Pretraining helps by {needed:g} standard errors or more: {_names(shown)}."
        )
    if worse := [result for result in results if result.from_random <= -needed]:
        sentences.append(
            f"Pretraining harms by {needed:g} standard errors or more: {_names(worse)}."
        )
    if others := [result for result in results if not abs(result.from_random) >= needed]:
        sentences.append(
            f"Not {needed:g} standard errors from random weights, which shows nothing: "
            f"{_names(others)}."
        )
    if of_one_seed := [result for result in results if result.seeds == 1]:
        sentences.append(
            "With one seed of pretraining, the interval is over seeds of fine-tuning alone: "
            f"{_names(of_one_seed)}."
        )
    return " ".join(sentences)


def _names(results: Sequence[Result]) -> str:
    return "; ".join(f"{ARMS[each.arm].title} ({each.minutes:g} min)" for each in results)


def _draw(records: Sequence[dict], path: Path) -> bool:
    """Draws the scores against CPU minutes, a panel for each task; returns False without any."""
    from matplotlib.figure import Figure

    tasks = [task for task in scores.tasks(records) if _results(records, task)]
    if not tasks:
        return False
    figure = Figure(figsize=(5 * len(tasks), 4.4), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(panels, tasks, strict=True):
        results = _results(records, task)
        for number, (name, arm) in enumerate(ARMS.items()):
            of_arm = [result for result in results if result.arm == name]
            if not of_arm:
                continue
            means = [statistics.fmean(result.values) for result in of_arm]
            ends = [scores.interval(result.values) for result in of_arm]
            bars = [
                [mean - low for mean, (low, _) in zip(means, ends, strict=True)],
                [high - mean for mean, (_, high) in zip(means, ends, strict=True)],
            ]
            # Beside each other, where intervals would hide each other.
            places = [result.minutes * (1 + 0.02 * (number - 1)) for result in of_arm]
            axis.errorbar(
                places, means, bars, marker="o", capsize=3, color=f"C{number}", label=arm.title
            )
        if random := _random(records, task):
            low, high = scores.interval(random)
            label = "random weights"
            axis.axhline(statistics.fmean(random), color="gray", linestyle="--", label=label)
            axis.axhspan(low, high, color="gray", alpha=0.15)
        axis.set(xlabel="CPU minutes of pretraining", title=task, xscale="log")
        minutes = _budgets(records)
        axis.set_xticks(minutes, [f"{each:g}" for each in minutes], minor=False)
        axis.set_xlim(min(minutes) * 0.9, max(minutes) * 1.1)  # also where one has scores alone
        axis.minorticks_off()
        axis.set_ylabel(f"{scores.of(records, 'finetuning', task=task)[0]['metric']}, %")
        axis.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)
    return True
