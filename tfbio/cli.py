"""What every command shares: user errors become one sentence on stderr, without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from absl import app, flags, logging

# The flags defined here are those of the command that asks for them, and shown by its --help.
flags.disclaim_key_flags()


class UserError(ValueError):
    """Something the user can put right; its message is one sentence that says what and how."""

    exit_code = 1


class Interrupted(UserError):
    """What the same command, typed again, continues: a machine was taken away, nothing is wrong."""

    exit_code = os.EX_TEMPFAIL  # 75


def run(
    main: Callable[[list[str]], None],
    define_flags: Callable[[], None] | None = None,
    flags_parser: Callable[[list[str]], list[str]] | None = None,
) -> None:
    """Runs `main(argv)` under absl; a `UserError` ends the process with its exit code.

    Args:
      main: the command; it gets what is left of the command line after the flags were parsed,
        with the program's name first.
      define_flags: defines the flags that `--help` shows, for a command whose flags must not
        exist where its module is only imported (two commands may have a flag of one name).
      flags_parser: absl's hook for commands that hand unknown flags on to a library.
    """
    # What the libraries log is not what the user asked for. TensorFlow even calls it an error that
    # there is no GPU; what really fails is raised. --verbosity=0 and the variable bring it back.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if define_flags is not None:
        before = set(flags.FLAGS)
        define_flags()
        for name in set(flags.FLAGS) - before:
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def guarded(argv: list[str]) -> int:
        # Here and not as the flag's default, which absl's `app.run` replaces.
        if not any(argument.startswith("--verbosity") for argument in sys.argv):
            logging.set_verbosity(logging.WARNING)
        try:
            main(argv)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("interrupted: the same command continues with what is complete", file=sys.stderr)
            return 130
        return 0

    app.run(guarded, **({"flags_parser": flags_parser} if flags_parser else {}))


def define_device_flags() -> None:
    """Defines the flags that say where to compute; `distribution.make_strategy` takes them."""
    flags.DEFINE_string(
        "tpu",
        "",
        "Name or grpc:// address of a TPU; local: that of this machine; empty: none.",
    )
    flags.DEFINE_string("tpu_zone", "", "Zone of a named TPU; empty: this machine's.")
    flags.DEFINE_string("gcp_project", "", "Project of a named TPU; empty: this machine's.")
    flags.DEFINE_string(
        "strategy",
        "auto",
        "one_device, mirrored (all GPUs), multi_worker (TF_CONFIG; pretraining only), or auto.",
    )
    flags.DEFINE_integer(
        "cpu_devices",
        1,
        "Where there is no GPU: divide the CPU into so many devices of one thread each, which "
        "share every batch. Faster than 1 for a small model, such as hparams/quickstart.json.",
    )


def no_arguments(argv: list[str]) -> None:
    """Refuses what stands on the command line without a flag.

    Raises:
      UserError: there is something.
    """
    if argv[1:]:
        raise UserError(f"{argv[1]!r} is not a flag: write --name=value; --help lists the flags.")
