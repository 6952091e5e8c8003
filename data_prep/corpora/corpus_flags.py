"""Defines the flags of the corpora's commands."""

from __future__ import annotations

from absl import flags

from data_prep.corpora import corpus_splits
from tfbio.base import cli


def define(release: str, index: str = "", held_out: str = "", dev_documents: bool = False) -> None:
    """Defines the flags of a corpus's command in absl's `flags.FLAGS`; returns nothing.

    They are `--input`, `--output` and `--overwrite`, and by the arguments `--index`,
    `--dev_fraction` and `--dev_documents`.

    Args:
      release: the content of `--input`, for `--help`.
      index: the folder of BLURB's `indexing` that has the corpus's splits; "" if it has none.
      held_out: the unit that is held out for development, such as "notes", where the release has no
        split for it; "" where it has.
      dev_documents: also define `--dev_documents`, a list of those.
    """
    flags.DEFINE_string("input", None, f"{release}, or a folder that holds it.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    if index:
        text = f"Folder of the lists that make the splits: BLURB's indexing/{index}."
        flags.DEFINE_string("index", None, text, required=True)
    if held_out:
        text = f"Fraction of the {held_out} for training that is held out for development."
        flags.DEFINE_float("dev_fraction", corpus_splits.DEV_FRACTION, text)
    if dev_documents:
        text = f"File with the names of the {held_out} for development, one a line."
        flags.DEFINE_string("dev_documents", "", f"{text} Default: --dev_fraction of them.")
    flags.DEFINE_bool("overwrite", False, "Replace files that an earlier run wrote.")


def dev_fraction() -> float:
    """Returns the value of `--dev_fraction`, a float above 0 and below 1.

    Raises:
      UsageError: it is not between 0 and 1, or `--dev_documents` is given as well.
    """
    flag = flags.FLAGS
    if not 0 < flag.dev_fraction < 1:
        raise cli.UsageError(
            f"--dev_fraction={flag.dev_fraction}: expected a number above 0 and below 1, as in 0.2."
        )
    if "dev_documents" in flag and flag.dev_documents and flag["dev_fraction"].present:
        raise cli.UsageError(
            "--dev_fraction does not go with --dev_documents, which lists what is held out."
        )
    return flag.dev_fraction
