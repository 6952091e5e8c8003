"""The Dockerfiles install a wheel of the checkout, with pinned versions, for an ordinary user.

No image is built here. `hadolint docker/*.Dockerfile` checks the form.
"""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.test_requirements import setup_cfg  # noqa: F401
from tests.test_wheel import COMMANDS, FILES, PACKAGES

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILES = sorted((ROOT / "docker").iterdir())
IGNORE = (ROOT / ".dockerignore").read_text().splitlines()


def instructions(path):
    """Yields the instructions of a Dockerfile: the name and the rest, in one line."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        yield name, " ".join(rest.split())


def is_sent(name):
    """Returns True if Docker gets a path: the last line of .dockerignore that fits it counts."""
    sent = True
    for line in IGNORE:
        pattern = line.removeprefix("!")
        if fnmatch(name.partition("/")[0], pattern) or fnmatch(name, pattern):
            sent = line.startswith("!")
    return sent


def test_there_is_one_for_each_kind_of_device():
    assert [path.name for path in DOCKERFILES] == [f"{x}.Dockerfile" for x in ("cpu", "gpu", "tpu")]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_pinned_and_runs_tfbio_for_a_user(path, setup_cfg):  # noqa: F811
    found = list(instructions(path))
    pythons = [re.match(r"python:([\d.]+)-slim-bookworm\b", x)[1] for n, x in found if n == "FROM"]
    assert len(set(pythons)) == 1 and pythons[0].count(".") == 2
    assert SpecifierSet(setup_cfg["options"]["python_requires"]).contains(pythons[0])
    (extras,) = [x.removeprefix("EXTRAS=").split(",") for n, x in found if n == "ARG"]
    assert set(extras) <= set(setup_cfg["options.extras_require"])
    _, install = [x for n, x in found if n == "RUN"]
    assert "--no-cache-dir --constraint=/tfbio/constraints.txt" in install
    # In this order at the end: what is installed belongs to root.
    assert [n for n, _ in found][-5:] == ["RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]
    assert dict(found)["USER"] == "1000" and "--uid=1000" in install
    assert dict(found)["ENTRYPOINT"] == '["tfbio"]'


def test_the_manual_builds_an_image_that_serves(setup_cfg):  # noqa: F811
    """And gives it a process 1 that passes SIGTERM on while the model loads."""
    page = (ROOT / "docs" / "serving.md").read_text()
    (path, extras) = re.search(
        r"docker build --file=(\S+) --build-arg=EXTRAS=(\S+) ", page
    ).groups()
    assert ROOT / path in DOCKERFILES
    assert "serve" in extras.split(",")
    assert set(extras.split(",")) <= set(setup_cfg["options.extras_require"])
    (run,) = re.findall(r"docker run (?:.*\\\n)*.*", page)
    assert "--init" in run and "--host=0.0.0.0" in run


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_all_that_is_copied_is_there_and_sent_to_docker(path):
    copied = [x.split()[0] for n, x in instructions(path) if n == "COPY" and "--from" not in x]
    assert copied[:2] == [".", "constraints.txt"]
    assert all((ROOT / name).exists() and is_sent(name) for name in copied[1:])


def test_docker_gets_what_a_wheel_is_made_of_and_no_more():
    assert all(map(is_sent, (*PACKAGES, *FILES, *COMMANDS)))
    assert not any(map(is_sent, (".git", ".venv", ".venv-tpu", "demo", "tests", "docs", "x.tsv")))
    assert not is_sent("tfbio/__pycache__")


def test_the_tpu_has_no_other_tensorflow():
    (line,) = [x for n, x in instructions(ROOT / "docker" / "tpu.Dockerfile") if "pip install" in x]
    assert "/tfbio/requirements/tpu " in line and "tensorflow" not in line
