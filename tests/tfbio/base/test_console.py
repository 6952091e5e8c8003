"""The names of commands, as those type them who have started `tfbio`."""

import re
import sys
from pathlib import Path

import pytest

from tfbio.base import console

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `python -m data_prep.documents` first", "run `tfbio documents` first"),
        ("a folder of data_prep.examples.", "a folder of tfbio examples."),
        ("python run_pretraining.py --help", "tfbio pretrain --help"),
        ("run_finetuning.py --mode=predict --model=x", "tfbio predict --model=x"),
        ("a run of run_finetuning.py", "a run of tfbio finetune"),
        # Names of modules and files, and commands that `tfbio` does not have.
        ("see tfbio/report.py and tfbio.reporting", "see tfbio/report.py and tfbio.reporting"),
        ("data_prep.examples.make, data_prep/documents.py", None),
        ("python -m data_prep.corpora.pubmedqa, BERT's run_squad.py", None),
    ],
)
def test_commands_are_called_as_they_were_typed(text, shown, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tfbio report"])
    assert console.renamed(text) == (shown or text)


@pytest.mark.parametrize("program", ["run_pretraining.py", "/x/tfbio/report.py", "-m"])
def test_other_programs_keep_their_names(program, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    assert console.renamed("python run_pretraining.py") == "python run_pretraining.py"


@pytest.mark.parametrize("name", console.COMMANDS)
def test_every_command_is_there_and_runs_as_a_program(name):
    module = console.COMMANDS[name].module
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert re.search(r'^if __name__ == "__main__":\n', text, re.MULTILINE)


def test_every_command_of_the_pipeline_has_a_name():
    """Whatever calls `cli.run` on top of the rooms; those of `corpora` are for one corpus each."""
    files = [*ROOT.glob("run_*.py"), *ROOT.glob("tfbio/*.py"), *ROOT.glob("data_prep/*.py")]
    runs = {path for path in files if "\n    cli.run(" in path.read_text(encoding="utf-8")}
    named = {command.module for command in console.COMMANDS.values()}
    assert len(runs) > 8
    assert {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in runs} <= named


def test_the_manual_has_every_command():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `tfbio (\w+)` \| (.*) \| `(.*)` \|$", text, re.MULTILINE)
    assert [(name, does) for name, does, _ in found] == [
        (name, command.summary) for name, command in console.COMMANDS.items()
    ]
    for name, _, same in found:
        command = console.COMMANDS[name]
        way = f"-m {command.module}" if "." in command.module else f"{command.module}.py"
        assert same == " ".join(["python", way, *command.flags])
