"""Test sets by their content, against the corpora's files in several forms."""

import dataclasses
import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep.corpora import corpus_splits, ddi, pubmedqa
from tests import reference
from tests.blurb_files import FOLDERS
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.reporting import blurb_ids, test_sets
from tfbio.task_types import task_table, types

ROOT = Path(__file__).parents[3]
SAME = test_sets.Match()


def examples_of(task, path, split="test"):
    if path.is_dir():
        path = find_split(str(path), split)
    return task_table.TASKS[task].read(str(path))


@pytest.mark.parametrize("task", FOLDERS)
def test_blurbs_files_are_known(task):
    examples = examples_of(task, reference.corpus(FOLDERS[task]))
    same = test_sets.Match(1) if task == "gad" else SAME
    assert test_sets.compare(task, examples) == same
    # One example less, or another label.
    cut = test_sets.compare(task, examples[1:])
    size = len(examples)
    of = " of fold 1" if task == "gad" else ""
    assert cut.aside == f"{size - 1:,} of {size:,} test examples{of}" and not cut.unverified
    first = examples[0]
    if isinstance(first, TaggedSentence):
        changed = dataclasses.replace(first, tags=("I", *first.tags[1:]))
    else:
        other = {float: 0.1, str: "new", tuple: ("new",)}[type(first.label)]
        changed = dataclasses.replace(first, label=other)
    found = test_sets.compare(task, [changed, *examples[1:]])
    assert found.aside == f"the published texts{of} with other labels"


def test_the_numbers_are_those_that_a_submission_must_have():
    known = test_sets.published()
    sizes = {task: next(iter(known[task].values())).examples for task in known}
    counts = {task: number for task, (number, _) in test_sets.COUNTS.items()}
    for task, size in blurb_ids.SIZES.items():
        assert (sizes | counts)[task] == size
    for task, total in {"gad": 5330, "euadr": 355}.items():
        assert sum(one.examples for one in known[task].values()) == total
        assert [*known[task]] == [f"fold {number}" for number in range(1, test_sets.FOLDS + 1)]


def test_pubmedqa_is_known(tmp_path):
    source = reference.corpus("pubmedqa/ori_pqal.json.gz")
    corpus_splits.write(str(tmp_path), pubmedqa.read_examples(source), True)
    assert test_sets.compare("pubmedqa", examples_of("pubmedqa", tmp_path)) == SAME


@pytest.mark.parametrize(
    ("task", "file"),
    [
        # Typed tags, and JNLPBA's five types.
        ("ncbi_disease", "ncbi_disease/mtl_iob/test.tsv"),
        ("bc5cdr_chem", "bc5cdr_chem/mtl_iob/test.tsv.gz"),
        ("jnlpba", "jnlpba/mtl_5class/test.tsv.gz"),
    ],
)
def test_other_files_of_the_same_examples_are_known(task, file):
    assert test_sets.compare(task, examples_of(task, reference.corpus(file))) == SAME


def test_markers_are_known_as_dummies_are(tmp_path):
    data = reference.corpus("ddi2013")
    source = data / "original" / "DDICorpus-2013.zip"
    corpus_splits.write(
        str(tmp_path), ddi.read_examples(source, data / "blurb/index", [], "marker"), True
    )
    examples = examples_of("ddi", tmp_path)
    assert "[S1]" in examples[0].text
    assert test_sets.compare("ddi", examples) == SAME


@pytest.mark.parametrize("task", ["ncbi_disease", "gad", "biosses", "hoc"])
def test_what_says_nothing_of_the_examples_does_not_matter(task, tmp_path):
    """Line ends, gzip, ids, the order; and the file of a run's predictions."""
    path = Path(find_split(str(reference.corpus(FOLDERS[task])), "test"))
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    (tmp_path / "test.tsv.gz").write_bytes(gzip.compress(data.replace(b"\n", b"\r\n")))
    examples = examples_of(task, tmp_path)
    same = test_sets.compare(task, examples)
    assert not same.aside and not same.unverified
    random.Random(0).shuffle(examples)
    examples = [dataclasses.replace(x, id=f"new {i}") for i, x in enumerate(examples)]
    assert test_sets.compare(task, examples) == same
    truth = [x.tags if isinstance(x, TaggedSentence) else x.label for x in examples]
    task_type = types.TYPES[task_table.TASKS[task].task_type]
    task_type.write_predictions(str(tmp_path), "test", examples, truth, "Entity")
    path = tmp_path / task_type.predictions_file("test")
    assert test_sets.compare(task, task_type.read_predictions(str(path))[0]) == same


