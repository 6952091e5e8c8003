"""Tests the epochs that a run takes over from another, against steps that are written down."""

import pytest

from tests import run_files
from tfbio.base.config import load
from tfbio.base.errors import UserError
from tfbio.task_types import stopping
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import find_protocol

# bio-lm's batch and epochs on a fold of GAD with 4,261 training examples: 2,663 steps.
EXAMPLES, BATCH, EPOCHS, STEPS = 4261, 16, 10.0, 2663


def write_run(folder, best, **settings):
    run_files.write_settings(folder, task="gad", num_train_epochs=EPOCHS, **settings)
    trials = [
        {
            "step": step,
            "test": {"f1": 0.8},
            "evaluations": [{"step": at, "f1": 0.8} for at in (*range(200, STEPS, 200), STEPS)],
        }
        for step in best
    ]
    run_files.write_scores(folder, trials, task="gad")


@pytest.mark.parametrize("best, step", [([800], 800), ([200, 2663, 600, 1400, 400], 600)])
def test_a_run_ends_after_the_examples_that_the_best_weights_had_seen(best, step, tmp_path):
    write_run(tmp_path, best, eval_every_steps=200)
    changes = stopping.settings_like(str(tmp_path), "gad")
    made = load(FinetuningConfig, find_protocol("biolm", "gad"), changes)
    # 16 examples a step; the steps of the run were rounded to a whole number.
    assert made.num_train_epochs == pytest.approx(BATCH * step / EXAMPLES, rel=1e-3)
    assert (made.eval_every_steps, made.early_stopping_patience) == (0, 0)
    assert (made.train_batch_size, made.learning_rate) == (BATCH, 2e-5)  # bio-lm's


def test_the_folder_of_a_sweep_stands_for_the_run_that_it_chose(tmp_path):
    (tmp_path / "b").mkdir()
    write_run(tmp_path / "b", [800], eval_every_steps=200)
    (tmp_path / "sweep.json").write_text('{"chosen": "b"}')
    changes = stopping.settings_like(str(tmp_path / "b"), "gad")
    assert stopping.settings_like(str(tmp_path), "gad") == changes


def test_a_run_that_does_not_tell_is_refused(tmp_path):
    with pytest.raises(UserError, match="config.json"):
        stopping.settings_like(str(tmp_path), "gad")
    write_run(tmp_path, [800], eval_every_steps=200)
    with pytest.raises(UserError, match=r"--stop_as=.* is a run of gad: give one of euadr\."):
        stopping.settings_like(str(tmp_path), "euadr")
    write_run(tmp_path, [800], eval_every_steps=200, early_stopping_patience=2)
    with pytest.raises(UserError, match="does not tell .* early_stopping_patience 0"):
        stopping.settings_like(str(tmp_path), "gad")
    run_files.write_settings(tmp_path, task="gad")
    # Without an evaluation, and with the one at the end alone: a fold of EU-ADR has 176 steps.
    for evaluations in ([], [{"step": 176, "f1": 0.8}]):
        trial = {"step": 176, "test": {"f1": 0.8}, "evaluations": evaluations}
        run_files.write_scores(tmp_path, [trial], task="gad")
        with pytest.raises(UserError, match="early_stopping_patience 0 and eval_every_steps above"):
            stopping.settings_like(str(tmp_path), "gad")
