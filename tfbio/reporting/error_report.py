"""The report's part on errors: for each data set which labels were taken for which, and where."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfbio.reporting import confusion, mention_errors
from tfbio.reporting.grouping import Models
from tfbio.reporting.html_report import Part
from tfbio.reporting.published import Column
from tfbio.reporting.tables import Table
from tfbio.task_types.outcomes import Outcome

_COLUMNS = ("model", "data_set", "true", "predicted", "kind", "length", "count")
# The longest name of a file, without its ending.
_LETTERS = 60


def draw(columns: Sequence[Column], models: Models, folder: Path) -> list[Part]:
    """Draws the errors of our runs, a figure or two for each data set, and makes their tables.

    Several labels have a confusion matrix (confusion_NAME.png and .pdf), mentions their errors by
    type and length (errors_NAME.png and .pdf).

    Args:
      columns: the columns of our runs.
      models: our runs, name of a model -> task -> its run.
      folder: where the files go.

    Returns:
      The figures, each with its tables behind it; none for data sets without labels.
    """
    parts: list[Part] = []
    names: set[str] = set()
    for title, runs in _by_data_set(columns, models).items():
        name = _file_name(title, names)
        if any(map(confusion.has_several_labels, runs.values())):
            parts.append(confusion.draw(runs, folder, f"confusion_{name}", title))
            tables = [
                table for model, own in runs.items() for table in _confusions(title, model, own)
            ]
            parts.append((f"Labels of {title} in numbers, over all seeds", tables))
        if any(map(mention_errors.are_mentions, runs.values())):
            parts.append(mention_errors.draw(runs, folder, f"errors_{name}", title))
            tables = [table for model, own in runs.items() for table in _errors(title, model, own)]
            parts.append((f"Mentions of {title} in numbers, over all seeds", tables))
    return parts


def csv_text(columns: Sequence[Column], models: Models) -> str:
    """Returns errors.csv: how often each outcome is there, over all seeds.

    Args:
      columns: the columns of our runs.
      models: our runs, name of a model -> task -> its run.

    Returns:
      Text of CSV, with the columns model, data_set, true, predicted (labels; "" for none), kind
      (one of `outcomes.KINDS`), length (words of a mention; 0 for texts) and count.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for title, runs in _by_data_set(columns, models).items():
        for model, outcomes in runs.items():
            for outcome, count in sorted(outcomes.items()):
                writer.writerow([model, title, *outcome, count])
    return stream.getvalue()


def _by_data_set(
    columns: Sequence[Column], models: Models
) -> dict[str, dict[str, Mapping[Outcome, int]]]:
    """Returns the title of each data set -> the name of a model -> its outcomes, if it has some."""
    titles: dict[str, str] = {}
    for column in columns:
        titles.setdefault(column.task, column.title)
    found = {
        title: {
            name: runs[task].outcomes
            for name, runs in models.items()
            if task in runs and runs[task].outcomes
        }
        for task, title in titles.items()
    }
    return {title: runs for title, runs in found.items() if runs}


def _file_name(title: str, names: set[str]) -> str:
    """Returns a name for the files of a data set that no other one has; `names` grows."""
    # Behind a comma stands which test examples these are.
    first = re.sub(r"\W+", "_", title.partition(",")[0]).strip("_").lower()[:_LETTERS]
    name, number = first, 1
    while name in names:
        number += 1
        name = f"{first}_{number}"
    names.add(name)
    return name


def _confusions(title: str, model: str, outcomes: Mapping[Outcome, int]) -> list[Table]:
    """Returns the tables of labels of a run."""
    return [
        confusion.scores_table(f"{title}, {model}: labels", outcomes),
        confusion.table(f"{title}, {model}: confusion", confusion.matrix(outcomes)),
    ]


def _errors(title: str, model: str, outcomes: Mapping[Outcome, int]) -> list[Table]:
    """Returns the tables of mentions of a run."""
    types, lengths = mention_errors.by_type(outcomes), mention_errors.by_length(outcomes)
    return [
        mention_errors.table(f"{title}, {model}: mentions by type", "type", types),
        mention_errors.table(f"{title}, {model}: mentions by length", "length in words", lengths),
    ]
