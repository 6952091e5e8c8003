"""`tfbio data`: each task by the command, with the sizes that it prints."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from data_prep.corpora import blurb, corpus_splits, published_counts
from tests import reference
from tests.data_prep.corpora import test_abstract_mentions, test_biobert_folds
from tfbio.base.errors import UserError
from tfbio.task_types import task_table

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def make(tmp_path, capsys):
    """Runs the command in this process, and returns the lines that it prints."""

    def run(task, *given):
        before = set(flags.FLAGS)
        blurb.define_flags()
        try:
            flags.FLAGS(["data", *given, f"--output={tmp_path}/out"])
            blurb.main(["data", task] if task else ["data"])
            return capsys.readouterr().out.splitlines()
        finally:
            for name in set(flags.FLAGS) - before:
                delattr(flags.FLAGS, name)

    return run


def test_every_task_of_blurb_has_a_maker_and_its_sizes():
    assert set(blurb._MAKERS) == set(published_counts.PUBLISHED)
    assert set(blurb._MAKERS) <= set(task_table.TASKS) and len(blurb._MAKERS) == 13
    named = re.findall(r"^    ([a-z0-9_, ]+?)   ", blurb.__doc__, re.MULTILINE)
    assert {name for names in named for name in names.split(", ")} == set(blurb._MAKERS)


def test_ncbi_disease_by_tfbio_data(tmp_path):
    source = reference.corpus("ncbi_disease/pubtator")
    done = subprocess.run(
        [sys.executable, "-m", "tfbio", "data", "ncbi_disease", f"--input={source}"]
        + [f"--output={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "left out, see left_out.jsonl: repeated 1",
        "train: 5,134 B, 6,115 I, 124,452 O",
        "dev: 787 B, 1,090 I, 22,092 O",
        "test: 960 B, 1,087 I, 22,450 O",
        "train: 5,134 mentions, as published (Kanakarajan et al., 2021, Table 1)",
        "dev: 787 mentions, as published (Kanakarajan et al., 2021, Table 1)",
        "test: 960 mentions, as published (Kanakarajan et al., 2021, Table 1)",
    ]
    examples = task_table.TASKS["ncbi_disease"].examples(str(tmp_path))
    assert [len(examples[split]) for split in corpus_splits.SPLITS] == [5424, 923, 940]
    (left,) = (tmp_path / "left_out.jsonl").read_text().splitlines()
    assert json.loads(left)["id"] == "8528200"


@pytest.mark.parametrize(
    "task, given",
    [
        ("pubmedqa", ["--input=pubmedqa"]),
        ("hoc", ["--input=hoc/original", "--index=hoc/blurb/index"]),
    ],
)
def test_tasks_with_commands_of_their_own(task, given, make, tmp_path):
    found = [re.sub("=(.*)", lambda x: f"={reference.corpus(x[1])}", flag) for flag in given]
    said = make(task, *found)
    assert ["as published" in line for line in said[-3:]] == [True] * 3
    task_table.TASKS[task].examples(str(tmp_path / "out"))


def test_a_difference_ends_with_an_error_only_if_that_is_asked_for(make, tmp_path):
    test_abstract_mentions.release(tmp_path, test_abstract_mentions.PUBTATOR)
    with pytest.raises(UserError, match="--strict: train: 1 mentions, 5,202 fewer than"):
        make("bc5cdr_chem", f"--input={tmp_path}", "--strict")
    assert not (tmp_path / "out").exists()
    said = make("bc5cdr_chem", f"--input={tmp_path}")
    assert said[0] == "train: 1 B, 11 O"
    assert said[-1].startswith("test: 0 mentions, 5,385 fewer than the published 5,385 (")


def test_the_sizes_of_blurbs_own_files_are_not_an_error(make, monkeypatch):
    def read(source, entity_type, left):
        sizes = {"train": 4182, "dev": 4246, "test": 4424}
        return {split: [("x", "B")] * size for split, size in sizes.items()}

    monkeypatch.setattr(blurb.abstract_mentions, "read_bc5cdr", read)
    said = make("bc5cdr_disease", "--input=x", "--strict")
    assert ["as published" in line for line in said[-3:]] == [True, False, True]


@pytest.mark.parametrize(
    "task, given, message",
    [
        ("", [], "name the task first, as in ncbi_disease: bc5cdr_chem, bc5cdr_disease"),
        ("ncbi_diseases", [], "is no task of BLURB: did you mean ncbi_disease?"),
        ("squad", [], "is no task of BLURB: the tasks are bc5cdr_chem"),
        ("hoc", [], "--index is missing: hoc needs the lists"),
        ("gad", ["--index=x"], "--index does not go with gad, but with ebm_pico, ddi, hoc, bioasq"),
        ("hoc", ["--index=x", "--entities=dummy"], "--entities does not go with hoc, but with che"),
    ],
)
def test_a_wrong_command_line_is_named(task, given, message, make):
    with pytest.raises(UserError) as error:
        make(task, "--input=x", *given)
    assert message in str(error.value) and error.value.exit_code == 2


@pytest.mark.parametrize("task, word", [("bc5cdr_chem", "Failure"), ("bc5cdr_disease", "Renal")])
def test_each_task_of_bc5cdr_has_its_own_mentions(task, word, make, tmp_path):
    test_abstract_mentions.release(tmp_path, test_abstract_mentions.PUBTATOR)
    make(task, f"--input={tmp_path}")
    text = (tmp_path / "out" / "train.tsv").read_text()
    assert re.findall(r"^(\S+)\tB$", text, re.MULTILINE) == [word]


def test_gad_is_the_first_fold_with_blurbs_535(make, tmp_path):
    rows = [(f"@GENE$ {number} @DISEASE$", str(number % 2)) for number in range(4796)]
    test_biobert_folds.release(tmp_path, 1, rows, rows[:534])
    test_biobert_folds.release(tmp_path, 2, rows[::-1], rows[:534])
    said = make("gad", f"--input={tmp_path}")
    assert ["as published" in line for line in said[-3:]] == [True] * 3
    assert (tmp_path / "out" / "train.tsv").read_text().split("\n")[1] == "0\t@GENE$ 0 @DISEASE$\t0"
