"""Runs the console command `tfbio`, which has a command for every stage.

  tfbio pretrain --examples=work/examples --model_dir=work/model

does the same as `python run_pretraining.py --examples=work/examples --model_dir=work/model`, and
`python -m tfbio` the same as `tfbio`. `tfbio/base/console.py` lists the commands.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys

import tfbio
from tfbio.base import cli, console
from tfbio.base.errors import UsageError


def main() -> None:
    """Runs `tfbio` with the arguments of this process (`sys.argv`), and ends the process.

    The first argument names the command, and its module gets all others. Without arguments, and
    with --help or --version alone, it prints the list of commands, or the version, and returns.

    Raises:
      SystemExit: the command has ended, with its exit code; 2: there is no such command.
    """
    name, *arguments = sys.argv[1:] or ["--help"]
    if name == "help" and (not arguments or arguments[0] in console.COMMANDS):
        name, *arguments = [*arguments[:1], "--help"]
    if name in ("--help", "-h", "-help", "--helpfull"):
        print(_help())
    elif name == "--version":
        print(f"tfbio {tfbio.__version__}")
    elif name in console.COMMANDS:
        _run(name, arguments)
    else:
        sys.exit(cli.exit_code(lambda: _refuse(name)))


def _help() -> str:
    """Returns the list of commands."""
    width = max(map(len, console.COMMANDS))
    lines = [f"  {name:{width}}  {each.summary}" for name, each in console.COMMANDS.items()]
    return "\n".join(
        [
            "tfbio makes corpora, pretrains encoders, fine-tunes them, and annotates text.",
            "",
            "  tfbio COMMAND --flag=value ...",
            "  tfbio COMMAND --help    shows the command's flags, and what to type next",
            "  tfbio --version",
            "",
            "Commands, in the order of the data:",
            "",
            *lines,
        ]
    )


def _run(name: str, arguments: list[str]) -> None:
    """Runs the module of a command as the program, as `python -m` does.

    Args:
      name: the command, one of `console.COMMANDS`.
      arguments: the arguments for it.
    """
    command = console.COMMANDS[name]
    spec = importlib.util.find_spec(command.module)
    assert spec is not None and spec.loader is not None, command.module
    # `runpy` would call the program as its file; its messages begin with this name.
    sys.argv = [f"tfbio {name}", *command.flags, *arguments]
    program = importlib.util.module_from_spec(spec)
    program.__name__ = "__main__"
    sys.modules["__main__"] = program
    code = spec.loader.get_code(command.module)  # type: ignore[attr-defined]  # a file's has it
    exec(code, vars(program))


def _refuse(name: str) -> None:
    """Raises UsageError for a name that is none of a command."""
    near = difflib.get_close_matches(name.replace("-", "_"), console.COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "tfbio --help lists the commands."
    raise UsageError(f"{name!r} is no command of tfbio: {hint}")


if __name__ == "__main__":
    main()
