"""Finds settings and flags of all commands by a word of their name or meaning.

  python -m tfbio.help learning_rate
  python -m tfbio.help --warm-up    the same as: warm up

Prints each setting and flag as it is typed, with its default, the values that it takes, its meaning
and, of a setting, the recipes that set it. Several words must all be there. --help of a command
has all of its flags and settings.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import importlib
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from absl import flags

from tfbio.base import cli, config, console, extras, messages
from tfbio.base.errors import UsageError
from tfbio.base.limits import Limits
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import PROTOCOLS

# Every module with flags: those that have a name in `tfbio`, and others.
COMMANDS = (
    *dict.fromkeys(x.module for x in console.COMMANDS.values() if x.module != "tfbio.help"),
    "data_prep.corpora.bigbio_tasks",
    "data_prep.corpora.biobert_folds",
    "data_prep.corpora.clinical_sts",
    "data_prep.corpora.i2b2_2010",
    "data_prep.corpora.i2b2_notes",
    "data_prep.corpora.mednli",
    "data_prep.corpora.pubmedqa",
    "data_prep.corpora.share_clefe",
    "tfbio.reporting.test_sets",
)
# Those that take `--set`, with the folder of their recipes.
_SETTINGS = {
    "run_pretraining": (PretrainingConfig, PROTOCOLS.parent),
    "run_finetuning": (FinetuningConfig, PROTOCOLS),
}
_WIDTH = 96
_RECIPES = 5  # the most names of recipes for one value


class Entry(NamedTuple):
    """A setting or flag, as it is found and printed.

    Attributes:
      commands: tuple of str, the modules of the commands that have it.
      name: str, its name, such as "run.pack" or "output_dir".
      typed: str, the way to type it, with its default, such as "--set run.pack=true".
      allowed: str, the values that it takes; "" if any.
      meaning: str, one or more sentences.
    """

    commands: tuple[str, ...]
    name: str
    typed: str
    allowed: str
    meaning: str

    def has(self, words: Sequence[str]) -> bool:
        """Returns True if name or meaning contain all of some words, which are in lower case."""
        return all(word in _plain(f"{self.name} {self.meaning}") for word in words)

    def distance(self, words: Sequence[str]) -> int:
        """Returns 0 if the name is some words, 1 if it contains them, and 2 if the meaning does."""
        name = _plain(self.name.rpartition(".")[2])
        return 0 if name == " ".join(words) else 2 - all(word in name for word in words)


def main(argv: list[str]) -> None:
    """Runs the command line: prints the settings and flags with some words, and returns nothing.

    Args:
      argv: the program's name, then the words; "--learning-rate" is the same as "learning rate".

    Raises:
      UsageError: there is no word, or nothing has all of them.
    """
    words = [word for argument in argv[1:] for word in _plain(argument).split()]
    if argv[1:] in (["--help"], ["-h"]):
        print(console.renamed(_usage()))
        return
    if not words:
        raise UsageError("give a word to look for, such as learning_rate.")
    found = [entry for entry in _entries() if entry.has(words)]
    if not found:
        raise UsageError(_nothing(argv[1:]))
    found.sort(key=lambda entry: entry.distance(words))
    print(console.renamed("\n\n".join(map(_shown, found))))


def _usage() -> str:
    """Returns the text of --help."""
    usage = argparse.ArgumentParser(
        prog="python -m tfbio.help",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    usage.add_argument("word", nargs="+", help="a part of a name, or of a meaning")
    return usage.format_help()


def _plain(text: str) -> str:
    """Returns a text in lower case, its underscores and hyphens as spaces."""
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


@functools.cache
def _entries() -> tuple[Entry, ...]:
    """Returns all settings and flags; the flags of a module can be had only once in a process."""
    return (*_settings(), *_flags())


def _settings() -> Iterator[Entry]:
    """Yields all settings; those of pretraining and of fine-tuning are two, with other defaults."""
    for command, (config_class, _) in _SETTINGS.items():
        for name, default, allowed, meaning in config.describe_each(config_class):
            # A text is typed without the quotes that it has in JSON.
            typed = f"--set {name}={default.strip(chr(34))}"
            yield Entry((command,), name, typed, allowed, meaning)


def _flags() -> Iterable[Entry]:
    """Returns all flags; one that several commands have, with the same text, is one entry."""
    merged: dict[Entry, list[str]] = {}
    for command in COMMANDS:
        try:
            found = list(_flags_of(command))
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            if name not in extras.EXTRA_OF:
                raise
            why = extras.not_installed(name)
            messages.say(f"warning: the flags of {command} are not searched: {why}")
            continue
        for entry in found:
            merged.setdefault(entry, []).append(command)
    return [entry._replace(commands=tuple(commands)) for entry, commands in merged.items()]


def _flags_of(command: str) -> Iterator[Entry]:
    """Yields the flags of a command, and takes them away again: another may have the same name."""
    before = set(flags.FLAGS)
    module = importlib.import_module(command)
    # The scripts define theirs when they are imported.
    getattr(module, "define_flags", lambda: None)()
    for name in [name for name in flags.FLAGS if name not in before]:
        flag = flags.FLAGS[name]
        yield Entry((), name, _typed(flag), _allowed(flag), " ".join((flag.help or "").split()))
        delattr(flags.FLAGS, name)


def _typed(flag: flags.Flag) -> str:
    """Returns the way to type a flag, with its default if it has one."""
    default = flag.default
    if flag.boolean and default is not None:
        default = str(default).lower()
    if isinstance(default, list):
        default = ",".join(map(str, default))
    return f"--{flag.name}={'' if default is None else default}"


def _allowed(flag: flags.Flag) -> str:
    """Returns in words the values that a flag takes; "" if any."""
    if flag.boolean:
        return "true or false"
    if choices := getattr(flag.parser, "enum_values", None):
        return str(Limits(choices=tuple(choices)))
    return flag.parser.syntactic_help or ""


def _shown(entry: Entry) -> str:
    """Returns the lines of an entry."""
    allowed = f" ({entry.allowed})" if entry.allowed else ""
    # No line ends within a command.
    commands = ", ".join(_command(each).replace(" ", "\0") for each in entry.commands)
    lines = [f"for {commands}", entry.meaning]
    if entry.typed.startswith("--set ") and entry.name != "comment":
        lines += _recipes(entry)
    wrapped = (textwrap.wrap(line, _WIDTH, break_on_hyphens=False) for line in lines)
    text = "\n".join(line for each in wrapped for line in each).replace("\0", " ")
    return f"{entry.typed}{allowed}\n{textwrap.indent(text, '    ')}"


def _command(module: str) -> str:
    """Returns a command as it is typed."""
    return f"python -m {module}" if "." in module else f"python {module}.py"


def _recipes(entry: Entry) -> list[str]:
    """Returns the line with the recipes that set a setting, by their values; none: no line."""
    by_value: dict[str, list[str]] = {}
    _, folder = _SETTINGS[entry.commands[0]]
    paths = [*folder.glob("*.json"), *(PROTOCOLS.glob("*/*.json") if folder == PROTOCOLS else [])]
    for path in sorted(paths):
        # A protocol has a folder, with a file for each of its tasks.
        recipe = path.stem if path.parent == folder else path.parent.name
        value = _value(path, entry.name)
        if value and recipe not in (recipes := by_value.setdefault(value, [])):
            recipes.append(recipe)
    values = "; ".join(f"{value} in {_some(recipes)}" for value, recipes in by_value.items())
    return [f"Recipes: {values}."] if values else []


def _value(path: Path, name: str) -> str:
    """Returns a setting's value in a recipe, or the values that it tries; "" if it has none."""
    values = json.loads(path.read_text(encoding="utf-8"))
    tried = values.get("sweep")
    for key in name.split("."):
        values = values.get(key) if isinstance(values, dict) else None
        tried = tried.get(key) if isinstance(tried, dict) else None
    if tried:
        return " or ".join(map(json.dumps, tried))
    return "" if values is None else json.dumps(values)


def _some(names: Sequence[str]) -> str:
    """Returns the first names of a list, and the number of the others."""
    rest = f" and {len(names) - _RECIPES} others" if len(names) > _RECIPES else ""
    return ", ".join(names[:_RECIPES]) + rest


def _nothing(given: Sequence[str]) -> str:
    """Returns the sentence for words that nothing has, with the nearest name."""
    names = {_plain(name.rpartition(".")[2]): name for _, name, *_ in _entries()}
    (near,) = difflib.get_close_matches(_plain(" ".join(given)), names, n=1, cutoff=0.0)
    return (
        f"no setting or flag has {messages.quoted(given)} in its name or meaning; the nearest name "
        f"is {names[near]}."
    )


if __name__ == "__main__":
    sys.exit(cli.exit_code(lambda: main(sys.argv)))
