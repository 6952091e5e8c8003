"""What every command shares: a mistake becomes one sentence on stderr, without a traceback.

docs/commands.md has the exit codes.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import logging as standard_logging
import math
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging

from tfbio.base import signals

# The flags defined here are those of the command that asks for them, and shown by its --help.
flags.disclaim_key_flags()

# The most characters of the line that says what is wrong.
LONGEST_SENTENCE = 300
# What a command says of a Ctrl-C that knows nothing better.
INTERRUPTED = "the same command takes over what is complete, if anything is, and makes the rest"
# See `distribution.make_strategy`.
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")
# Whole numbers of flags and settings, some of which TensorFlow and NumPy hold in 32 bits, are less.
TOO_LARGE = 2**31
# Of operating systems; TensorFlow says them, too, and then it is the user's disk and not its error.
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


class UserError(ValueError):
    """Something the user can put right; its message is one sentence that says what and how."""

    exit_code = 1


class UsageError(UserError):
    """A command line that is wrong whatever the files that it names hold."""

    exit_code = 2


class Interrupted(UserError):
    """What the same command, typed again, continues: a machine was taken away, nothing is wrong."""

    exit_code = os.EX_TEMPFAIL  # 75


def run(
    main: Callable[[list[str]], None],
    define_flags: Callable[[], None] | None = None,
    flags_parser: Callable[[list[str]], list[str]] | None = None,
    settings: Sequence[str] = (),
) -> None:
    """Runs `main(argv)` under absl; a mistake ends the process with its exit code.

    Args:
      main: the command; it gets what is left of the command line after the flags were parsed,
        with the program's name first.
      define_flags: defines the flags that `--help` shows, for a command whose flags must not
        exist where its module is only imported (two commands may have a flag of one name).
      flags_parser: absl's hook for commands that hand unknown flags on to a library.
      settings: the names that `--set` takes, of which users think that they are flags.
    """
    # What the libraries log is not what the user asked for. TensorFlow even calls it an error that
    # there is no GPU; what really fails is raised. --verbosity=0 and the variable bring it back.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # A path may have bytes that are no text, which a user's terminal need not show as they are.
    sys.stdout.reconfigure(errors="backslashreplace")
    if define_flags is not None:
        before = set(flags.FLAGS)
        define_flags()
        for name in set(flags.FLAGS) - before:
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def parse(argv: list[str]) -> list[str]:
        found = []

        def parse_and_check() -> None:
            found.extend(_parse(argv, flags_parser or flags.FLAGS, settings))

        if code := exit_code(parse_and_check):
            sys.exit(code)
        return found

    def guarded(argv: list[str]) -> int:
        # Here and not as the flag's default, which absl's `app.run` replaces.
        if not any(argument.startswith("--verbosity") for argument in sys.argv):
            logging.set_verbosity(logging.WARNING)
        return exit_code(lambda: main(argv))

    app.run(guarded, flags_parser=parse)


def exit_code(work: Callable[[], None]) -> int:
    """Does some work; where a user can put right why it fails, one line on stderr says how.

    A `KeyboardInterrupt` may say what is saved and what the same command will do; a second Ctrl-C
    ends the process at once.

    Returns:
      The exit code of the process.
    """
    try:
        with answering_ctrl_c() as interrupted_at_work:
            try:
                work()
            except Exception as error:
                # A library that was interrupted may say something else, as protobuf does where it
                # is just being imported.
                if interrupted_at_work.is_set():
                    raise KeyboardInterrupt from error
                raise
        sys.stdout.flush()
    except UserError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        # What ends with the process must not end in a traceback, either.
        with contextlib.suppress(ValueError):  # not the main thread
            signals.exit_at(signal.SIGINT)
        standard_logging.disable()  # of what TensorFlow was reading
        return interrupted(str(interrupt))
    except BrokenPipeError:
        _say("what reads this command's output has ended: nothing more can be written to it.")
        # So that Python does not try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        _say(of_os_error(error))
        return 1
    except ImportError as error:
        if (error.name or "tfbio").partition(".")[0] in ("tfbio", "data_prep", "benchmarks"):
            raise
        if isinstance(error, ModuleNotFoundError):
            _say(f"the package {error.name} is not installed: install it with pip, and try again.")
        else:
            _say(f"the package {error.name} cannot be used as it is installed: {error}.")
        return 1
    except Exception as error:
        if (sentence := _of_tensorflow(error)) is None:
            raise
        _say(sentence)
        return 1
    return 0


def interrupted(saved: str = "") -> int:
    """Prints the last line of a command that Ctrl-C ends; returns its exit code.

    Args:
      saved: what is saved, and what the same command will do; "" where it is not known.
    """
    _print_last(f"interrupted: {saved or INTERRUPTED}")
    return 128 + signal.SIGINT


@contextlib.contextmanager
def answering_ctrl_c(
    first: Callable[[], str] = lambda: "", second: Callable[[], str] = lambda: "ended at once"
) -> Iterator[threading.Event]:
    """Answers Ctrl-C within its block at once: the second ends the process.

    Python itself handles signals only between two instructions of its own, and a library may work
    for hours in one of them; so a thread answers. An inner block answers in place of an outer one.

    Args:
      first: gives the line that the first one prints; "" for none.
      second: likewise the second.

    Yields:
      What is set when a `KeyboardInterrupt` is raised in the block.
    """
    raised = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield raised  # signals are for the main thread alone
        return
    told, tells = socket.socketpair()
    tells.setblocking(False)
    before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)

    def answer() -> None:
        pressed = 0
        with told:
            while byte := told.recv(1):
                pressed += byte[0] == signal.SIGINT
                if byte[0] != signal.SIGINT:
                    continue
                if pressed == 1 and (line := first()):
                    _print_last(line)
                elif pressed > 1:
                    os._exit(interrupted(second()))

    def interrupt_once(*_) -> None:
        signals.ignore(signal.SIGINT)  # the thread answers
        raised.set()
        raise KeyboardInterrupt

    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        with signals.handling({signal.SIGINT: interrupt_once} if is_default else {}):
            threading.Thread(target=answer, daemon=True).start()
            yield raised
    finally:
        signal.set_wakeup_fd(before)
        tells.close()


def of_os_error(error: OSError) -> str:
    """The sentence for what an operating system refused: the file, and the reason."""
    reason = error.strerror or str(error) or type(error).__name__
    path = error.filename2 or error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{path} cannot be written" if path else "the output cannot be written"
        return f"{where}: {reason}; make room, and run the same command again."
    return f"{path} cannot be used: {reason}." if path else f"the system refused: {reason}."


def _of_tensorflow(error: Exception) -> str | None:
    """The sentence for an error of TensorFlow that says what an operating system refused."""
    if "tensorflow" not in sys.modules:
        return None
    import tensorflow as tf

    if not isinstance(error, tf.errors.OpError):
        return None
    # It may begin with the place in the graph, "{{function_node ...}} ", and end with "[Op:...]".
    text = re.sub(r"\{\{.*?\}\}", "", str(error))
    found = re.search(rf"([^;\n]+); ({'|'.join(map(re.escape, _OF_FILES))})", text)
    return found and of_os_error(OSError(_OF_FILES[found[2]], found[2], found[1].strip()))


def _say(message: str) -> None:
    """Prints one line on stderr, of which the middle is left out if it is too long."""
    line = " ".join(f"error: {message}".split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    if len(line) > LONGEST_SENTENCE:
        line = f"{line[: LONGEST_SENTENCE - 125]} ... {line[-120:]}"
    _print_last(line)


def _print_last(line: str) -> None:
    """Prints a line on stderr after all that was printed on stdout before."""
    with contextlib.suppress(OSError, RuntimeError):  # nobody reads it; it is being written
        sys.stdout.flush()
    sys.stderr.write(f"{line}\n")  # at once, though several threads print
    sys.stderr.flush()


# --- Flags ---------------------------------------------------------------------------------------


class _ListFlag(flags.MultiFlag):
    """A flag whose values stand between commas, or in several flags of its name, or both."""

    def __init__(self, *args, may_be_empty: bool, **kwargs):
        super().__init__(*args, **kwargs)
        self._may_be_empty = may_be_empty

    def parse(self, arguments: str) -> None:
        """Adds the values of one flag of the command line."""
        # A path that is there may have commas in it, also as NAME=PATH, and JSON has.
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
    """Defines a flag that takes several values: between commas, repeated, or both.

    Args:
      name: of the flag.
      default: its value where it is not given.
      description: for `--help`.
      choices: the only values, if they are known.
      required: whether it must be given.
      may_be_empty: whether `--name=` means no values; else it is refused.
    """
    parser = flags.EnumParser(list(choices)) if choices else flags.ArgumentParser()
    serializer = flags.ArgumentSerializer()
    flag = _ListFlag(parser, serializer, name, default, description, may_be_empty=may_be_empty)
    flag.help = f"{description} Several: between commas, or the flag several times."
    flags.DEFINE_flag(flag, required=required)


def _parse(
    argv: list[str], parser: Callable[[list[str]], list[str]], settings: Sequence[str]
) -> list[str]:
    """Parses the command line, and checks what holds for every flag.

    Returns:
      What is left of it.

    Raises:
      UsageError: one is unknown, missing, given twice, empty, or no value of its type.
    """
    for name in flags.FLAGS:
        # Else the last of several counts, and nothing says that the others do not.
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
    if value in ("", [""]):
        raise UsageError(f"--{name}= is empty: give a value, or leave the flag out.")
    if isinstance(value, list) and "" in value:
        raise UsageError(f"--{name}={','.join(value)}: one of its values is empty.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"--{name}={value}: expected a number that is finite.")
    if isinstance(value, int) and abs(value) >= TOO_LARGE:
        raise UsageError(f"--{name}={value}: expected a whole number below {TOO_LARGE}.")


def _unknown(name: str, settings: Sequence[str]) -> str:
    """The sentence for a flag that there is not."""
    for setting in settings:
        if name in (setting, setting.rpartition(".")[2]):
            return f"--{name} is a setting and no flag: give --set {setting}=VALUE."
    known = [known for known in flags.FLAGS if len(known) > 1]
    near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
    hint = f"did you mean --{near[0]}?" if near else "--help lists the flags."
    return f"--{name} is no flag of this command: {hint}"


def _illegal(message: str) -> str:
    """The sentence for what absl says of a flag's value."""
    found = re.match(r"flag --(\w+)=(.*?): ([^\n]*)", message, re.DOTALL)
    if found is None:
        # Of a flag without a value, and of a --flagfile that cannot be read.
        return f"{message.splitlines()[0].removeprefix('ERROR:: ').rstrip('. ')}: see --help."
    name, value, reason = found.groups()
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


