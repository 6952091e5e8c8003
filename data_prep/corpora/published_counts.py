"""The published sizes of BLURB's 13 data sets, and where files made here differ from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from data_prep.corpora.corpus_splits import SPLITS

SOURCE = "Kanakarajan et al., 2021, Table 1"

Rows = Sequence[Sequence[str]]


class _Published(NamedTuple):
    """The published size of a data set.

    Attributes:
      unit: what is counted, in words.
      counts: of train, dev and test.
    """

    unit: str
    counts: tuple[int, int, int]


# Kanakarajan et al. (2021), "BioELECTRA", Table 1. BLURB's own table (Gu et al., 2021, Table 3) has
# the same figures, except DDI, 22,233 and 5,559 for training and development, and GAD, whose 534
# and 535 for development and testing are exchanged. BLURB's files have the figures here.
PUBLISHED = {
    "bc5cdr_chem": _Published("mentions", (5203, 5347, 5385)),
    "bc5cdr_disease": _Published("mentions", (4182, 4244, 4424)),
    "ncbi_disease": _Published("mentions", (5134, 787, 960)),
    "bc2gm": _Published("mentions", (15197, 3061, 6325)),
    "jnlpba": _Published("mentions", (46750, 4551, 8662)),
    "ebm_pico": _Published("labelled words", (339167, 85321, 16364)),
    "chemprot": _Published("pairs", (18035, 11268, 15745)),
    "ddi": _Published("pairs", (25296, 2496, 5716)),
    "gad": _Published("sentences", (4261, 535, 534)),
    "biosses": _Published("pairs", (64, 16, 20)),
    "hoc": _Published("abstracts", (1295, 186, 371)),
    "bioasq": _Published("questions", (670, 75, 140)),
    "pubmedqa": _Published("questions", (450, 50, 500)),
}
# Why the files of some have another size than the papers say; BLURB's files have it, too.
_KNOWN = {
    ("bc5cdr_disease", "dev", 4246): "BLURB's files have them, too: the end of a sentence parts "
    '"St. Anthony\'s fire" twice, and both count',
    ("ebm_pico", "dev", 87308): "BLURB's files have them, too; why the papers have fewer is not "
    "known",
}


def count(task: str, rows: Rows) -> int:
    """Counts in a split what the papers count.

    Args:
      task: a key of `PUBLISHED`.
      rows: the rows of the split, as they are written, with their header.

    Returns:
      The number of mentions, labelled words, examples or abstracts.
    """
    unit = PUBLISHED[task].unit
    if unit == "mentions":
        return sum(row[1:] == ("B",) for row in rows)
    if unit == "labelled words":
        return sum(len(row) == 2 and row[1] != "O" for row in rows)
    if unit == "abstracts":
        return len({row[-1].rpartition("_")[0] for row in rows[1:]})
    return len(rows) - (task in ("gad", "biosses"))


def compare(task: str, splits: Mapping[str, Rows]) -> tuple[list[str], list[str]]:
    """Compares the sizes of a data set's splits with the published ones, and BLURB's files'.

    Args:
      task: a key of `PUBLISHED`.
      splits: the rows of "train", "dev" and "test".

    Returns:
      Sentences for the user, a list of str for the three splits; and a list of those among them
      that name a size which neither the papers nor BLURB's files have.
    """
    unit, published = PUBLISHED[task]
    said, wrong = [], []
    for split, expected in zip(SPLITS, published, strict=True):
        found = count(task, splits[split])
        if found == expected:
            said.append(f"{split}: {found:,} {unit}, as published ({SOURCE})")
            continue
        known = _KNOWN.get((task, split, found))
        more = f"{abs(found - expected):,} {'more' if found > expected else 'fewer'}"
        said.append(
            f"{split}: {found:,} {unit}, {more} than the published {expected:,} ({SOURCE}); "
            + (known or "the reason is not known")
        )
        if not known:
            wrong.append(said[-1])
    return said, wrong
