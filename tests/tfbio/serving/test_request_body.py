"""The body of a request is what the schema says, or refused with a sentence that says why."""

import json

import jsonschema_rs
import pytest

from tfbio.serving import request_body
from tfbio.serving.limits import RequestLimits
from tfbio.serving.request_body import Refusal

LIMITS = RequestLimits(max_texts=3, max_characters=10)
ASTRAL = "\U0001d6fc"


@pytest.mark.parametrize(
    "texts",
    [["a"], ["a", "b", "c"], [" "], ["\n\t"], [ASTRAL * 10], ["é", "\u202e", "\ufeff\ufffe"]],
)
@pytest.mark.parametrize("ascii", [True, False])
def test_texts_come_as_they_are(texts, ascii):
    body = json.dumps({"texts": texts}, ensure_ascii=ascii).encode()
    assert request_body.inputs_of(body, LIMITS) == texts


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "no JSON: EOF while parsing"),
        (b"texts", 400, "no JSON: expected"),
        (b'{"texts": ["a"]', 400, "no JSON: EOF while parsing"),
        (b'{"texts": ["a"]} x', 400, "no JSON: trailing characters at line 1 column 18"),
        (b'{"texts": ["\xff"]}', 400, "no JSON: invalid unicode"),
        (b'{"texts": ["\xed\xa0\x80"]}', 400, "no JSON: invalid unicode"),
        (b'{"texts": [NaN]}', 400, "no JSON: expected value"),
        (b"[" * 100_000, 400, "no JSON: recursion limit"),
        (b'{"texts": [' + b"1" * 5000 + b"]}", 400, "no JSON: number out of range"),
        (b'{"texts": ["\\ud800"]}', 400, "half of a surrogate pair is no character"),
        (b'{"texts": ["a\\udc00b"]}', 400, "half of a surrogate pair is no character"),
        (b'{"texts": ["\\ud835\\u0041"]}', 400, "half of a surrogate pair is no character"),
        (b'{"\\ud800": 1}', 400, "half of a surrogate pair is no character"),
        (b"null", 422, "the body is null: expected"),
        (b"1.5", 422, "the body is a number: expected"),
        (b'["a"]', 422, "the body is a list: expected"),
        (b'"a"', 422, "the body is a string: expected"),
        (b"{}", 422, "the field texts is missing"),
        (b'{"text": ["a"]}', 422, 'the field "text" is unknown'),
        (b'{"texts": ["a"], "b": 1}', 422, 'the field "b" is unknown'),
        (b'{"' + b"x" * 90_000 + b'": 1}', 422, 'xxx..." is unknown'),
        (b'{"texts": "a"}', 422, "texts is a string: expected a list of strings"),
        (b'{"texts": {"a": 1}}', 422, "texts is an object: expected a list"),
        (b'{"texts": []}', 422, "texts is empty"),
        (b'{"texts": ["a", "b", "c", "d"]}', 422, "texts has 4 texts: send at most 3"),
        (b'{"texts": ["a", null]}', 422, "texts[1] is null: expected a string"),
        (b'{"texts": [true]}', 422, "texts[0] is true or false: expected a string"),
        (b'{"texts": [["a"]]}', 422, "texts[0] is a list: expected a string"),
        (b'{"texts": ["a", ""]}', 422, "texts[1] is empty"),
        (b'{"texts": ["01234567890"]}', 422, "texts[0] has 11 characters: send at most 10"),
        (b'{"texts": ["a\\u0000"]}', 422, "texts[0] has the character U+0000 at 1"),
    ],
)
def test_the_first_mistake_is_named(body, status, words):
    with pytest.raises(Refusal) as caught:
        request_body.inputs_of(body, LIMITS)
    sentence = caught.value.sentence
    assert caught.value.status == status and words in sentence, sentence
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 200


PAIRS = {"pairs": [["a", "b"], [" ", ASTRAL]]}
QUESTION = {"question": "a", "context": "b"}


