"""PubMedQA: the makers' splits of the real questions, and files made up to be wrong."""

import json
from collections import Counter

import pytest

from data_prep.corpora import corpus_splits, pubmedqa, released_files
from tests import reference


def test_the_published_splits(command, tmp_path):
    data = reference.corpus("pubmedqa")
    done = command("corpora.pubmedqa", f"--input={data}/ori_pqal.json.gz", f"--output={tmp_path}")
    assert done.returncode == 0, done.stderr
    # Table 1 of the BioELECTRA paper: 450, 50 and 500 questions.
    assert done.stdout.splitlines() == [
        "train: 49 maybe, 152 no, 249 yes",
        "dev: 6 maybe, 17 no, 27 yes",
        "test: 55 maybe, 169 no, 276 yes",
    ]
    known = json.loads((data / "derived_split_ids.json").read_text())
    (file,) = released_files.find(data, r"ori_pqal\.json").values()
    entries = file.json()
    for split in corpus_splits.SPLITS:
        text = (tmp_path / f"{split}.tsv").read_text(encoding="utf-8")
        rows = [line.split("\t") for line in text.removesuffix("\n").split("\n")]
        assert [row[0] for row in rows] == (known | known["folds"]["0"])[split]
        for pmid, question, context, label in rows:
            entry = entries[pmid]
            assert question == entry["QUESTION"].replace("\n", " "), (split, label)
            assert context == " ".join(entry["CONTEXTS"]).replace("\n", " "), (split, label)
            assert label == entry["final_decision"]
    # What the corpus's makers published of the test half.
    truth = json.loads((data / "test_ground_truth.json").read_text())
    assert {row[0]: row[3] for row in rows} == truth
    for fold, ids in known["folds"].items():
        splits = pubmedqa.read_examples(data, int(fold))
        assert {split: [row[0] for row in splits[split]] for split in ids} == ids, fold


def test_splits_have_all_questions_once():
    labels = {str(i): "yes" if i % 2 else "no" if i % 6 else "maybe" for i in range(240)}
    for fold in range(pubmedqa.FOLDS):
        splits = pubmedqa.draw_splits(labels, fold)
        assert sorted(sum(splits.values(), [])) == sorted(labels), fold
        assert [len(splits[split]) for split in corpus_splits.SPLITS] == [108, 12, 120], fold
        assert Counter(labels[pmid] for pmid in splits["dev"]) == {"yes": 6, "no": 4, "maybe": 2}, (
            fold
        )


GOOD = {"QUESTION": "Is it?", "CONTEXTS": ["It", "is."], "final_decision": "yes"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"1": GOOD}, r"ori_pqal\.json has 1 questions instead of 1,000"),
        ([GOOD], "is not an object of questions"),
        ({"1": GOOD, "2": {"QUESTION": "Is it?"}}, "the question 2 lacks"),
        ({"1": GOOD | {"CONTEXTS": "It is."}}, "the question 1 lacks"),
        ({"1": GOOD | {"CONTEXTS": [1]}}, "the question 1 lacks"),
        ({"1": GOOD | {"final_decision": "perhaps"}}, "the question 1 lacks"),
        ({"1": None}, "the question 1 lacks"),
    ],
)
def test_what_does_not_fit_is_named(content, message, tmp_path):
    (tmp_path / "ori_pqal.json").write_text(json.dumps(content))
    with pytest.raises(released_files.CorpusError, match=message):
        pubmedqa.read_examples(tmp_path)


def test_no_json_is_one_sentence(command, fails_in_one_sentence, tmp_path):
    (tmp_path / "ori_pqal.json").write_text(json.dumps({"1": GOOD})[:-5])
    flags = (f"--input={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.pubmedqa", *flags))
    assert "ori_pqal.json is not JSON" in said
    assert not (tmp_path / "out").exists()
