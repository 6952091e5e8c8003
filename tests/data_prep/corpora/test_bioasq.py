"""BioASQ yes/no, on invented files in the layout of the release, which registered users get."""

import json
import zipfile

import pytest

from data_prep.corpora import bioasq, corpus_splits, released_files


def question(id_, answer, **more):
    snippets = [{"text": f"Snippet\nof {id_}.", "document": "d"}, {"text": "More."}]
    good = {"id": id_, "type": "yesno", "body": f"Is\n{id_}?", "exact_answer": answer}
    return good | {"snippets": snippets} | more


def release(folder, train, tests):
    """Writes the archives and BLURB's lists: the last question of training is for development."""
    with zipfile.ZipFile(folder / "BioASQ-training7b.zip", "w") as archive:
        archive.writestr("BioASQ-training7b/trainining7b.json", json.dumps({"questions": train}))
        archive.writestr("__MACOSX/BioASQ-training7b/._trainining7b.json", b"\0")
    with zipfile.ZipFile(folder / "Task7BGoldenEnriched.zip", "w") as archive:
        for number, questions in enumerate(tests, start=1):
            text = json.dumps({"questions": questions})
            archive.writestr(f"Task7BGoldenEnriched/7B{number}_golden.json", text)
    for split, ids in {"train": "a2,a1", "dev": "a3", "test": "b2,b1"}.items():
        (folder / f"{split}_id.tsv").write_text(ids)


TRAIN = [question("a1", "yes"), question("a2", "no"), question("a3", "yes", snippets=[])]
OTHER = {"id": "x", "type": "factoid", "body": "Who?", "exact_answer": [["Somebody"]]}
TESTS = [[question("b1", "no"), OTHER], [question("b2", "yes")]]


def test_questions_in_the_order_of_the_lists(command, tmp_path):
    release(tmp_path, [OTHER, *TRAIN], [*TESTS, [question("b3", "no")]])
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    done = command("corpora.blurb", "bioasq", *flags)
    assert done.returncode == 0, done.stderr
    counts = ["train: 1 no, 1 yes", "dev: 1 yes", "test: 1 no, 1 yes"]
    left = "left out, see left_out.jsonl: other type 2, not listed 1"
    assert done.stdout.splitlines()[:4] == [left, *counts]
    lines = [json.loads(x) for x in (tmp_path / "out/left_out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["x", "x", "b3"]
    rows = {
        split: (tmp_path / "out" / f"{split}.tsv").read_text() for split in corpus_splits.SPLITS
    }
    assert rows == {
        "train": "a2\tIs a2?\tSnippet of a2. More.\tno\na1\tIs a1?\tSnippet of a1. More.\tyes\n",
        "dev": "a3\tIs a3?\t\tyes\n",
        "test": "b2\tIs b2?\tSnippet of b2. More.\tyes\nb1\tIs b1?\tSnippet of b1. More.\tno\n",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": None},
        {"id": 3},
        {"body": None},
        {"exact_answer": ["yes"]},
        {"exact_answer": "maybe"},
        {"snippets": "text"},
        {"snippets": [{"document": "d"}]},
        {"snippets": ["text"]},
    ],
)
def test_a_question_that_does_not_fit_is_named(wrong, tmp_path):
    release(tmp_path, [*TRAIN, question("a4", "yes", **wrong)], TESTS)
    with pytest.raises(released_files.CorpusError, match=r"trainining7b\.json: question 4 lacks"):
        bioasq.read_examples(tmp_path, tmp_path, [])


def test_files_of_two_years_are_named(tmp_path):
    release(tmp_path, TRAIN, [*TESTS, [question("a1", "yes")]])
    assert bioasq.read_examples(tmp_path, tmp_path, [])  # the same once more does no harm
    release(tmp_path, TRAIN, [*TESTS, [question("a1", "no")]])
    with pytest.raises(released_files.CorpusError, match="the question a1, and another file"):
        bioasq.read_examples(tmp_path, tmp_path, [])
    release(tmp_path, TRAIN, TESTS)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(released_files.CorpusError, match="has no list of questions"):
        bioasq.read_examples(tmp_path, tmp_path, [])


def test_a_listed_question_that_is_not_there_is_named(command, fails_in_one_sentence, tmp_path):
    release(tmp_path, TRAIN, TESTS[:1])
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.blurb", "bioasq", *flags))
    assert "test_id.tsv" in said and "lists b2" in said
    assert not (tmp_path / "out").exists()
