"""The HTTP interface: answers are those of the API, and bad requests are refused in a sentence."""

import gzip
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode

from tests import fine_tuned

TEXTS = {"texts": ["the cell binds"]}
WORDS = fine_tuned.WORDS.split()


@pytest.fixture(scope="module")
def client(serve, tagger):
    """A client of a server with the model."""
    with serve(tagger, max_body_bytes=100_000, max_texts=5, max_characters=300) as (client, _):
        yield client


def values_of(entities):
    """The values of the entities of a text, as the answer has them."""
    return [
        {"text": x.text, "label": x.label, "start": x.start, "end": x.end, "score": x.score}
        for x in entities
    ]


def assert_same(found, expected):
    """Asserts that the entities of texts are the same, and their scores but for rounding."""
    for own, others in zip(found, expected, strict=True):
        scores, other_scores = ([x.pop("score") for x in each] for each in (own, others))
        assert own == others
        assert scores == pytest.approx(other_scores, abs=1e-4)


def test_32_clients_get_what_the_api_gives_for_their_texts(client, tagger):
    """Every text of every client is another one."""
    rng = random.Random(0)
    requests = [
        [" ".join(rng.choices(WORDS, k=rng.randrange(1, 30))) for _ in range(rng.randrange(1, 6))]
        for _ in range(64)
    ]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda texts: client.annotate({"texts": texts}), requests))
    expected = tagger([text for texts in requests for text in texts])
    assert {status for status, _ in answers} == {200}
    found = [entities for _, answer in answers for entities in answer["entities"]]
    assert len(found) > 100 and sum(map(len, found)) > 500
    assert len({json.dumps(entities) for entities in found}) > 0.9 * len(found)
    assert_same(found, [values_of(entities) for entities in expected])


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b'{"texts": ["\\ud800"]}', {}, 400, "half of a surrogate pair"),
        ({"texts": []}, {}, 422, "texts is empty"),
        ({"texts": ["a" * 301]}, {}, 422, "texts[0] has 301 characters: send at most 300"),
        (TEXTS, {"Content_Type": "text/plain"}, 415, "Content-Type: application/json"),
        (TEXTS, {"Content_Type": "application/json; charset=latin-1"}, 415, "charset latin-1"),
        (gzip.compress(bytes(50_000_000)), {"Content_Encoding": "gzip"}, 415, "gzip is not read"),
        (TEXTS, {"Content_Encoding": "br, gzip"}, 415, "br, gzip is not read"),
        (b" " * 100_001, {}, 413, "the body has more than 100,000 bytes"),
        (b" " * 5_000_000, {}, 413, "the body has more than 100,000 bytes"),
        (iter([b" " * 50_000] * 60), {}, 413, "the body has more than 100,000 bytes"),  # in chunks
    ],
)
def test_a_bad_request_is_refused_in_a_sentence(client, body, headers, status, words):
    found, answer = client.annotate(body, **headers)
    assert found == status and words in answer["error"], answer
    assert client.annotate(TEXTS)[0] == 200


def test_a_charset_of_utf_8_is_taken(client):
    body = json.dumps(TEXTS).encode()
    assert client.annotate(body, Content_Type="Application/JSON; charset=UTF-8")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/annotate", 405, "/annotate takes POST only"),
        ("POST", "/health/live", 405, "/health/live takes GET only"),
        ("GET", "/" + "x" * 5000, 404, "there are POST /annotate, GET /health/live"),
        ("GET", "/docs", 404, "there is no /docs"),
        ("POST", "/annotate/", 404, "there is no /annotate/"),
    ],
)
def test_another_path_or_method_is_named(client, method, path, status, words):
    found, _, answer = client.send(method, path)
    assert found == status and words in json.loads(answer)["error"]


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_head_asks_for_the_health_without_a_body(client, path):
    """As some load balancers do."""
    status, headers, body = client.send("HEAD", path)
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 0


