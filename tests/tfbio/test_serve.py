"""The command serves a model until SIGTERM, and answers what has come before."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import tfbio
from tests import fine_tuned, forked

ROOT = Path(__file__).resolve().parents[2]
TEXT = "the cell binds il-2 protein. The drug works."


def said(stderr):
    """The lines on stderr but for TensorFlow's, which a fork of `forked` has.

    On a CPU without AVX-512 it says how it multiplies bfloat16.
    """
    return [line for line in stderr.splitlines() if not re.search("cuda|oneDNN supports", line)]


def test_the_command_answers_what_has_come_when_sigterm_ends_it(make_trial):
    trial, _ = make_trial("tagging", fine_tuned.TAGS, {"words": "punctuation"})
    folder = os.path.dirname(trial)  # a run
    command = [sys.executable, "-m", "tfbio.serve", f"--model={folder}", "--port=0"]
    command.append("--set=run.precision=bfloat16")  # whose scores differ by more than 1e-4
    pipe = subprocess.PIPE
    with forked.Popen(command, cwd=os.getcwd(), stdout=pipe, stderr=pipe) as process:
        line = process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+): listening; .*\n", line)
        assert found, (line, process.stderr.read())
        body = json.dumps({"texts": [TEXT]}).encode()
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=60) as connection:
            connection.sendall(
                b"POST /annotate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            connection.sendall(body[:9])
            # So that the server has read the headers.
            with socket.create_connection(("127.0.0.1", int(found[1])), timeout=60) as other:
                other.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b"live" in other.makefile("rb").read()
            process.send_signal(signal.SIGTERM)
            connection.sendall(body[9:])
            head, _, answer = connection.makefile("rb").read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert process.wait(60) == 0
        assert process.stdout.read() == "" and not said(process.stderr.read())
    (entities,) = json.loads(answer)["entities"]
    expected = tfbio.load(folder, {"run.precision": "bfloat16"})(TEXT)
    assert entities and [(x["text"], x["label"], x["start"], x["end"]) for x in entities] == [
        (x.text, x.label, x.start, x.end) for x in expected
    ]
    assert [x["score"] for x in entities] == pytest.approx([x.score for x in expected], abs=1e-4)


def test_an_encoder_without_a_head_is_refused(tmp_path):
    fine_tuned.make(tmp_path / "m", "BertModel")
    command = [sys.executable, "-m", "tfbio.serve", f"--model={tmp_path / 'm'}", "--port=0"]
    done = forked.run(command)
    assert done.returncode == 1
    (line,) = said(done.stderr)
    assert line.startswith("error: --model=")
    assert "is an encoder without a head for a task: fine-tune it" in line


def test_a_wrong_setting_is_named_before_the_model_is_loaded(tmp_path):
    command = [sys.executable, "-m", "tfbio.serve", f"--model={tmp_path}", "--port=0"]
    done = forked.run([*command, "--set=run.eval_batch=8"])
    assert done.returncode == 2 and "'run.eval_batch_size'" in said(done.stderr)[-1]


def test_a_package_of_the_extra_that_is_missing_is_named(tmp_path, fails_in_one_sentence):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['uvicorn'] = None\n")
    done = subprocess.run(
        [sys.executable, "-m", "tfbio.serve", f"--model={tmp_path}", "--port=0"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    line = fails_in_one_sentence(done)
    remedy = "`pip install 'tfbio[serve]'` installs it"
    assert line == f"error: the package uvicorn is not installed: {remedy}."


def test_a_model_that_reads_two_marked_entities_is_served(make_trial):
    labels = ["no", "yes"]
    trial, _ = make_trial("classification", labels, {"pairs": False}, pooling="mention")
    command = [sys.executable, "-m", "tfbio.serve", f"--model={trial}", "--port=0"]
    pipe = subprocess.PIPE
    with forked.Popen(command, cwd=os.getcwd(), stdout=pipe, stderr=pipe) as process:
        line = process.stdout.readline()
        found = re.match(r"http://127\.0\.0\.1:(\d+): listening", line)
        assert found, (line, process.stderr.read())

        def answer(text):
            address = f"http://127.0.0.1:{found[1]}/label"
            body = json.dumps({"texts": [text]}).encode()
            request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=60) as answered:
                    return answered.status, json.load(answered)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        status, answered = answer("[S1] the cell [E1] binds [S2] il-2 [E2].")
        assert status == 200 and answered["labels"][0]["label"] in labels
        status, answered = answer("the cell binds il-2.")
        assert status == 422
        assert answered["error"].startswith(
            "'the cell binds il-2.': expected [S1], [E1], [S2], [E2]"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and not said(process.stderr.read())
