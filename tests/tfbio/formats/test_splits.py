"""The splits of a task: their files, and what is checked between them."""

import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import read_gad
from tfbio.formats import hoc, tagged_words
from tfbio.formats.label_sets import labels_of
from tfbio.formats.splits import check_splits, find_split, hold_out
from tfbio.formats.tables import read_own_table, read_table
from tfbio.formats.task_examples import Question
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import task_table


@pytest.mark.parametrize(
    "split, name",
    [
        ("train", "train.tsv"),
        ("dev", "dev.tsv.gz"),
        ("dev", "devel.tsv"),
        ("dev", "valid.txt"),
        ("dev", "validation.json.gz"),
        ("test", "test.json"),
        # What the papers report on is the development set: the test set was never released.
        ("train", "train-v2.0.json"),
        ("test", "dev-v1.1.json.gz"),
    ],
)
def test_a_split_is_found_under_the_names_in_use(write, tmp_path, split, name):
    for other in ("train_old.tsv", "tests.tsv", "dev.md"):
        write("", other)
    path = write("", name)
    assert find_split(str(tmp_path), split) == path


def test_a_split_that_is_missing_or_there_twice_is_named(write, tmp_path):
    with pytest.raises(TaskFileError) as error:
        find_split(str(tmp_path), "dev")
    for part in (str(tmp_path), "'dev'", "devel.tsv", "validation.json", ".gz"):
        assert part in str(error.value)
    write("", "dev.tsv")
    write("", "devel.tsv.gz")
    with pytest.raises(TaskFileError, match=r"more than one .* dev\.tsv, devel\.tsv\.gz"):
        find_split(str(tmp_path), "dev")


def test_what_is_no_folder_is_named(tmp_path):
    with pytest.raises(TaskFileError, match="/none: there is no such folder"):
        find_split(str(tmp_path / "none"), "train")
    (tmp_path / "train.tsv").touch()
    with pytest.raises(TaskFileError, match="train.tsv is a file, expected the folder that it is"):
        find_split(str(tmp_path / "train.tsv"), "train")


def test_a_file_with_commas_is_named(tmp_path):
    (tmp_path / "train.csv").touch()
    with pytest.raises(TaskFileError, match="train.csv has commas .* write train.tsv with tabs"):
        find_split(str(tmp_path), "train")


def test_files_in_a_folder_below_are_named(tmp_path):
    (tmp_path / "corpus/blurb").mkdir(parents=True)
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / "corpus/blurb" / name).touch()
    for given in (tmp_path, tmp_path / "corpus"):
        with pytest.raises(TaskFileError, match=f"'train': give {tmp_path}/corpus/blurb\\.$"):
            find_split(str(given), "train")
    with pytest.raises(TaskFileError, match="holds no file of the split 'dev': expected one of"):
        find_split(str(tmp_path), "dev")
    # The command that makes files is not named where they are there.
    with pytest.raises(TaskFileError) as caught:
        task_table.TASKS["hoc"].files(str(tmp_path))
    assert "makes them" not in str(caught.value)


def test_a_label_of_test_that_training_lacks_is_named(write):
    train = tagged_words.read(write("a\tB-x\nb\tO\n"))
    path = write("a\tO\n\nb\tO\nc\tB-y\n", "test.tsv")
    splits = {"train": train, "test": tagged_words.read(path)}
    message = f"{re.escape(path)}, line 4: the label 'y' of test has no example in train, .* 'x'"
    with pytest.raises(TaskFileError, match=message):
        check_splits(splits)
    # So says the reader, too, if it is told the labels.
    with pytest.raises(TaskFileError, match="line 4: the type in the tag 'B-y' is none of"):
        tagged_words.read(path, labels_of(train))
    train = read_own_table(write("A\tx|y\n"), ("text", "labels"))
    path = write("A\ty\nB\tx|z\n", "dev.tsv")
    splits = {"dev": read_own_table(path, ("text", "labels")), "train": train}
    with pytest.raises(TaskFileError, match=r"dev\.tsv, line 2: the label 'z' of dev"):
        check_splits(splits)


def questions(contexts, of_question=""):
    return [
        Question(str(i), "?", x, (), (), f"q{x}" if of_question else "", ("train.json", ""))
        for i, x in enumerate(contexts)
    ]


@pytest.mark.parametrize(
    "contexts, held",
    [
        ("abcde" * 8, "e"),
        # Those that appear last, until they make a tenth.
        ("a" * 18 + "bc" + "a" * 8 + "bc", "bc"),
        ("a" * 20, ""),
        # Grouped: the last tenth, and what is on its first context.
        ("a" * 5 + "b" * 9 + "c" * 3 + "d" * 3, "d"),
        ("a" * 15 + "b" * 9 + "c" * 4 + "d" * 2, "cd"),
    ],
)
@pytest.mark.parametrize("of_question", [False, True])
def test_held_out_questions_are_on_no_context_of_training(contexts, held, of_question):
    asked = questions(contexts, of_question)
    if not held:
        with pytest.raises(TaskFileError, match=r"train\.json has too few .* add a dev\.json"):
            hold_out(asked)
        return
    train, dev = hold_out(asked)
    assert dev == [x for x in asked if x.context in held]
    assert train == [x for x in asked if x.context not in held]


def test_an_id_that_stands_twice_is_named(write):
    path = write("1\tA\tx\n2\tB\tx\n1\tC\tx\n")
    examples = read_table(path)
    message = f"{re.escape(path)}, line 3: the id '1' stands in line 1 already"
    with pytest.raises(TaskFileError, match=message):
        check_splits({"test": examples})
    # In two splits it may: GAD counts from 0 in each.
    check_splits({"train": examples[:2], "test": examples[2:]})


def test_a_header_that_is_not_known_is_no_example(write):
    def read(first, *labels):
        lines = [f"Sentence {number}.\t{label}" for number, label in enumerate(labels)]
        paths = {
            split: write("\n".join([first, *lines]), f"{split}.tsv")
            for split in ("train", "dev", "test")
        }
        check_splits({split: read_own_table(path) for split, path in paths.items()})

    message = "train.tsv, line 1: all files begin with the same line, whose label 'sentiment' no"
    with pytest.raises(TaskFileError, match=message):
        read("review\tsentiment", *["good", "bad"] * 5)
    read("text\tlabel", *["good", "bad"] * 5)
    # The same sentence in all files is an example if others have its label.
    read("A sentence.\tgood", *["good", "bad"] * 5)
    # Too few lines to tell.
    read("review\tsentiment", "good", "bad", "good")


@pytest.mark.parametrize("folder", ["ncbi_disease", "chemprot", "gad", "hoc"])
def test_published_splits_pass(folder):
    blurb = str(reference.corpus(f"{folder}/blurb"))
    reads = {"hoc": hoc.read, "chemprot": read_table, "gad": read_gad}
    read = reads.get(folder, tagged_words.read)
    splits = {x: read(find_split(blurb, x)) for x in ("train", "dev", "test")}
    check_splits(splits)
