"""The table of tasks, on real labelled sentences."""

import pytest

from data_prep import sentence_roles
from tfbio import tasks

HEADER = "id\tlabel\tsentence\n"


@pytest.fixture(scope="module")
def roles_folder(documents_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles") / "sentence_roles"
    sentence_roles.make_sentence_roles(documents_folder, folder, held_out_fraction=0.3)
    return folder


def test_reads_what_data_prep_wrote(roles_folder):
    task = tasks.find("sentence_roles")
    assert task.labels == sentence_roles.LABELS
    for split in tasks.SPLITS:
        lines = (roles_folder / f"{split}.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
        examples = task.examples(str(roles_folder), split)
        assert ["\t".join((x.id, x.label, x.text)) for x in examples] == lines


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(tasks.TaskError, match="'sentense_role'.*nearest is 'sentence_roles'"):
        tasks.find("sentense_role")


def test_a_missing_file_names_the_command_that_makes_it(tmp_path):
    task = tasks.find("sentence_roles")
    with pytest.raises(tasks.TaskError, match=r"dev\.tsv .*python -m data_prep\.sentence_roles"):
        task.examples(str(tmp_path), "dev")


@pytest.mark.parametrize(
    "content, message",
    [
        ("", r"train\.tsv, line 1: expected the header"),
        ("id\tsentence\tlabel\n", r"train\.tsv, line 1: expected the header"),
        (HEADER, r"train\.tsv holds no example"),
        (HEADER + "1\tmethods\tWe did.\n2\tmethod\tWe did.\n", r"line 3: unknown label 'method'"),
        (HEADER + "1\tmethods\n", r"line 2: expected 3 .* found 2"),
        (HEADER + "1\tmethods\tWe\tdid.\n", r"line 2: expected 3 .* found 4"),
        (HEADER + "1\tmethods\tWe did.\n\n", r"line 3: expected 3 .* found 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, message):
    (tmp_path / "train.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(tasks.TaskError, match=message):
        tasks.find("sentence_roles").examples(str(tmp_path), "train")


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "train.tsv").write_bytes(HEADER.encode() + b"1\tmethods\t\xff\xfe\n")
    with pytest.raises(tasks.TaskError, match=r"train\.tsv is not text in UTF-8"):
        tasks.find("sentence_roles").examples(str(tmp_path), "train")


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    text = "\ufeff" + (HEADER + "1\tmethods\tWe did.\n").replace("\n", "\r\n")
    (tmp_path / "train.tsv").write_bytes(text.encode())
    (example,) = tasks.find("sentence_roles").examples(str(tmp_path), "train")
    assert example == tasks.Example("1", "methods", "We did.")


def test_scores_of_a_hand_worked_case():
    # F1: methods 2*1/(2+1) = 2/3 with one right of two found, one true; results 1*2/(1+2) = 2/3.
    truth = ["methods", "results", "results"]
    predicted = ["methods", "methods", "results"]
    scores = tasks.accuracy_and_macro_f1(truth, predicted)
    assert scores == pytest.approx({"accuracy": 2 / 3, "macro_f1": 2 / 3})
    # A label that is only predicted counts as an F1 of 0.
    scores = tasks.accuracy_and_macro_f1(["methods", "methods"], ["methods", "results"])
    assert scores == pytest.approx({"accuracy": 1 / 2, "macro_f1": 1 / 3})
