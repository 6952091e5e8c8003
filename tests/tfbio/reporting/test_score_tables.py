"""The tables of scores, of runs made by hand."""

import csv
import dataclasses
import io

import pytest

from tests.run_files import write_scores
from tests.tfbio.reporting.runs_by_hand import run_of
from tfbio.reporting import grouping, published, results, score_tables, tables, test_sets


def test_the_blurb_score_needs_all_13():
    figures = dict(next(x for x in published.MODELS if x.name == "PubMedBERT").figures)
    runs = {
        title_task[1]: results.Run(
            "", "ours", title_task[1], title_task[2],
            [{title_task[2]: float(figures[title_task[0]]) / 100}], [],
        )
        for title_task in published.BLURB
    }  # fmt: skip
    table = score_tables.score_table("BLURB", published.BLURB, {"ours": runs})
    assert table.rows[-1] == ["ours", *figures.values(), "81.10"]
    assert not any("missing" in note for note in table.notes)


def test_what_a_blurb_score_lacks_says_which_test_set_there_is(monkeypatch):
    def runs(aside):
        found = {}
        for column in published.BLURB:
            run = results.Run("", "ours", column.task, column.metric, [{column.metric: 0.5}], [])
            match, part_of = test_sets.Match(), ""
            if column.task == "gad" and aside:
                match, part_of = test_sets.Match(3, "fold 3 of 10"), "gad"
            elif column.task == "bioasq":
                match = test_sets.Match(unverified="140 test examples, as published")
            found[f"x{column.task}" if part_of else column.task] = dataclasses.replace(
                run, match=match, part_of=part_of
            )
        return found

    table = score_tables.score_table("BLURB", published.BLURB, {"ours": runs(False)})
    assert table.header[-1] == "BLURB score" and table.rows[-1][-1] == "50.00"
    assert (
        "to be the published test sets: BioASQ (140 test examples, as published)."
        in (table.notes[-1])
    )
    table = score_tables.score_table("BLURB", published.BLURB, {"ours": runs(True)})
    assert "GAD" not in table.header and "BLURB score" not in table.header
    assert "ours has no BLURB score: GAD (fold 3 of 10) missing." in table.notes


def test_the_least_p_value_has_a_sign_before_it(monkeypatch):
    def row(p):
        figure = {"model": "ours", "task": "gad", "data_set": "GAD", "metric": "f1", "figure": 50.0}
        return figure | {"median": 50.0, "seeds": 1, "baseline": "base", "difference": 1.0, "p": p}

    table = score_tables.runs_table([row(2 / 10_001), row(4 / 10_001), row(1.0)])
    assert [cells[-1] for cells in table.rows] == ["< 0.0002", "0.0004", "1.0000"]
    assert "are drawn anew 10,000 times" in table.notes[0]
    assert r"\textless{} 0.0002 \\" in tables.latex(table)
    monkeypatch.setattr(results, "SAMPLES", 200)
    table = score_tables.runs_table([row(2 / 201), row(4 / 201)])
    assert [cells[-1] for cells in table.rows] == ["< 0.0100", "0.0199"]
    assert "are drawn anew 200 times" in table.notes[0]


def test_what_has_no_p_for_its_order_is_said():
    figure = {"model": "ours", "data_set": "GAD", "task": "gad", "metric": "f1", "figure": 50.0}
    figure |= {"median": 50.0, "seeds": 1}
    compared = figure | {"baseline": "base", "difference": 1.0}
    table = score_tables.runs_table([figure, compared | {"p": 0.5}, compared | {"model": "new"}])
    assert [row[-1] for row in table.rows] == ["", "0.5000", ""]
    (note,) = [note for note in table.notes if "another order" in note]
    assert note.startswith("There is no p where") and note.endswith("baseline's: GAD, new.")
    assert not [x for x in score_tables.runs_table([figure]).notes if "another order" in x]


def test_notes_of_published_models_are_told_once():
    models = [
        published.Model("a", "X, Table 1", {"DDI": "80.0"}, note="Of dev sets."),
        published.Model("b", "X, Table 1", {"DDI": "81.0"}, note="Of dev sets."),
        published.Model(
            "c", "Y", {"DDI": "82.0", "GAD": "1.0"}, notes={"DDI": "So.", "GAD": "No."}
        ),
    ]
    assert score_tables.notes_on_papers(models, ["DDI"]) == [
        "a, b: X, Table 1.",
        "c: Y.",
        "a, b: Of dev sets.",
        "DDI of c: So.",
    ]


def test_a_mean_beside_bio_lms_medians_says_so():
    """And "Our runs" has the median to compare with them."""
    ddi = next(column for column in published.BLURB if column.task == "ddi")
    run = results.Run("", "ours", "ddi", "f1", [{"f1": x} for x in (0.5, 0.6, 0.9)], [])
    bio_lm = [x for x in published.MODELS if x.name == "bio-lm large"]
    table = score_tables.score_table("BLURB", [ddi], {"ours": {"ddi": run}}, bio_lm)
    assert [row[1] for row in table.rows] == ["82.1", "66.67"]
    (note,) = [note for note in table.notes if note.startswith("bio-lm large: Medians")]
    assert 'over 5 seeds, where our rows have means and "Our runs" our medians' in note
    ours = score_tables.runs_table([score_tables.figures_of(ddi, run, None)])
    row = dict(zip(ours.header, ours.rows[0], strict=True))
    assert (row["mean"], row["median"]) == ("66.67", "60.00")
    for model in published.models_of("bio_lm"):
        if model.figures and model.name != "best in the literature":
            assert "where our rows have means" in model.note, model.name


@pytest.mark.parametrize(
    ("seconds", "mean", "shown"),
    [((90.0, 210.0), "150.0", "2.50"), ((0.0, 210.0), "", ""), ((0.0, 0.0), "", "")],
)
def test_training_time_is_the_mean_over_the_seeds(seconds, mean, shown, tmp_path):
    """A trial of a run has the time 0 where it is not known."""
    for name, own in (("ours", seconds), ("other", (30.0, 30.0))):
        trials = [{"seed": i, "test": {"f1": 0.5}, "train_seconds": x} for i, x in enumerate(own)]
        (tmp_path / name).mkdir()
        write_scores(tmp_path / name, trials, task="new")
    column = published.Column("new", "new", "f1")
    runs = [results.read(tmp_path / name, name) for name in ("ours", "other")]
    figures = [score_tables.figures_of(column, run, None) for run in runs]
    table = score_tables.runs_table(figures)
    assert table.header[-1] == "training time (min)"
    assert [row[-1] for row in table.rows] == [shown, "0.50"]
    assert table.notes[-1].startswith("Training time is the mean over the seeds, in minutes")
    lines = csv.DictReader(io.StringIO(score_tables.csv_text([column], figures, {})))
    assert [line["train_seconds"] for line in lines] == [mean, "30.0"]
    # Where no run has it there is no column.
    if not mean:
        table = score_tables.runs_table(figures[:1])
        assert table.header[-1] == "seeds" and "Training time" not in " ".join(table.notes)


@pytest.mark.parametrize(("last", "mean"), [(600.0, 300.0), (0.0, None)])
def test_training_time_of_folds_is_the_mean_over_all_their_seeds(last, mean, monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 10)
    times = [(120.0, 240.0), (240.0, last)]
    folds = [dataclasses.replace(run_of([[1] * 20] * 2), train_seconds=own) for own in times]
    joined = grouping.joined(folds, "bioasq, folds")
    assert results.figures(joined, "accuracy").get("train_seconds") == mean
