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
