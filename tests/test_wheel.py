"""The wheel has every module and data file, and works outside of the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tfbio", "data_prep", "hparams")
# What setuptools reads, and the commands.
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
COMMANDS = ("run_pretraining.py", "run_finetuning.py")
NO_FILES = shutil.ignore_patterns("__pycache__")

# Gets the unpacked wheel's folder; prints the number of modules that it imported. The two commands
# define flags of the same names, and so cannot be imported into one process.
IMPORTS = """
import importlib, sys
from pathlib import Path

# The checkout's packages, where they are installed as editable.
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
count = 0
for path in sorted(folder.glob("*/**/*.py")):
    parts = path.relative_to(folder).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    assert Path(module.__file__) == path, f"{module} is not {path}"
    for name, value in vars(module).items():
        if isinstance(value, Path) and value.is_relative_to(folder):
            assert value.exists(), f"{module}: {name} is {value}, which is not there"
    count += 1
print(count)
"""


def copy_sources(folder: Path) -> Path:
    """Copies what a wheel is made of: setuptools leaves a build folder, and takes up an old one."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=NO_FILES)
    for name in (*FILES, *COMMANDS):
        shutil.copy(ROOT / name, folder)
    return folder


def build(source: Path, output: Path) -> Path:
    """Builds the wheel of a folder and unpacks it, without a network; returns the new folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", f"--wheel-dir={output}"]
    # Isolated, so that the build sees no other packages than an installation does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [*command, *options, str(source)], env=environment, text=True, capture_output=True
    )
    assert ended.returncode == 0, ended.stderr
    (path,) = output.glob("*.whl")
    unpacked = output / "unpacked"
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(unpacked)
    return unpacked


def expected_files() -> set[str]:
    """Returns the paths of all that the packages have in the checkout, with the commands."""
    paths = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    found = {str(path.relative_to(ROOT)) for path in paths if path.parent.name != "__pycache__"}
    return found | set(COMMANDS)


def files_of(unpacked: Path) -> set[str]:
    """Returns the paths of what a wheel installs, without its metadata."""
    paths = (path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file())
    return {str(path) for path in paths if not path.parts[0].endswith(".dist-info")}


def import_all(unpacked: Path) -> subprocess.CompletedProcess:
    """Imports every module of an unpacked wheel, in a process that does not see the checkout."""
    return subprocess.run(
        [sys.executable, "-I", "-c", IMPORTS, str(unpacked)],
        cwd=unpacked.parent,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """Returns the folder of the unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    return build(copy_sources(folder / "source"), folder)


def test_the_wheel_has_every_file_of_the_packages(unpacked):
    expected = expected_files()
    assert {"tfbio/py.typed", "data_prep/py.typed", "hparams/base.json"} < expected
    assert files_of(unpacked) == expected


def test_every_module_of_the_wheel_is_imported_from_it(unpacked):
    ended = import_all(unpacked)
    assert ended.returncode == 0, ended.stderr
    modules = {name for name in expected_files() if name.endswith(".py")} - set(COMMANDS)
    assert int(ended.stdout) == len(modules) > 100


@pytest.mark.parametrize(
    ("line", "instead", "lost"),
    [
        ("    data_prep*\n", "    data_prep\n    data_prep.[!c]*\n", "data_prep/corpora/ddi.py"),
        ("tfbio.reporting = *.json\n", "", "tfbio/reporting/published_tables.json"),
        ("hparams = **/*.json\n", "", "hparams/finetuning/authors/gad.json"),
        ("    run_finetuning\n", "", "run_finetuning.py"),
    ],
)
def test_what_setup_cfg_leaves_out_is_found(line, instead, lost, tmp_path):
    """So that the comparison above is not one of nothing."""
    source = copy_sources(tmp_path / "source")
    text = (source / "setup.cfg").read_text()
    assert text.count(line) == 1
    (source / "setup.cfg").write_text(text.replace(line, instead))
    assert lost in expected_files() - files_of(build(source, tmp_path))


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("planted/__init__.py", "import planted.missing\n", "No module named 'planted.missing'"),
        (
            "planted/__init__.py",
            "from pathlib import Path\nTABLE = Path(__file__).with_name('table.json')\n",
            "table.json, which is not there",
        ),
        # As if a module came from elsewhere.
        ("collections/abc.py", "", "collections/abc.py"),
    ],
)
def test_what_a_wheel_lacks_is_found(path, text, said, tmp_path):
    """So that the imports above are not those of the checkout."""
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(text)
    ended = import_all(tmp_path)
    assert ended.returncode == 1 and said in ended.stderr
