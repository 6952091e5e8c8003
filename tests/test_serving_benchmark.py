"""`benchmarks.serving`: what its clients say of the answers of a small server of HTTP."""

import http.server
import json
import threading

import pytest

from benchmarks import serving
from benchmarks.serving_clients import Client, Done, Expected
from tfbio.base.errors import UserError

ENTITY = {"text": "aspirin", "label": "Chemical", "start": 0, "end": 7, "score": 0.9}
EXPECTED = [Expected("aspirin helps", [("aspirin", "Chemical", 0, 7)], [0.9])]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the server's status and body, which may depend on the number of texts."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        body = self.server.body
        if callable(body):
            body = body(len(json.loads(asked)["texts"]))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(scope="module")
def small_server():
    """A server in a thread of this process."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def sent(small_server):
    """Sends requests of a kind, which get a status and a body; gives how they ended."""

    def send(kind, status, body):
        small_server.status, small_server.body = status, body
        clients = [Client(small_server.server_port, EXPECTED, seed) for seed in (0, 1)]
        return serving.send_all([kind] * 8, clients, lambda number: None)

    return send


def entities_of(number):
    return {"entities": [[ENTITY]] * number}


def test_right_answers_have_no_problem(sent):
    for done in (sent("valid", 200, entities_of), sent("wrong", 422, {"error": "No texts."})):
        assert len(done) == 8 and not any(each.problem for each in done)


@pytest.mark.parametrize(
    "kind, status, body, words",
    [
        ("valid", 200, b"Hello, " * 99, ["another form", "Hello, Hello"]),
        ("valid", 200, b'{"entities": [[{"text"', ["another form", '{"entities": [[{"text"']),
        ("valid", 200, {"found": []}, ["another form", "KeyError", "found"]),
        ("valid", 200, [1, 2], ["another form", "[1, 2]"]),
        ("valid", 200, {"entities": None}, ["another form", "null"]),
        ("valid", 200, lambda n: {"entities": [[{"text": "a"}]] * n}, ["another form", "label"]),
        ("valid", 200, lambda n: {"entities": [[]] * n}, ["[] and not"]),
        (
            "valid",
            200,
            lambda n: {"entities": [[ENTITY | {"score": 0.8998}]] * n},
            ["the score 0.8998 and not 0.9"],
        ),
        ("valid", 500, b"Internal Server Error", ["status 500", "Internal Server Error"]),
        ("wrong", 422, b"Unprocessable", ["another form", "Unprocessable"]),
        ("wrong", 422, {"detail": "No texts."}, ["another form", "detail"]),
        ("wrong", 422, {"error": ["No texts."]}, ["another form", "No texts."]),
        ("wrong", 422, {"error": "no texts"}, ["no sentence", "no texts"]),
    ],
)
def test_an_answer_of_another_form_is_a_problem_with_its_text(sent, kind, status, body, words):
    done = sent(kind, status, body)
    assert len(done) == 8
    for each in done:
        assert all(word in each.problem for word in words), each.problem
        assert len(each.problem) < 400


def test_requests_that_did_not_end_are_an_error():
    done = [Done("valid", 200, 0.1)] * 3
    serving.check(done, 3, "")
    with pytest.raises(UserError, match=r"^only 3 of 4 requests ended\.$"):
        serving.check(done, 4, "")
    wrong = [*done, Done("health", 500, 0.1, "status 500")]
    with pytest.raises(UserError, match=r"^1 requests .*: health: status 500; after SIGTERM: x\.$"):
        serving.check(wrong, 4, "x")


def test_the_table_has_the_quantiles_of_each_kind():
    done = [Done("valid", 200, second) for second in range(101)]
    done += [Done("wrong", status, 0.5) for status in (422, 400, 422)]
    _, _, *rows = serving.table(done)
    assert rows == [
        "| valid | 101 | 101 × 200 | 50.000 | 99.000 |",
        "| wrong | 3 | 1 × 400, 2 × 422 | 0.500 | 0.500 |",
    ]
