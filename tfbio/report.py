r"""The tables of a paper: fine-tuning runs beside the published models, and how sure they are.

  python -m tfbio.report --finetuning='out/ours/*' --baseline='out/scratch/*' --output=out/report

Each folder is the --output_dir of a run of run_finetuning.py; those of a pattern that hold no
scores.json are named and left out. Runs of one model make one row, and a model is called as the
last folder of its --init_checkpoint, or as you say:

  --finetuning='ours, 100k steps=out/100k/*' --finetuning='ours, 200k steps=out/200k/*'

Data of your own have a column for each data set, named after its folder, such as `reports (ner)`;
where two are called alike, with as much of the path as tells them apart, `ward/data (ner)`. So has
a test set that is not the published one, such as `ChemProt, 1,000 of 15,745 test examples`. Runs of
one model on the ten folds of GAD or EU-ADR make one row. Every run is compared with the baseline of
its task and data; baselines have rows, too. Writes report.md, report.tex, report.csv (all figures,
not rounded) and report.png. --pretraining=out/model adds how that run went, and pretraining.png.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import tqdm
from absl import flags

from tfbio.base import cli, storage
from tfbio.reporting import curves, published, results, tables, test_sets
from tfbio.reporting.published import Column
from tfbio.reporting.results import Run
from tfbio.reporting.tables import Table

CSV_COLUMNS = (
    *("model", "task", "data_set", "test_set", "metric", "dev_set", "dev", "figure", "std"),
    *("median", "folds", "seeds", "low", "high", "baseline", "difference", "p", "values", "source"),
)
KNOWN = (*published.BLURB, *published.BLUE, *published.OTHERS)

HOW = (
    "Percentages of the test sets; dev is the mean over the seeds on the development set. Mean, "
    "standard deviation (SD, n - 1) and median are over the seeds. The interval (percentile "
    "bootstrap) is of the mean over the seeds, as the test examples (of HoC the documents, of "
    "BioASQ factoid the questions) are drawn anew; p is that of the paired bootstrap "
    "(Berg-Kirkpatrick et al., 2012), two-sided, all seeds of both runs scored on the same draws. "
    "It is of one task, not corrected for the number of tasks. With few examples, as in BIOSSES, "
    "both are rough. The macro F1 of relations has neither, since a draw may lack a label."
)
OF_FOLDS = (
    "Of folds, mean, SD and median are over the folds, each with the mean over its seeds; the "
    "examples of all folds are drawn anew together. bio-lm reports the median of nine folds, and "
    "chose on the tenth when to stop (Lewis et al., 2020, section 5.2)."
)

# Name of a model -> task -> its run.
Models = dict[str, dict[str, Run]]


class ReportError(cli.UserError):
    """Runs that one report cannot hold."""


def write_report(
    finetuning: Sequence[str], output: str, baseline: Sequence[str] = (), pretraining: str = ""
) -> Path:
    """Writes report.md, report.tex, report.csv and report.png.

    Args:
      finetuning: output folders of fine-tuning runs; see `results.find`.
      output: made if need be.
      baseline: the same of the runs they are compared with, at most one of each task.
      pretraining: model folder of a pretraining run, for a section and pretraining.png; or "".

    Returns:
      The path of report.md.

    Raises:
      UserError: a folder holds no results, or runs do not fit together.
    """
    logged = curves.read_run(pretraining) if pretraining else {}
    found = [
        [run for x in arguments for run in results.find(x)] for arguments in (finetuning, baseline)
    ]
    both = results.apart([*found[0], *found[1]])
    runs, baselines = both[: len(found[0])], both[len(found[0]) :]
    folders = {os.path.realpath(run.folder) for run in baselines}
    runs = [run for run in runs if os.path.realpath(run.folder) not in folders]
    runs, baselines = by_test_set(runs, baselines)
    compared = {run.task: run for run in baselines}
    if len(compared) < len(baselines):
        raise ReportError("a task has more than one --baseline: leave one.")
    models = _models([*runs, *baselines])
    columns = _columns(models)
    cells = [
        (column, runs[column.task])
        for column in columns
        for runs in models.values()
        if column.task in runs
    ]
    figures = [
        _figures(column, run, compared.get(column.task))
        for column, run in tqdm.tqdm(cells, unit="figure", disable=None)
    ]
    shown = [
        score_table("BLURB", published.BLURB, models),
        score_table("BLUE", published.BLUE, models),
        score_table(
            "Other tasks and test sets",
            [x for x in columns if x not in published.BLURB + published.BLUE],
            models,
        ),
    ]
    shown = [table for table in shown if len(table.rows) > table.above]
    shown.append(_runs_table(figures))

    folder = Path(output)
    os.makedirs(folder, exist_ok=True)
    _draw_scores(columns, figures, models, folder / "report.png")
    sections = ["# Report"]
    if pretraining:
        sections.append(curves.section(pretraining, logged))
        curves.draw(logged, folder / "pretraining.png")
    sections += [tables.markdown(table) for table in shown]
    sections.append("![Scores on the test sets beside the published ones](report.png)")
    storage.write_text(folder / "report.csv", _csv(columns, figures, models))
    packages = (
        "% Needs \\usepackage{adjustbox,booktabs}; where names have other than Latin letters, "
        "lualatex or\n% xelatex, and a font that has them.\n\n"
    )
    storage.write_text(folder / "report.tex", packages + "\n".join(map(tables.latex, shown)))
    storage.write_text(folder / "report.md", "\n\n".join(sections) + "\n")
    return folder / "report.md"


def by_test_set(*lists: Sequence[Run]) -> list[list[Run]]:
    """Joins the folds of a model, and tells test sets that are not the published ones apart.

    Such a run's task is called as the data set and what its test set is, "ChemProt, 1,000 of 15,745
    test examples", with the start of a hash where two are called alike; that of ten folds "euadr,
    ten folds". The first fold of GAD, which is BLURB's, keeps a run of its own beside.

    Args:
      lists: runs; only those of one list are joined.

    Returns:
      The lists.

    Raises:
      ReportError: a fold of a model has two runs.
    """
    titles = {column.task: column.title for column in reversed(KNOWN)}
    titles["euadr"] = "EU-ADR"
    names: dict[str, dict[str, int]] = {}

    def named(run: Run) -> Run:
        if not run.part_of or run.folds:
            return run
        name = f"{titles.get(run.task, run.task)}, {run.match.aside}"
        content = test_sets.describe(run.part_of, run.examples).content
        number = names.setdefault(name, {}).setdefault(content, len(names[name]))
        return dataclasses.replace(run, task=f"{name} ({content[:4]})" if number else name)

    def join(runs: Sequence[Run]) -> list[Run]:
        groups: dict[tuple[str, str], dict[int, Run]] = {}
        for run in runs:
            if run.match.fold:
                folds = groups.setdefault((run.name, run.task), {})
                _once(folds.setdefault(run.match.fold, run), run, f"fold {run.match.fold} of ")
        kept = [run for run in runs if not run.match.fold]
        for (_, task), folds in groups.items():
            numbers = sorted(folds)
            kept += [folds[x] for x in numbers if len(folds) == 1 or not folds[x].part_of]
            if len(folds) > 1:
                which = f"folds {', '.join(map(str, numbers))} of {test_sets.FOLDS}"
                name = f"{titles[task]}, {which}"
                if len(folds) == test_sets.FOLDS:
                    name = f"{task}, ten folds"
                kept.append(results.joined([folds[x] for x in numbers], name))
        return kept

    return [[named(run) for run in join(runs)] for runs in lists]


def _once(one: Run, other: Run, what: str = "") -> None:
    """Raises a ReportError for two runs of the same; a folder that is named twice counts once."""
    if os.path.realpath(one.folder) != os.path.realpath(other.folder):
        raise ReportError(
            f"{one.folder} and {other.folder} are both {what}{other.task} of {other.name!r}: give "
            f"one of them another name, 'NAME={other.folder}'."
        )


def _figures(column: Column, run: Run, baseline: Run | None) -> dict:
    """See `results.figures`; of all folds but the first there is a median alone."""
    if not column.of_others:
        return results.figures(run, column.metric, baseline) | {"data_set": column.title}
    median = 100 * run.median_of_others(column.metric)
    values = 100 * run.values(column.metric)[1:]
    return {
        "model": run.name,
        "task": run.part_of,
        "data_set": column.title,
        "metric": column.metric,
        "figure": median,
        "median": median,
        "folds": len(values),
        "seeds": max(len(fold.tests) for fold in run.folds),
        "values": " ".join(map(str, values.tolist())),
        "source": run.folder,
    }


def _models(runs: list[Run]) -> Models:
    """The runs by model and task."""
    models: Models = {}
    for run in runs:
        _once(models.setdefault(run.name, {}).setdefault(run.task, run), run)
    return models


def _columns(models: Models) -> list[Column]:
    """The columns for which there is a run; a task of which no paper has a figure has its own."""
    runs = {run.task: run for own in models.values() for run in own.values()}
    columns = [x for x in KNOWN if x.task in runs and x.metric in runs[x.task].tests[0]]
    named = {column.task for column in columns}
    columns += [Column(x.task, x.task, x.metric) for x in runs.values() if x.task not in named]
    return columns + [
        Column(f"{x.title}, exact match", x.task, "exact_match")
        for x in columns
        if "exact_match" in runs[x.task].tests[0]
    ]


def score_table(title: str, columns: Sequence[Column], models: Models) -> Table:
    """Published models, one answer to all, and ours, with a column for each data set of ours.

    BLURB's score stands there if one of our models has all 13.

    Args:
      title: of the table.
      columns: data sets; those of which no run is are left out.
      models: our runs; the mean over the seeds stands in the table.
    """
    shown = [x for x in columns if any(x.task in runs for runs in models.values())]
    rows, sources, notes = [], {}, []
    means = {
        name: {x.title: _shown(x, runs[x.task]) for x in shown if x.task in runs}
        for name, runs in models.items()
    }
    is_blurb = tuple(columns) == published.BLURB
    has_score = is_blurb and any(len(own) == len(columns) for own in means.values())
    for model in published.MODELS:
        figures = [model.figures.get(column.title, "") for column in shown]
        if any(figures):
            rows.append([model.name, *figures] + [model.blurb_score] * has_score)
            sources.setdefault(model.source, []).append(model.name)
            if model.note:
                notes.append(f"{model.name}: {model.note}")
    if trivial := _trivial(shown, models):
        cells = [f"{_shown(x, trivial[x]):.2f}" if x in trivial else "" for x in shown]
        rows.append(["trivial", *cells] + [""] * has_score)
        kinds: dict[str, list[str]] = {}
        for column, run in trivial.items():
            kinds.setdefault(run.folder, []).append(column.title)
        notes += [f"trivial, {answer}: {'; '.join(titles)}." for answer, titles in kinds.items()]
    above = len(rows)
    for name, own in means.items():
        if not own:
            continue
        row = [name, *(f"{own[x.title]:.2f}" if x.title in own else "" for x in shown)]
        missing = [_missing(x, models[name]) for x in columns if x.title not in own]
        if has_score:
            row.append("" if missing else f"{published.blurb_score(own):.2f}")
        if is_blurb and missing:
            notes.append(f"{name} has no BLURB score: {', '.join(missing)} missing.")
        rows.append(row)
    aside = [x.title for x in shown if any(_is_aside(x, runs) for runs in models.values())]
    if aside:
        notes.append(f"Not the published test sets, whose figures differ: {'; '.join(aside)}.")
    unverified = {
        f"{x.title} ({runs[x.task].match.unverified})": None
        for x in shown
        for runs in models.values()
        if x in KNOWN and x.task in runs and runs[x.task].match.unverified
    }
    if unverified:
        notes.append(f"Not verified to be the published test sets: {'; '.join(unverified)}.")
    named = [f"{', '.join(names)}: {source}." for source, names in sources.items()]
    header = ["model", *(column.title for column in shown)] + ["BLURB score"] * has_score
    return Table(title, header, rows, above, named + notes)


def _shown(column: Column, run: Run) -> float:
    """The figure in a table, in percent."""
    of = run.median_of_others if column.of_others else run.mean
    return 100 * of(column.metric)


def _trivial(columns: Sequence[Column], models: Models) -> dict[Column, Run]:
    """One answer to all examples of each column, of the first run that has examples."""
    found: dict[Column, Run] = {}
    for column in columns:
        for runs in models.values():
            if column.task in runs and runs[column.task].trivial:
                found.setdefault(column, runs[column.task].trivial)
    return found


def _is_aside(column: Column, runs: dict[str, Run]) -> bool:
    return column not in KNOWN and column.task in runs and bool(runs[column.task].part_of)


def _missing(column: Column, runs: dict[str, Run]) -> str:
    """A data set that a model lacks, and which other test examples it has."""
    others = [run for run in runs.values() if run.part_of == column.task and not run.folds]
    return f"{column.title} ({others[0].match.aside})" if others else column.title


def _runs_table(figures: list[dict]) -> Table:
    """How sure our figures are, without columns that would be empty."""
    others = {(x["model"], x["task"]): x["figure"] for x in figures if _is_of_others(x)}
    rows = []
    for one in figures:
        if _is_of_others(one):
            continue
        seeds, of_others = str(one["seeds"]), None
        if "folds" in one:
            seeds = f"{one['folds']} folds x {seeds}"
            of_others = others.get((one["model"], one["task"]))
        row = {
            "data set": one["data_set"],
            "model": one["model"],
            "metric": one["metric"],
            "dev": _two(one.get("dev")),
            "mean": _two(one["figure"]),
            "SD": _two(one.get("std")),
            "median": _two(one["median"]),
            "median of folds 2 to 10": _two(of_others),
            "seeds": seeds,
            "95 % interval": f"{one['low']:.2f} to {one['high']:.2f}" if "low" in one else "",
            "against": one.get("baseline", ""),
            "difference": _two(one.get("difference"), "+"),
            "p": f"{one['p']:.4f}" if "p" in one else "",
        }
        rows.append(row)
    header = [name for name in rows[0] if any(row[name] for row in rows)]
    notes = [HOW] + [OF_FOLDS] * any("folds" in one for one in figures)
    parts = [f"{x['data_set']}, {x['model']}: {x['dev_set']}" for x in figures if x.get("dev_set")]
    if parts:
        notes.append(f"Of the development set a part alone was scored: {'; '.join(parts)}.")
    return Table("Our runs", header, [[row[name] for name in header] for row in rows], 0, notes)


def _is_of_others(row: dict) -> bool:
    return any(column.of_others and column.title == row["data_set"] for column in KNOWN)


def _two(figure: float | None, sign: str = "") -> str:
    return "" if figure is None else f"{figure:{sign}.2f}"


def _csv(columns: Sequence[Column], figures: list[dict], models: Models) -> str:
    """All figures: ours, one answer to all, and those that papers have of the same columns."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(figures)
    for column, run in _trivial(columns, models).items():
        row = {"model": run.name, "task": run.part_of or run.task, "data_set": column.title}
        row |= {"metric": column.metric, "figure": _shown(column, run), "source": run.folder}
        writer.writerow(row)
    for title, task, metric, *_ in columns:
        for model in published.MODELS:
            if title in model.figures:
                row = {"model": model.name, "task": task, "data_set": title, "metric": metric}
                writer.writerow(row | {"figure": model.figures[title], "source": model.source})
    return stream.getvalue()


