"""The report's part on errors: its figures, tables and files."""

import csv
import io

from tests.tfbio.reporting.runs_by_hand import run_of
from tfbio.reporting import error_report
from tfbio.reporting.published import Column
from tfbio.task_types.outcomes import LABEL, MISSED, RIGHT, Outcome

GENE = {Outcome("gene", "gene", RIGHT, 2): 3, Outcome("gene", "", MISSED, 1): 1}
TWO = GENE | {Outcome("drug", "gene", LABEL, 1): 2}
COLUMNS = [
    Column("BC5-chem", "a", "f1"),
    Column("BC5-chem, exact match", "a", "exact_match"),
    Column("BC5-chem, 3 of 4,797 test examples", "b", "f1"),
    Column("BIOSSES", "c", "pearson"),
    Column("HoC", "d", "f1"),
]


def models():
    def run(name, outcomes):
        object.__setattr__(own := run_of([[True]], name), "outcomes", outcomes)
        return own

    labels = {Outcome("yes", "no", LABEL): 4}
    return {
        "ours": {"a": run("ours", GENE), "b": run("ours", TWO), "c": run("ours", {})},
        "base": {"a": run("base", TWO), "d": run("base", labels)},
    }


def test_each_data_set_has_the_figures_that_its_outcomes_give(drawn, tmp_path):
    parts = error_report.draw(COLUMNS, models(), tmp_path)
    figures, folded = parts[::2], parts[1::2]
    assert [figure.name for figure in figures] == [
        *("confusion_bc5_chem", "errors_bc5_chem"),
        *("confusion_bc5_chem_2", "errors_bc5_chem_2"),
        "confusion_hoc",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{figure.name}.{ending}" for figure in figures for ending in ("png", "pdf")
    }
    assert len(drawn) == 5
    # Two models, two tables of each.
    assert [len(tables) for _, tables in folded] == [4, 4, 2, 2, 2]
    assert folded[1][1][0].title == "BC5-chem, ours: mentions by type"
    # One type of entities alone cannot be confused.
    alone = error_report.draw(COLUMNS[:1], {"ours": models()["ours"]}, tmp_path)
    assert [part.name for part in alone[::2]] == ["errors_bc5_chem"]


def test_errors_csv_has_every_outcome_once():
    rows = list(csv.DictReader(io.StringIO(error_report.csv_text(COLUMNS, models()))))
    counts = {
        (x["model"], x["data_set"], x["true"], x["predicted"], x["kind"], x["length"]): x["count"]
        for x in rows
    }
    assert len(rows) == len(counts) == 2 + 3 + 3 + 1
    assert counts["ours", "BC5-chem", "gene", "", "missed", "1"] == "1"
    assert counts["base", "HoC", "yes", "no", "wrong label", "0"] == "4"
