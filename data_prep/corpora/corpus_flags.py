"""Defines the flags of the corpora's commands, and does what they all do."""

from __future__ import annotations

from collections.abc import Callable

from absl import flags

from data_prep.corpora import corpus_splits
from tfbio.base import cli, errors, path_checks


def define(release: str, held_out: str = "", dev_documents: bool = False) -> None:
    """Defines the absl flags that the corpora's commands have in common, and returns nothing.

    They are `--input`, `--output` and `--overwrite`, and by the arguments `--dev_fraction` and
    `--dev_documents`.

    Args:
      release: the content of `--input`, for `--help`.
      held_out: the unit that is held out for development, such as "notes", where the release has no
        split for it, for `--dev_fraction`; "": the corpus has no such flag.
      dev_documents: True: also define `--dev_documents`, the path of a file with the names of the
        units for development.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of one of these names.
    """
    flags.DEFINE_string("input", None, f"{release}, or a folder that holds it.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    if held_out:
        text = f"Fraction of the {held_out} for training that is held out for development."
        flags.DEFINE_float("dev_fraction", corpus_splits.DEV_FRACTION, text)
    if dev_documents:
        text = f"File with the names of the {held_out} for development, one a line."
        flags.DEFINE_string("dev_documents", "", f"{text} Default: --dev_fraction of them.")
    flags.DEFINE_bool("overwrite", False, "Replace files that an earlier run wrote.")


def dev_fraction() -> float:
    """Checks and returns the flag `--dev_fraction` of a corpus's command, above 0 and below 1.

    Returns:
      The flag's value, a float: the share of the training set that is for development.

    Raises:
      UsageError: it is not between 0 and 1, or `--dev_documents` is given as well.
    """
    flag = flags.FLAGS
    if not 0 < flag.dev_fraction < 1:
        raise errors.UsageError(
            f"--dev_fraction={flag.dev_fraction}: expected a number above 0 and below 1, as in 0.2."
        )
    if "dev_documents" in flag and flag.dev_documents and flag["dev_fraction"].present:
        raise errors.UsageError(
            "--dev_fraction does not go with --dev_documents, which lists what is held out."
        )
    return flag.dev_fraction


def define_entities() -> None:
    """Defines `--entities`, by which relations' entities become dummies or stand between markers.

    It is an absl flag of the corpora's commands, "dummy" (its default) or "marker". Returns
    nothing.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of this name.
    """
    flags.DEFINE_enum(
        "entities",
        "dummy",
        ["dummy", "marker"],
        "BLURB's dummies, @GENE$; or the text with markers, [S1] p53 [E1], which fine-tuning can "
        "also leave out.",
    )


def make_files(
    argv: list[str], read: Callable[[corpus_splits.LeftOut], corpus_splits.Splits]
) -> corpus_splits.Splits:
    """Makes the three files of a corpus, and `left_out.jsonl`, in the folder `--output`.

    Args:
      argv: the program's name; anything else is an error.
      read: a function that reads the release and returns the rows of the splits. It gets a list, to
        which it adds the parts of the release that are in no split.

    Returns:
      What `read` returns.

    Raises:
      UsageError: the command line has something beside flags.
      CorpusError: a file exists already (without `--overwrite`) or cannot be written.
      UserError: `--output` is a file, or another process writes there. What `read` raises passes.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    path_checks.require_output("output", flag.output, may_be_remote=True)
    left: corpus_splits.LeftOut = []
    splits = read(left)
    corpus_splits.write(flag.output, splits, flag.overwrite, left)
    return splits
