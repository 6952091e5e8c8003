"""A model called from Python returns what the command writes for the same texts."""

import json

import pytest

import tfbio
from tfbio.base.errors import UserError
from tfbio.runs import predict

TEXTS = [
    "the cells of patients",
    "a study of the effects.\n\nresults were better in mice. The drug (IL-2) works!",
    "",
    "in \U0001d6fc-mice the rate of the disease was\tlow",
]


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("task_type", "labels", "known", "changes"),
    [
        ("tagging", ["O", "B-x", "I-x"], {"words": "blanks", "entity_type": "y"}, {}),
        ("tagging", ["O", "B", "I"], {"words": "punctuation", "entity_type": "y"}, {"head": "crf"}),
        ("token_multilabel", ["a", "b"], {"words": "punctuation"}, {}),
    ],
)
def test_entities(make_trial, cpu, tmp_path, task_type, labels, known, changes):
    trial, _ = make_trial(task_type, labels, known, **changes)
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    predict.predict(trial, [str(tmp_path / "*.txt")], str(tmp_path / "a.jsonl"), strategy=cpu)
    expected = lines_of(tmp_path / "a.jsonl")
    model = tfbio.load(trial)
    found = model(TEXTS, batch_size=3)
    for text, line, entities in zip(TEXTS, expected, found, strict=True):
        assert line["text"] == text
        assert [(x.label, x.start, x.end, x.text) for x in entities] == [
            (x["type"], x["start"], x["end"], x["text"]) for x in line["entities"]
        ]
        assert not [x for x in entities if text[x.start : x.end] != x.text]
        scores = [x["score"] for x in line["entities"]]
        assert [x.score for x in entities] == pytest.approx(scores, abs=1e-4), text
    assert sum(map(len, found)) > 3 and not found[2]
    one = model(TEXTS[1])
    assert [(x.label, x.start, x.end) for x in one] == [(x.label, x.start, x.end) for x in found[1]]
    # One graph for all shapes: TensorFlow would warn of more, and take seconds for each.
    assert model.predictor.inference._predict_step.experimental_get_tracing_count() == 1

    model.write(TEXTS, tmp_path / "b.jsonl", batch_size=3)
    written = lines_of(tmp_path / "b.jsonl")
    assert [x["id"] for x in written] == [x["id"] for x in expected] == ["0", "1", "2", "3"]
    for line, other in zip(expected, written, strict=True):
        scores, others = ([x.pop("score") for x in own["entities"]] for own in (line, other))
        assert line == other and scores == pytest.approx(others, abs=1e-4)


def test_only_entities_are_written(make_trial, tmp_path):
    model = tfbio.load(make_trial("regression", [], {"pairs": True})[0])
    with pytest.raises(UserError, match="holds no model that finds entities in documents"):
        model.write(["the mice"], tmp_path / "out.jsonl")
    with pytest.raises(UserError, match='format="csv": it must be one of jsonl, bioc, pubtator'):
        model.write(["the mice"], tmp_path / "out.jsonl", "csv")
    with pytest.raises(UserError, match=r"out\.jsonl\.gz would not be compressed: give a name"):
        model.write(["the mice"], tmp_path / "out.jsonl.gz")
    assert not (tmp_path / "out.jsonl").exists()


def test_annotations_by_hand_are_not_replaced(make_trial, tmp_path):
    """A second project of brat's in the folder of the first, or a model in that of its data."""
    model = tfbio.load(make_trial("tagging", ["O", "B-x", "I-x"], {"words": "blanks"})[0])
    project = tmp_path / "project"
    project.mkdir()
    (project / "annotation.conf").write_text("[entities]\n")
    model.write(["the mice"], project, "brat")  # beside brat's settings
    names = {"0.ann", "0.txt", "annotation.conf"}
    assert {x.name for x in project.iterdir()} == names
    (project / "0.ann").write_text("T1\tMouse 4 8\tmice\n")
    with pytest.raises(UserError, match=r"project/0\.ann is there .* or overwrite=True\.$"):
        model.write(["the cells"], project, "brat")
    (project / "0.ann").rename(tmp_path / "kept.ann")
    with pytest.raises(UserError, match=r"project/0\.txt is there already, perhaps annotated"):
        model.write(["the cells"], str(project), "brat")
    (tmp_path / "kept.ann").rename(project / "0.ann")
    assert (project / "0.ann").read_text() == "T1\tMouse 4 8\tmice\n"
    model.write(["the cells"], project, "brat", overwrite=True)
    assert (project / "0.txt").read_text() == "the cells"
    assert {x.name for x in project.iterdir()} == names


