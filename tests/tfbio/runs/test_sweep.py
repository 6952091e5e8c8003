"""Sweeps: what is run, how one is chosen, and that a killed one goes on."""

import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tfbio.base import config, run_folders
from tfbio.base.errors import UserError
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import finetuning, finetuning_folder, sweep, trial
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig

ROOT = Path(__file__).parents[3]


def test_every_combination_the_last_changes_first():
    names, found = sweep.combinations(["learning_rate=3e-5,1e-4", "train_batch_size=16,32,48"])
    assert names == ["learning_rate", "train_batch_size"]
    assert [" ".join(chosen) for chosen in found] == [
        "learning_rate=3e-5 train_batch_size=16",
        "learning_rate=3e-5 train_batch_size=32",
        "learning_rate=3e-5 train_batch_size=48",
        "learning_rate=1e-4 train_batch_size=16",
        "learning_rate=1e-4 train_batch_size=32",
        "learning_rate=1e-4 train_batch_size=48",
    ]
    assert sweep.combinations([]) == ([], [[]])


@pytest.mark.parametrize(
    "sweeps, words",
    [
        (["learning_rate"], "expected name=value,value"),
        (["=1"], "expected name=value,value"),
        (["learning_rate=1e-4,"], "expected name=value,value"),
        (["seed=1", "seed=2"], "--sweep seed=... is given twice"),
    ],
)
def test_a_mistake_is_named(sweeps, words):
    with pytest.raises(UserError, match=words):
        sweep.combinations(sweeps)


# --- A search in a settings file -----------------------------------------------------------------

SEARCH = {
    "seed": 7,
    "sweep": {
        "learning_rate": [1e-5, 3e-5],
        "tagging": {"head": ["lstm", "crf"], "dropout": [False]},
    },
}


@pytest.mark.parametrize(
    "flags, fixed, expected",
    [
        ([], [], ["learning_rate=1e-05,3e-05", "tagging.head=lstm,crf", "tagging.dropout=false"]),
        # The command line has its way.
        (["learning_rate=1"], ["tagging.dropout"], ["tagging.head=lstm,crf", "learning_rate=1"]),
        (["seed=1,2"], ["learning_rate", "tagging.head"], ["tagging.dropout=false", "seed=1,2"]),
    ],
)
def test_a_file_may_have_a_search(flags, fixed, expected):
    text = json.dumps(SEARCH)
    found = sweep.with_those_of(text, flags, fixed)
    assert found == expected
    names, combinations = sweep.combinations(found)
    first = config.load(FinetuningConfig, text, combinations[0])
    assert first.seed == (1 if "seed" in names else 7)
    assert first.tagging.head == ("lstm" if "tagging.head" in names else "linear")


def test_a_set_of_a_group_names_its_settings():
    """Each of them has its way, and the file's search of the others stays."""
    assert sweep.names_in("seed=1") == ["seed"]
    assert sweep.names_in('task="{"') == ["task"]
    names = sweep.names_in('tagging={"head": "crf", "a": {"b": 1}}')
    assert names == ["tagging.head", "tagging.a.b"]
    found = sweep.with_those_of(json.dumps(SEARCH), [], names)
    assert found == ["learning_rate=1e-05,3e-05", "tagging.dropout=false"]


@pytest.mark.parametrize(
    "tree, words",
    [
        ([1e-5], "sweep must list the values of settings to try"),
        ({"learning_rate": 1e-5}, "sweep.learning_rate must list the values"),
        ({"learning_rate": []}, "sweep.learning_rate must list the values"),
        ({"tagging": {"head": [None]}}, "sweep.tagging.head must list the values"),
        ({"seed": [1, 2]}, "seed has a value and a sweep"),
    ],
)
def test_a_mistake_in_the_search_of_a_file_is_named(tree, words):
    with pytest.raises(UserError, match=words):
        sweep.with_those_of(json.dumps({"seed": 7, "sweep": tree}), [], [])


def test_the_flag_with_the_mistake_is_named():
    names, (one,) = sweep.combinations(["warmup_proportion=1", "learning_rate=1e-4..1e-2"])
    words = (
        "^--sweep warmup_proportion=1 --sweep learning_rate=1e-4..1e-2: "
        'learning_rate must be a number, not "'
    )
    with pytest.raises(UserError, match=words):
        sweep.load("", ["num_trials=2"], one, {}, names)
    with pytest.raises(UserError, match="^--set: num_trials must be at least 1, not 0"):
        sweep.load("", ["num_trials=0"], one, {}, names)
    with pytest.raises(UserError, match="^--set: num_trials must be at least 1, not 0"):
        sweep.load("", ["num_trials=0"], [], {}, [])
    assert sweep.load("", ["seed=3"], ["learning_rate=0.5"], {"seed": 2}, names).seed == 3


def test_a_value_of_the_search_in_a_file_is_named():
    """No --sweep was given."""
    one = ["classification.mlp_layers=1", "classification.mlp_size=512"]
    changes = ["classification.text_head=linear"]
    with pytest.raises(UserError) as error:
        sweep.load("{}", changes, one, {}, [])
    said = str(error.value)
    assert said.startswith(" ".join(one) + ": classification.mlp_size goes with")
    names = "classification.mlp_layers, classification.mlp_size"
    assert said.endswith(f" {names}: from the search in {{}}; give one value with --set.")


