"""The folder that a sweep chose."""

import json

import pytest

from tfbio.base import run_folders
from tfbio.base.errors import UserError


def test_the_run_that_a_sweep_chose(tmp_path):
    assert run_folders.chosen(str(tmp_path)) == str(tmp_path)
    (tmp_path / "sweep.json").write_text(json.dumps({"chosen": "learning_rate=1e-4"}))
    assert run_folders.chosen(str(tmp_path)) == str(tmp_path / "learning_rate=1e-4")


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"chosen": 1}'])
def test_a_damaged_file_of_a_sweep_is_named(content, tmp_path):
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(UserError, match="sweep.json.*: run run_finetuning.py --sweep"):
        run_folders.chosen(str(tmp_path))


def test_a_link_to_a_trial_is_followed_to_its_run(tmp_path, monkeypatch):
    run, disk = tmp_path / "run", tmp_path / "disk"
    for folder in (run / "trial_3", disk / "trial_0", tmp_path / "cache" / "snapshot"):
        folder.mkdir(parents=True)
    (run / "config.json").touch()
    (tmp_path / "best").symlink_to("run/trial_3")
    (tmp_path / "named").symlink_to("cache/snapshot")
    (run / "trial_0").symlink_to("../disk/trial_0")  # which was moved to another disk
    (disk / "config.json").touch()  # of another run there
    monkeypatch.chdir(tmp_path)
    for path, expected in {
        "best": "run/trial_3",
        "best/": "run/trial_3",
        "run/trial_3": "run/trial_3",
        "run/trial_0": "run/trial_0",
        "named": "named",
        "gone": "gone",
    }.items():
        assert run_folders.followed(path) == str(tmp_path / expected)
    assert run_folders.followed("gs://bucket/run/trial_3") == "gs://bucket/run/trial_3"