PAIRS = [("the cells", "of patients were low"), ("a study", "results"), ("the mice", "the mice")]


@pytest.mark.parametrize(
    ("task_type", "labels", "pairs", "changes"),
    [
        ("classification", ["no", "yes", "perhaps"], False, {}),
        ("classification", ["no", "yes", "perhaps"], True, {"pooling": "mean"}),
        ("multilabel", ["a", "b", "c"], False, {}),
        ("regression", [], True, {}),
    ],
)
def test_labels_and_scores(make_trial, cpu, tmp_path, task_type, labels, pairs, changes):
    trial, _ = make_trial(task_type, labels, {"pairs": pairs}, **changes)
    inputs = PAIRS if pairs else [" ".join(pair) for pair in PAIRS]
    rows = ["text\tpair" if pairs else "text", *("\t".join(x) if pairs else x for x in inputs)]
    (tmp_path / "in.tsv").write_text("\n".join(rows) + "\n")
    predict.predict(trial, [str(tmp_path / "in.tsv")], str(tmp_path / "o.jsonl"), strategy=cpu)
    model = tfbio.load(trial)
    found = model(inputs)
    for line, own in zip(lines_of(tmp_path / "o.jsonl"), found, strict=True):
        if task_type == "regression":
            assert isinstance(own, float) and own == pytest.approx(line["label"], abs=1e-4)
            continue
        assert own.label == (tuple(line["label"]) if task_type == "multilabel" else line["label"])
        assert own.probabilities == pytest.approx(line["probabilities"], abs=1e-4)
        assert list(own.probabilities) == labels
    assert len({str(x) for x in found}) == 3
    with pytest.raises(TypeError, match="needs tuples" if pairs else "needs a text each"):
        model("the mice" if pairs else ("the mice", "the mice"))


def test_answers(make_trial, cpu, tmp_path):
    trial, _ = make_trial("question_answering", [], {"pairs": False}, 1e9)
    contexts = ["The cells of the mice.", "A study of the drug was \U0001d6fc-low in patients."]
    inputs = [(name, context) for context in contexts for name in ("What", "Why")]
    paragraphs = [
        {"context": context, "qas": [{"id": str(number), "question": question, "answers": []}]}
        for number, (question, context) in enumerate(inputs)
    ]
    source = tmp_path / "in.json"
    source.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    predict.predict(trial, [str(source)], str(tmp_path / "out.jsonl"), strategy=cpu)
    model = tfbio.load(trial)
    for line, own in zip(lines_of(tmp_path / "out.jsonl"), model(inputs), strict=True):
        assert own.text == line["answer"] == own.best[0][0] != ""
        assert own.score == pytest.approx(line["probability"], abs=1e-4)
        assert own.null_odds == pytest.approx(line["null_odds"], abs=1e-4)
        assert sum(probability for _, probability in own.best) == pytest.approx(1)
    with pytest.raises(TypeError, match="a tuple of two texts, not str 'Why"):
        model(["Why?"])


def test_no_answer_where_the_threshold_says_so(make_trial):
    trial, _ = make_trial("question_answering", [], {"pairs": False}, -1e9)
    own = tfbio.load(trial)(("What", "The cells of the mice."))
    assert (own.text, own.score, own.best) == ("", None, ())
