"""`--push`, against a server on loopback that speaks as much of the hub's language as it needs."""

import base64
import http.server
import json
import os
import re
import socket
import sys
import threading

import pytest
from huggingface_hub import constants

from tests import forked
from tests.conftest import ROOT
from tfbio.base.errors import UsageError
from tfbio.export import hub

TOKEN = "hf_a_token_of_the_test"


class Hub(http.server.BaseHTTPRequestHandler):
    """The hub: repositories of files, and files that are kept by their hash."""

    repositories = {"me/public": {"private": False, "files": {}}}
    large, commits = {}, []

    def log_message(self, *_):
        pass

    def answer(self, content, status=200, headers=None):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def may(self):
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self.answer({"error": "Invalid credentials in Authorization header"}, 401)
        return False

    def do_PUT(self):
        self.large[self.path.removeprefix("/lfs/")] = self.body()
        self.answer({})

    def do_GET(self):
        name = self.path.removeprefix("/api/models/")
        if not self.may():
            return
        if name in self.repositories:
            private = self.repositories[name]["private"]
            self.answer({"id": name, "private": private, "sha": "0" * 40, "siblings": []})
        else:
            self.answer({"error": "no such repository"}, 404, {"X-Error-Code": "RepoNotFound"})

    def do_POST(self):
        content = self.body()
        if not self.may():
            return
        if self.path == "/api/repos/create":
            self.create(json.loads(content))
        elif self.path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif self.path.endswith("/preupload/main"):
            files = json.loads(content)["files"]
            modes = {True: "lfs", False: "regular"}
            answer = [
                {
                    "path": x["path"],
                    "uploadMode": modes[x["path"].endswith(".safetensors")],
                    "shouldIgnore": False,
                }
                for x in files
            ]
            self.answer({"files": answer})
        elif self.path.endswith(".git/info/lfs/objects/batch"):
            address = f"http://{self.headers['Host']}/lfs"
            answer = [
                {**x, "actions": {"upload": {"href": f"{address}/{x['oid']}"}}}
                for x in json.loads(content)["objects"]
            ]
            self.answer({"transfer": "basic", "objects": answer})
        else:
            self.commit(content)

    def create(self, asked):
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] != "me":
            self.answer({"error": "You don't have the rights to create a model there"}, 403)
        elif name in self.repositories:
            said = {"error": "You already created this model repo"}
            self.answer({**said, "url": f"http://{self.headers['Host']}/{name}"}, 409)
        else:
            private = asked.get("visibility") == "private"
            self.repositories[name] = {"private": private, "files": {}}
            self.answer({"url": f"http://{self.headers['Host']}/{name}"})

    def commit(self, content):
        name = re.fullmatch("/api/models/(.*)/commit/main", self.path)[1]
        header, *operations = map(json.loads, content.splitlines())
        self.commits.append(header["value"]["summary"])
        files = self.repositories[name]["files"]
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "lfsFile":
                files[value["path"]] = self.large[value["oid"]]
            else:
                files[value["path"]] = base64.b64decode(value["content"])
        url = f"http://{self.headers['Host']}/{name}/commit/1"
        self.answer({"success": True, "commitUrl": url, "commitOid": "1" * 40})


@pytest.fixture(scope="module")
def endpoint():
    """The address of the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def here(endpoint, tmp_path, monkeypatch):
    """This process's hub is the server, and no token of this machine is read."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "stored_tokens"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)


def test_the_command_pushes_the_folder(pretrained, endpoint, tmp_path):
    def convert(*arguments, **variables):
        command = [sys.executable, "-m", "tfbio.convert", f"--from={pretrained}", *arguments]
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")}
        # Without it a server must speak Xet's language, too.
        own["HF_HUB_DISABLE_XET"] = "1"
        kept = {name: x for name, x in os.environ.items() if not name.startswith("HF_")}
        return forked.run(command, cwd=ROOT, env={**kept, **own, **variables})

    target, push = tmp_path / "out", "--push=me/model"
    done = convert(f"--to={target}", push)
    assert done.returncode == 1 and not target.exists()
    assert f"--push needs a token that may write to {endpoint}: set HF_TOKEN" in done.stderr
    facts = ["--format=transformers", "--license=apache-2.0", "--datasets=ncbi/pubmed"]
    done = convert(f"--to={target}", push, "--private", *facts, HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert f"{endpoint}/me/model: the model on the hub." in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    model = Hub.repositories["me/model"]
    paths = [path for path in target.rglob("*") if path.is_file()]
    expected = {str(path.relative_to(target)): path.read_bytes() for path in paths}
    assert model["files"] == expected and model["private"]
    assert {"README.md", "hparams.json", "model.safetensors", "tokenizer.json"} < expected.keys()
    assert "generator/model.safetensors" in expected and len(Hub.large) == 2
    assert "license: apache-2.0" in expected["README.md"].decode()
    (message,) = Hub.commits
    assert message.startswith("Model of tfbio")


@pytest.mark.parametrize(
    ("token", "repo", "private", "said"),
    [
        ("", "me/x", False, "--push needs a token that may write to http"),
        ("hf_wrong", "me/x", False, "does not know the token: make one at"),
        (TOKEN, "other/x", False, "the token may not write there: http"),
        (TOKEN, "me/public", True, "me/public is there already, and public: make it private"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(
    token, repo, private, said, here, tmp_path, monkeypatch
):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "README.md").write_text("A model.")
    with pytest.raises(hub.HubError, match=said) as caught:
        hub.push(str(tmp_path / "model"), repo, private)
    assert "\n" not in str(caught.value)
    assert not token or token not in str(caught.value)
    if status_known := token and repo != "me/public":
        assert status_known and "is complete: `hf upload" in str(caught.value)
    assert not Hub.repositories["me/public"]["files"]


def test_a_hub_that_cannot_be_reached_is_named(here, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(hub.HubError, match=f"me/x: {address} cannot be reached"):
        hub.push(str(tmp_path), "me/x", private=False)
    # A shell must take the command as it is typed.
    (tmp_path / "my model").mkdir()
    with pytest.raises(hub.HubError, match="`hf upload me/x '[^']*/my model'` pushes it, too"):
        hub.push(str(tmp_path / "my model"), "me/x", private=False)
    # Or the command that the error names would make the repository public.
    with pytest.raises(hub.HubError, match="`hf upload me/x '[^']*/my model' --private` pushes it"):
        hub.push(str(tmp_path / "my model"), "me/x", private=True)


def test_a_hub_that_must_not_be_reached_is_named(here, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(hub.HubError, match="--push=me/x: HF_HUB_OFFLINE is set: unset it. The fol"):
        hub.push(str(tmp_path), "me/x", private=False)
    assert "me/x" not in Hub.repositories


@pytest.mark.parametrize("name", ["a/b/c", "me/-x", "me/a b", "x" * 97])
def test_names_that_cannot_be_are_refused(name):
    with pytest.raises(UsageError, match="is no name of a repository on the hub"):
        hub.check_name("push", name)
    hub.check_name("push", "me/Model_1.0-x")
