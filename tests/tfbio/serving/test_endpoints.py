"""A model that labels texts or answers questions is served as the API calls it."""

import json

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode

import tfbio
from tfbio.serving import endpoints, request_body
from tfbio.serving.limits import RequestLimits

PAIRS = [("the cells", "of patients were low"), ("a study", "results"), ("the mice", "the mice")]


def served(serve, model):
    """A server of a model at its own endpoint."""
    return serve(model, endpoints.for_model(model.predicts, model.predictor.known.pairs))


@pytest.mark.parametrize(
    ("task_type", "labels", "pairs"),
    [("multilabel", ["a", "b", "c"], False), ("regression", [], True)],
)
def test_labels_and_scores_are_those_of_the_api(serve, make_trial, task_type, labels, pairs):
    model = tfbio.load(make_trial(task_type, labels, {"pairs": pairs})[0])
    inputs = PAIRS if pairs else [" ".join(pair) for pair in PAIRS]
    with served(serve, model) as (client, _):
        own, other = ("pairs", "texts") if pairs else ("texts", "pairs")
        status, answer = client.annotate({own: inputs}, "/label")
        assert status == 200
        assert client.annotate({other: inputs}, "/label")[0] == 422
        assert client.annotate({own: inputs})[0] == 404
    for found, expected in zip(answer["labels"], model(inputs), strict=True):
        if pairs:
            assert found == {"label": pytest.approx(expected, abs=1e-4), "probabilities": {}}
        else:
            assert tuple(found["label"]) == expected.label
            assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-4)


def test_answers_are_those_of_the_api(serve, make_trial):
    trial, _ = make_trial("question_answering", [], {"pairs": False}, 1e9)
    model = tfbio.load(trial)
    inputs = [("What", "The cells of the mice."), ("Why", "A \U0001d6fc-low study of the drug.")]
    with served(serve, model) as (client, _):
        body = {"questions": [{"question": x, "context": y} for x, y in inputs]}
        status, answer = client.annotate(body, "/answer")
    assert status == 200
    for found, expected in zip(answer["answers"], model(inputs), strict=True):
        assert found["text"] == expected.text != ""
        assert [text for text, _ in found["best"]] == [text for text, _ in expected.best]
        numbers = [found["score"], found["null_odds"]]
        assert numbers == pytest.approx([expected.score, expected.null_odds], abs=1e-4)


def test_a_model_of_unknown_form_takes_texts_and_pairs(serve):
    """As a model of `transformers` is, whose files do not tell."""
    endpoint = endpoints.for_model("labels", None)
    with serve(lambda inputs: [float(len(x)) for x in inputs], endpoint) as (client, _):
        assert client.annotate({"texts": ["abc"]}, "/label")[1]["labels"][0]["label"] == 3
        assert client.annotate({"pairs": [["abc", "d"]]}, "/label")[1]["labels"][0]["label"] == 2
        schema = json.loads(client.send("GET", "/openapi.json")[2])
        assert "/label" in schema["paths"] and "/annotate" not in schema["paths"]
        # Programs that make clients give their classes these names.
        names = {"Health", "LabelOrScore", "Labels", "Problem"}
        assert set(schema["components"]["schemas"]) == names
        api = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
        for mode in GenerationMode:

            @given(case=api["/label"]["POST"].as_strategy(generation_mode=mode))
            @settings(max_examples=5, derandomize=True, database=None, deadline=None)
            def check(case):
                case.call_and_validate()

            check()


@pytest.mark.parametrize("field", ["texts", "pairs", "questions"])
def test_the_example_is_one_of_the_schema(field):
    schema = request_body.schema(RequestLimits(), [field])
    (found,) = request_body.inputs_of(
        json.dumps(schema["example"]).encode(), RequestLimits(), [field]
    )
    assert found == request_body.example(field)
