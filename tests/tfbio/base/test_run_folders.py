"""The folder that a sweep chose."""

import json

from tfbio.base import run_folders


def test_the_run_that_a_sweep_chose(tmp_path):
    assert run_folders.chosen(str(tmp_path)) == str(tmp_path)
    (tmp_path / "sweep.json").write_text(json.dumps({"chosen": "learning_rate=1e-4"}))
    assert run_folders.chosen(str(tmp_path)) == str(tmp_path / "learning_rate=1e-4")