def define_device_flags() -> None:
    """Defines the flags that say where to compute; `distribution.make_strategy` takes them."""
    flags.DEFINE_string(
        "tpu",
        "",
        "Name or grpc:// address of a TPU; local: that of this machine. Default: none.",
    )
    flags.DEFINE_string("tpu_zone", "", "Zone of a named TPU. Default: this machine's.")
    flags.DEFINE_string("gcp_project", "", "Project of a named TPU. Default: this machine's.")
    flags.DEFINE_enum(
        "strategy",
        "auto",
        STRATEGIES,
        "One device, all GPUs (mirrored), several machines (multi_worker, which TF_CONFIG names; "
        "pretraining only), or auto: mirrored where there are several GPUs or CPU devices.",
    )
    flags.DEFINE_integer(
        "cpu_devices",
        1,
        "Where there is no GPU: divide the CPU into so many devices of one thread each, which "
        "share every batch. Faster than 1 for a small model, such as hparams/quickstart.json.",
        lower_bound=1,
    )


def check_devices(
    tpu: str, strategy: str, cpu_devices: int, tpu_zone: str = "", gcp_project: str = ""
) -> None:
    """Checks that the device flags go together, without TensorFlow; see `make_strategy`.

    Raises:
      UsageError: they do not, or one has no possible value.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"--strategy={strategy}: expected one of {', '.join(STRATEGIES)}.")
    if (tpu_zone or gcp_project) and not tpu:
        flag = "tpu_zone" if tpu_zone else "gcp_project"
        raise UsageError(f"--{flag} goes with --tpu, the name of a TPU there.")
    if tpu and (strategy != "auto" or cpu_devices != 1):
        flag = "cpu_devices" if strategy == "auto" else "strategy"
        raise UsageError(f"--{flag} does not go with --tpu={tpu}, which has a strategy of its own.")
    if cpu_devices < 1 or (cpu_devices > 1 and strategy in ("one_device", "multi_worker")):
        raise UsageError(
            f"--cpu_devices={cpu_devices}: expected 1, or more with --strategy=auto or mirrored."
        )


def no_arguments(argv: list[str]) -> None:
    """Refuses what stands on the command line without a flag.

    Raises:
      UsageError: there is something.
    """
    if argv[1:]:
        raise UsageError(f"{argv[1]!r} is not a flag: write --name=value; --help lists the flags.")
