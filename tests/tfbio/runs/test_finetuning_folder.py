"""Tests what the folder of a fine-tuning run records: how it reads text, and its precision."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
import tf_keras as keras

from tests.fine_tuned import make, make_cased
from tests.pretraining_runs import eagerly
from tests.run_files import write_settings
from tests.tfbio.runs.conftest import SETTINGS
from tfbio.base.errors import UserError
from tfbio.runs import finetuning, finetuning_folder
from tfbio.runs.finetuning_run import Run
from tfbio.task_types import finetuning_config, task_table
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.training import cpu_bfloat16, distribution


@pytest.fixture
def prepare(cpu, vocab_file, tmp_path, monkeypatch):
    """Prepares a folder of `tmp_path`; returns the precision and what its `config.json` has."""
    monkeypatch.setattr(cpu_bfloat16, "has_instructions", lambda: True)
    before = keras.mixed_precision.global_policy()

    def prepare(name, precision="auto", is_faster=True, learning_rate=1e-4, **changes):
        monkeypatch.setattr(cpu_bfloat16, "is_faster", lambda: is_faster)
        config = FinetuningConfig(
            learning_rate=learning_rate, run=FinetuningRun(precision=precision)
        )
        asked = tmp_path / "asked"
        asked.mkdir(exist_ok=True)
        fields = {x.name: getattr(config, x.name) for x in dataclasses.fields(config)}
        write_settings(asked, task="sentence_roles", **fields)
        run = Run(
            config,
            task=task_table.TASKS["sentence_roles"],
            data_dir="",
            init_checkpoint="work/model",
            output_dir=str(tmp_path / name),
            strategy=cpu,
            **changes,
        )
        settings = finetuning_config.read_settings(asked)
        missing, chosen = finetuning_folder.prepare(run, settings, vocab_file)
        assert missing == [*run.seeds]
        policy = keras.mixed_precision.global_policy().compute_dtype
        written = finetuning_config.read_settings(tmp_path / name).chosen_precision
        assert written == chosen.name == policy
        return chosen

    yield prepare
    keras.mixed_precision.set_global_policy(before)


@pytest.mark.parametrize("is_faster", [True, False])
def test_further_trials_compute_in_the_precision_of_the_first(prepare, is_faster):
    first = prepare("run", is_faster=is_faster)
    assert first.name == ("bfloat16" if is_faster else "float32")
    again = prepare("run", is_faster=not is_faster)
    assert again.name == first.name and "in which the run began" in again.reason
    other = "float32" if is_faster else "bfloat16"
    assert prepare("run", precision=other).name == other
    # From then on.
    assert prepare("run", is_faster=is_faster).name == other
    # A run that replaces it chooses anew.
    replaced = prepare("run", is_faster=is_faster, learning_rate=1e-3, overwrite=True)
    assert replaced.name == first.name


@pytest.mark.parametrize("begun", ["trial_7", "trial_0.checkpoints"])
def test_trials_in_two_precisions_are_not_averaged(prepare, tmp_path, begun):
    prepare("run", precision="float32")
    (tmp_path / "run" / begun).mkdir()
    prepare("run", precision="float32")
    words = r"run holds trials in float32, and now the precision is bfloat16: give --set run.prec"
    with pytest.raises(UserError, match=words):
        prepare("run", precision="bfloat16")
    assert (tmp_path / "run" / begun).is_dir()
    assert prepare("run", precision="bfloat16", overwrite=True).name == "bfloat16"
    assert not (tmp_path / "run" / begun).exists()


def test_the_runs_of_a_sweep_compute_in_one(prepare, tmp_path):
    first = str(tmp_path / "first")
    assert prepare("first", is_faster=True, precision_of=first).name == "bfloat16"
    assert prepare("second", is_faster=False, precision_of=first).name == "bfloat16"
    assert prepare("alone", is_faster=False).name == "float32"


def test_trials_of_other_weights_words_or_data_are_not_reused(
    run, pretrained, roles_folder, tmp_path
):
    """The same command, behind a change of a file that it reads."""
    model, data, out = tmp_path / "model", tmp_path / "data", tmp_path / "out"
    shutil.copytree(pretrained, model)
    shutil.copytree(roles_folder, data)
    settings = dataclasses.replace(SETTINGS, num_trials=1, max_train_examples=16)
    places = {"init_checkpoint": str(model), "data_dir": str(data)}
    with eagerly():
        run(out, settings, **places)
    (index,) = model.glob("ckpt-2.index")
    lines = (data / "test.tsv").read_text().splitlines(keepends=True)
    words = (model / "vocab.txt").read_text().splitlines(keepends=True)
    for path, content, name in (
        (index, index.read_bytes() + b"\n", "weights_sha256"),
        (data / "test.tsv", "".join(lines[:-1]).encode(), "data_sha256"),
        (model / "vocab.txt", "".join([*words[:-1], "xyzzy\n"]).encode(), "vocab_sha256"),
    ):
        before = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"out holds a run with {name} = .*--overwrite"):
            run(out, settings, **places)
        path.write_bytes(before)
    run(out, settings, **places)
    # The folders may have other names, though.
    scores = (out / "trial_0" / "scores.json").read_bytes()
    moved = {name: str(Path(folder).rename(f"{folder}_2")) for name, folder in places.items()}
    run(out, settings, **moved)
    assert (out / "trial_0" / "scores.json").read_bytes() == scores


def test_a_run_that_replaces_another_leaves_nothing_of_it(prepare, tmp_path):
    """A vocabulary of another kind would be taken for the new one's."""
    prepare("run")
    for name in ("vocab.json", "merges.txt", "scores.json", "logs/trial_1/train/x"):
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    prepare("run", learning_rate=1e-3, overwrite=True)
    assert sorted(os.listdir(tmp_path / "run")) == ["config.json", "vocab.txt"]


def test_workers_that_find_different_trials_do_not_begin(prepare, monkeypatch):
    """One has the trials that the chief wrote on its disk, and the other has none."""
    asked = []

    def of_all_workers(strategy, values):
        asked.append(set(values))
        return [(0,) * len(values), tuple(values)]

    monkeypatch.setattr(distribution, "of_all_workers", of_all_workers)
    words = "^--output_dir=.*run: the workers found different trials there: give one folder that"
    with pytest.raises(UserError, match=words):
        prepare("run")
    assert asked[-1] == {1}  # all are missing here


def test_text_is_read_as_the_encoder_reads_it(cpu, tmp_path):
    """As it is, so that it has no word of the vocabulary; in lower case it has."""
    make(tmp_path / "model", "BertModel")
    make_cased(tmp_path / "model")
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("THE\tO\nDRUG\tB\n\n")
    run = Run(
        FinetuningConfig(sequence_length=16, num_trials=1),
        task=task_table.find("ner", str(tmp_path)),
        data_dir=str(tmp_path),
        init_checkpoint=str(tmp_path / "model"),
        output_dir=str(tmp_path / "out"),
        strategy=cpu,
    )
    with pytest.raises(UserError, match="no word of the training set is known"):
        finetuning.finetune(run)
    assert finetuning_config.read_settings(tmp_path / "out").lower_case is False
