"""The reader of SQuAD's format: published files, counted by other means, and bad ones."""

import json
import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import raw
from tfbio.formats import squad
from tfbio.formats.task_examples import Question
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import own_data, task_table


@pytest.mark.parametrize(
    "name, count, without",
    [("xquad.en.json.gz", 1190, 0), ("cs224n_half_dev-v2.0.json.gz", 6078, 3168)],
)
def test_squad_is_read_whole(name, count, without):
    path = reference.corpus(f"squad/{name}")
    questions = squad.read(str(path))
    text = raw(path)
    assert len(questions) == count == len(re.findall(r'"question":', text))
    assert sum(not x.answers for x in questions) == without
    assert without == len(re.findall(r'"is_impossible": ?true', text))
    paragraphs = [y for x in json.loads(text)["data"] for y in x["paragraphs"]]
    answers = {y["id"]: y["answers"] for x in paragraphs for y in x["qas"]}
    assert {x.id: list(x.answers) for x in questions} == {
        name: [answer["text"] for answer in of_question] for name, of_question in answers.items()
    }
    for x in questions:
        for answer, start in zip(x.answers, x.answer_starts, strict=True):
            assert x.context[start : start + len(answer)] == answer


def test_squad_without_answers_is_a_test_file(write):
    paragraphs = [{"context": "A b.", "qas": [{"id": "q_000", "question": "What?"}]}]
    path = write(json.dumps({"version": "7b", "data": [{"paragraphs": paragraphs}]}))
    expected = Question("q_000", "What?", "A b.", (), ())
    assert squad.read(path) == [expected]


def test_a_question_of_version_1_needs_an_answer(write):
    path = reference.corpus("squad/xquad.en.json.gz")
    assert squad.read_answered(str(path)) == squad.read(str(path))
    answer = {"text": "A", "answer_start": 0}
    qas = [
        {"id": "q1", "question": "What?", "answers": [answer]},
        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    path = write(json.dumps({"data": [{"paragraphs": [{"context": "A b.", "qas": qas}]}]}))
    message = rf"^{re.escape(path)}, question q2: expected an answer, .* --task=squad_v2\.$"
    with pytest.raises(TaskFileError, match=message):
        squad.read_answered(path)


@pytest.mark.parametrize("answer, start", [("b", 0), ("A", -4), ("A", 3), ("", 0)])
def test_an_answer_that_stands_elsewhere_is_named(write, answer, start):
    gold = [{"text": answer, "answer_start": start}]
    qas = [{"id": "q1", "question": "What?", "answers": gold}]
    path = write(json.dumps({"data": [{"paragraphs": [{"context": "A b.", "qas": qas}]}]}))
    message = re.escape(f"question q1: expected {answer!r} at character {start} of the context")
    with pytest.raises(TaskFileError, match=message):
        squad.read(path)


def test_an_answer_may_differ_in_case(write):
    """As in BioBERT's files of BioASQ."""
    gold = [{"text": "aspirin", "answer_start": 0}]
    qas = [{"id": "q1", "question": "What?", "answers": gold}]
    path = write(json.dumps({"data": [{"paragraphs": [{"context": "Aspirin.", "qas": qas}]}]}))
    (question,) = squad.read(path)
    assert (question.answers, question.answer_starts) == (("aspirin",), (0,))


def test_half_a_character_becomes_one_that_can_be_tokenized(tmp_path):
    answer = {"text": "cells", "answer_start": 2}
    question = {"id": "1\ud83d", "question": "What\ud83d?", "answers": [answer]}
    paragraph = {"context": "\ud83d cells \U0001f600", "qas": [question]}
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    (read,) = squad.read(str(tmp_path / "a.json"))
    assert (read.id, read.question, read.context) == (
        "1\ufffd",
        "What\ufffd?",
        "\ufffd cells \U0001f600",
    )
    assert read.answer_starts == (2,)


def test_questions_to_score_must_list_their_answers(write):
    """A test set without answers is not one of questions that have none."""
    asked = {"id": "q1", "question": "What?"}
    readers = task_table.TASKS["squad_v2"].read, lambda path: own_data.OWN["qa"][1].read(path, None)
    for told in (True, False):
        question = asked | ({"answers": []} if told else {})
        paragraphs = [{"context": "A b.", "qas": [question]}]
        path = write(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        assert squad.read(path)[0].answers == ()
        for read in readers:
            if told:
                assert read(path)[0].answers == ()
            else:
                with pytest.raises(TaskFileError, match="question q1: expected the answers"):
                    read(path)
