"""Each command refuses to write where another process writes, and names it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_prep.corpora import corpus_splits
from tfbio.base import errors, storage
from tfbio.runs import finetuning, sweep
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.text import special_tokens

ROOT = Path(__file__).parents[1]
# What they are to read is wrong as well, but for what is looked at before: mostly whether it is
# there. `tfbio.quickstart` reads only what ships with tfbio.
COMMANDS = {
    "documents": "-m data_prep.documents --output=OUT",
    "vocabulary": "-m data_prep.vocabulary --documents=no --output=OUT",
    "examples": "-m data_prep.examples --documents=no --vocab=no --output=OUT",
    "sentence_roles": "-m data_prep.sentence_roles --documents=no --output=OUT",
    "fertility": "-m data_prep.fertility --vocab=IN/vocab.txt --mentions=IN/mentions.tsv "
    "--output=OUT",
    "corpus_report": "-m data_prep.corpus_report --documents=no --output=OUT",
    "pretraining": "run_pretraining.py --examples=IN --model_dir=OUT",
    "fine-tuning": "run_finetuning.py --task=sentence_roles --data_dir=IN "
    "--init_checkpoint=IN --output_dir=OUT",
    "prediction": "run_finetuning.py --mode=predict --model=no --input=no --output=OUT",
    "annotation": "run_finetuning.py --mode=predict --model=IN --input=IN --output_dir=OUT",
    "quick start": "-m tfbio.quickstart --output=OUT",
    "conversion": "-m tfbio.convert --from=IN --to=OUT",
    "report": "-m tfbio.report --finetuning=no --output=OUT",
    "submission": "-m tfbio.blurb_submission --finetuning=no --output=OUT",
}


def run(command, out):
    return subprocess.run(
        [sys.executable, *command.replace("OUT", str(out)).split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_second_is_refused(command, tmp_path, fails_in_one_sentence):
    (tmp_path / "in").mkdir()
    for name in ("train.tsv", "dev.tsv", "test.tsv", "text.txt"):
        (tmp_path / "in" / name).touch()
    (tmp_path / "in/vocab.txt").write_text("\n".join([*special_tokens.SPECIAL_TOKENS, "a"]))
    (tmp_path / "in/mentions.tsv").write_text("a\tB-Disease\n")
    words = COMMANDS[command].replace("IN", f"{tmp_path}/in")
    with storage.only_writer(tmp_path / "out"):
        line = fails_in_one_sentence(run(words, tmp_path / "out"))
        assert f"{tmp_path}/out is being written by process {os.getpid()} on " in line
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_files_of_a_corpus_have_one_writer(tmp_path):
    splits = {split: [("1", "text", "label")] for split in ("train", "dev", "test")}
    with storage.only_writer(tmp_path / "out"):
        with pytest.raises(errors.UserError, match=f"written by process {os.getpid()} "):
            corpus_splits.write(tmp_path / "out", splits, overwrite=False)
        assert not (tmp_path / "out").exists()
    corpus_splits.write(tmp_path / "out", splits, overwrite=False)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "dev.tsv",
        "left_out.jsonl",
        "test.tsv",
        "train.tsv",
    ]


def test_each_setting_of_a_sweep_has_one_writer(tmp_path):
    """A setting's folder may be that of a run without the sweep."""
    places = {"data_dir": "no", "init_checkpoint": "no", "output_dir": str(tmp_path)}
    run = finetuning.Run(FinetuningConfig(), task=task_table.TASKS["bc2gm"], **places)
    refused = f"/learning_rate=0.0001 is being written by process {os.getpid()} on "
    with (
        storage.only_writer(tmp_path / "learning_rate=0.0001"),
        pytest.raises(errors.UserError, match=refused),
    ):
        sweep.run(run, ["learning_rate"], [FinetuningConfig(learning_rate=1e-4)])
    assert not list(tmp_path.iterdir())


def test_the_first_is_not_disturbed(
    pubmed_slice, documents_folder, files_of, tmp_path, running, fails_in_one_sentence
):
    command = f"-m data_prep.documents --input={pubmed_slice} --shard_megabytes=0.07 --output=OUT"
    out = tmp_path / "documents"
    words = command.replace("OUT", str(out)).split()
    with running([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE) as first:
        while not (tmp_path / ".documents.lock").exists():
            assert first.poll() is None
            time.sleep(0.05)
        for others in (command, f"{command} --overwrite"):
            line = fails_in_one_sentence(run(others, out))
            assert f"{out} is being written by process {first.pid} on " in line
            assert "(python" in line and "-m data_prep.documents --input=" in line
        assert first.wait() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["documents"]
    assert files_of(out) == files_of(documents_folder)
    assert run(command, out).returncode == 0  # reused
