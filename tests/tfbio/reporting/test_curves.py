"""Curves, on event files as TensorFlow writes them."""

import shutil
import time

import pytest
import tensorflow as tf

from tests import run_files
from tfbio.reporting import curves


def write(folder, points, tags=("loss",)):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for step, value in points:
            for tag in tags:
                tf.summary.scalar(tag, value, step=step)


def test_steps_that_were_gone_over_again_count_once(tmp_path):
    write(tmp_path, [(1, 9.0), (2, 8.0), (3, 7.0)])
    time.sleep(1.1)  # the second file must have a later name
    write(tmp_path, [(2, 8.5), (3, 7.5), (4, 7.0)])
    assert curves.read(tmp_path)["loss"] == [(1, 9.0), (2, 8.5), (3, 7.5), (4, 7.0)]


def test_the_table_has_the_last_figures_of_both(tmp_path):
    tags = ("loss", "generator_loss")
    write(tmp_path / "logs" / "train", [(1, 9.0), (2, 8.5)], tags)
    write(tmp_path / "logs" / "heldout", [(2, 8.25)], tags)
    table = curves.table("work/model", curves.read_run(tmp_path))
    assert table.notes[0].startswith("`work/model`, at step 2. ")
    assert table.rows == [["loss", "8.5000", "8.2500"], ["generator loss", "8.5000", "8.2500"]]
    assert curves.table("x", {"train": {}, "heldout": {"loss": [(1, 2.0)]}}).rows[0][1] == ""


def test_trials_with_logs_are_read(tmp_path):
    """Those of the scores: an earlier run may have had more, and a later one may have begun."""
    trials = [{"seed": seed, "test": {"f1": 0.5}} for seed in range(3)]
    run_files.write_scores(tmp_path, trials, task="gad")
    write(tmp_path / "logs" / "trial_0" / "train", [(1, 9.0), (2, 8.5)])
    write(tmp_path / "logs" / "trial_1" / "train", [(1, 7.0)])
    write(tmp_path / "logs" / "trial_1" / "dev", [(1, 0.5)], ("f1",))
    write(tmp_path / "logs" / "trial_3" / "train", [(1, 6.0)])
    assert curves.read_trials(tmp_path) == {
        "train": [{"loss": [(1, 9.0), (2, 8.5)]}, {"loss": [(1, 7.0)]}],
        "dev": [{"f1": [(1, 0.5)]}],
    }
    shutil.rmtree(tmp_path / "logs")
    assert curves.read_trials(tmp_path) == {"train": [], "dev": []}


def test_a_run_before_its_first_evaluation_is_to_go_on(tmp_path):
    write(tmp_path / "logs" / "train", [(1, 9.0)])
    said = "has had no evaluation yet: continue it by the same command"
    with pytest.raises(curves.CurvesError, match=said):
        curves.read_run(tmp_path)


def test_a_folder_without_logs_is_named(tmp_path):
    with pytest.raises(curves.CurvesError, match=r"nowhere.*--model_dir"):
        curves.read_run(tmp_path / "nowhere")
