"""Files of predictions; entities as characters, worked by hand."""

import gzip
import json

import pytest

from tests import reference
from tfbio.formats import hoc
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import prediction_files, task_table, types
from tfbio.task_types.answers import Answers
from tfbio.task_types.classification import Classification
from tfbio.task_types.multilabel import MultiLabel
from tfbio.task_types.regression import Regression
from tfbio.task_types.tagging import Tagging

CASES = {
    "tagging": (
        [TaggedSentence("1", ("an", "\x85"), ("O", "B")), TaggedSentence("4", ("x",), ("I-PAR",))],
        [("B", "O"), ("O",)],
    ),
    "classification": (
        [LabelledText("1", "a \u2028 text", "yes", document="q1")]
        + [LabelledText("2", "b", "no", "its pair", document="q2")],
        ["no", "no"],
    ),
    "regression": ([LabelledText("1", "a", 0.1, "b", document="x")], [1 / 3]),
    "multilabel": (
        [
            LabelledText("1", "a", ("p", "q"), document="x"),
            LabelledText("2", "b", (), document="y"),
        ],
        [(), ("q",)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_written_is_read(name, tmp_path):
    examples, predicted = CASES[name]
    task_type = types.TYPES[name]
    task_type.write_predictions(str(tmp_path), "test", examples, predicted, "Entity")
    path = tmp_path / task_type.predictions_file("test")
    assert task_type.read_predictions(str(path)) == (examples, predicted)


def test_answers_are_written_beside_what_is_true(tmp_path):
    """As the official scripts read them, and with the gold answers for the report."""
    asked = [
        Question("a", "Which?", "IL-2 or p53.", ("IL-2",), (0,)),
        Question("b", "Who\u2028?", "Nobody.", (), ()),
    ]
    found = [Answers(("p53", "IL-2"), (0.7, 0.3), -1 / 3), Answers((), (), 2.0)]
    prediction_files.write_answers(str(tmp_path), "test", asked, found)
    lines = (tmp_path / "test_answers.jsonl").read_text(encoding="utf-8").split("\n")
    first = json.loads(lines[0])
    assert list(first) == ["id", "question_id", "question", "gold", "predicted", "null_odds"]
    assert first["gold"] == ["IL-2"]
    assert first["predicted"][0] == {"text": "p53", "probability": 0.7}
    examples, read = prediction_files.read_answers(str(tmp_path / "test_answers.jsonl"))
    assert read == found
    assert [(x.id, x.question, x.answers) for x in examples] == [
        ("a", "Which?", ("IL-2",)),
        ("b", "Who\u2028?", ()),
    ]
    official = json.loads((tmp_path / "test_predictions.json").read_text())
    assert official == {"a": "p53", "b": ""}
    # Of BioASQ several contexts are of one question.
    asked = [Question(f"{i}", "Which?", "", ("x",), (-1,), "q") for i in range(2)]
    prediction_files.write_answers(str(tmp_path), "dev", asked, [Answers(("x",), (1.0,), 0.0)] * 2)
    examples, _ = prediction_files.read_answers(str(tmp_path / "dev_answers.jsonl"))
    assert [(x.id, x.question_id) for x in examples] == [("0", "q"), ("1", "q")]
    for broken in ('{"id": "a"}', "[]", "no JSON"):
        (tmp_path / "dev_answers.jsonl").write_text(broken + "\n")
        with pytest.raises(TaskFileError, match="dev_answers.jsonl, line 1: expected predictions"):
            prediction_files.read_answers(str(tmp_path / "dev_answers.jsonl"))


def test_sentences_of_a_document_keep_their_ids(tmp_path):
    """HoC's, whose score is by document."""
    (tmp_path / "test.tsv").write_text(
        "labels\tsentence\tindex\n"
        + "".join(f"{','.join(f'{i}_0' for i in range(10))}\tA\t7_s{n}\n" for n in (0, 1))
    )
    examples = task_table.TASKS["hoc"].read(str(tmp_path / "test.tsv"))
    MultiLabel.write_predictions(str(tmp_path), "test", examples, [(), ()], "")
    path = tmp_path / "test_predictions.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert rows[0] == ["id", "label", "predicted", "text", "document"]
    assert [(row[0], row[4]) for row in rows[1:]] == [("7_s0", "7"), ("7_s1", "7")]
    read, _ = MultiLabel.read_predictions(str(path))
    assert [x.document for x in read] == ["7", "7"]


@pytest.mark.parametrize("source", ["blurb", "blue"])
def test_hallmarks_are_written_as_they_were_given(source, tmp_path):
    """What is true gives the file of the data; what is predicted is read as the truth is."""
    task = task_table.TASKS["hoc"]
    data = reference.corpus(f"hoc/{source}/test.tsv.gz")
    examples, path = task.read(str(data)), tmp_path / "test_hallmarks.tsv"
    hoc.write(str(path), examples, [x.label for x in examples])
    # BLUE's have Windows line ends.
    assert path.read_bytes() == gzip.decompress(data.read_bytes()).replace(b"\r\n", b"\n")
    predicted = [task.labels[i % 10 : i % 13] for i in range(len(examples))]
    hoc.write(str(path), examples, predicted)
    read = task.read(str(path))
    assert [x.label for x in read] == predicted
    assert [(x.id, x.text, x.document) for x in read] == [
        (x.id, x.text, x.document) for x in examples
    ]


@pytest.mark.parametrize("line", ["a\tO", "a\tO\tO\tO"])
def test_a_line_that_is_not_so_is_named(line, tmp_path):
    path = tmp_path / "test_predictions.tsv"
    path.write_text(f"a\tO\tO\n\n{line}\n\n")
    with pytest.raises(TaskFileError, match=r"test_predictions.tsv, line 4: expected"):
        Tagging.read_predictions(str(path))
    path.write_text(f"id\tlabel\tpredicted\ttext\nx\t1\t2\ttext\n{line[:3]}\n")
    with pytest.raises(TaskFileError, match="line 3: expected predictions"):
        Classification.read_predictions(str(path))
    with pytest.raises(TaskFileError, match="nowhere cannot be read"):
        Regression.read_predictions(str(tmp_path / "nowhere"))
    assert prediction_files.read_ids(str(path)) == ["x", line[:3].partition("\t")[0]]
    path.write_bytes(b"id\n\xff\n")
    with pytest.raises(TaskFileError, match="cannot be read: it is not text in UTF-8"):
        prediction_files.read_ids(str(path))


def test_the_score_of_an_entity_is_the_product_over_its_words():
    tags, places = ("O", "B", "I", "I", "B"), [(0, 1), (2, 4), (5, 6), (7, 9), (10, 12)]
    one, other = prediction_files.entities(tags, places, "Gene", [0.1, 0.9, 0.5, 0.8, 0.7])
    assert (one.start, one.end, other.start) == (2, 9, 10)
    assert (one.score, other.score) == (0.36, 0.7)
    assert one.as_dict() == {"type": "Gene", "start": 2, "end": 9, "score": 0.36}
    (without, _) = prediction_files.entities(tags, places, "Gene")
    assert without.as_dict() == {"type": "Gene", "start": 2, "end": 9}


def test_entities_have_the_characters_of_their_words(tmp_path):
    words = ("Ca\u00b2\u207a", "and", "\U0001d6fc", "-", "MSH", ".")
    sentences = [
        TaggedSentence("7", words, ("B", "O", "B", "I", "I", "O")),
        TaggedSentence("14", ("None", "."), ("O", "O"), "10070173"),
    ]
    # An I that continues nothing begins an entity; so does a B behind a B.
    predicted = [("O", "O", "I", "B", "I", "O"), ("O", "B-Cell type")]
    path = tmp_path / "test_entities.jsonl"
    prediction_files.write_entities(str(tmp_path), "test", sentences, predicted, "Chemical")
    one, other = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (one["id"], one["text"]) == ("7", "Ca\u00b2\u207a and \U0001d6fc - MSH .")
    assert one["document"] == ""
    assert one["gold"] == [
        {"type": "Chemical", "start": 0, "end": 4},
        {"type": "Chemical", "start": 9, "end": 16},
    ]
    assert one["predicted"] == [
        {"type": "Chemical", "start": 9, "end": 10},
        {"type": "Chemical", "start": 11, "end": 16},
    ]
    assert other == {
        "id": "14",
        "document": "10070173",
        "text": "None .",
        "gold": [],
        "predicted": [{"type": "Cell type", "start": 5, "end": 6}],
    }


def test_what_was_predicted_is_said():
    said = {name: types.TYPES[name].describe(*case) for name, case in CASES.items()}
    assert said["classification"] == "2 texts: 1 yes, 1 no; predicted: 2 no"
    assert said["multilabel"] == "2 texts: 1 p, 1 q; predicted: 1 q"
    # A label that is a number is told from how many have it.
    texts = [LabelledText(str(i), "a", label) for i, label in enumerate("1011")]
    assert Classification.describe(texts, "1111") == "4 texts: 3 '1', 1 '0'; predicted: 4 '1'"
