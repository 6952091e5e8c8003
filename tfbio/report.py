r"""Writes the tables of a paper: fine-tuning runs beside published models, with intervals.

  python -m tfbio.report --finetuning='out/ours/*' --baseline='out/scratch/*' --output=out/report

Each folder is the --output_dir of a run of run_finetuning.py; those of a pattern that hold no
scores.json are named and left out. Runs of one model make one row, and a model is called as the
last folder of its --init_checkpoint (of a kept checkpoint general/kept-1000), or as you say:

  --finetuning='ours (100k steps)=out/100k/*' --finetuning='ours (200k steps)=out/200k/*'

Data of your own have a column for each data set, named after its folder, such as `reports (ner)`;
where two are called alike, with as much of the path as tells them apart, `ward/data (ner)`. So has
a test set that is not the published one, such as `ChemProt, 1,000 of 15,745 test examples`. Runs of
one model on the ten folds of GAD or EU-ADR make one row. Every run is compared with the baseline of
its task and data; baselines have rows, too. With --published=PAPER all models of that paper's
tables stand beside the runs, instead of a choice from five papers; its tables without scores, such
as times of fine-tuning, are in report.html and report.md. It writes

  report.html      all of it on one page, which needs no other file
  report.md, report.tex, report.csv    the tables; in the last all figures, not rounded
  report           the scores beside the published ones
  pretraining      with --pretraining=out/model: how that run went, with the held-out articles
  fine_tuning      loss and score on the development set by step, where the runs have logs
  confusion_NAME   which labels of the data set NAME were taken for which
  errors_NAME      its mentions by type and length: right, partly right, missed and spurious
  errors.csv       the numbers of the last two, over all seeds

Each figure is a PNG and, for print, a PDF, 3.5 or 7.2 inches wide: one column or two. Without
--finetuning there are only report.html, report.md and the curves of --pretraining.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import tqdm
from absl import flags

from tfbio.base import cli, errors, extras, path_checks, storage
from tfbio.reporting import (
    curves,
    error_report,
    group_means,
    html_report,
    learning_curves,
    published,
    published_tables,
    results,
    score_chart,
    score_tables,
    tables,
)
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.grouping import Models, by_data, by_model, by_test_set
from tfbio.reporting.html_report import Part
from tfbio.reporting.published import Column
from tfbio.reporting.results import Run
from tfbio.reporting.table_columns import columns_of, percent, trivial_runs
from tfbio.reporting.tables import Table

# The first lines of report.tex.
_PACKAGES = (
    "% Needs \\usepackage{adjustbox,booktabs}; where names have other than Latin letters, "
    "lualatex or\n% xelatex, and a font that has them.\n\n"
)


class ReportError(errors.UserError):
    """The `UserError` of the command `tfbio.report` for a task with more than one --baseline."""


def write_report(
    finetuning: Sequence[str],
    output: str,
    baseline: Sequence[str] = (),
    pretraining: str = "",
    paper: str = "",
) -> Path:
    """Writes the report on runs: its texts, tables and figures, see the module.

    Args:
      finetuning: output folders of fine-tuning runs, or glob patterns of them, each perhaps with
        `NAME=` before it, the model's name; with none of them the report is on `pretraining` alone.
      output: the path of the folder to write to, made if need be.
      baseline: the same of the runs that they are compared with, at most one of each task.
      pretraining: the `--model_dir` of a pretraining run, for its table and curves; "" for neither.
      paper: one of `published_tables.PAPERS`, all of whose models stand beside the runs, and whose
        tables without scores follow ours; "" for a choice of models of all papers,
        `published.MODELS`, and `published.NEWER`.

    Returns:
      The `Path` of report.md.

    Raises:
      UserError: a folder holds no results or, of pretraining, no logs; or runs do not fit together:
        `ReportError` for two baselines of a task, `GroupingError` for two runs of a model and task.
        Or matplotlib is not installed.
      KeyError: the logs of pretraining have no held-out loss, or there is no such paper.
    """
    # Before there is a folder for the output.
    extras.require("matplotlib")
    beside = published.models_of(paper) if paper else published.MODELS + published.NEWER
    logged = curves.read_run(pretraining) if pretraining else {}
    folder = Path(output)
    if not finetuning:
        os.makedirs(folder, exist_ok=True)
        return _write_pages(folder, _pretraining_parts(pretraining, logged, folder))
    runs, compared = _read_runs(finetuning, baseline)
    models = by_model([*runs, *compared.values()])
    columns = columns_of(models)
    cells = [
        (column, of_task[column.task])
        for column in columns
        for of_task in models.values()
        if column.task in of_task
    ]
    figures = [
        score_tables.figures_of(column, run, compared.get(column.task))
        for column, run in tqdm.tqdm(cells, unit="figure", disable=None)
    ]
    shown = _tables(columns, figures, models, beside)

    os.makedirs(folder, exist_ok=True)
    trivial = {
        column: percent(column, run) for column, run in trivial_runs(columns, models).items()
    }
    parts = _pretraining_parts(pretraining, logged, folder) if pretraining else []
    parts += shown
    parts += published_tables.tables_without_scores(paper) if paper else []
    parts.append(score_chart.draw(columns, figures, trivial, folder, beside))
    parts += filter(None, [learning_curves.draw_finetuning(columns, models, folder)])
    parts += error_report.draw(columns, models, folder)
    csv = score_tables.csv_text(columns, figures, models, beside)
    storage.write_text(folder / "report.csv", csv)
    storage.write_text(folder / "errors.csv", error_report.csv_text(columns, models))
    storage.write_text(folder / "report.tex", _PACKAGES + "\n".join(map(tables.latex, shown)))
    return _write_pages(folder, parts)


def _pretraining_parts(
    model_dir: str, logged: dict[str, dict[str, curves.Curve]], folder: Path
) -> list[Part]:
    """Draws the curves of a pretraining run into `folder`; returns their table and the figure."""
    figure = learning_curves.draw_pretraining(logged, folder)
    return [curves.table(model_dir, logged), figure]


def _write_pages(folder: Path, parts: Sequence[Part]) -> Path:
    """Writes report.html and report.md; returns the path of the latter."""
    storage.write_text(folder / "report.html", html_report.text("Report", parts))
    storage.write_text(folder / "report.md", _markdown(parts))
    return folder / "report.md"


def _markdown(parts: Sequence[Part]) -> str:
    """Returns report.md: the tables and figures, without the tables that are folded away."""
    sections = ["# Report"]
    for part in parts:
        if isinstance(part, Table):
            sections.append(tables.markdown(part))
        elif isinstance(part, Drawing):
            sections.append(f"![{part.title}]({part.name}.png)")
    return "\n\n".join(sections) + "\n"


def _read_runs(
    finetuning: Sequence[str], baseline: Sequence[str]
) -> tuple[list[Run], dict[str, Run]]:
    """Reads the runs of a report.

    Args:
      finetuning: see `write_report`.
      baseline: see `write_report`.

    Returns:
      The runs that are no baselines, and the baseline of each task.

    Raises:
      UserError: a folder holds no results, or a task has two baselines.
    """
    runs, baselines = (
        [run for argument in arguments for run in results.find(argument)]
        for arguments in (finetuning, baseline)
    )
    folders: dict[str, Run] = {}
    for run in baselines:  # one that is given twice counts once
        folders.setdefault(os.path.realpath(run.folder), run)
    named = by_data([*runs, *folders.values()])
    runs, baselines = named[: len(runs)], named[len(runs) :]
    runs = [run for run in runs if os.path.realpath(run.folder) not in folders]
    runs, baselines = by_test_set(runs, baselines)
    compared = {run.task: run for run in baselines}
    if len(compared) < len(baselines):
        raise ReportError("a task has more than one --baseline: leave one.")
    tasks = {run.task for run in runs}
    for task, run in compared.items():
        if task not in tasks:
            print(f"{run.folder}, a --baseline, is compared with nothing: no run is of {task}.")
    return runs, compared


def _tables(
    columns: Sequence[Column],
    figures: Sequence[dict],
    models: Models,
    beside: Sequence[published.Model],
) -> list[Table]:
    """Makes the tables of the report, without those that have no run of ours."""
    others = [x for x in columns if x not in published.BLURB + published.BLUE]
    scores = [
        score_tables.score_table(title, of, models, beside)
        for title, of in (
            ("BLURB", published.BLURB),
            ("BLUE", published.BLUE),
            ("Other tasks and test sets", others),
        )
    ]
    shown = [table for table in scores if len(table.rows) > table.above]
    if any(model.means for model in beside):
        shown += filter(None, [group_means.means_table(models, beside)])
    return [*shown, score_tables.runs_table(figures)]


def define_flags() -> None:
    """Defines the flags of `tfbio.report`; returns nothing.

    They are --finetuning, --baseline, --pretraining, --published and --output.
    """
    cli.define_list(
        "finetuning",
        [],
        "The --output_dir of a run of run_finetuning.py, or a pattern of such in quotes; "
        "NAME=FOLDER names the model. Without it the report is on --pretraining alone.",
    )
    cli.define_list(
        "baseline",
        [],
        "The same of the runs that the others are compared with, one of each task: gives the "
        "difference and its p-value.",
    )
    flags.DEFINE_string("pretraining", "", "The --model_dir of a run of run_pretraining.py.")
    flags.DEFINE_enum(
        "published",
        None,
        published_tables.PAPERS,
        "The paper of which all models stand beside the runs, and all other tables below; without "
        "it, a choice of models of five papers, and newer ones.",
    )
    flags.DEFINE_string("output", None, "Folder to write to; made if need be.", required=True)


def main(argv: list[str]) -> None:
    """Runs `tfbio.report`: writes the report that the flags ask for, and prints report.md's path.

    Args:
      argv: the command line without its flags, a list of strings: the program alone.

    Raises:
      UsageError: there are arguments, no runs, or flags that go with --finetuning alone.
      UserError: see `write_report`; or another process writes there.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    if not flag.finetuning:
        if not flag.pretraining:
            raise errors.UsageError(
                "--finetuning and --pretraining are missing: give the runs of one of them at least."
            )
        for name in ("baseline", "published"):
            if flag[name].value:
                raise errors.UsageError(f"--{name} goes with --finetuning, which is missing.")
    path_checks.require_output("output", flag.output)
    with storage.only_writer(flag.output):
        path = write_report(
            flag.finetuning, flag.output, flag.baseline, flag.pretraining, flag.published or ""
        )
        print(path)


if __name__ == "__main__":
    cli.run(main, define_flags)
