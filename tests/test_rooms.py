"""The rooms of `tfbio` and `data_prep`: each imports those below it only (see pyproject.toml)."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
# From the top down; several commands are one layer.
LAYERS = [layer.split(" | ") for layer in CONTRACTS["contracts"][0]["layers"]]
NEIGHBOURS = [(above[0], below[0]) for above, below in zip(LAYERS, LAYERS[1:], strict=False)]
PLANTED = {
    "module": "import {name}\n",
    "function": "def planted():\n    import {name}\n",
    "type_checking": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import {name}\n",
}


def lint(folder: Path) -> subprocess.CompletedProcess:
    """Runs import-linter on the packages in a folder, with the contracts of this repository."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    config = ["--config", str(ROOT / "pyproject.toml")]
    return subprocess.run([*command, *config], cwd=folder, text=True, capture_output=True)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Returns a folder with a copy of both packages."""
    for package in CONTRACTS["root_packages"]:
        shutil.copytree(ROOT / package, tmp_path / package)
    return tmp_path


def plant(folder: Path, module: str, text: str) -> None:
    """Adds a text to a module, or a module that holds it to a package."""
    path = folder.joinpath(*module.split("."))
    path = path / "planted.py" if path.is_dir() else path.with_suffix(".py")
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}\n\n{text}")


def test_contracts_hold():
    ended = lint(ROOT)
    assert ended.returncode == 0, ended.stdout


def test_every_module_stands_in_a_room():
    named = {name for layer in LAYERS for name in layer}
    found = {
        f"{package}.{path.stem}"
        for package in CONTRACTS["root_packages"]
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {f"{package}.__init__" for package in CONTRACTS["root_packages"]} == named


@pytest.mark.parametrize("kind", PLANTED)
def test_upward_imports_are_found(kind, copied):
    for above, below in NEIGHBOURS:
        plant(copied, below, PLANTED[kind].format(name=above))
    ended = lint(copied)
    assert ended.returncode == 1
    said = " ".join(ended.stdout.split())
    for above, below in NEIGHBOURS:
        assert f"{below} is not allowed to import {above}" in said


def test_a_circle_in_a_room_is_found(copied):
    plant(copied, "tfbio.models.layers", "from tfbio.models import encoder\n")
    ended = lint(copied)
    assert ended.returncode == 1
    assert "No circles inside a room BROKEN" in ended.stdout


@pytest.mark.parametrize(
    "room", ["models", "training", "objectives", "task_types", "weights", "planning"]
)
def test_training_does_not_know_data_preparation(room, copied):
    plant(copied, f"tfbio.{room}", "from data_prep.readers import pubmed\n")
    ended = lint(copied)
    assert ended.returncode == 1
    assert "Only runs, which annotate new text, know data preparation BROKEN" in ended.stdout


def test_data_preparation_and_plain_tokenizers_import_no_tensorflow():
    """It takes seconds, which every command of theirs would wait."""
    script = (
        "import importlib, pkgutil, sys\n"
        "rooms = ['data_prep', 'tfbio.base', 'tfbio.text', 'tfbio.formats']\n"
        "names = list(rooms)\n"
        "for room in map(importlib.import_module, rooms):\n"
        "    for found in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        "        if 'in_graph' not in found.name:\n"
        "            importlib.import_module(found.name)\n"
        "            names.append(found.name)\n"
        "assert 'tensorflow' not in sys.modules\n"
        "print(len(names))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 50
