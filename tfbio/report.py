r"""The tables of a paper: fine-tuning runs beside the published models, and how sure they are.

  python -m tfbio.report --finetuning='out/ours/*' --baseline='out/scratch/*' --output=out/report

Each folder is the --output_dir of a run of run_finetuning.py; those of a pattern that hold no
scores.json are named and left out. Runs of one model make one row, and a model is called as the
last folder of its --init_checkpoint, or as you say:

  --finetuning='ours, 100k steps=out/100k/*' --finetuning='ours, 200k steps=out/200k/*'

Data of your own have a column for each data set, named after its folder, such as `reports (ner)`;
where two are called alike, with as much of the path as tells them apart, `ward/data (ner)`. Every
run is compared with the baseline of its task and data; baselines have rows, too. Writes report.md,
report.tex, report.csv (all figures, not rounded) and report.png. --pretraining=out/model adds how
that run went, and pretraining.png.
"""

from __future__ import annotations

import csv
import io
import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tqdm
from absl import flags

from tfbio import cli, curves, published, records, results, storage
from tfbio.published import Column
from tfbio.results import Run

CSV_COLUMNS = (
    *("model", "task", "data_set", "metric", "figure", "std", "median", "seeds", "low", "high"),
    *("baseline", "difference", "p", "values", "source"),
)

HOW = (
    "Percentages, of the test sets. Mean, standard deviation (SD, n - 1) and median are over the "
    "seeds. The interval (percentile bootstrap) is of the mean over the seeds, as the test "
    "examples (of HoC the documents, of BioASQ factoid the questions) are drawn anew; p is that of "
    "the paired bootstrap (Berg-Kirkpatrick et al., 2012), two-sided, all seeds of both runs "
    "scored on the same draws. "
    "It is of one task, not corrected for the number of tasks. With few examples, as in BIOSSES, "
    "both are rough. The macro F1 of relations has neither, since a draw may lack a label; nor "
    "have answers in spans of runs of earlier versions, which kept no gold answers."
)
LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # After a line's end these would begin an argument, or be one.
    "[": "{[}",
    "*": "{*}",
    # Other characters in LaTeX's own fonts.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": "{`}",  # with ? or ! before it another character
}

# Name of a model -> task -> its run.
Models = dict[str, dict[str, Run]]


class ReportError(cli.UserError):
    """Runs that one report cannot hold."""


class Table(NamedTuple):
    """A table as text; a line parts the first `above` rows from the others."""

    title: str
    header: list[str]
    rows: list[list[str]]
    above: int
    notes: list[str]


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
    compared = {run.task: run for run in baselines}
    if len(compared) < len(baselines):
        raise ReportError("a task has more than one --baseline: leave one.")
    folders = {os.path.realpath(run.folder) for run in baselines}
    runs = [run for run in runs if os.path.realpath(run.folder) not in folders]
    models = _models([*runs, *baselines])
    columns = _columns(models)
    cells = [
        (column, runs[column.task])
        for column in columns
        for runs in models.values()
        if column.task in runs
    ]
    figures = [
        results.figures(run, column.metric, compared.get(column.task)) | {"data_set": column.title}
        for column, run in tqdm.tqdm(cells, unit="figure", disable=None)
    ]
    tables = [
        score_table("BLURB", published.BLURB, models),
        score_table("BLUE", published.BLUE, models),
        score_table(
            "Other tasks", [x for x in columns if x not in published.BLURB + published.BLUE], models
        ),
    ]
    tables = [table for table in tables if len(table.rows) > table.above]
    tables.append(_runs_table(figures))

    folder = Path(output)
    os.makedirs(folder, exist_ok=True)
    _draw_scores(columns, figures, folder / "report.png")
    sections = ["# Report"]
    if pretraining:
        sections.append(curves.section(pretraining, logged))
        curves.draw(logged, folder / "pretraining.png")
    sections += [markdown(table) for table in tables]
    sections.append("![Scores on the test sets beside the published ones](report.png)")
    records.write_text(folder / "report.csv", _csv(columns, figures))
    packages = (
        "% Needs \\usepackage{adjustbox,booktabs}; where names have other than Latin letters, "
        "lualatex or\n% xelatex, and a font that has them.\n\n"
    )
    records.write_text(folder / "report.tex", packages + "\n".join(map(latex, tables)))
    records.write_text(folder / "report.md", "\n\n".join(sections) + "\n")
    return folder / "report.md"


def _models(runs: list[Run]) -> Models:
    """The runs by model and task; a folder that is named twice counts once."""
    models: Models = {}
    for run in runs:
        other = models.setdefault(run.name, {}).setdefault(run.task, run)
        if os.path.realpath(other.folder) != os.path.realpath(run.folder):
            raise ReportError(
                f"{other.folder} and {run.folder} are both {run.task} of {run.name!r}: give one of "
                f"them another name, 'NAME={run.folder}'."
            )
    return models


def _columns(models: Models) -> list[Column]:
    """The columns for which there is a run; a task of which no paper has a figure has its own."""
    runs = {run.task: run for own in models.values() for run in own.values()}
    known = (*published.BLURB, *published.BLUE, *published.OTHERS)
    columns = [x for x in known if x.task in runs and x.metric in runs[x.task].tests[0]]
    named = {column.task for column in columns}
    columns += [Column(x.task, x.task, x.metric) for x in runs.values() if x.task not in named]
    return columns + [
        Column(f"{x.title}, exact match", x.task, "exact_match")
        for x in columns
        if "exact_match" in runs[x.task].tests[0]
    ]


