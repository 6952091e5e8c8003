"""A small model, and servers on loopback in a thread of the test's process."""

import contextlib
import http.client
import json
import threading

import pytest

import tfbio
from tests import fine_tuned
from tfbio.serving import application, endpoints, server
from tfbio.serving.limits import RequestLimits


class Client:
    """Sends requests to a server on loopback, each on a connection of its own."""

    def __init__(self, port):
        self.port = port

    def send(self, method, path, body=None, headers=None):
        """Returns the status, the headers and the body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def annotate(self, body, path="/annotate", **headers):
        """Returns the status of a POST of texts, and the answer from JSON."""
        if not isinstance(body, bytes) and not hasattr(body, "__next__"):
            body = json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("Content-Type", "application/json")
        status, answered, answer = self.send("POST", path, body, given)
        assert answered["Content-Type"] == "application/json"
        return status, json.loads(answer)


@contextlib.contextmanager
def serving(compute, limits, endpoint):
    """Serves a model on loopback; gives a `Client` and the `Server`."""
    app, batcher = application.make(compute, limits, endpoint)
    served = server.make(app, limits)
    opened = server.open_socket("127.0.0.1", 0)
    port = opened.getsockname()[1]
    listening = threading.Event()
    startup = served.startup

    async def start(sockets):
        await startup(sockets)
        listening.set()

    served.startup = start
    thread = threading.Thread(target=served.serve_on, args=[opened])
    thread.start()
    try:
        assert listening.wait(30)
        yield Client(port), served
    finally:
        served.should_exit = True
        thread.join()
        batcher.close()


@pytest.fixture(scope="session")
def serve():
    """Serves a model on loopback within a block: a function of `compute` and of limits."""

    def serve(compute, endpoint=endpoints.ANNOTATE, **limits):
        return serving(compute, RequestLimits(**limits), endpoint)

    return serve


@pytest.fixture(scope="session")
def tagger_folder(tmp_path_factory):
    """A model that tags words, in the format of `transformers`, with random weights."""
    folder = tmp_path_factory.mktemp("served") / "tagger"
    fine_tuned.make(folder, "BertForTokenClassification", fine_tuned.TAGS)
    return str(folder)


@pytest.fixture(scope="session")
def tagger(tagger_folder):
    """The same, loaded."""
    return tfbio.load(tagger_folder)
