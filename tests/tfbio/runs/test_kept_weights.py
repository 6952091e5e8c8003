"""`--keep_weights=best`: which weights stay, also of a sweep that was interrupted anywhere."""

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest

from tfbio.base.errors import UserError
from tfbio.runs import finetuning, kept_weights, sweep
from tfbio.task_types import finetuning_files, task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.weights import fine_tuned, trials

# The scores on dev of each seed, by learning rate. The means of the second and the third are equal,
# and so are the scores of two seeds of the second.
DEV = {1e-5: (0.5, 0.4), 3e-5: (0.75, 0.75), 5e-5: (0.5, 1.0), 1e-4: (0.25, 0.25)}
WEIGHTS = ("model.index", "model.data-00000-of-00001")
OTHERS = ("scores.json", "dev_predictions.tsv", "test_predictions.tsv")


def write_trial(folder, seed, dev):
    """Writes a trial as `Trial` does: its folder appears when all is there."""
    trial = Path(finetuning_files.trial_dir(str(folder), seed))
    if trial.exists():
        return
    unfinished = Path(f"{trial}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for name in (*WEIGHTS, *OTHERS):
        (unfinished / name).write_text(f"{name} of {folder.name}, {seed}")
    scores = TrialScores(seed=seed, dev={"f1": dev}, test={"f1": dev / 2})
    finetuning_files.json_files.write(unfinished / "scores.json", scores)
    unfinished.rename(trial)


def write_scores(folder, seeds):
    """Writes the scores of a run that has these seeds by now, and had others before."""
    every = [finetuning_files.read_trial(str(folder / f"trial_{seed}")) for seed in seeds]
    scores = finetuning_files.RunScores(
        **{"task": "bc2gm", "metric": "f1", "init": "model", "trials": every, "std": 0.1},
        **{"examples": {"dev": [1, 1], "test": [1, 1]}, "mean": 0.4, "median": 0.4},
    )
    finetuning_files.json_files.write(folder / "scores.json", scores)


def finetune(run):
    """Stands for training, which needs minutes; all files are as it leaves them."""
    for seed in run.seeds:
        write_trial(Path(run.output_dir), seed, DEV[run.config.learning_rate][seed])
    every = [
        finetuning_files.read_trial(finetuning_files.trial_dir(run.output_dir, seed))
        for seed in run.seeds
    ]
    means = {name: sum(x.test["f1"] for x in every) / len(every) for name in ("mean", "median")}
    rows = [{"dev": x.dev, "test": x.test} for x in every]
    return {"task": "bc2gm", "metric": "f1", "trials": rows, "std": 0.0, **means}


@pytest.fixture
def run_sweep(monkeypatch):
    """Runs a sweep into a folder."""
    monkeypatch.setattr(finetuning, "finetune", finetune)

    def run(output_dir, keep_weights="best", rates=tuple(DEV), seeds=2):
        places = {"data_dir": "", "init_checkpoint": "", "output_dir": str(output_dir)}
        of = finetuning.Run(FinetuningConfig(), task=task_table.TASKS["bc2gm"], **places)
        settings = [FinetuningConfig(learning_rate=rate, num_trials=seeds) for rate in rates]
        return sweep.run(of, ["learning_rate"], settings, keep_weights)

    return run


def files_in(folder):
    """Every file with its content, but for locks."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_text() for path in paths if path.name[0] != "."
    }


def test_only_the_chosen_trial_keeps_its_weights(run_sweep, tmp_path):
    found = run_sweep(tmp_path / "best")
    everything = run_sweep(tmp_path / "all", "all")
    assert found == everything and found["chosen"] == "learning_rate=3e-05"
    best, whole = files_in(tmp_path / "best"), files_in(tmp_path / "all")
    kept = {f"learning_rate=3e-05/trial_0/{name}" for name in WEIGHTS}
    assert {name for name in best if Path(name).name in WEIGHTS} == kept
    assert len({name for name in whole if Path(name).name in WEIGHTS}) == 2 * 2 * len(DEV)
    # All else is the same, and prediction takes the trial that is left.
    assert best == {name: whole[name] for name in whole if name in kept or "model." not in name}
    chosen = tmp_path / "best/learning_rate=3e-05/trial_0"
    assert fine_tuned.find_trial(str(tmp_path / "best"), say=str) == str(chosen)


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def test_a_sweep_that_is_killed_anywhere_ends_with_the_same(run_sweep, tmp_path, monkeypatch):
    """At each file that the sweep itself writes or removes, and so between its settings."""
    rates = (1e-5, 3e-5, 5e-5)
    run_sweep(tmp_path / "undisturbed", rates=rates)
    expected = files_in(tmp_path / "undisturbed")
    calls = {name: getattr(os, name) for name in ("remove", "rename", "replace")}

    def undisturbed_training(run):
        with monkeypatch.context() as patch:
            for name, call in calls.items():
                patch.setattr(os, name, call)
            return finetune(run)

    for number in itertools.count():
        left = itertools.count(number, -1)

        def killing(name, left=left):
            def call(*arguments, **options):
                if next(left) == 0:
                    raise Killed
                return calls[name](*arguments, **options)

            return call

        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setattr(finetuning, "finetune", undisturbed_training)
            for name in calls:
                patch.setattr(os, name, killing(name))
            try:
                run_sweep(folder, rates=rates)
                break  # it made fewer calls
            except Killed:
                pass
        run_sweep(folder, rates=rates)
        assert files_in(folder) == expected, f"killed at call {number}"
    assert number >= 10, number  # five trials of two files each lose their weights


def test_what_another_sweep_removed_is_said(run_sweep, tmp_path, capsys):
    run_sweep(tmp_path)
    assert run_sweep(tmp_path, rates=[1e-5, 1e-4])["chosen"] == "learning_rate=1e-05"
    assert "learning_rate=1e-05 has no weights: a sweep with" in capsys.readouterr().out
    for folder in ("learning_rate=1e-05", "learning_rate=1e-05/trial_1"):
        with pytest.raises(UserError, match="has no weights, which --keep_weights=best removed"):
            fine_tuned.find_trial(str(tmp_path / folder))


def test_a_sweep_that_is_run_again_has_its_weights_and_says_nothing(run_sweep, tmp_path, capsys):
    """The first of its settings have none, because a later one is better."""
    run_sweep(tmp_path)
    capsys.readouterr()
    run_sweep(tmp_path)
    assert "no weights" not in capsys.readouterr().out


def test_the_last_weights_of_a_sweep_stay(run_sweep, tmp_path, capsys):
    """It is run again with one seed, whose trials have lost their weights."""
    assert run_sweep(tmp_path, rates=[1e-5, 5e-5])["chosen"] == "learning_rate=5e-05"
    kept = tmp_path / "learning_rate=5e-05" / "trial_1" / "model.index"
    assert [*tmp_path.glob("*/trial_?/model.index")] == [kept]
    # Of two equal means the first is chosen.
    write_scores(tmp_path / "learning_rate=1e-05", seeds=[0])
    write_scores(tmp_path / "learning_rate=5e-05", seeds=[0])
    assert run_sweep(tmp_path, rates=[1e-5, 5e-5], seeds=1)["chosen"] == "learning_rate=1e-05"
    assert [*tmp_path.glob("*/trial_?/model.index")] == [kept]
    assert "learning_rate=1e-05 has no weights: a sweep with more set" in capsys.readouterr().out


def test_the_last_weights_of_a_run_stay(tmp_path):
    """It is run again with fewer seeds, of which none was the best before."""
    for seed, dev in ((0, 0.7), (1, 0.6), (2, 0.8)):
        write_trial(tmp_path, seed, dev)
    assert kept_weights.keep_best(str(tmp_path))
    write_scores(tmp_path, seeds=[0, 1])
    said = []
    assert not kept_weights.keep_best(str(tmp_path), said.append)
    assert [path.parent.name for path in tmp_path.glob("*/model.index")] == ["trial_2"]
    assert said[0].startswith(f"{tmp_path}/trial_0 has no weights: an earlier command removed")
    # Its remedy.
    shutil.rmtree(tmp_path / "trial_0")
    write_trial(tmp_path, 0, 0.7)
    assert kept_weights.keep_best(str(tmp_path))
    assert [path.parent.name for path in tmp_path.glob("*/model.index")] == ["trial_0"]


def test_trials_of_seeds_that_the_run_no_longer_has_do_not_count(tmp_path):
    """A run of seed 5 in a folder in which seed 0 was better before."""
    for seed, dev in ((0, 0.9), (5, 0.8), (6, 0.7)):
        write_trial(tmp_path, seed, dev)
    write_scores(tmp_path, seeds=[5, 6])
    best = str(tmp_path / "trial_5"), "the best dev f1 of 2 trial(s), 0.8000"
    assert trials.best_trial(str(tmp_path)) == best
    assert kept_weights.keep_best(str(tmp_path))
    assert [path.parent.name for path in tmp_path.glob("*/model.index")] == ["trial_5"]


def test_of_equal_seeds_the_first_stays_by_its_number(tmp_path):
    """`trial_10` stands before `trial_2` in a list of files."""
    for seed, dev in ((10, 0.8), (2, 0.8), (1, 0.5)):
        write_trial(tmp_path, seed, dev)
    (tmp_path / "trial_3.unfinished").mkdir()
    assert kept_weights.keep_best(str(tmp_path))
    assert sorted(path.parent.name for path in tmp_path.glob("*/model.index")) == ["trial_2"]
    assert json.loads((tmp_path / "trial_10/scores.json").read_text())["dev"] == {"f1": 0.8}
    # With another seed, which is the best, the run goes on.
    write_trial(tmp_path, 4, 0.9)
    assert kept_weights.keep_best(str(tmp_path))
    assert [path.parent.name for path in tmp_path.glob("*/model.index")] == ["trial_4"]
