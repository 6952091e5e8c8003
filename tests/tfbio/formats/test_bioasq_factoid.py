"""The reader of BioASQ, on invented examples: the corpus cannot be had here."""

import json

import pytest

from tfbio.formats import bioasq_factoid
from tfbio.formats.task_examples import Question
from tfbio.formats.task_file_errors import TaskFileError


def bioasq(**settings):
    question = {
        "id": "0a1b",
        "type": "yesno",
        "body": "Is inventol\nsafe?",
        "exact_answer": "yes",
        "snippets": [{"text": "Inventol is safe."}, {"text": "It is\ninventol."}],
    }
    return question | settings


@pytest.mark.parametrize(
    "gold, answers, starts",
    [
        # "unsafe" is another word than "safe".
        ([["Safe", "inventol"]], ("Safe", "inventol"), ((12, 0), (-1, 6))),
        (["inventol", "inventol"], ("inventol",), ((0,), (6,))),
        ("It is", ("It is",), ((-1,), (0,))),
        ([["(+)"]], ("(+)",), ((-1,), (-1,))),
        (None, (), ((), ())),
    ],
)
def test_bioasq_factoid_has_a_context_for_each_snippet(write, gold, answers, starts):
    snippets = [{"text": "Inventol is safe."}, {"text": "It is\ninventol, unsafe."}]
    record = bioasq(type="factoid", exact_answer=gold, snippets=snippets)
    path = write(json.dumps({"questions": [record, bioasq(id="2")]}))
    question = "Is inventol safe?"
    assert bioasq_factoid.read(path) == [
        Question("0a1b_000", question, "Inventol is safe.", answers, starts[0], "0a1b"),
        Question("0a1b_001", question, "It is inventol, unsafe.", answers, starts[1], "0a1b"),
    ]


def test_a_factoid_question_without_snippets_counts(write):
    record = bioasq(type="factoid", exact_answer=[["inventol"]], snippets=[])
    (question,) = bioasq_factoid.read(write(json.dumps({"questions": [record]})))
    assert (question.id, question.context, question.answers) == ("0a1b_000", "", ("inventol",))
    assert question.answer_starts == (-1,)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"exact_answer": [["a"], [3]]}, "expected a list of texts, found 3"),
        ({"body": None}, "expected text as 'body', found None"),
        ({"snippets": [{}]}, "expected text as 'text'"),
    ],
)
def test_a_mistake_in_bioasq_is_named_with_its_question(write, changes, message):
    good = bioasq(type="factoid", exact_answer=[["inventol"]])
    path = write(json.dumps({"questions": [good | changes]}))
    with pytest.raises(TaskFileError, match=f"question 0a1b: {message}"):
        bioasq_factoid.read(path)
    path = write(json.dumps({"questions": [good, good]}))
    with pytest.raises(TaskFileError, match="question 2 of the file: .*'0a1b'"):
        bioasq_factoid.read(path)
