"""Files that an older version wrote are read: what it did not know has the value that it had.

A setting without such a value, see `added` of `BaseSettings`, fails here. docs/stability.md says
what a version promises.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import tfbio
from tfbio.base import json_files
from tfbio.base.config import load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.task_types import finetuning_config, types
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.weights import checkpoint_settings

ROOT = Path(__file__).resolve().parents[1]
OLDER = ROOT / "tests" / "data" / "older_versions"


def run_folder(folder, name):
    """Returns a folder whose `config.json` is one of the older files."""
    shutil.copy(OLDER / name, folder / "config.json")
    return str(folder)


def with_defaults(old, new):
    """The older content, and of what it lacks the default of today."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old
    return {key: with_defaults(old[key], new[key]) if key in old else new[key] for key in new}


def test_a_pretraining_run_has_the_settings_of_the_same_command_today(tmp_path):
    """So it goes on, and its model is the same: `run_pretraining.py` compares all settings."""
    read = checkpoint_settings.read_settings(run_folder(tmp_path, "pretraining.json"))
    old = json.loads((OLDER / "pretraining.json").read_text())
    config = load(PretrainingConfig, str(ROOT / "hparams" / "small.json"))
    given = {name: old[name] for name in ("lower_case", "vocab_sha256", "data")}
    given["chosen_precision"] = "float32"  # which that version computed in on a CPU
    today = dataclasses.asdict(json_files.extended(PretrainingSettings, config, **given))
    assert {**read, "comment": ""} == {**today, "comment": ""}
    # What that version did, of what it had no setting for.
    assert read["encoder"]["scaled_initializer"] is False
    assert read["adversarial"]["weight"] == read["distillation"]["kl_weight"] == 0.0
    assert (read["schedule"], read["corpus_switch_steps"], read["teacher"]) == ("linear", (), None)
    assert {key for key in old if old[key] != read[key]} == {"encoder", "run"}


def test_a_fine_tuning_run_has_the_settings_of_the_same_command_today(tmp_path):
    read = finetuning_config.read_settings(run_folder(tmp_path, "finetuning.json"))
    assert read.tagging.scheme == "BIOUL" and read.minority_weight == 1.0
    config = load(FinetuningConfig, "", ["num_trials=2", "tagging.scheme=BIOUL"])
    names = {field.name for field in dataclasses.fields(FinetuningConfig)}
    more = {
        field.name: getattr(read, field.name)
        for field in dataclasses.fields(RunConfig)
        if field.name not in names
    }
    assert read == json_files.extended(RunConfig, config, **more)


@pytest.mark.parametrize("task_type", list(types.TYPES))
def test_the_settings_of_every_task_type_are_read(task_type, tmp_path):
    content = json.loads((OLDER / "finetuning.json").read_text())
    group = json.loads((OLDER / "task_types.json").read_text())[task_type]
    del content["tagging"]
    content["trained_on"]["task_type"] = task_type
    (tmp_path / "config.json").write_text(json.dumps(content | {task_type: group}))
    read = dataclasses.asdict(finetuning_config.read_settings(tmp_path))[task_type]
    assert read == with_defaults(group, dataclasses.asdict(types.TYPES[task_type].Settings()))


def test_a_newer_file_is_refused(tmp_path):
    """An older version cannot know what a new setting changes."""
    folder = run_folder(tmp_path, "pretraining.json")
    content = json.loads((tmp_path / "config.json").read_text()) | {"brand_new": True}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(json_files.SchemaError, match="brand_new is no key of this file; give the"):
        checkpoint_settings.read_settings(folder)


def test_the_manual_names_this_version():
    text = (ROOT / "docs" / "stability.md").read_text()
    assert f"now {tfbio.__version__};" in text