def _draw_scores(
    columns: Sequence[Column], figures: list[dict], models: Models, path: Path
) -> None:
    """A panel for each column: published figures, ours with their intervals, and each seed's."""
    from matplotlib.figure import Figure

    wide = min(4, len(columns))
    high = -(-len(columns) // wide)
    figure = Figure(figsize=(4.6 * wide, 4 * high), layout="constrained")
    axes = list(figure.subplots(high, wide, squeeze=False).flat)
    trivial = _trivial(columns, models)
    # What the marks that are drawn mean, by their colours.
    interval = " and its interval" if any("low" in one for one in figures) else ""
    marks = {"blue": f"mean over seeds or folds{interval}", "orange": "each of them"}
    for axis, column in zip(axes, columns, strict=False):
        title = column.title
        others = [(x.name, float(x.figures[title])) for x in published.MODELS if title in x.figures]
        own = [one for one in figures if one["data_set"] == title]
        names = [name for name, _ in others] + [one["model"] for one in own]
        if others:
            axis.plot([value for _, value in others], range(len(others)), "o", color="grey")
            marks["grey"] = "published"
        for place, one in enumerate(own, start=len(others)):
            mean = one["figure"]
            ends = [[max(0, mean - one.get("low", mean))], [max(0, one.get("high", mean) - mean)]]
            axis.errorbar(mean, place, xerr=ends, fmt="o", color="C0", capsize=3)
            values = [float(value) for value in one["values"].split()]
            axis.plot(values, [place + 0.3] * len(values), "|", color="C1")
        axis.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_title(textwrap.fill(title, 38), parse_math=False)
        axis.grid(alpha=0.3, axis="x")
        if column in trivial:
            answer = _shown(column, trivial[column])
            low, high = axis.get_xlim()
            if low <= answer <= high:
                axis.axvline(answer, color="C3", linestyle="--", linewidth=1)
                marks["red"] = "trivial, one answer to all"
            axis.set_xlabel(f"trivial: {answer:.2f}", fontsize=8)
    for axis in axes[len(columns) :]:
        axis.remove()
    colours = [colour for colour in ("blue", "orange", "grey", "red") if colour in marks]
    caption = "; ".join(f"{colour}: {marks[colour]}" for colour in colours)
    figure.supxlabel(textwrap.fill(caption, 48 * wide), fontsize="medium")
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def define_flags() -> None:
    """Defines the command's flags."""
    cli.define_list(
        "finetuning",
        None,
        "The --output_dir of a run of run_finetuning.py, or a pattern of such in quotes; "
        "NAME=FOLDER names the model.",
        required=True,
    )
    cli.define_list(
        "baseline",
        [],
        "The same of the runs that the others are compared with, one of each task: gives the "
        "difference and its p-value.",
    )
    flags.DEFINE_string("pretraining", "", "The --model_dir of a run of run_pretraining.py.")
    flags.DEFINE_string("output", None, "Folder to write to; made if need be.", required=True)


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        print(write_report(flag.finetuning, flag.output, flag.baseline, flag.pretraining))


if __name__ == "__main__":
    cli.run(main, define_flags)