def test_only_fine_tuning_has_searches():
    with pytest.raises(UserError, match="unknown setting 'sweep'"):
        config.load(PretrainingConfig, json.dumps(SEARCH))
    assert sweep.with_those_of("", ["seed=1"], []) == ["seed=1"]


# --- The choice, from scores that are written down ---------------------------------------------

DEV = {1e-5: (0.5, 0.7), 3e-5: (0.8, 0.6), 5e-5: (0.7, 0.7), 1e-4: (0.9, 0.1)}
TEST = {1e-5: 0.9876, 3e-5: 0.4321, 5e-5: 0.8765, 1e-4: 0.7654}


def fake_finetune(calls, diverging=()):
    def finetune(run):
        rate = run.config.learning_rate
        calls.append((rate, run.show_test))
        os.makedirs(run.output_dir, exist_ok=True)
        if rate in diverging:
            raise trial.DivergedError("the loss is nan")
        trials = [{"dev": {"f1": dev}, "test": {"f1": TEST[rate]}} for dev in DEV[rate]]
        about = {"task": "bc2gm", "metric": "f1", "trials": trials}
        return {**about, "mean": TEST[rate], "std": 0.0, "median": TEST[rate]}

    return finetune


@pytest.fixture
def run_sweep(monkeypatch, tmp_path):
    """Runs a sweep with another `finetune`."""

    def run(settings, finetune, name="learning_rate"):
        monkeypatch.setattr(finetuning, "finetune", finetune)
        places = {"data_dir": "", "init_checkpoint": "", "output_dir": str(tmp_path)}
        of = finetuning.Run(FinetuningConfig(), task=task_table.TASKS["bc2gm"], **places)
        return sweep.run(of, [name], settings)

    return run


def settings_of(rates):
    return [FinetuningConfig(learning_rate=rate) for rate in rates]


def test_the_development_set_chooses_and_the_test_set_is_shown_of_the_choice(
    run_sweep, tmp_path, capsys
):
    # The means are 0.6, 0.7, 0.7 and 0.5: the first of the equals, though it is last on the test.
    calls = []
    found = run_sweep(settings_of(DEV), fake_finetune(calls))
    assert found["chosen"] == "learning_rate=3e-05"
    assert found["test"] == {"mean": 0.4321, "std": 0.0, "median": 0.4321}
    assert calls == [*((rate, False) for rate in DEV), (3e-5, True)]
    assert found == json.loads((tmp_path / "sweep.json").read_text())
    assert run_folders.chosen(str(tmp_path)) == str(tmp_path / "learning_rate=3e-05")
    assert run_folders.chosen(str(tmp_path / "other")) == str(tmp_path / "other")
    row = found["settings"][3]
    assert row["dev"] == [0.9, 0.1] and row["mean"] == pytest.approx(0.5)
    assert row["std"] == pytest.approx(0.8 / 2**0.5)
    table = (tmp_path / "sweep.md").read_text()
    assert "| 1e-05 | 0.6000 | 0.1414 | 2 |\n| **3e-05** | **0.7000** |" in table
    assert "Chosen: `learning_rate=3e-05`, test f1 0.4321" in table
    for shown in (table, capsys.readouterr().out, json.dumps(found)):
        for rate in (1e-5, 5e-5, 1e-4):
            assert str(TEST[rate]) not in shown


def test_a_setting_of_the_task_type_is_swept(run_sweep, tmp_path):
    given = [config.load(FinetuningConfig, "", [f"tagging.scheme={x}"]) for x in ("BIO", "IO")]

    def finetune(run):
        score = 0.5 if run.config.tagging.scheme == "BIO" else 0.7
        os.makedirs(run.output_dir, exist_ok=True)
        about = {"task": "bc2gm", "metric": "f1", "trials": [{"dev": {"f1": score}}]}
        return {**about, "mean": score, "std": None, "median": score}

    swept = run_sweep(given, finetune, "tagging.scheme")
    assert [row["tagging.scheme"] for row in swept["settings"]] == ["BIO", "IO"]
    assert swept["chosen"] == "tagging.scheme=IO"
    assert "| **IO** | **0.7000** |" in (tmp_path / "sweep.md").read_text()


def test_a_setting_that_diverges_is_out(run_sweep, tmp_path, capsys):
    finetune = fake_finetune([], diverging=[3e-5])
    found = run_sweep(settings_of(DEV), finetune)
    assert found["chosen"] == "learning_rate=5e-05"
    assert found["settings"][1]["mean"] is None
    assert "| 3e-05 | diverged |  | 0 |" in (tmp_path / "sweep.md").read_text()
    assert "learning_rate=3e-05 is out: the loss is nan" in capsys.readouterr().out
    with pytest.raises(UserError, match="no setting could be trained"):
        run_sweep(settings_of(DEV), fake_finetune([], DEV))
    assert not (tmp_path / "sweep.json").exists()  # it told of runs before


