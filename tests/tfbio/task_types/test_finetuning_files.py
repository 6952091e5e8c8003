"""The folder of a fine-tuning run is a run's, a sweep's, or another command's."""

import json

import pytest

from tfbio.base.errors import UserError
from tfbio.task_types.finetuning_files import require_own_output


@pytest.fixture
def single(tmp_path):
    """Returns the folder of a run without --sweep."""
    folder = tmp_path / "single"
    (folder / "trial_0").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"task": "ner"}))
    return str(folder)


@pytest.fixture
def swept(tmp_path):
    """Returns the folder of a sweep."""
    folder = tmp_path / "swept"
    (folder / "learning_rate=0.0001").mkdir(parents=True)
    (folder / "sweep.json").write_text("{}")
    return str(folder)


def test_each_kind_of_run_goes_on_in_its_folder(single, swept, tmp_path):
    require_own_output(single, is_sweep=False)
    require_own_output(swept, is_sweep=True)
    for is_sweep in (False, True):
        require_own_output(str(tmp_path / "new"), is_sweep)


def test_the_other_kind_of_run_is_named(single, swept):
    with pytest.raises(UserError, match="holds a sweep: give its --sweep again, or another"):
        require_own_output(swept, is_sweep=False)
    with pytest.raises(UserError, match="holds a run without --sweep: give another folder"):
        require_own_output(single, is_sweep=True)


def test_what_another_command_wrote_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"objective": "electra"}))
    for is_sweep in (False, True):
        with pytest.raises(UserError, match="config.json, which is not of a run of run_finetuning"):
            require_own_output(str(tmp_path), is_sweep)


def test_an_address_is_refused_before_anything_is_trained():
    with pytest.raises(UserError, match="--output_dir=gs://b/run: fine-tuning writes to a local"):
        require_own_output("gs://b/run", is_sweep=False)
