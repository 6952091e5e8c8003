"""The tables of scores: our runs beside the published models, and how sure our figures are."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from tfbio.reporting import published, results
from tfbio.reporting.grouping import KNOWN, Models
from tfbio.reporting.published import Column
from tfbio.reporting.results import Run
from tfbio.reporting.table_columns import percent, trivial_runs
from tfbio.reporting.tables import Table

_CSV_COLUMNS = (
    *("model", "task", "data_set", "test_set", "metric", "dev_set", "dev", "figure", "std"),
    *("median", "folds", "seeds", "low", "high", "baseline", "difference", "p", "values", "source"),
    "train_seconds",
)

_TIME = "training time (min)"
_HOW = (
    "Percentages of the test sets; dev is the mean over the seeds on the development set. Mean, "
    "standard deviation (SD, n - 1) and median are over the seeds. The interval (percentile "
    "bootstrap) is of the mean over the seeds, as the test examples (of HoC the documents, of "
    "BioASQ factoid the questions) are drawn anew {draws:,} times; p is that of the paired "
    "bootstrap (Berg-Kirkpatrick et al., 2012), two-sided, all seeds of both runs scored on the "
    "same draws. It is of one task, not corrected for the number of tasks, and has < before it if "
    "it is the least that so many draws can give. With few examples, as in BIOSSES, both are "
    "rough. The macro F1 of relations has neither, since a draw may lack a label."
)
_OF_FOLDS = (
    "Of folds, mean, SD and median are over the folds, each with the mean over its seeds; the "
    "examples of all folds are drawn anew together. bio-lm reports the median of nine folds, and "
    "chose on the tenth when to stop (Lewis et al., 2020, section 5.2)."
)
_OF_TIME = (
    "Training time is the mean over the seeds, in minutes, with the evaluations on the development "
    "set and without those at the end. It depends on the hardware."
)


def figures_of(column: Column, run: Run, baseline: Run | None) -> dict:
    """Returns a run's figures in a column for the tables of scores and report.csv, in percent.

    Args:
      column: a column of the run's task.
      run: the run's results; joined folds for a column of all folds but the first.
      baseline: a run of the same task to compare with; None for no comparison.

    Returns:
      A dict with the keys and types of `results.figures`, such as "model", "figure", "std", "low"
      and "p", and "data_set", the column's title; what is not known is left out. In a column of all
      folds but the first, "figure" is their median, and there are only "model", "task", "data_set",
      "metric", "figure", "median", "mean", "std", "folds", "seeds", "values" and "source".

    Raises:
      ResultsError: the test sets of the two runs differ.
      KeyError: the run has no figure of the column's metric.
    """
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
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)),
        "folds": len(values),
        "seeds": max(len(fold.tests) for fold in run.folds),
        "values": " ".join(map(str, values.tolist())),
        "source": run.folder,
    }


def score_table(
    title: str,
    columns: Sequence[Column],
    models: Models,
    beside: Sequence[published.Model] = published.MODELS,
) -> Table:
    """Makes a table of scores: published models, one answer to all, and our runs, in percent.

    BLURB's score stands there if one of our models has all 13 data sets.

    Args:
      title: the title of the table.
      columns: data sets; those of which no run is are left out.
      models: our runs, name of a model -> task -> its run; the mean over the seeds stands in the
        table.
      beside: the published models.

    Returns:
      The `Table`: a row for each model and a column for each data set; our figures have two
      decimals, papers' are as printed, and "" stands for none. The rule is above our models.

    Raises:
      KeyError: a run has no figure of its column's metric.
    """
    shown = [x for x in columns if any(x.task in runs for runs in models.values())]
    means = {
        name: {x.title: percent(x, runs[x.task]) for x in shown if x.task in runs}
        for name, runs in models.items()
    }
    is_blurb = tuple(columns) == published.BLURB
    has_score = is_blurb and any(len(own) == len(columns) for own in means.values())
    models_in_papers = [model for model in beside if _has_figure(model, shown)]
    trivial = trivial_runs(shown, models)
    above = [_published_row(model, shown, has_score) for model in models_in_papers]
    above += [_trivial_row(trivial, shown, has_score)] * bool(trivial)
    ours = [_own_row(name, own, shown, has_score) for name, own in means.items() if own]
    named = [column.title for column in shown] + ["BLURB score"] * has_score
    notes = notes_on_papers(models_in_papers, named) + _notes_on_trivial(trivial)
    if is_blurb:
        notes += _notes_on_missing(means, columns, models)
    notes += _notes_on_test_sets(shown, models)
    header = ["model", *(column.title for column in shown)] + ["BLURB score"] * has_score
    return Table(title, header, above + ours, len(above), notes)


def _has_figure(model: published.Model, columns: Sequence[Column]) -> bool:
    return any(column.title in model.figures for column in columns)


def _published_row(model: published.Model, columns: Sequence[Column], has_score: bool) -> list[str]:
    """Returns the row of a published model, with its BLURB score where the table has that."""
    figures = [model.figures.get(column.title, "") for column in columns]
    return [model.name, *figures] + [model.blurb_score] * has_score


def _trivial_row(
    trivial: Mapping[Column, Run], columns: Sequence[Column], has_score: bool
) -> list[str]:
    """Returns the row of one answer to all examples, see `trivial_runs`."""
    cells = [f"{percent(x, trivial[x]):.2f}" if x in trivial else "" for x in columns]
    return ["trivial", *cells] + [""] * has_score


def _own_row(
    name: str, means: Mapping[str, float], columns: Sequence[Column], has_score: bool
) -> list[str]:
    """Returns the row of one of our models.

    Args:
      name: of the model.
      means: the title of a column -> its figure in percent.
      columns: of the table.
      has_score: True if the table has BLURB's score, for which a model must have all columns.
    """
    row = [name, *(f"{means[x.title]:.2f}" if x.title in means else "" for x in columns)]
    if has_score:
        is_whole = len(means) == len(published.BLURB)
        row.append(f"{published.blurb_score(means):.2f}" if is_whole else "")
    return row


def notes_on_papers(models: Sequence[published.Model], shown: Sequence[str]) -> list[str]:
    """Returns the notes on the published models of a table: their sources, then other notes.

    Args:
      models: the published models that have a row.
      shown: the headings of its columns of scores.
    """
    sources: dict[str, list[str]] = {}
    remarks: dict[str, list[str]] = {}
    for model in models:
        sources.setdefault(model.source, []).append(model.name)
    for model in models:
        if model.note:
            remarks.setdefault(model.note, []).append(model.name)
    for model in models:
        titles: dict[str, list[str]] = {}
        for title in shown:
            if title in model.notes:
                titles.setdefault(model.notes[title], []).append(title)
        for text, of in titles.items():
            remarks.setdefault(text, []).append(f"{'; '.join(of)} of {model.name}")
    lines = [f"{', '.join(names)}: {source}." for source, names in sources.items()]
    return lines + [f"{', '.join(names)}: {text}" for text, names in remarks.items()]


def _notes_on_trivial(trivial: Mapping[Column, Run]) -> list[str]:
    """Returns a note for each answer, with the data sets that it is for."""
    titles: dict[str, list[str]] = {}
    for column, run in trivial.items():
        titles.setdefault(run.folder, []).append(column.title)
    return [f"trivial, {answer}: {'; '.join(of)}." for answer, of in titles.items()]


def _notes_on_missing(
    means: Mapping[str, Mapping[str, float]], columns: Sequence[Column], models: Models
) -> list[str]:
    """Returns a note for each of our models that lacks a data set of BLURB."""
    notes = []
    for name, own in means.items():
        missing = [_missing(x, models[name]) for x in columns if x.title not in own]
        if own and missing:
            notes.append(f"{name} has no BLURB score: {', '.join(missing)} missing.")
    return notes


def _missing(column: Column, runs: Mapping[str, Run]) -> str:
    """Returns a data set that a model lacks, and which other test examples it has."""
    others = [run for run in runs.values() if run.part_of == column.task and not run.folds]
    return f"{column.title} ({others[0].match.aside})" if others else column.title


def _notes_on_test_sets(columns: Sequence[Column], models: Models) -> list[str]:
    """Returns notes on test sets that are not the published ones, or perhaps not."""
    runs_of = {
        column: [x[column.task] for x in models.values() if column.task in x] for column in columns
    }
    aside = [x.title for x, runs in runs_of.items() if _is_aside(x, runs)]
    unverified = {
        f"{column.title} ({run.match.unverified})": None
        for column, runs in runs_of.items()
        for run in runs
        if column in KNOWN and run.match.unverified
    }
    notes = []
    if aside:
        notes.append(f"Not the published test sets, whose figures differ: {'; '.join(aside)}.")
    if unverified:
        notes.append(f"Not verified to be the published test sets: {'; '.join(unverified)}.")
    return notes


def _is_aside(column: Column, runs: Sequence[Run]) -> bool:
    return column not in KNOWN and any(run.part_of for run in runs)


def runs_table(figures: Sequence[dict]) -> Table:
    """Makes the table that says how sure our scores are, without columns that would be empty.

    Args:
      figures: a dict for each run and column, see `figures_of`; at least one is not of all folds
        but the first.

    Returns:
      The `Table`: a row for each run, with data set, model, metric, and with two decimals dev,
      mean, SD, median, 95 % interval, difference to the baseline, and training time in minutes;
      also the number of seeds, and p with four decimals, "< 0.0002" for the least that there can
      be. Median, mean and SD of folds 2 to 10 share the row of the ten folds.

    Raises:
      IndexError: there are no such figures.
    """
    others = {(x["model"], x["task"]): x for x in figures if _is_of_others(x)}
    rows = [_runs_row(x, others) for x in figures if not _is_of_others(x)]
    header = [name for name in rows[0] if any(row[name] for row in rows)]
    notes = [_HOW.format(draws=results.SAMPLES)] + [_OF_FOLDS] * any(
        "folds" in one for one in figures
    )
    parts = [f"{x['data_set']}, {x['model']}: {x['dev_set']}" for x in figures if x.get("dev_set")]
    if parts:
        notes.append(f"Of the development set a part alone was scored: {'; '.join(parts)}.")
    compared = [x for x in figures if "baseline" in x]
    unpaired = [f"{x['data_set']}, {x['model']}" for x in compared if "p" not in x]
    if unpaired:
        notes.append(
            "There is no p where the test examples stand in another order, or in another number "
            f"of documents or questions, than the baseline's: {'; '.join(unpaired)}."
        )
    if _TIME in header:
        notes.append(_OF_TIME)
    return Table("Our runs", header, [[row[name] for name in header] for row in rows], 0, notes)


def _runs_row(one: dict, others: Mapping[tuple[str, str], dict]) -> dict[str, str]:
    """Returns the cells of a run, by their headings.

    Args:
      one: see `figures_of`.
      others: model and task -> the figures of all folds but the first, see `figures_of`.
    """
    seeds, nine = str(one["seeds"]), {}
    if "folds" in one:
        seeds = f"{one['folds']} folds x {seeds}"
        nine = others.get((one["model"], one["task"]), {})
    return {
        "data set": one["data_set"],
        "model": one["model"],
        "metric": one["metric"],
        "dev": _two_digits(one.get("dev")),
        "mean": _two_digits(one["figure"]),
        "SD": _two_digits(one.get("std")),
        "median": _two_digits(one["median"]),
        "median of folds 2 to 10": _two_digits(nine.get("median")),
        "their mean": _two_digits(nine.get("mean")),
        "their SD": _two_digits(nine.get("std")),
        "seeds": seeds,
        "95 % interval": f"{one['low']:.2f} to {one['high']:.2f}" if "low" in one else "",
        "against": one.get("baseline", ""),
        "difference": _two_digits(one.get("difference"), "+"),
        "p": _p_text(one["p"]) if "p" in one else "",
        _TIME: _two_digits(one["train_seconds"] / 60) if "train_seconds" in one else "",
    }


def _is_of_others(row: Mapping) -> bool:
    return any(column.of_others and column.title == row["data_set"] for column in KNOWN)


def _p_text(p: float) -> str:
    """Returns a p-value with four decimals, and "<" before the least one there can be."""
    return f"< {p:.4f}" if p <= results.least_p() else f"{p:.4f}"


def _two_digits(figure: float | None, sign: str = "") -> str:
    return "" if figure is None else f"{figure:{sign}.2f}"


def csv_text(
    columns: Sequence[Column],
    figures: Sequence[dict],
    models: Models,
    beside: Sequence[published.Model] = published.MODELS,
) -> str:
    """Returns report.csv, the text of the table of all scores, not rounded: ours, trivial, papers'.

    Args:
      columns: the columns of our runs; papers' figures of other data sets are left out.
      figures: a dict for each run and column, see `figures_of`.
      models: our runs: name of a model -> task -> its run.
      beside: the published models.

    Returns:
      Text of CSV: a header, and a line for each figure, in percent. The columns are model, task,
      data_set, test_set, metric, dev_set, dev, figure, std, median, folds, seeds, low, high,
      baseline, difference, p, values, source and train_seconds, as `figures_of` names them; ""
      stands for none.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in figures:
        # The mean of folds 2 to 10 has no column: it follows from their values.
        writer.writerow({name: value for name, value in one.items() if name != "mean"})
    for column, run in trivial_runs(columns, models).items():
        row = {"model": run.name, "task": run.part_of or run.task, "data_set": column.title}
        figure = percent(column, run)
        writer.writerow(row | {"metric": column.metric, "figure": figure, "source": run.folder})
    for title, task, metric, *_ in columns:
        for model in beside:
            if title in model.figures:
                row = {"model": model.name, "task": task, "data_set": title, "metric": metric}
                writer.writerow(row | {"figure": model.figures[title], "source": model.source})
    return stream.getvalue()
