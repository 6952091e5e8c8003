"""Tasks of data of the user's own: their labels and their scores."""

import re

import pytest

from tests import reference
from tests.tfbio.task_types.squad_files import squad
from tfbio.base.errors import UserError
from tfbio.formats.splits import find_split
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.formats.text_files import read_text
from tfbio.task_types import answers, task_table
from tfbio.task_types.own_data import TaskError
from tfbio.task_types.task import SPLITS

OWN_FILES = {
    "ner": "Aspirin\tB-Drug\nhelps\tO\n\nAcute\tB-Disease\npain\tI-Disease\n\n",
    "classification": "text\tlabel\nIt works.\tgood\nIt fails.\tbad\n",
    "relation": "text\tlabel\n@A$ and @B$.\tNONE\n@A$ binds @B$.\tbinds\n@A$ cuts @B$.\tA-cuts\n",
    "pair": "text\tpair\tlabel\nIt works.\tIt fails.\tno\nIt works.\tIt does.\tyes\n",
    "regression": "text\tlabel\nIt works.\t0.5\nIt fails.\t-1\n",
    "multilabel": "text\tlabel\nIt works.\ta|b\nIt fails.\t\n",
}
EXPECTED = {
    "ner": ("tagging", ("O", "B-Disease", "I-Disease", "B-Drug", "I-Drug")),
    "classification": ("classification", ("bad", "good")),
    "relation": ("classification", ("NONE", "A-cuts", "binds")),
    "pair": ("classification", ("no", "yes")),
    "regression": ("regression", ()),
    "multilabel": ("multilabel", ("a", "b")),
}


@pytest.mark.parametrize("task_type", OWN_FILES)
def test_own_data_have_the_labels_of_their_training_file(task_type, tmp_path):
    for split in SPLITS:
        (tmp_path / f"{split}.tsv").write_text(OWN_FILES[task_type], encoding="utf-8")
    task = task_table.find(task_type, str(tmp_path))
    assert (task.task_type, task.labels) == EXPECTED[task_type]
    test = task.examples(str(tmp_path))["test"]
    gold = [example.tags if task_type == "ner" else example.label for example in test]
    assert next(iter(task.score(test, gold).values())) == pytest.approx(1.0)
    if task_type == "ner":
        nothing = [("O",) * len(example.tags) for example in test]
        assert task.score(test, nothing).keys() == task.score(test, gold).keys()
        assert "f1_Drug" in task.score(test, nothing)
    if task_type == "relation":
        nothing = task.score(test, ["NONE"] * len(test))
        assert nothing.keys() == task.score(test, gold).keys() and set(nothing.values()) == {0.0}
        assert next(iter(nothing)) == "f1" and "precision_A-cuts" in nothing
        scores = task.score(test, ["binds", "binds", "NONE"])
        assert scores["f1"] == pytest.approx(0.5) and scores["f1_binds"] == pytest.approx(2 / 3)
        assert scores["precision_binds"] == 0.5 and scores["recall_binds"] == 1.0
        assert scores["f1_A-cuts"] == 0.0 and "f1_NONE" not in scores
    if task_type == "pair":
        assert [example.pair for example in test] == ["It fails.", "It does."]


@pytest.mark.parametrize(
    "label", ["0", "false", "DDI-false", "No relation", "no_relation", "Other"]
)
def test_the_negative_label_is_known_by_its_name(label, tmp_path):
    table = f"text\tlabel\nA\tAAA\nB\t{label}\nC\tno\n"
    for split in SPLITS:
        (tmp_path / f"{split}.tsv").write_text(table)
    assert task_table.find("relation", str(tmp_path)).labels[0] == label
    assert task_table.find("relation", str(tmp_path), "no").labels[0] == "no"


@pytest.mark.parametrize(
    "task, labels, wanted, words",
    [
        ("relation", "abc", "", "labels a, b, c, and it is not clear .* or --task=classification"),
        (
            "relation",
            ("0", "none"),
            "",
            r"labels 0, none, and it is not .* --negative_label=LABEL\.",
        ),
        ("relation", "ab", "c", r"--negative_label=c: .*train\.tsv has the labels a, b; give one"),
        ("classification", "ab", "a", "--negative_label goes with --task=relation"),
        ("gad", "01", "0", "--negative_label goes with --task=relation"),
    ],
)
def test_a_negative_label_that_is_not_clear_is_named(task, labels, wanted, words, tmp_path):
    table = "text\tlabel\n" + "".join(f"Text.\t{label}\n" for label in labels)
    (tmp_path / "train.tsv").write_text(table)
    with pytest.raises(UserError, match=words):
        task_table.find(task, str(tmp_path), wanted)


def test_a_split_may_leave_the_only_type_out(tmp_path):
    typed, plain = "Aspirin\tB-Drug\nacid\tI-Drug\nhelps\tO\n", "Aspirin\tB\nacid\tI\nhelps\tO\n"
    for split, text in (("train", typed), ("dev", typed), ("test", plain)):
        (tmp_path / f"{split}.tsv").write_text(text)
    examples = task_table.find("ner", str(tmp_path)).examples(str(tmp_path))
    assert examples["test"][0].tags == ("B-Drug", "I-Drug", "O") == examples["dev"][0].tags
    # Which type was meant is not known the other way round.
    (tmp_path / "train.tsv").write_text(plain)
    with pytest.raises(UserError, match="dev.tsv, line 1: the tag 'B-Drug' .*: write 'B'"):
        task_table.find("ner", str(tmp_path)).examples(str(tmp_path))


