"""Runs a command's `main`, parses its flags, and prints its errors as one line on stderr.

docs/commands.md lists the exit codes.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import gc
import io
import logging as standard_logging
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

from tfbio.base import console, extras, idle_packages, messages, signals
from tfbio.base.ctrl_c import answering_ctrl_c, interrupted
from tfbio.base.errors import UsageError, UserError, is_of_object_store
from tfbio.base.messages import print_last

# The flags defined here belong to the command that asks for them, and its --help shows them.
flags.disclaim_key_flags()

# The longest line for an error, in characters.
_LONGEST_SENTENCE = 300
# Whole numbers of flags and settings are below this, as TensorFlow and NumPy hold some in 32 bits.
TOO_LARGE = 2**31
# Messages of the operating system on files. TensorFlow repeats them: then the user's disk is to
# blame, and not TensorFlow.
_OF_FILES = {
    os.strerror(number): number
    for number in (
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    )
}


def run(
    main: Callable[[list[str]], None],
    define_flags: Callable[[], None] | None = None,
    flags_parser: Callable[[list[str]], list[str]] | None = None,
    settings: Sequence[str] = (),
) -> None:
    """Runs a program's `main` for a command line, under absl, and ends the process; never returns.

    Args:
      main: the command. It gets a list: the program's name, and each argument that is no flag.
      define_flags: defines the command's flags, if they must not exist where its module is only
        imported (two commands may have a flag of the same name).
      flags_parser: parses the command line, for commands that pass unknown flags to a library.
      settings: the names that `--set` takes, for the message to users who take them for flags.

    Raises:
      SystemExit: always, with the code of `exit_code` (0 after success and --help, 2 after a
        mistake in the command line).
      Exception: an error that the user cannot fix is raised as it is, with its traceback.
    """
    # Users did not ask for the libraries' logs, where TensorFlow calls a missing GPU an error. Real
    # errors are raised. --verbosity=0 and the variable bring the logs back.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # TensorFlow makes 350,000 objects when it is imported, and hardly any garbage. Python
    # would look for it again and again, and once more at the end: 1.5 seconds of a core in all.
    gc.set_threshold(50_000, 20, 100)
    atexit.register(gc.freeze)
    idle_packages.keep_out()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path may have bytes that are no text, which are printed escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    if define_flags is not None:
        before = set(flags.FLAGS)
        define_flags()
        for name in set(flags.FLAGS) - before:
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])
    console.rename_help()

    def parse(argv: list[str]) -> list[str]:
        rest = []

        def parse_and_check() -> None:
            rest.extend(_parse(argv, flags_parser or flags.FLAGS, settings))

        if code := exit_code(parse_and_check):
            sys.exit(code)
        return rest

    def guarded(argv: list[str]) -> int:
        # Not as the flag's default, since absl's `app.run` replaces that.
        if not any(argument.startswith("--verbosity") for argument in sys.argv):
            logging.set_verbosity(logging.WARNING)
        return exit_code(lambda: main(argv))

    app.run(guarded, flags_parser=parse)


def exit_code(work: Callable[[], None]) -> int:
    """Does the work of a command line, and turns errors into one line on stderr and an exit code.

    Args:
      work: does what the command is for. It may raise a `KeyboardInterrupt` whose text says what is
        saved and what the same command will do. A second Ctrl-C ends the process at once.

    Returns:
      The exit code for the process: 0 after success, a `UserError`'s `exit_code`, 130 after Ctrl-C,
      1 after an `OSError`, a file error of TensorFlow, or a package that cannot be imported.

    Raises:
      Exception: any other error of `work`, as it is.
    """
    try:
        _do(work)
    except UserError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        return _end_interrupted(str(interrupt))
    except Exception as error:
        if (sentence := _sentence_for(error)) is None:
            raise
        _say(sentence)
        if isinstance(error, BrokenPipeError):
            # So that Python does not try to write the rest when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return 0


def _do(work: Callable[[], None]) -> None:
    """Runs the work of a command, with an answer to Ctrl-C, and flushes its output."""
    with answering_ctrl_c() as interrupted_at_work:
        try:
            work()
        except Exception as error:
            # An interrupted library may raise another error, such as protobuf while it is imported.
            if interrupted_at_work.is_set():
                raise KeyboardInterrupt from error
            raise
    sys.stdout.flush()


def _end_interrupted(saved: str) -> int:
    """Prints the last line of an interrupted command, and silences all that ends with the process.

    Args:
      saved: see `interrupted`.

    Returns:
      The exit code of the process.
    """
    with contextlib.suppress(ValueError):  # not the main thread
        signals.exit_at(signal.SIGINT)
    standard_logging.disable()  # TensorFlow logs what it was reading
    return interrupted(saved)


def _sentence_for(error: Exception) -> str | None:
    """Returns the line for an error that the user can fix, or None if it is a mistake of tfbio."""
    if isinstance(error, BrokenPipeError):
        return "what reads this command's output has ended: nothing more can be written to it."
    if is_of_object_store(error):
        return (
            f"an object store cannot be used now ({messages.reason(error)}): check its credentials "
            "and the network, and run the same command again."
        )
    if isinstance(error, OSError):
        return messages.of_os_error(error)
    if isinstance(error, ImportError):
        return _of_import_error(error)
    return _of_tensorflow(error)


def _of_import_error(error: ImportError) -> str | None:
    """Returns the line for a package that cannot be imported, or None if it is one of tfbio's."""
    if (error.name or "tfbio").partition(".")[0] in ("tfbio", "data_prep", "benchmarks"):
        return None
    if isinstance(error, ModuleNotFoundError):
        return extras.not_installed(error.name or "")
    return f"the package {error.name} cannot be used as it is installed: {error}."