def test_pairs_and_questions_are_tuples():
    body = json.dumps(PAIRS).encode()
    assert request_body.inputs_of(body, LIMITS, ["pairs"]) == [("a", "b"), (" ", ASTRAL)]
    body = json.dumps({"questions": [{"context": "b", "question": "a"}]}).encode()
    assert request_body.inputs_of(body, LIMITS, ["questions"]) == [("a", "b")]
    for fields in (["texts", "pairs"], ["pairs", "texts"]):
        assert request_body.inputs_of(b'{"texts": ["a"]}', LIMITS, fields) == ["a"]


@pytest.mark.parametrize(
    ("fields", "value", "words"),
    [
        (["pairs"], {"texts": ["a"]}, 'the field "texts" is unknown: pairs is the only one'),
        (["texts", "pairs"], {"b": 1}, 'the field "b" is unknown: texts and pairs are the only'),
        (["texts", "pairs"], {}, 'expected {"texts": [...]} or {"pairs": [...]}'),
        (["texts", "pairs"], {"texts": ["a"], **PAIRS}, "the body has texts and pairs: give one"),
        (["pairs"], {"pairs": ["ab"]}, "pairs[0] is a string: expected a list of two strings"),
        (["pairs"], {"pairs": [["a"]]}, "pairs[0] has 1 texts: give two"),
        (["pairs"], {"pairs": [["a", "b"], ["a", 1]]}, "pairs[1][1] is a number: expected a str"),
        (["pairs"], {"pairs": [["a", "b" * 11]]}, "pairs[0][1] has 11 characters"),
        (["questions"], {"questions": [["a", "b"]]}, "questions[0] is a list: expected an object"),
        (["questions"], {"questions": [{"question": "a"}]}, "the fields question and context"),
        (["questions"], {"questions": [{**QUESTION, "x": 1}]}, "context, and no others"),
        (["questions"], {"questions": [{**QUESTION, "context": ""}]}, "[0].context is empty"),
        (["questions"], {"questions": [QUESTION] * 4}, "questions has 4 questions: send at most 3"),
    ],
)
def test_mistakes_in_pairs_and_questions_are_named(fields, value, words):
    with pytest.raises(Refusal) as caught:
        request_body.inputs_of(json.dumps(value).encode(), LIMITS, fields)
    assert caught.value.status == 422 and words in caught.value.sentence, caught.value.sentence


@pytest.mark.parametrize("fields", [["texts"], ["pairs"], ["questions"], ["texts", "pairs"]])
@pytest.mark.parametrize(
    "value",
    [
        PAIRS,
        {"pairs": [["a", "b", "c"]]},
        {"pairs": [["a", ""]]},
        {"pairs": [QUESTION]},
        {**PAIRS, "texts": ["a"]},
        {"questions": [QUESTION]},
        {"questions": [{**QUESTION, "context": ASTRAL * 11}]},
        {"questions": [{**QUESTION, "question": None}]},
        {"questions": [{**QUESTION, "id": "1"}]},
        {"questions": [{"question": "a"}]},
        {"texts": ["a"]},
        {"texts": [ASTRAL * 10, "\n", "b\n"]},
        {"texts": [ASTRAL * 11]},
        {"texts": ["a\0"]},
        {"texts": ["\0\n"]},
        {"texts": [""]},
        {"texts": []},
        {"texts": ["a"] * 4},
        {"texts": ["a", 1]},
        {"texts": None},
        {"texts": ["a"], "x": 1},
        {},
        [],
        "a",
    ],
)
def test_the_schema_and_the_checks_agree(fields, value):
    """The schema is read by a validator of its own."""
    allowed = jsonschema_rs.validator_for(request_body.schema(LIMITS, fields)).is_valid(value)
    try:
        request_body.inputs_of(json.dumps(value).encode(), LIMITS, fields)
    except Refusal:
        assert not allowed
    else:
        assert allowed
