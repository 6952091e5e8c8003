"""Writes the reference of the commands from their flags and settings: a hook of mkdocs.

    python scripts/site/command_pages.py        prints the pages as a JSON object

Flags, settings and text are those of `--help`, so that the pages cannot become stale. A process for
each command reads them, because two commands may have a flag of the same name.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("tfbio", "data_prep", "benchmarks", "scripts")
# For each page its title, and how the names of its commands begin.
_PAGES = {
    "data_preparation": ("Commands for data preparation", ("data_prep.",)),
    "task_files": ("Commands that make task files", ("data_prep.corpora.",)),
    "pretraining": ("The command for pretraining", ("run_pretraining.py",)),
    "finetuning": ("The command for fine-tuning and prediction", ("run_finetuning.py",)),
    "models": ("Commands for models and results", ("tfbio.",)),
    "development": ("Commands for development", ("benchmarks.", "scripts/")),
}


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages; mkdocs calls this."""
    from mkdocs.structure.files import File

    for name, text in _pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


@functools.cache  # `make docs-serve` builds many times
def _pages() -> dict[str, str]:
    """Returns the Markdown of each page, made in another process, which imports the commands."""
    made = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        stdout=subprocess.PIPE,
        check=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(made.stdout)


def commands() -> list[str]:
    """Returns the commands, modules and scripts, that call `cli.run`."""
    paths = [*ROOT.glob("*.py")]
    paths += [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = []
    for path in sorted(paths):
        if re.search(r"^    cli\.run\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            name = path.relative_to(ROOT)
            is_script = len(name.parts) == 1 or name.parts[0] == "scripts"
            found.append(str(name) if is_script else ".".join(name.with_suffix("").parts))
    return found


def page_of(command: str) -> str:
    """Returns the name of a command's page: that of the longest beginning of its name."""
    beginnings = [
        (len(beginning), page)
        for page, (_, several) in _PAGES.items()
        for beginning in several
        if command.startswith(beginning)
    ]
    return max(beginnings)[1]


def _section(command: str) -> str:
    """Returns the Markdown of one command; in a process of its own, since it defines flags."""
    from absl import app, flags

    from tfbio.base import console

    app.define_help_flags()
    before = set(flags.FLAGS)
    module, given = _loaded(command)
    if define_flags := given.get("define_flags"):
        define_flags()
    defined = sorted(set(flags.FLAGS) - before)
    module_name = command.removesuffix(".py")
    typed = f"python {command}" if command.endswith(".py") else f"python -m {command}"
    names = [name for name, each in console.COMMANDS.items() if each.module == module_name]
    if names:
        # Texts then have these names, as `tfbio NAME --help` does.
        sys.argv = [f"tfbio {names[0]}"]
    title = ", ".join(f"`tfbio {name}`" for name in names) or f"`{typed}`"
    text = module["__doc__"].partition("\nSettings, with defaults and limits:")[0]
    parts = [f"## {title}", *_paragraphs(console.renamed(text))]
    if names:
        parts += [f"In a checkout also `{typed}`."]
    parts += [console.renamed(_flag_table(flags.FLAGS[name] for name in defined))]
    if settings := given.get("settings"):
        parts += [
            "### Settings",
            "`--set NAME=VALUE` changes one.",
            *_setting_tables(module, settings),
        ]
    return "\n\n".join(parts) + "\n"


def _loaded(command: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a command's names, and with which arguments it calls `cli.run`."""
    from tfbio.base import cli

    given: list[tuple[tuple, dict]] = []
    run, cli.run = cli.run, lambda *args, **options: given.append((args, options))
    try:
        if command.endswith(".py"):
            module = runpy.run_path(str(ROOT / command), run_name="__main__")
        else:
            module = runpy.run_module(command, run_name="__main__", alter_sys=True)
    finally:
        cli.run = run
    ((args, options),) = given
    names = ("main", "define_flags", "flags_parser", "settings")
    return module, dict(zip(names, args, strict=False)) | options


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a command's docstring; indented lines are code."""
    for lines in re.split(r"\n\s*\n", text.strip("\n")):
        if lines.startswith("  "):
            yield f"```text\n{textwrap.dedent(lines)}\n```"
        else:
            # The code in it has backticks; what else looks like Markdown or HTML is text.
            yield "".join(
                part if part.startswith("`") else re.sub(r"([*_\[]|<(?!http))", r"\\\1", part)
                for part in re.split(r"(`[^`]*`)", lines)
            )


def _flag_table(defined: Iterator[Any]) -> str:
    """Returns the table of the flags."""
    rows = []
    for flag in defined:
        values = getattr(flag.parser, "enum_values", None)
        takes = ", ".join(map(_code, values)) if values else flag.parser.syntactic_help
        # absl puts the choices before the text, and a note behind that of a flag with more values.
        meaning = re.sub(r"^<[^>]*>: |;\s+repeat this option .*", "", flag.help)
        name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
        takes = "" if flag.boolean else takes.removeprefix("a ").removeprefix("an ")
        rows.append([_code(name), _shown(flag.value), takes, _cell(meaning)])
    return _table(["flag", "default", "values", "meaning"], rows)


def _setting_tables(module: dict[str, Any], names: typing.Sequence[str]) -> Iterator[str]:
    """Yields a table of settings for each group of the configuration that has these names."""
    from tfbio.base import config

    (chosen,) = {
        value
        for value in module.values()
        if isinstance(value, type)
        and issubclass(value, config.BaseSettings)
        and config.names(value) == names
    }
    yield from _groups(chosen, "")


def _groups(settings: type, prefix: str) -> Iterator[str]:
    """Yields the table of a dataclass of settings, then those of its groups with their titles."""
    hints = typing.get_type_hints(settings)
    fields = dataclasses.fields(settings)
    groups = [field for field in fields if dataclasses.is_dataclass(hints[field.name])]
    if prefix:
        yield f"#### `{prefix}`"
        yield _cell((settings.__doc__ or "").split("\n\n")[0])
    yield _table(
        ["setting", "default", "values", "meaning"],
        [
            [
                _code(prefix + field.name),
                _shown(field.default),
                str(field.metadata["limits"]),
                _cell(field.metadata["meaning"]),
            ]
            for field in fields
            if field not in groups
        ],
    )
    for field in groups:
        yield from _groups(hints[field.name], f"{prefix}{field.name}.")


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Returns text for a cell, as it is, in one line."""
    return re.sub(r"([|*_<\[\]\\])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Returns text as code in a cell."""
    return f"`{text}`"


def _shown(value: Any) -> str:
    """Returns a default as a user would type it; nothing for none."""
    if value is None or value in ("", [], ()):
        return ""
    if isinstance(value, (list, tuple)):
        return _code(",".join(map(str, value)))
    return _code(value if isinstance(value, str) else json.dumps(value))


def _in_another_process(command: str) -> str:
    """Returns the Markdown of a command, made in a fork of this process."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        with os.fdopen(write, "w", encoding="utf-8") as out:
            out.write(_section(command))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as section:
        text = section.read()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{command}: its flags cannot be read.")
    return text


def main() -> None:
    """Prints the pages."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    # What most of them import; each would take seconds anew.
    importlib.import_module("data_prep.documents")
    importlib.import_module("tfbio.report")
    pages = {name: f"# {title}\n" for name, (title, _) in _PAGES.items()}
    for command in commands():
        pages[page_of(command)] += f"\n{_in_another_process(command)}"
    print(json.dumps(pages))


if __name__ == "__main__":
    main()