def score_table(title: str, columns: Sequence[Column], models: Models) -> Table:
    """Published models, then ours, with a column for each data set; BLURB's score for all 13.

    Args:
      title: of the table.
      columns: data sets.
      models: our runs; the mean over the seeds stands in the table.
    """
    is_blurb = tuple(columns) == published.BLURB
    rows, sources, notes = [], {}, []
    for model in published.MODELS:
        figures = [model.figures.get(column.title, "") for column in columns]
        if any(figures):
            rows.append([model.name, *figures] + [model.blurb_score] * is_blurb)
            sources.setdefault(model.source, []).append(model.name)
            if model.note:
                notes.append(f"{model.name}: {model.note}")
    above = len(rows)
    for name, runs in models.items():
        means = {
            column.title: 100 * runs[column.task].values(column.metric).mean()
            for column in columns
            if column.task in runs
        }
        if not means:
            continue
        row = [name, *(f"{means[x.title]:.2f}" if x.title in means else "" for x in columns)]
        if is_blurb:
            missing = [column.title for column in columns if column.title not in means]
            row.append("" if missing else f"{published.blurb_score(means):.2f}")
            if missing:
                notes.append(f"{name} has no BLURB score: {', '.join(missing)} missing.")
        rows.append(row)
    named = [f"{', '.join(names)}: {source}." for source, names in sources.items()]
    header = ["model", *(column.title for column in columns)] + ["BLURB score"] * is_blurb
    return Table(title, header, rows, above, named + notes)


def _runs_table(figures: list[dict]) -> Table:
    """How sure our figures are."""
    header = ["data set", "model", "metric", "mean", "SD", "median", "seeds", "95 % interval"]
    rows = []
    for one in figures:
        row = [one["data_set"], one["model"], one["metric"]]
        row += [_two(one.get(key)) for key in ("figure", "std", "median")]
        interval = f"{one['low']:.2f} to {one['high']:.2f}" if "low" in one else ""
        row += [str(one["seeds"]), interval]
        if any("p" in other for other in figures):
            row += [one.get("baseline", ""), _two(one.get("difference"), "+")]
            row.append(f"{one['p']:.4f}" if "p" in one else "")
        rows.append(row)
    if any("p" in one for one in figures):
        header += ["against", "difference", "p"]
    return Table("Our runs", header, rows, 0, [HOW])


def _two(figure: float | None, sign: str = "") -> str:
    return "" if figure is None else f"{figure:{sign}.2f}"


def _is_text(heading: str) -> bool:
    return heading in ("data set", "model", "metric", "against")


def markdown(table: Table) -> str:
    """A section with the table."""
    rule = ["---" if _is_text(heading) else "---:" for heading in table.header]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in table.rows]
    lines = [f"| {line} |" for line in (" | ".join(table.header), " | ".join(rule), *lines)]
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"## {table.title}", "", *lines, "", *notes])


def _latex_text(text: str) -> str:
    """Text that LaTeX shows as it is; hyphens in a row would join to a dash."""
    return re.sub("-(?=-)", "-{}", text.translate(str.maketrans(LATEX)))


def latex(table: Table) -> str:
    """A table* in booktabs' style, at most as wide as the text."""

    def line(cells: Sequence[str]) -> str:
        escaped = map(_latex_text, cells)
        return " & ".join(re.sub(r"^-(?=[\d.]+$)", "$-$", cell) for cell in escaped) + r" \\"

    rows = [line(row) for row in table.rows]
    if 0 < table.above < len(rows):
        rows.insert(table.above, r"\midrule")
    layout = "".join("l" if _is_text(heading) else "r" for heading in table.header)
    caption = _latex_text(" ".join([f"{table.title}.", *table.notes]))
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            r"\begin{adjustbox}{max width=\textwidth}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            line(table.header),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{table.title.lower().replace(' ', '-')}}}",
            r"\end{table*}",
            "",
        ]
    )


def _csv(columns: Sequence[Column], figures: list[dict]) -> str:
    """All figures: ours, and those that papers have of the same columns."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(figures)
    for title, task, metric, _ in columns:
        for model in published.MODELS:
            if title in model.figures:
                row = {"model": model.name, "task": task, "data_set": title, "metric": metric}
                writer.writerow(row | {"figure": model.figures[title], "source": model.source})
    return stream.getvalue()


def _draw_scores(columns: Sequence[Column], figures: list[dict], path: Path) -> None:
    """A panel for each column: published figures, ours with their intervals, and each seed's."""
    from matplotlib.figure import Figure

    wide = min(4, len(columns))
    high = -(-len(columns) // wide)
    figure = Figure(figsize=(4.6 * wide, 4 * high), layout="constrained")
    axes = list(figure.subplots(high, wide, squeeze=False).flat)
    for axis, (title, *_) in zip(axes, columns, strict=False):
        others = [(x.name, float(x.figures[title])) for x in published.MODELS if title in x.figures]
        own = [one for one in figures if one["data_set"] == title]
        names = [name for name, _ in others] + [one["model"] for one in own]
        axis.plot([value for _, value in others], range(len(others)), "o", color="grey")
        for place, one in enumerate(own, start=len(others)):
            mean = one["figure"]
            ends = [[max(0, mean - one.get("low", mean))], [max(0, one.get("high", mean) - mean)]]
            axis.errorbar(mean, place, xerr=ends, fmt="o", color="C0", capsize=3)
            values = [float(value) for value in one["values"].split()]
            axis.plot(values, [place + 0.3] * len(values), "|", color="C1")
        axis.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
        axis.invert_yaxis()
        axis.set_title(title, parse_math=False)
        axis.grid(alpha=0.3, axis="x")
    for axis in axes[len(columns) :]:
        axis.remove()
    caption = "blue: mean over seeds and its interval; orange: each seed; grey: published"
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
