"""Which of an article's versions is the newest, over all files: numpy on rows of numbers.

PubMed's baseline and update files have an article again whenever it was revised, and withdraw
some. NLM's rule is that the file with the higher number wins; its names tell year and number
(`pubmed21n1298.xml.gz`), so the order in which the files are given plays no part. Files of other
names count as older than those; among them the later date of revision wins, then the place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data_prep import articles

# A candidate on its way to the decision. `unit` and `row` are where it is (see documents.py):
# its texts are the records from `first` on. `reason` is 0, or 1 + the index in articles.REASONS.
ROW = np.dtype(
    [
        ("key", "<u8"),
        ("version", "<u2"),
        ("year", "<u2"),
        ("number", "<u4"),
        ("revised", "<u4"),
        ("unit", "<u4"),
        ("row", "<u4"),
        ("first", "<u4"),
        ("texts", "<u2"),
        ("reason", "<u1"),
        ("deleted", "?"),
    ]
)

KEPT = ""
# What becomes of a candidate, by `reason` once `newest` has decided.
VERDICTS: Sequence[str] = (KEPT, *articles.REASONS, "superseded", "in_pubmed", "deleted")


def newest(rows: np.ndarray) -> np.ndarray:
    """Decides over the candidates of some articles.

    A deletion withdraws one version of one PMID. Of each version the newest row counts; of the
    versions that are left, the highest is the article, and may still be left out for its reason.

    Args:
      rows: `ROW` [n], all rows of every key that is among them, in any order.

    Returns:
      `ROW` [m <= n]: the rows that are no deletions, in order of unit and row; `reason` indexes
      `VERDICTS` now.
    """
    order = np.lexsort(
        [rows[name] for name in ("row", "unit", "revised", "number", "year", "version", "key")]
    )
    rows = rows[order]
    new_key = np.ones(len(rows), bool)
    new_key[1:] = rows["key"][1:] != rows["key"][:-1]
    last_of_version = np.ones(len(rows), bool)
    last_of_version[:-1] = new_key[1:] | (rows["version"][1:] != rows["version"][:-1])

    article = np.cumsum(new_key) - 1
    position = np.arange(len(rows))
    alive = last_of_version & ~rows["deleted"]
    winner = np.full(new_key.sum(), -1)
    np.maximum.at(winner, article[alive], position[alive])
    winner = winner[article]

    has_winner = winner >= 0
    from_pubmed = has_winner & (rows["version"] == 0) & (rows["version"][winner] > 0)
    in_pubmed, superseded, deleted = map(VERDICTS.index, ("in_pubmed", "superseded", "deleted"))
    lost = np.select([from_pubmed, has_winner], [in_pubmed, superseded], deleted)
    rows["reason"] = np.where(winner == position, rows["reason"], lost)
    rows = rows[~rows["deleted"]]
    return rows[np.lexsort((rows["row"], rows["unit"]))]
