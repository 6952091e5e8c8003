"""Learning curves: a journal takes them, and their points are those of the logs."""

import numpy as np
import pytest

from tests import figure_checks
from tests.tfbio.reporting.runs_by_hand import run_of
from tfbio.reporting import curves, learning_curves
from tfbio.reporting.published import Column

TAGS = [tag for tag, _, _ in curves.PRETRAINING_SCALARS]


@pytest.mark.parametrize(("tags", "width"), [(TAGS[:1], 3.5), (TAGS[:2], 3.5), (TAGS, 7.2)])
def test_a_journal_takes_those_of_pretraining(tags, width, drawn, tmp_path):
    logged = {
        "train": {tag: [(x, 7 / x) for x in range(1_000, 100_001, 1_000)] for tag in tags},
        "heldout": {tag: [(50_000, 0.125), (100_000, 0.0625)] for tag in tags},
    }
    kept = learning_curves.draw_pretraining(logged, tmp_path)
    (figure,) = drawn
    assert figure_checks.mistakes(figure) == []
    assert (kept.name, kept.width, len(figure.axes)) == ("pretraining", width, len(tags))
    for axes, tag in zip(figure.axes, tags, strict=True):
        train, held_out = axes.lines
        assert [*map(tuple, train.get_xydata())] == logged["train"][tag]
        assert [*map(tuple, held_out.get_xydata())] == logged["heldout"][tag]
        # Told apart by more than the colour.
        assert (train.get_marker(), held_out.get_marker()) == ("", "o")
        assert train.get_linestyle() != held_out.get_linestyle()
    assert [x.get_text() for x in figure.legends[0].get_texts()] == ["training", "held out"]


def test_a_journal_takes_those_of_fine_tuning(drawn, tmp_path, monkeypatch):
    """Two models on three tasks, one of which has no logs; one evaluates only at the end."""
    logs = {
        "ours": [{"loss": [(10, 1.5), (20, 0.5)]}, {"loss": [(10, 1.25), (20, 0.75)]}],
        "a model with a long name, 100k steps, uncased": [{"loss": [(10, 2.0)]}],
    }
    dev = {"ours": [{"accuracy": [(10, 0.5), (20, 0.75)]}], list(logs)[1]: [{"f1": [(20, 0.5)]}]}
    monkeypatch.setattr(
        curves, "read_trials", lambda folder: {"train": logs.get(folder, []), "dev": dev[folder]}
    )
    dev["none"] = []
    models = {name: {"bioasq": run_of([[True]], name)} for name in logs}
    models["ours"] |= {"long": run_of([[True]], "ours"), "other": run_of([[True]], "none")}
    columns = [
        Column("BioASQ", "bioasq", "accuracy"),
        Column("ward/a-folder-with-a-long-name (ner), 20 of 100 test examples", "long", "pearson"),
        Column("other", "other", "accuracy"),
    ]
    kept = learning_curves.draw_finetuning(columns, models, tmp_path)
    (figure,) = drawn
    assert figure_checks.mistakes(figure) == []
    assert kept.name == "fine_tuning" and len(figure.axes) == 4
    loss, score = figure.axes[:2]
    assert [*map(tuple, loss.lines[0].get_xydata())] == [(10, 1.5), (20, 0.5)]
    assert [*map(tuple, score.lines[0].get_xydata())] == [(10, 50), (20, 75)]
    assert loss.get_ylabel().replace("\n", " ") == "training loss (nats)"
    assert figure.axes[2].get_ylabel().replace("\n", " ") == "training loss (squared error)"
    looks = {(x.get_color(), x.get_linestyle()) for x in loss.lines}
    assert len(looks) == len(logs) and len(loss.lines) == 3
    np.testing.assert_array_equal(score.get_xlim(), loss.get_xlim())
    assert learning_curves.draw_finetuning(columns[2:], models, tmp_path) is None
