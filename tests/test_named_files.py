"""Every file and folder of the repository that the manual or the code names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("tfbio", "data_prep", "tests", "docs", "hparams", "benchmarks", "scripts", "requirements")
CODE = ("*.py", *(f"{room}/**/*.py" for room in ROOMS))
# `docs/tpu.md`, `tests/data/parity`, but not `google/docs/tpu.md` or `tests/{name}.py`.
PATH = re.compile(rf"(?<![\w./{{}}<>*-])((?:{'|'.join(ROOMS)})/[\w./-]*\w)(?![\w/]*[{{<*])")
# `regression.py` alone, as tables of files in one folder name it.
MODULE = re.compile(r"`([a-z]\w*\.py)`")
# A word in capitals stands for a name: `tfbio/task_types/NAME.py`.
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+(?:/|\.|$)")
# Of BERT's and Beam's repositories, of BLURB's files, and of others' repositories in a list.
OF_OTHERS = {
    *("run_squad.py", "setup.py"),
    *("benchmarks/gad/test.tsv", "benchmarks/hoc/test_pmid.tsv", "tests/fixtures/pmid_xml"),
}


def named_in(text: str) -> set[str]:
    """Returns the files and folders of the repository that a text names."""
    names = {*PATH.findall(text), *MODULE.findall(text)}
    return {name for name in names if not PLACEHOLDER.search(name)} - OF_OTHERS


def is_there(name: str) -> bool:
    """Returns True if there is such a file or folder; a name alone may be in any folder."""
    if "/" in name:
        return (ROOT / name).exists()
    return any(path.name == name for pattern in CODE for path in ROOT.glob(pattern))


def manual() -> list[Path]:
    """Returns the pages for people, those of `tests/data` too."""
    return [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [
        *sorted(ROOT.glob("docs/*.md")),
        ROOT / "tests" / "data" / "README.md",
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(`tests/tfbio/models/test_crf.py`)", {"tests/tfbio/models/test_crf.py"}),
        ("in `hparams/`, and docs/tpu.md.", {"docs/tpu.md"}),
        ("`scripts/demo.py`, `regression.py`", {"scripts/demo.py", "regression.py"}),
        ("`tfbio/task_types/NAME.py`, `tests/fuzz/found/MODULE/CHECK/`", set()),
        ("gs://docs/tpu.md, /x/tests/a.py, `tests/{name}.py`, `run_squad.py`", set()),
    ],
)
def test_a_path_in_a_text_is_found(text, names):
    assert named_in(text) == names


def test_a_file_that_is_not_there_is_noticed():
    assert is_there("tfbio/models/crf.py") and is_there("crf.py") and is_there("docs/figures")
    assert not is_there("tfbio/models/no.py") and not is_there("no.py")


@pytest.mark.parametrize("page", manual(), ids=lambda page: page.name)
def test_every_path_in_the_manual_is_there(page):
    names = named_in(page.read_text(encoding="utf-8"))
    assert not {name for name in names if not is_there(name)}


MADE_UP = {
    "tests/test_a.py in tests/test_reference.py",
    "tfbio/runs/x.py in tests/test_modules.py",
}


def test_every_module_that_the_code_names_is_there():
    """Modules alone: tests name files that are to be missing."""
    missing = {
        f"{name} in {path.relative_to(ROOT)}"
        for pattern in CODE
        for path in ROOT.glob(pattern)
        if path != Path(__file__) and "tests/data/" not in str(path)
        for name in PATH.findall(path.read_text(encoding="utf-8"))
        if name.endswith(".py") and not PLACEHOLDER.search(name) and not is_there(name)
    }
    # Names that tests make up.
    assert missing == MADE_UP
