"""Compares fine-tuning with what was recorded from the code of BioELECTRA's authors.

    make parity RECORDING=FOLDER

FOLDER has the layout of a recording: `config.json`, `vocab.txt`, `pretrained.ckpt-*`, and for each
kind of data set its examples, `KIND.npz` and `KIND.ckpt-*`. The command prints, for each kind, the
largest difference of each quantity beside its limit, and ends with exit code 1 if one is above it.
The settings are those of `--hparams=authors`, with the recording's shape, lengths, rates and steps.

`parity_recording.py` reads the recording, `parity_comparisons.py` and `parity_answers.py` compare.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from absl import flags

# The other modules of parity are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.parity_comparisons import compare
from scripts.parity_recording import KINDS, Recorded
from tfbio.base import cli, errors

FLAGS = flags.FLAGS


def find_kinds(folder: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Returns the kinds of data sets that a recording has, or those of them that are wanted.

    Args:
      folder: the recording.
      wanted: the values of `--kind`; empty: all kinds.

    Raises:
      UsageError: the recording lacks a wanted kind.
      UserError: the folder is no recording, or has an unknown kind.
    """
    try:
        recorded = list(json.loads((folder / "config.json").read_text())["kinds"])
    except (OSError, ValueError, KeyError) as error:
        raise errors.UserError(
            f"--recording={folder}: expected the folder of a recording, with a config.json that "
            f"lists its kinds: {error!r}."
        ) from error
    unknown = sorted(set(recorded) - set(KINDS))
    if unknown:
        raise errors.UserError(
            f"--recording={folder}: config.json has the kind {unknown[0]!r}; the kinds are "
            f"{', '.join(KINDS)}."
        )
    for kind in wanted:
        if kind not in recorded:
            raise errors.UsageError(
                f"--kind={kind}: the recording has no such kind; it has {', '.join(recorded)}."
            )
    return [kind for kind in KINDS if kind in (wanted or recorded)]


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("recording", "", "The folder of the recording.")
    flags.DEFINE_multi_string("kind", [], "Compare this kind only. May be repeated.")


def main(argv: list[str]) -> None:
    """Prints the differences of each kind, and ends with exit code 1 if one is above its limit."""
    cli.no_arguments(argv)
    tf.get_logger().setLevel("ERROR")  # about the new graphs of each kind
    folder = Path(FLAGS.recording)
    worse = []
    for name in find_kinds(folder, FLAGS.kind):
        print(name, flush=True)
        for difference in compare(Recorded(folder, name)):
            mark = "" if difference.is_small else "  ABOVE"
            print(
                f"  {difference.quantity:<28}{difference.value:>9.2g}  limit {difference.limit:<7g}"
                f"{mark}  ({difference.where})",
                flush=True,
            )
            worse += [] if difference.is_small else [f"{name}: {difference.quantity}"]
    print(f"{len(worse)} above their limits: {'; '.join(worse)}" if worse else "All as recorded.")
    if worse:
        sys.exit(1)


if __name__ == "__main__":
    cli.run(main, define_flags)
