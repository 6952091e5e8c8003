"""The means over bio-lm's groups of tasks (Lewis et al., 2020, Table 4), for any scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tfbio.reporting import published, published_tables, score_tables
from tfbio.reporting.grouping import KNOWN, Models
from tfbio.reporting.table_columns import percent
from tfbio.reporting.tables import Table

_HOW = (
    "Means over the data sets of a group (Lewis et al., 2020, Table 4), with the metrics of its "
    "code; its own are of medians over the seeds, and ours of means. A model without one of a "
    "group's data sets has no mean."
)


def groups() -> dict[str, tuple[str, ...]]:
    """Returns bio-lm's groups of tasks.

    Returns:
      A dict of the name of a group, such as "Clinical", and last "All" -> the titles of the
      `published.Column`s of its data sets.
    """
    found = {
        cell.row: tuple(
            published.title_of(published_tables.data_set(cell.paper, name))
            for name in cell.value.split(", ")
        )
        for cell in published_tables.cells("bio_lm")
        if cell.table == 4
    }
    return found | {"All": tuple(dict.fromkeys(x for titles in found.values() for x in titles))}


def group_means(scores: Mapping[str, float]) -> dict[str, float]:
    """Computes the mean scores of bio-lm's groups of tasks (Lewis et al., 2020, Tables 2 to 4).

    Args:
      scores: title of a `published.Column`, such as "BC5-chem" or "GAD, median of folds 2 to 10" ->
        score, in any unit.

    Returns:
      A dict of the name of a group, "Clinical", "PubMed", "Seq. Lab.", "Classif." or "All" -> the
      mean over its data sets, in the same unit; a group that lacks the score of one is left out.
    """
    return {
        name: statistics.fmean(scores[title] for title in titles)
        for name, titles in groups().items()
        if all(title in scores for title in titles)
    }


def means_table(models: Models, beside: Sequence[published.Model]) -> Table | None:
    """Makes the table of bio-lm's means: published models and our runs, in percent.

    Args:
      models: our runs, name of a model -> task -> its run; the mean over the seeds counts.
      beside: the published models; those without such means are left out.

    Returns:
      The `Table`: a row for each model and a column for each group; "" stands for none. None if no
      model of ours has all data sets of a group.
    """
    names = list(groups())
    ours = {name: group_means(_scores(runs)) for name, runs in models.items()}
    if not any(ours.values()):
        return None
    papers = [model for model in beside if model.means]
    above = [[x.name, *(x.means.get(group, "") for group in names)] for x in papers]
    own = [
        [name, *(f"{means[x]:.2f}" if x in means else "" for x in names)]
        for name, means in ours.items()
        if means
    ]
    notes = [*score_tables.notes_on_papers(papers, names), _HOW]
    return Table("Means over bio-lm task groups", ["model", *names], above + own, len(above), notes)


def _scores(runs: Mapping) -> dict[str, float]:
    """Returns the figures of a model by the titles of their columns, in percent."""
    return {
        column.title: percent(column, runs[column.task])
        for column in KNOWN
        if column.task in runs and column.metric in runs[column.task].tests[0]
    }