def metric(client, line):
    """The number at the end of a line of /metrics."""
    status, headers, text = client.send("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    found = [x for x in text.decode().splitlines() if x.startswith(f"{line} ")]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def test_requests_and_batches_are_counted(client):
    lines = (
        'tfbio_requests_total{path="/annotate",status="200"}',
        'tfbio_requests_total{path="/annotate",status="422"}',
        'tfbio_request_seconds_count{path="/annotate"}',
        "tfbio_batch_texts_sum",
        'tfbio_requests_total{path="other",status="404"}',
    )
    before = [metric(client, line) for line in lines]
    assert client.annotate({"texts": ["a", "b", "c"]})[0] == 200
    assert client.annotate({"texts": [""]})[0] == 422
    assert client.send("GET", "/somewhere")[0] == 404
    after = [metric(client, line) for line in lines]
    assert [y - x for x, y in zip(before, after, strict=True)] == [1, 1, 2, 3, 1]
    assert metric(client, "tfbio_requests_waiting") == 0
    assert metric(client, "process_resident_memory_bytes") > 1e8


def test_the_time_of_a_request_is_in_seconds(serve):
    def slowly(texts):
        time.sleep(0.1)
        return [[] for _ in texts]

    with serve(slowly) as (client, _):
        assert client.annotate(TEXTS)[0] == 200
        assert 0.1 <= metric(client, 'tfbio_request_seconds_sum{path="/annotate"}') < 60


def test_times_up_to_the_longest_are_told_apart(client):
    """An answer may take --answer_seconds, which is 60 by default."""
    assert client.annotate(TEXTS)[0] == 200
    text = client.send("GET", "/metrics")[2].decode()
    found = re.findall(r'tfbio_request_seconds_bucket{le="(.+)",path="/annotate"}', text)
    assert [float(x) for x in found][-6:] == [10, 20, 30, 60, 120, float("inf")]


class Held:
    """Computes no entities, when it is released, and fails on one text."""

    def __init__(self):
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, texts):
        self.begun.set()
        assert self.released.wait(30)
        if "bad" in texts:
            raise ZeroDivisionError
        return [[] for _ in texts]


def test_more_requests_than_may_wait_are_refused(serve):
    held = Held()
    with serve(held, max_requests=2) as (client, _), ThreadPoolExecutor(2) as pool:
        assert json.loads(client.send("GET", "/health/ready")[2]) == {"status": "ready"}
        waiting = [pool.submit(client.annotate, TEXTS) for _ in range(2)]
        assert held.begun.wait(30)
        while metric(client, "tfbio_requests_waiting") < 2:
            pass
        body, headers = json.dumps(TEXTS), {"Content-Type": "application/json"}
        status, headers, answer = client.send("POST", "/annotate", body, headers)
        assert status == 503 and b"2 requests wait already" in answer
        assert int(headers["Retry-After"]) == 6
        assert client.send("GET", "/health/ready")[0] == 503
        assert client.send("GET", "/health/live")[0] == 200
        held.released.set()
        assert [x.result(30) for x in waiting] == [(200, {"entities": [[]]})] * 2
        assert client.send("GET", "/health/ready")[0] == 200


def test_a_request_whose_client_has_gone_is_not_computed(serve):
    held, computed = Held(), []
    line = "tfbio_requests_waiting"

    def compute(texts):
        computed.extend(texts)
        return held(texts)

    with serve(compute) as (client, _), ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.annotate, {"texts": ["first"]})
        assert held.begun.wait(30)
        body = b'{"texts": ["gone"]}'
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
            connection.sendall(
                b"POST /annotate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            while metric(client, line) < 2:
                pass
        until = time.monotonic() + 30
        while metric(client, line) > 1 and time.monotonic() < until:
            pass
        waiting = metric(client, line)
        held.released.set()
        assert first.result(30) == (200, {"entities": [[]]})
        assert client.annotate({"texts": ["last"]})[0] == 200
        counted = metric(client, 'tfbio_requests_total{path="/annotate",status="400"}')
    assert (waiting, computed, counted) == (1, ["first", "last"], 1)


def test_a_request_that_waits_too_long_is_given_up(serve):
    held = Held()
    with serve(held, answer_seconds=0.2) as (client, _):
        body, headers = json.dumps(TEXTS), {"Content-Type": "application/json"}
        status, headers, answer = client.send("POST", "/annotate", body, headers)
        assert status == 503 and int(headers["Retry-After"]) == 1
        assert json.loads(answer) == {
            "error": "the answer took more than 0.2 seconds: send fewer texts, or try later."
        }
        held.released.set()
        assert client.annotate(TEXTS)[0] == 200


def test_a_request_on_which_the_model_fails_fails_alone(serve):
    held = Held()
    held.released.set()
    with serve(held) as (client, _):
        status, answer = client.annotate({"texts": ["bad"]})
        assert status == 500 and "the model failed on this request" in answer["error"]
        assert client.annotate(TEXTS) == (200, {"entities": [[]]})


@pytest.mark.parametrize("mode", GenerationMode)
def test_the_server_does_what_its_schema_says(client, mode):
    """In both directions: what the schema allows is answered, and what it does not is refused."""
    api = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) == 4
    statuses = Counter()
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # it takes nothing that could be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=10, derandomize=True, database=None, deadline=None)
        def check(case):
            statuses[case.call_and_validate().status_code] += 1

        check()
    assert set(statuses) == {200} if mode is GenerationMode.POSITIVE else sum(statuses.values()) > 9
