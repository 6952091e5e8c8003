"""Files of predictions; entities as characters, worked by hand."""

import gzip
import json

import pytest

from tfbio import predictions, tasks
from tfbio.task_files import LabelledText, TaggedSentence, TaskFileError

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


@pytest.mark.parametrize("kind", CASES)
def test_what_was_written_is_read(kind, tmp_path):
    examples, predicted = CASES[kind]
    predictions.write(str(tmp_path), "test", examples, predicted)
    assert predictions.read(str(tmp_path / "test_predictions.tsv"), kind) == (examples, predicted)


def test_sentences_of_a_document_keep_their_ids(tmp_path):
    """HoC's, whose score is by document."""
    (tmp_path / "test.tsv").write_text(
        "labels\tsentence\tindex\n"
        + "".join(f"{','.join(f'{i}_0' for i in range(10))}\tA\t7_s{n}\n" for n in (0, 1))
    )
    examples = tasks.TASKS["hoc"].read(str(tmp_path / "test.tsv"))
    predictions.write(str(tmp_path), "test", examples, [(), ()])
    path = tmp_path / "test_predictions.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert rows[0] == ["id", "label", "predicted", "text", "document"]
    assert [(row[0], row[4]) for row in rows[1:]] == [("7_s0", "7"), ("7_s1", "7")]
    read, _ = predictions.read(str(path), "multilabel")
    # In files of earlier versions the document stood in the place of the id.
    path.write_text("id\tlabel\tpredicted\ttext\n7\t\t\tA\n7\t\t\tA\n")
    assert predictions.read(str(path), "multilabel")[0] == read


@pytest.mark.parametrize("source", ["blurb", "blue"])
def test_hallmarks_are_written_as_they_were_given(source, shared, tmp_path):
    """What is true gives the file of the data; what is predicted is read as the truth is."""
    task = tasks.TASKS["hoc"]
    data = shared / "data" / "hoc" / source / "test.tsv.gz"
    examples, path = task.read(str(data)), tmp_path / "test_hallmarks.tsv"
    predictions.write_hallmarks(str(path), examples, [x.label for x in examples])
    # BLUE's have Windows line ends.
    assert path.read_bytes() == gzip.decompress(data.read_bytes()).replace(b"\r\n", b"\n")
    predicted = [task.labels[i % 10 : i % 13] for i in range(len(examples))]
    predictions.write_hallmarks(str(path), examples, predicted)
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
        predictions.read(str(path), "tagging")
    path.write_text(f"id\tlabel\tpredicted\ttext\nx\t1\t2\ttext\n{line[:3]}\n")
    with pytest.raises(TaskFileError, match="line 3: expected predictions"):
        predictions.read(str(path), "classification")
    with pytest.raises(TaskFileError, match="nowhere cannot be read"):
        predictions.read(str(tmp_path / "nowhere"), "regression")


def test_entities_have_the_characters_of_their_words(tmp_path):
    words = ("Ca\u00b2\u207a", "and", "\U0001d6fc", "-", "MSH", ".")
    sentences = [
        TaggedSentence("7", words, ("B", "O", "B", "I", "I", "O")),
        TaggedSentence("14", ("None", "."), ("O", "O"), "10070173"),
    ]
    # An I that continues nothing begins an entity; so does a B behind a B.
    predicted = [("O", "O", "I", "B", "I", "O"), ("O", "B-Cell type")]
    path = tmp_path / "test_entities.jsonl"
    predictions.write_entities(str(path), sentences, predicted, "Chemical")
    one, other = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (one["id"], one["text"]) == ("7", "Ca\u00b2\u207a and \U0001d6fc - MSH .")
    assert "document" not in one
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