def _of_tensorflow(error: Exception) -> str | None:
    """Returns the sentence for an error of TensorFlow that repeats one of the operating system.

    Any other error gives None.
    """
    if "tensorflow" not in sys.modules:
        return None
    import tensorflow as tf

    if not isinstance(error, tf.errors.OpError):
        return None
    # It may begin with a place in the graph, "{{function_node ...}} ", and end with "[Op:...]".
    text = re.sub(r"\{\{.*?\}\}", "", str(error))
    match = re.search(rf"([^;\n]+); ({'|'.join(map(re.escape, _OF_FILES))})", text)
    return match and messages.of_os_error(OSError(_OF_FILES[match[2]], match[2], match[1].strip()))


def _say(message: str) -> None:
    """Prints an error as one line on stderr, without its middle if it is too long."""
    line = " ".join(f"error: {console.renamed(message)}".split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    if len(line) > _LONGEST_SENTENCE:
        line = f"{line[: _LONGEST_SENTENCE - 125]} ... {line[-120:]}"
    print_last(line)


class _ListFlag(flags.MultiFlag):
    """A flag with several values: between commas, in repeated flags, or both."""

    def __init__(self, *args: Any, may_be_empty: bool, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._may_be_empty = may_be_empty

    def parse(self, arguments: str) -> None:
        """Adds the values of one flag of the command line."""
        # An existing path, also as NAME=PATH, and JSON may have commas in them.
        paths = (arguments, arguments.partition("=")[2])
        if arguments.lstrip().startswith("{") or any(map(os.path.lexists, paths)):
            super().parse([arguments])
        elif arguments or not self._may_be_empty:
            super().parse([item.strip() for item in arguments.split(",")])
        else:
            super().parse([])


def define_list(
    name: str,
    default: Sequence[str] | None,
    description: str,
    choices: Sequence[str] = (),
    required: bool = False,
    may_be_empty: bool = False,
) -> None:
    """Defines a command-line flag of several values: between commas, in repeated flags, or both.

    Returns nothing; the value of the absl flag is a list of str, or `default`. The name of an
    existing path, also as NAME=PATH, and text that begins with "{" are not split at commas.

    Args:
      name: the flag's name.
      default: its values if it is not given; None: the flag is then None.
      description: the text for `--help`.
      choices: all possible values; empty: any. Another value is a mistake in the command line.
      required: whether it must be given.
      may_be_empty: True if `--name=` stands for no values; else that, too, is such a mistake.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of this name.
    """
    parser = flags.EnumParser(list(choices)) if choices else flags.ArgumentParser()
    serializer = flags.ArgumentSerializer()
    flag = _ListFlag(parser, serializer, name, default, description, may_be_empty=may_be_empty)
    flag.help = f"{description} Several: between commas, or the flag several times."
    flags.DEFINE_flag(flag, required=required)


def _parse(
    argv: list[str], parser: Callable[[list[str]], list[str]], settings: Sequence[str]
) -> list[str]:
    """Parses the command line, and checks the value of each flag.

    Args:
      argv: the command line.
      parser: see `run`.
      settings: see `run`.

    Returns:
      The program's name and what the command line has beside flags.

    Raises:
      UsageError: a flag is unknown, missing, given twice, empty, or has a value of another type.
    """
    for name in flags.FLAGS:
        # Else absl takes the last of several values, and does not say so.
        if not isinstance(flags.FLAGS[name], flags.MultiFlag):
            flags.FLAGS[name].allow_overwrite = False
    try:
        rest = parser(argv)
    except flags.UnrecognizedFlagError as error:
        raise UsageError(_unknown(error.flagname, settings)) from error
    except flags.Error as error:
        raise UsageError(_illegal(str(error))) from error
    except SystemExit:  # with 1, after --help
        sys.exit(0)
    for name in flags.FLAGS:
        if flags.FLAGS[name].present:
            _check_value(name, flags.FLAGS[name].value)
    return rest


def _check_value(name: str, value: object) -> None:
    """Checks the value of a flag.

    Raises:
      UsageError: it is empty, not finite, or too large.
    """
    if value in ("", [""]):
        raise UsageError(f"--{name}= is empty: give a value, or leave the flag out.")
    if isinstance(value, list) and "" in value:
        raise UsageError(f"--{name}={','.join(value)}: one of its values is empty.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"--{name}={value}: expected a number that is finite.")
    if isinstance(value, int) and abs(value) >= TOO_LARGE:
        raise UsageError(f"--{name}={value}: expected a whole number below {TOO_LARGE}.")


def _unknown(name: str, settings: Sequence[str]) -> str:
    """Returns the sentence for an unknown flag."""
    for setting in settings:
        if name in (setting, setting.rpartition(".")[2]):
            return f"--{name} is a setting and no flag: give --set {setting}=VALUE."
    known = [known for known in flags.FLAGS if len(known) > 1]
    near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
    hint = f"did you mean --{near[0]}?" if near else "--help lists the flags."
    return f"--{name} is no flag of this command: {hint}"


def _illegal(message: str) -> str:
    """Returns the sentence for absl's message about the value of a flag."""
    match = re.match(r"flag --(\w+)=(.*?): ([^\n]*)", message, re.DOTALL)
    if match is None:
        # A flag has no value, or a --flagfile cannot be read.
        return f"{message.splitlines()[0].removeprefix('ERROR:: ').rstrip('. ')}: see --help."
    name, value, reason = match.groups()
    flag = flags.FLAGS[name]
    if "other than None" in reason:
        return f"--{name} is missing: {flag.help[0].lower()}{flag.help[1:].rstrip('.')}."
    if "already defined" in reason:
        return f"--{name} is given twice, as {flag.value} and as {value}: give it once."
    if flag.boolean:
        expected = "true or false"
    elif isinstance(flag.parser, flags.EnumParser):
        expected = f"one of {', '.join(flag.parser.enum_values)}"
    else:
        expected = flag.parser.syntactic_help or reason
    return f"--{name}={value}: expected {expected}."


def no_arguments(argv: list[str]) -> None:
    """Checks that the command line has nothing but flags, and returns nothing.

    Args:
      argv: the list that a command's `main` gets: the program's name, then all that is no flag.

    Raises:
      UsageError: there is anything after the program's name.
    """
    if argv[1:]:
        raise UsageError(f"{argv[1]!r} is not a flag: write --name=value; --help lists the flags.")
