"""Every command that the manual, a message or a comment names is there and explains itself.

`tests/test_every_flag.py` looks at the `--help` of those that call `cli.run`; the others run here.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_every_flag import commands
from tfbio.task_types import task_table

ROOT = Path(__file__).resolve().parents[1]
# What users read, and the code.
READ = (
    *("README.md", "CHANGELOG.md", "Makefile", "docs/*.md", "hparams/**/*.json", "*.py"),
    *("tfbio/**/*.py", "data_prep/**/*.py", "benchmarks/**/*.py", "scripts/**/*.py"),
)
# `python -m tfbio.report`, `["-m", "tfbio.report"]`, `scripts/demo.py`, `run_finetuning.py`; not
# `python -m data_prep.corpora.{name}` or `python -m data_prep.corpora.`, where names follow.
MODULE = r"""-m["', ]+((?:tfbio|data_prep|benchmarks)(?:\.\w++)++)(?!\.[{<`])"""
SCRIPT = r"(?<![\w/.-])(scripts/\w+\.py|run_\w+\.py)"
# Of BERT's and Hugging Face's repositories.
OF_OTHERS = {"run_classifier.py", "run_mlm.py", "run_ner.py", "run_squad.py"}


def names_in(text: str) -> set[str]:
    """Returns the commands that a text names, as `commands` calls them."""
    found = re.findall(f"{MODULE}|{SCRIPT}", text)
    return {module or script for module, script in found} - OF_OTHERS


def named() -> dict[str, set[str]]:
    """Returns, for every command, the files and tasks that name it."""
    files: dict[str, set[str]] = {}
    for path in (path for pattern in READ for path in sorted(ROOT.glob(pattern))):
        for name in names_in(path.read_text(encoding="utf-8")):
            files.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    for task in task_table.TASKS.values():
        for name in names_in(task.made_by):
            files.setdefault(name, set()).add(f"the task {task.name}")
    return files


def path_of(command: str) -> Path:
    """Returns the file of a command."""
    return ROOT / (command if command.endswith(".py") else f"{command.replace('.', '/')}.py")


NAMED = named()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`python -m tfbio.report`.", {"tfbio.report"}),
        ("-m data_prep.corpora.i2b2_2010 --input", {"data_prep.corpora.i2b2_2010"}),
        ('[sys.executable, "-m", "tfbio.convert"]', {"tfbio.convert"}),
        ("`scripts/demo.py`, or run_x.py", {"scripts/demo.py", "run_x.py"}),
        ("data_prep.readers.pubmed; bert/run_pretraining.py; run_squad.py", set()),
        ('f"python -m data_prep.corpora.{name}"', set()),
        ("| `python -m data_prep.corpora.` | makes |", set()),
        ("Run python -m tfbio.report.", {"tfbio.report"}),
    ],
)
def test_a_command_in_a_text_is_found(text, names):
    assert names_in(text) == names


def test_every_command_that_is_named_is_there():
    assert len(NAMED) > 30
    missing = {
        f"{command} in {', '.join(sorted(files))}"
        for command, files in NAMED.items()
        if not path_of(command).is_file()
        or 'if __name__ == "__main__":' not in path_of(command).read_text(encoding="utf-8")
    }
    assert not missing


@pytest.mark.parametrize("command", sorted(set(NAMED) - set(commands())))
def test_help_shows_what_a_command_takes(command):
    arguments = [command] if command.endswith(".py") else ["-m", command]
    ended = subprocess.run(
        [sys.executable, *arguments, "--help"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    # argparse has the first two headings, absl the last.
    heading = r"^(?:positional arguments|options|flags):$"
    _, *sections = re.split(heading, ended.stdout, flags=re.MULTILINE)
    taken = re.findall(r"^  (?:-\w, )?(?:--)?(\w+)", "".join(sections), re.MULTILINE)
    assert set(taken) - {"help"}, ended.stdout
