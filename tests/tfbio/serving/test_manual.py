"""The clients in docs/serving.md get what the model gives."""

import contextlib
import http.server
import json
import re
import threading
from pathlib import Path

import tensorflow as tf

from tfbio.export import saved_model
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.weights import fine_tuned

PAGE = Path(__file__).resolve().parents[3] / "docs" / "serving.md"
TEXTS = ["Imatinib inhibits BCR-ABL.", "Aspirin was given."]


def example(words):
    """The example in Python with some words, of ten lines at most without imports."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [text for text in examples if words in text]
    lines = [line for line in found.splitlines() if line and not line.startswith("import ")]
    assert len(lines) <= 10
    return found


def test_the_client_of_the_command(serve, tagger, capsys):
    with serve(tagger) as (client, _):
        code = example("/annotate").replace(":8000/", f":{client.port}/")
        capsys.readouterr()
        exec(code, {})
    expected = [[(x.text, x.label) for x in entities] for entities in tagger(TEXTS)]
    assert sum(map(len, expected))
    lines = [f"{text} {own}" for text, own in zip(TEXTS, expected, strict=True)]
    assert capsys.readouterr().out.splitlines() == lines


@contextlib.contextmanager
def as_tensorflow_serving(graph):
    """A server that reads and writes JSON as TensorFlow Serving's REST API; gives its port.

    Of https://www.tensorflow.org/tfx/serving/api_rest: the columns of a request are in "inputs", by
    the inputs' names; those of the answer in "outputs", by the outputs' names, and strings whose
    names do not end in "_bytes" are text.

    Args:
      graph: the signature of a SavedModel, which runs operation by operation: saving it takes ten
        seconds, and `test_saved_model.py` does it.
    """
    inputs = {spec.name: spec for spec in graph.input_signature}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/tagger:predict"
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert set(asked) == {"inputs"} and set(asked["inputs"]) == set(inputs)
            given = {
                name: tf.constant(values, inputs[name].dtype)
                for name, values in asked["inputs"].items()
            }
            assert all(inputs[name].shape.is_compatible_with(x.shape) for name, x in given.items())
            outputs = graph.python_function(**given)
            found = {name: values.numpy().tolist() for name, values in outputs.items()}
            assert not any(name.endswith("_bytes") for name in found)
            answer = json.dumps({"outputs": found}, default=bytes.decode).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_the_client_of_tensorflow_serving(tagger_folder, tagger, capsys):
    vocabulary = Path(tagger_folder, "vocab.txt")
    tokenizer = graph_tokenization.load(vocabulary, lower_case=True)
    tuned = fine_tuned.read(tagger_folder)
    served = saved_model._served(tuned, tokenizer, vocabulary, tagger.max_length)
    with as_tensorflow_serving(served.functions()["serving_default"]) as port:
        code = example("entity_count").replace(":8501/", f":{port}/")
        capsys.readouterr()
        exec(code, {})
    expected = []
    for row, entities in enumerate(tagger(TEXTS)):
        for name in ("text", "label", "start", "end"):
            key = {"label": "type"}.get(name, name)
            expected.append(f"{row} entity_{key} {[getattr(x, name) for x in entities]}")
    assert capsys.readouterr().out.splitlines() == expected
