"""The files that say what to install agree: setup.cfg, constraints.txt and requirements/tpu."""

import configparser
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "./requirements/tpu -e '.[gcs]'"

# For each tensorflow-tpu the libtpu that has every function which it calls, and the version of the
# PJRT interface that it was built with; both were looked up in the wheels.
LIBTPU_OF = {"2.20.0": "0.0.18"}


@pytest.fixture(scope="module")
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def constraints():
    """The version of each name in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    versions = {canonicalize_name(name): version for name, version in pins}
    assert len(versions) == len(pins)
    return versions


@pytest.fixture(scope="module")
def stand_in():
    """The package that stands in for `tensorflow` on a machine with a TPU."""
    return tomllib.loads((ROOT / "requirements" / "tpu" / "pyproject.toml").read_text())


def requirements(text):
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line]


def needed(names):
    """Returns all that the named packages need, as far as they are installed, with who needs it."""
    found, todo = {}, list(names)
    while todo:
        name = todo.pop()
        if name == "torch":
            continue  # its build for GPUs needs many that its build for CPUs does not
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for line in package.requires or ():
            requirement = Requirement(line)
            environment = default_environment() | {"extra": ""}
            if requirement.marker and not requirement.marker.evaluate(environment):
                continue
            name = canonicalize_name(requirement.name)
            if name not in found:
                todo.append(name)
            found.setdefault(name, []).append((package.name, requirement.specifier))
    return found


def test_all_that_is_installed_has_a_version_in_constraints(setup_cfg, constraints):
    wanted = requirements(setup_cfg["options"]["install_requires"])
    for extra in setup_cfg["options.extras_require"]:
        if extra != "s3":
            wanted += requirements(setup_cfg["options.extras_require"][extra])
    # The tests need the other extras.
    wanted = [requirement for requirement in wanted if requirement.name != "tfbio"]
    for requirement in wanted:
        version = constraints[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
    names = {canonicalize_name(requirement.name) for requirement in wanted}
    # setuptools and wheel come with an environment.
    missing = set(needed(names)) - set(constraints) - {"setuptools", "wheel"}
    assert not missing


def test_the_tests_need_every_extra_but_those_of_hardware_and_object_stores(setup_cfg):
    found = setup_cfg["options.extras_require"]
    (own,) = [need for need in requirements(found["test"]) if need.name == "tfbio"]
    assert own.extras == set(found) - {"test", "gcs", "gpu", "s3"}


def test_the_manual_has_every_extra(setup_cfg):
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert set(setup_cfg["options.extras_require"]) <= named


@pytest.mark.parametrize("target", ["demo", "test", "docs", "fuzz", "kills", "check"])
def test_make_installs_what_each_target_needs(target):
    """All prepare data, and draw plots or read the code that does."""
    lines = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert re.search(r"pip install .* -e '\.\[data,report[],]", lines)


def test_the_stand_in_is_the_tensorflow_of_constraints(stand_in, setup_cfg, constraints):
    project = stand_in["project"]
    assert project["name"] == "tensorflow"
    assert project["version"] == constraints["tensorflow"] + "+tpu"
    assert project["requires-python"] == setup_cfg["options"]["python_requires"]
    assert stand_in["tool"]["setuptools"] == {"packages": []}  # no files: none can be there twice


def test_the_stand_in_needs_tensorflow_tpu_and_no_other_tensorflow(stand_in, constraints):
    found = {}
    for line in stand_in["project"]["dependencies"]:
        requirement = Requirement(line)
        found[requirement.name] = str(requirement.specifier)
    version = constraints["tensorflow"]
    assert found == {"tensorflow-tpu": f"=={version}", "libtpu": f"=={LIBTPU_OF[version]}"}
    # tensorflow-tpu 2.20's own words, see its METADATA.
    assert SpecifierSet("~=0.0.14").contains(LIBTPU_OF[version])


def test_all_that_need_tensorflow_take_the_stand_in(stand_in, setup_cfg):
    wanted = requirements(setup_cfg["options"]["install_requires"])
    version = Version(stand_in["project"]["version"])
    (own,) = [requirement for requirement in wanted if requirement.name == "tensorflow"]
    assert own.specifier.contains(version)
    others = needed(requirement.name for requirement in wanted)
    of_tensorflow = others["tensorflow"]
    assert {"tensorflow-text", "tf-keras"} <= {canonicalize_name(name) for name, _ in of_tensorflow}
    for name, specifier in of_tensorflow:
        assert specifier.contains(version), f"{name} wants tensorflow{specifier}"
    # Other builds of TensorFlow have the same files.
    assert not {"tensorflow-cpu", "tensorflow-intel", "tf-nightly"} & set(others)


def test_make_and_the_manual_install_with_the_same_command():
    make = subprocess.run(
        ["make", "--dry-run", "--always-make", "install-tpu"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert re.search(
        rf"\.venv-tpu-vm/bin/python -m pip .*-c constraints.txt {re.escape(COMMAND)}", make
    )
    assert f"pip install {COMMAND} -c constraints.txt" in (ROOT / "docs" / "tpu.md").read_text()