def test_words_without_an_entity_teach_nothing(tmp_path):
    (tmp_path / "train.tsv").write_text("Aspirin\tO\nhelps\tO\n")
    with pytest.raises(UserError, match="train.tsv has 0 labels: nothing can be learnt"):
        task_table.find("ner", str(tmp_path))


@pytest.mark.parametrize("name, folder", [("chemprot", "chemprot"), ("ddi", "ddi2013")])
def test_own_relations_are_scored_as_those_of_blurb(name, folder, tmp_path):
    data = reference.corpus(f"{folder}/blurb")
    for split in SPLITS:
        lines = read_text(find_split(str(data), split))
        (tmp_path / f"{split}.tsv").write_text(f"id\ttext\tlabel\n{lines}")
    task, own = task_table.TASKS[name], task_table.find("relation", str(tmp_path))
    assert own.labels[0] == task.labels[0] and sorted(own.labels) == sorted(task.labels)
    examples = own.examples(str(tmp_path))["test"]
    truth = [example.label for example in examples]
    # As wrong as the labels of the next pairs are.
    predicted = [*truth[1::2], *truth[::2]][: len(truth)]
    scores, theirs = own.score(examples, predicted), task.score(examples, predicted)
    assert 0 < scores["f1"] < 1 and {name: scores[name] for name in theirs} == theirs
    macro = sum(scores[f"f1_{label}"] for label in own.labels[1:]) / len(own.labels[1:])
    assert scores["macro_f1"] == pytest.approx(macro)


def test_own_questions_are_in_squads_form(tmp_path):
    for split in SPLITS:
        squad(tmp_path / f"{split}.json", 3, split)
    task = task_table.find("qa", str(tmp_path))
    examples = task.examples(str(tmp_path))
    assert {split: len(own) for split, own in examples.items()} == dict.fromkeys(SPLITS, 6)
    # Of those with an answer two are right, of those without one is.
    found = [
        answers.Answers((text,) if text else (), (1.0,), 0.0)
        for text in ("0", "x", "x", "", "2", "x")
    ]
    scores = task.score(examples["test"], found)
    assert next(iter(scores)) == "f1" and scores["f1"] == pytest.approx(3 / 6)
    assert scores["no_answer_f1"] == pytest.approx(1 / 3) and scores[
        "has_answer_exact_match"
    ] == pytest.approx(2 / 3)


def test_own_tags_may_have_no_type(tmp_path):
    (tmp_path / "train.txt").write_text("Aspirin B\nhelps O\n", encoding="utf-8")
    assert task_table.find("ner", str(tmp_path)).labels == ("O", "B", "I")


def test_one_label_alone_is_refused(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\nIt works.\tgood\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"train\.tsv has 1 labels"):
        task_table.find("classification", str(tmp_path))


def test_own_data_without_a_training_file_are_named(tmp_path):
    with pytest.raises(TaskFileError, match="holds no file of the split 'train'"):
        task_table.find("classification", str(tmp_path))


@pytest.mark.parametrize(
    ("task", "line", "what"),
    [
        ("ner", "x\tB-Gene\n", "the type in the tag 'B-Gene' is none of 'Disease', 'Drug'"),
        ("multilabel", "C.\tc\n", "the label 'c' is none of 'a', 'b'"),
        ("classification", f"good\tIt{' works' * 90}\n", "the label 'It works"),
    ],
)
def test_a_label_that_training_lacks_is_not_called_unknown(task, line, what, tmp_path):
    """The label may be right, and the training file is what lacks it."""
    for split in SPLITS:
        text = OWN_FILES[task] + (line if split == "test" else "")
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(TaskFileError) as raised:
        task_table.find(task, str(tmp_path)).examples(str(tmp_path))
    message = str(raised.value)
    assert re.search(rf"test\.tsv, line \d: {what}.* \(of your own data: those in the tr", message)
    assert len(message.removeprefix(str(tmp_path))) < 300


def test_test_files_may_repeat_texts_and_labels(tmp_path):
    """A file is not taken for one with other columns if its labels are those of training."""
    labels = ["Neoplasms", "Experimental", "Neoplasms,Experimental", "Neoplasms|Experimental"]
    many, pairs = tmp_path / "many", tmp_path / "pairs"
    for folder in (many, pairs):
        folder.mkdir()
    for split in SPLITS:
        lines = [
            f"Text {i}.\t{label}" for i, label in enumerate(labels[: 4 if split == "train" else 3])
        ]
        (many / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
        different = 12 if split == "train" else 2
        lines = [f"Q{i % different}?\tText {i}.\t{'abc'[i % 3]}" for i in range(12)]
        (pairs / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    assert len(task_table.find("multilabel", str(many)).examples(str(many))["test"]) == 3
    assert len(task_table.find("pair", str(pairs)).examples(str(pairs))["test"]) == 12
