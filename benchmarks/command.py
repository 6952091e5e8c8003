"""Runs a benchmark as a command: a mistake ends as docs/commands.md says."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable
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
            f"the package {missing[0]} is not installed, which this compares with: "
            f"pip install -c constraints.txt {' '.join(missing)}."
        )


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
