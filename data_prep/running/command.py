"""Defines the flags that all stages have, and reads those of Beam."""

from __future__ import annotations

from absl import flags

from data_prep.running import pipeline
from tfbio.base import errors, extras

# The share of the articles that are held out of pretraining, by default. All stages that divide
# articles must agree on it.
HELD_OUT_FRACTION = 0.05


def define_common_flags(runs_beam: bool = True) -> None:
    """Defines the absl flags that all commands of data preparation share, and returns nothing.

    They are `--overwrite`, and for Beam `--workers` and `--runner`.

    Args:
      runs_beam: True to define the two that say where a Beam pipeline runs, too.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of one of these names.
    """
    flags.DEFINE_bool("overwrite", False, "Replace finished output, whatever its settings.")
    if runs_beam:
        flags.DEFINE_integer(
            "workers",
            0,
            "Worker processes of --runner=local; 0: one for each core that the command may use.",
            lower_bound=0,
        )
        flags.DEFINE_string(
            "runner",
            "local",
            "Where to run: local, or a Beam runner such as FlinkRunner, SparkRunner, "
            "DataflowRunner or PortableRunner, followed by Beam's own flags.",
        )


def leave_beam_flags(argv: list[str]) -> list[str]:
    """Parses a data preparation command's flags with absl, and leaves those that are Beam's.

    Args:
      argv: the command line, the program's name first.

    Returns:
      A list of the program's name and the arguments that absl does not know, in their order.

    Raises:
      UsageError: Beam does not know one of them either, or not the runner. So the command ends
        before anything is reused or removed. Another runner than the local one may know more flags:
        with it, only what is nearly a flag of this command is refused.
      absl.flags.Error: a flag that absl knows has no possible value, or is missing.
    """
    rest = flags.FLAGS(argv, known_only=True)
    is_local = flags.FLAGS.runner == "local"
    pipeline.check_flags(rest[1:], is_local)
    if not is_local:
        pipeline.check_runner(flags.FLAGS.runner)
    return rest


def runner(argv: list[str]) -> pipeline.Runner:
    """Makes the `Runner` that a data preparation command's flags and Beam's flags describe.

    Args:
      argv: the program's name and the flags for Beam, from `leave_beam_flags`.

    Returns:
      A `pipeline.Runner` with the values of `--runner` and `--workers`, and Beam's flags.

    Raises:
      UserError: Beam is not installed, or `--workers` is given for another runner.
    """
    # Here, and not when Beam is imported: by then there is a folder for the output.
    extras.require("apache_beam")
    if flags.FLAGS.workers and flags.FLAGS.runner != "local":
        raise errors.UsageError(
            "--workers is for --runner=local: another runner has a flag of its own."
        )
    return pipeline.Runner(flags.FLAGS.runner, flags.FLAGS.workers, tuple(argv[1:]))
