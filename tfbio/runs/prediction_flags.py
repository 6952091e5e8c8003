"""The flags of `run_finetuning.py --mode=predict`, which fine-tuning does not have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from absl import flags

from tfbio.base import cli, config, errors, extras
from tfbio.task_types import new_text_settings
from tfbio.task_types.finetuning_config import FinetuningConfig

if TYPE_CHECKING:
    import tensorflow as tf

# The flags are those of the command that asks for them, and shown by its --help.
flags.disclaim_key_flags()

FLAGS = flags.FLAGS
# Those that only an annotation file by file has.
_OF_FOLDERS = ("processes", "runner", "gzip")
NAMES = ("format", *_OF_FOLDERS)
# The head that has all of these settings.
_HEAD = "question_answering.head=electra"
# The flags of `device_flags` that one process takes.
_DEVICES = ("tpu", "strategy", "cpu_devices", "mesh")


def check_settings(overrides: Sequence[str]) -> None:
    """Checks the settings of a prediction before its model is read, and returns nothing.

    Args:
      overrides: "name=value" each.

    Raises:
      ConfigError: a name is unknown or of a setting for training, or a value is of another type or
        out of range.
    """
    for text in overrides:  # each by itself, since all other settings are the model's
        config.load(FinetuningConfig, "", [_HEAD, text])
    new_text_settings.check(overrides)


def define() -> None:
    """Defines the absl flags of a prediction that only it has, and returns nothing.

    They are --model, --input, --output, --format, --processes, --runner and --gzip.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of one of these names.
    """
    flags.DEFINE_string(
        "model",
        "",
        "To predict: a trial's folder, the --output_dir with it (its best on the development set), "
        "or a fine-tuned model of Hugging Face's.",
    )
    cli.define_list(
        "input",
        [],
        "To predict: a file, a folder or a glob in quotes; -: standard input, which is plain text "
        "or PubTator, for a model that labels texts a table, for one that answers SQuAD's JSON.",
    )
    flags.DEFINE_string("output", "", "To predict: a file; for brat a folder.")
    flags.DEFINE_enum(
        "format",
        "jsonl",
        ["jsonl", "bioc", "pubtator", "brat", "html", "bigbio"],
        "To predict: the form of --output; bioc is JSON if that ends in .json, else XML; html is a "
        "page to look at, with coloured entities; bigbio is Parquet or JSON if that ends in "
        ".parquet or .json, else JSON lines.",
    )
    flags.DEFINE_integer(
        "processes",
        0,
        "To predict with --output_dir: the number of processes, each with the model in memory; 0: "
        "one for each core that the command may use, but one alone where there is a GPU or a flag "
        "names devices.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "runner",
        "local",
        "To predict with --output_dir: where to run: local, in --processes of this machine; or a "
        "Beam runner such as PortableRunner, FlinkRunner or SparkRunner, followed by Beam's own "
        "flags (docs/clusters.md).",
    )
    flags.DEFINE_bool("gzip", False, "To predict with --output_dir: compress jsonl or pubtator.")


def check() -> None:
    """Checks that the flags for the output of a prediction go together, and returns nothing.

    Raises:
      UsageError: they do not.
    """
    if FLAGS.output and FLAGS.output_dir:
        raise errors.UsageError("--output and --output_dir: give one of them.")
    for name in _OF_FOLDERS:
        if FLAGS[name].value != FLAGS[name].default and not FLAGS.output_dir:
            raise errors.UsageError(f"--{name} goes with --output_dir, in place of --output.")
    if has_beam_flags() and FLAGS.processes:
        raise errors.UsageError(
            f"--processes does not go with --runner={FLAGS.runner}, which has its own workers."
        )
    several = f"processes={FLAGS.processes}" if not has_beam_flags() else f"runner={FLAGS.runner}"
    for name in _devices_given() if FLAGS.processes > 1 or has_beam_flags() else ():
        raise errors.UsageError(
            f"--{name} does not go with --{several}: several processes compute on the CPU."
        )


def annotate(strategy: Callable[[], tf.distribute.Strategy], beam_args: Sequence[str]) -> None:
    """Annotates new text file by file, as the flags of a prediction say; returns nothing.

    Args:
      strategy: a function that makes the strategy that the flags ask for.
      beam_args: flags for Beam, as they stand on the command line.

    Raises:
      UserError, OSError: see `annotation.annotate`.
    """
    # Imported late: --help needs none of it.
    from data_prep.running import pipeline
    from tfbio.runs import annotation
    from tfbio.runs.annotated_file import AnnotationSettings

    annotation.annotate(
        AnnotationSettings(FLAGS.model, FLAGS.format, FLAGS.gzip, tuple(FLAGS.set)),
        FLAGS.input,
        FLAGS.output_dir,
        strategy=strategy,
        # Devices that were asked for belong to one process.
        processes=FLAGS.processes or int(bool(_devices_given())),
        runner=pipeline.Runner(FLAGS.runner, beam_args=tuple(beam_args)),
        overwrite=FLAGS.overwrite,
    )


def leave_beam_flags(argv: list[str]) -> list[str]:
    """Parses a command line with absl, and leaves Beam's flags where --runner names a runner.

    Args, result and errors are those of `data_prep.running.command.leave_beam_flags`. Without a
    runner an unknown flag is an `absl.flags.Error`.

    Raises:
      UserError: Beam is not installed.
    """
    if not _names_runner(FLAGS.read_flags_from_files(argv)):
        return FLAGS(argv)
    extras.require("apache_beam")
    from data_prep.running import command

    return command.leave_beam_flags(argv)


def _names_runner(argv: list[str]) -> bool:
    """Returns True if --runner names another one than the default, before flags are parsed."""
    for argument, following in itertools.pairwise([*argv[1:], ""]):
        if match := re.fullmatch("--?runner(?:=(.*))?", argument):
            return (following if match[1] is None else match[1]) != FLAGS["runner"].default
    return False


def has_beam_flags() -> bool:
    """Returns True if --runner names a Beam runner, whose flags may follow."""
    return FLAGS.runner != FLAGS["runner"].default


def _devices_given() -> list[str]:
    """Returns the names of the flags that name devices."""
    return [name for name in _DEVICES if FLAGS[name].value != FLAGS[name].default]