def test_a_value_that_stands_twice_is_refused(run_sweep):
    """Both would have one folder, whose weights --keep_weights=best would remove."""
    with pytest.raises(UserError, match="learning_rate=0.0001 stands there twice"):
        run_sweep(settings_of([1e-4, 5e-5, 0.0001]), fake_finetune([]))


def test_a_refused_sweep_leaves_what_an_earlier_one_has_summed_up(run_sweep, tmp_path):
    run_sweep(settings_of(DEV), fake_finetune([]))
    before = [(tmp_path / name).read_text() for name in ("sweep.json", "sweep.md")]

    def finetune(run):
        raise UserError("holds a run with other settings")

    with pytest.raises(UserError, match="other settings"):
        run_sweep(settings_of(DEV), finetune)
    assert [(tmp_path / name).read_text() for name in ("sweep.json", "sweep.md")] == before

    def finetune_one(run):
        return fake_finetune([])(run) if run.config.learning_rate == 1e-5 else finetune(run)

    with pytest.raises(UserError, match="other settings"):
        run_sweep(settings_of(DEV), finetune_one)
    assert not (tmp_path / "sweep.json").exists() and not (tmp_path / "sweep.md").exists()


@pytest.mark.parametrize("name", ["seed", "num_trials", "run.pack"])
def test_what_is_learnt_must_differ(name, run_sweep):
    with pytest.raises(UserError, match=f"{name} does not change what is learnt"):
        run_sweep(settings_of([1e-4, 1e-5]), fake_finetune([]), name)


@pytest.mark.slow
def test_all_settings_are_looked_at_before_the_first(shallow_encoder, tmp_path):
    """The encoder has 64 positions."""
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Give\tO\nIL-2\tB\n")
    done = forked.run(
        [
            *(sys.executable, "run_finetuning.py", "--task=ner", f"--data_dir={tmp_path}"),
            *(f"--init_checkpoint={shallow_encoder}", f"--output_dir={tmp_path / 'out'}"),
            "--sweep=sequence_length=32,65",
        ],
        cwd=ROOT,
    )
    assert done.returncode == 2 and "sequence_length 65 is more than the 64" in done.stderr
    assert "Setting 1 of 2" not in done.stdout and not (tmp_path / "out").exists()


# --- A real one --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(shallow_encoder, roles_folder, tmp_path):
    out = tmp_path / "out"
    settings = ["sequence_length=32", "max_train_examples=64", "num_train_epochs=2", "num_trials=2"]
    command = [
        *(sys.executable, "run_finetuning.py", "--task=sentence_roles"),
        *(
            f"--data_dir={roles_folder}",
            f"--init_checkpoint={shallow_encoder}",
            f"--output_dir={out}",
        ),
        *(f"--set={setting}" for setting in settings),
        *("--sweep=learning_rate=1e-6,3e-3", "--sweep=train_batch_size=16"),
        "--keep_weights=best",
    ]
    folders = [out / f"learning_rate={rate},train_batch_size=16" for rate in ("1e-06", "0.003")]
    with forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if line.startswith("seed 0: dev") and any("Setting 2 of 2" in each for each in seen):
                os.killpg(process.pid, signal.SIGKILL)
                break
        assert process.wait() == -signal.SIGKILL, "".join(seen)
    finished = [folders[0] / "trial_0", folders[0] / "trial_1", folders[1] / "trial_0"]
    assert sorted(out.glob("*/trial_?")) == sorted(finished) and not (out / "sweep.json").exists()
    before = [(trial / "scores.json").stat().st_mtime_ns for trial in finished]

    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(trial / "scores.json").stat().st_mtime_ns for trial in finished] == before
    found = json.loads((out / "sweep.json").read_text())
    means, tests = [], []
    for folder, row in zip(folders, found["settings"], strict=True):
        trials = [json.loads((folder / f"trial_{n}" / "scores.json").read_text()) for n in (0, 1)]
        assert row["dev"] == [trial["dev"]["accuracy"] for trial in trials]
        means.append(statistics.fmean(row["dev"]))
        tests.append(statistics.fmean(trial["test"]["accuracy"] for trial in trials))
    best = means.index(max(means))
    assert found["chosen"] == folders[best].name
    assert found["test"]["mean"] == pytest.approx(tests[best])
    dev = found["settings"][best]["dev"]
    kept = folders[best] / f"trial_{dev.index(max(dev))}"
    assert [path.parent for path in out.glob("*/trial_?/model.index")] == [kept]
    # Before the choice nothing was said of the test set.
    choice = f"sentence_roles: test accuracy {tests[best]:.4f}"
    assert "test accuracy" not in "".join(seen)
    assert done.stdout.count("test accuracy") == 1 and choice in done.stdout


def test_all_settings_take_the_precision_of_the_first_that_began(run_sweep, tmp_path, monkeypatch):
    asked, began = [], str(tmp_path / "learning_rate=3e-05")
    monkeypatch.setattr(finetuning_folder, "began", lambda folder: folder == began)

    def finetune(run):
        asked.append(run.precision_of)
        return fake_finetune([])(run)

    run_sweep(settings_of(DEV), finetune)
    assert set(asked) == {began}