def test_what_is_not_the_published_set_is_said():
    folder = reference.corpus("chemprot/blurb")
    examples = examples_of("chemprot", folder)

    def said(examples, *of):
        return test_sets.compare("chemprot", examples, *of).aside

    assert said(examples[:1000]) == said(examples[-1000:]) == "1,000 of 15,745 test examples"
    # Of so few none is among those whose hashes are kept; scores.json tells.
    assert said(examples[:2]) == "2 test examples, not the published 15,745"
    assert said(examples[:2], 15745) == "2 of 15,745 test examples"
    dev = examples_of("chemprot", folder, "dev")
    assert said(dev) == "11,268 test examples, not the published 15,745"
    # Whatever the number that they were drawn from.
    for of in (11268, 15745):
        assert said(dev[:1000], of) == "1,000 test examples, not the published 15,745"
    assert said(dev[:2], 11268) == "2 test examples, not the published 15,745"
    assert said(examples, len(examples)) == ""
    other = examples_of("hoc", reference.corpus("hoc/blue"))
    aside = test_sets.compare("hoc", other).aside
    assert aside == "2,896 test examples, not the published 3,547"


def texts(labels):
    return [LabelledText(str(i), f"text {i}", label) for i, label in enumerate(labels)]


def test_numbers_are_compared_where_the_examples_were_not_at_hand():
    yes = texts(["yes"] * 140)
    found = test_sets.compare("bioasq", yes)
    assert not found.aside and found.unverified.startswith("140 test examples, as published")
    assert test_sets.compare("bioasq", yes[1:], 140).aside == "139 of 140 test examples"
    fewer = test_sets.compare("bioasq", yes[1:])
    assert fewer.aside == "139 test examples, not the published 140"
    more = test_sets.compare("bioasq", yes + yes[:1])
    assert more.aside == "141 test examples, not the published 140"
    # Of entities and relations the papers count mentions and positive pairs.
    tagged = [TaggedSentence("1", ("a", "b"), ("B", "B")), TaggedSentence("2", ("c",), ("B",))]
    assert test_sets.compare("share_clefe", tagged).aside == (
        "3 test mentions, not the published 5,195"
    )
    more = test_sets.compare("share_clefe", tagged * 1732)
    assert not more.aside and more.unverified == (
        "5,196 entities; the published 5,195 count a mention in parts once"
    )
    pairs = texts(["PIP", "false", "TrAP"])
    assert test_sets.compare("i2b2_2010_re", pairs).aside == (
        "2 test relations, not the published 6,293"
    )
    assert "no published number" in test_sets.compare("bc4chemd", tagged).unverified
    assert test_sets.compare("bc4chemd", tagged, 9).aside == "2 of 9 test examples"
    assert "kept no test examples" in test_sets.compare("squad_v2", []).unverified


def test_the_table_is_made_by_the_command(tmp_path, monkeypatch, fails_in_one_sentence):
    """Folds are known by their names, and so is a part of one."""

    def run(*arguments):
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "tfbio.reporting.test_sets",
                f"--output={tmp_path}/table.json",
                *arguments,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        rows = [f"{i}\t@GENE$ {number} {i} @DISEASE$\t{i % 2}" for i in range(300)]
        text = "\n".join(["index\tsentence\tlabel", *rows]) + "\n"
        (tmp_path / str(number) / "test.tsv").write_text(text)
    sets = [f"--test_set=euadr:{number}={tmp_path}/{number}" for number in (1, 2)]
    done = run(*sets)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(
        test_sets, "_table", lambda: json.loads((tmp_path / "table.json").read_text())
    )
    examples = [examples_of("euadr", tmp_path / str(number)) for number in (1, 2)]
    assert test_sets.compare("euadr", examples[1]) == test_sets.Match(2, "fold 2 of 2")
    part = test_sets.compare("euadr", examples[1][:200]).aside
    assert part == "200 of 300 test examples of fold 2"
    both = test_sets.compare("euadr", examples[0][:100] + examples[1][:100]).aside
    assert both == "200 test examples, none of the 2 published folds"
    sentence = fails_in_one_sentence(run("--test_set=nothing"))
    assert "--test_set=nothing: expected TASK=FOLDER" in sentence


@pytest.mark.parametrize("task", ["classification", "pair", "ner"])
def test_a_part_of_ones_own_data_is_described(task):
    """As the report does it of a run with `max_test_examples`."""
    example = LabelledText("1", "a text", "yes", "another" if task == "pair" else "")
    if task == "ner":
        example = TaggedSentence("1", ("a", "text"), ("O", "B"))
    assert test_sets.compare(task, [example], of=2).aside == "1 of 2 test examples"
    described = test_sets.describe(task, [example])
    assert described.examples == 1 and described != test_sets.describe(task, [example, example])
