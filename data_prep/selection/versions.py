"""Decides which of an article's texts is the newest, over all files, on rows of numbers.

PubMed's baseline and update files have an article again whenever it was revised, and withdraw
some. NLM's rule is that the file with the higher number wins. Its names tell year and number
(`pubmed21n1298.xml.gz`), so the order in which the files are given does not matter. Files of other
names count as older than those; among them the later date of revision wins, then the place.

The abstract inside of a full text stands in for PubMed's where PubMed has none. PubMed's statements
on an article (that it was withdrawn or retracted, its language, its types), and that a benchmark
has it, hold for all of its texts. A full text that lacks a PMID has that of the citation whose
newest version has its PMC number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data_prep.selection import articles, row_groups
from tfbio.text import ragged

# A candidate. `unit` and `row` say where it is (see input_units.py): its texts are `texts` records
# of the unit, from `first` on. `pmcid` is 0 if the article has no PMC number. `reason` is 0, or
# 1 + the index in articles.REASONS. `poor`: a citation that is kept for its other abstracts, and
# has no main one.
ROW = np.dtype(
    [
        ("key", "<u8"),
        ("version", "<u4"),
        ("year", "<u4"),
        ("number", "<u4"),
        ("revised", "<u4"),
        ("unit", "<u4"),
        ("row", "<u4"),
        ("first", "<u4"),
        ("texts", "<u4"),
        ("pmcid", "<u8"),
        ("reason", "<u1"),
        ("body", "?"),
        ("poor", "?"),
        ("deleted", "?"),
    ]
)

_KEPT = ""
# The verdicts on a candidate, by its `reason` once `newest` has decided.
VERDICTS: Sequence[str] = (_KEPT, *articles.REASONS, "superseded", "in_pubmed", "deleted")
_WITHOUT_TEXT, _LANGUAGE, _SUPERSEDED, _IN_PUBMED, _DELETED = map(
    VERDICTS.index, ("without_text", "language", "superseded", "in_pubmed", "deleted")
)
# Verdicts on one text of an article that hold for its other text, too.
_SPREAD = {VERDICTS.index(reason) for reason in articles.REASONS_OF_ARTICLES}
# Verdicts on an article that hold for its copies under other numbers, too.
OF_COPIES = [VERDICTS.index(reason) for reason in articles.REASONS_OF_COPIES]

# The fields that tell the age of a version, the most important one last.
_AGE = ("row", "unit", "revised", "number", "year", "version")


def with_pmc_numbers(
    group: tuple[int, Iterable[bytes]], partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Finds the PMC numbers of articles that have a PMID, a step of the pipeline.

    That of the newest version counts, since PubMed corrects them; of an article that PubMed has
    withdrawn, that of its newest deleted version.

    Args:
      group: the number of a partition by article, and all of its `ROW`s as bytes but for those of
        full texts with a PMC number and no PMID.
      partitions: the number of partitions that the rows are divided among, by PMC number.

    Yields:
      Pairs of the number of a partition by PMC number, and `ROW`s as bytes, one for each article,
      with its verdict as `newest` gives it.
    """
    rows = newest(np.frombuffer(b"".join(group[1]), ROW))
    rows = rows[(rows["pmcid"] > 0) & (rows["reason"] != _SUPERSEDED)]
    rows = rows[np.lexsort(_age(rows))[::-1]]
    rows = rows[np.unique(rows["key"], return_index=True)[1]]  # the first of each, so the newest
    yield from row_groups.grouped(rows, rows["pmcid"] % partitions)


def with_pmids(group: tuple[int, Iterable[bytes]], partitions: int) -> Iterator[tuple[int, bytes]]:
    """Gives full texts without a PMID that of their PMC number, a step of the pipeline.

    If several PMIDs have one PMC number, that of the newest version counts, and of a deleted one
    only if all are.

    Args:
      group: the number of a partition by PMC number, and as bytes the `ROW`s of the full texts with
        a PMC number in it and no PMID, and what `with_pmc_numbers` found for it.
      partitions: the number of partitions that the rows are divided among, by article.

    Yields:
      Pairs of the number of a partition by article, and the `ROW`s of those full texts as bytes.
      Their "key" is now the PMID of their PMC number, if there is one.
    """
    rows = np.frombuffer(b"".join(group[1]), ROW)
    rows = rows[np.lexsort(_age(rows))]
    has_pmid = rows["key"] < articles.NO_PMID
    # The newest comes last.
    pmids = dict(zip(rows["pmcid"][has_pmid].tolist(), rows["key"][has_pmid].tolist(), strict=True))
    rows = rows[~has_pmid]
    keys = zip(rows["pmcid"].tolist(), rows["key"].tolist(), strict=True)
    rows["key"] = [pmids.get(pmcid, key) for pmcid, key in keys]
    yield from row_groups.grouped(rows, rows["key"] % partitions)


def _age(rows: np.ndarray) -> list[np.ndarray]:
    """Returns keys by which `np.lexsort` puts the newest last, and deleted versions first."""
    return [*(rows[name] for name in _AGE), rows["reason"] != _DELETED]


def newest(rows: np.ndarray) -> np.ndarray:
    """Decides which versions of some articles are the newest and kept, and why others are not.

    A deletion withdraws one version of one PMID. Of each version the newest row counts; of the
    versions that are left, the highest is the article's, and may still be left out for a reason.

    Args:
      rows: `ROW` [n], all rows of every key that is among them, in any order: a structured array
        with "key" (uint64, the article), uint32 "version", "year" and "number" (of the PubMed file,
        or 0), "revised" (YYYYMMDD or 0), "unit", "row" (the place of the candidate), "first",
        "texts" (of its texts in the unit), uint64 "pmcid", uint8 "reason" (0, or 1 + the index in
        `articles.REASONS`), and bool "body", "deleted" and "poor" (without a main abstract).

    Returns:
      `ROW` [m <= n], a copy: the rows that are no deletions, in order of unit and row. Its "reason"
      is now an index of `VERDICTS`: 0 for a candidate that is kept, others for "superseded",
      "in_pubmed", "deleted" and each of `articles.REASONS`.
    """
    rows = rows[np.lexsort([rows[name] for name in (*_AGE, "key")])]
    _, starts, counts = np.unique(rows["key"], return_index=True, return_counts=True)
    # Most articles are there once: there is nothing to decide.
    for start, count in zip(starts[counts > 1], counts[counts > 1], strict=True):
        article = rows[start : start + count]
        article["reason"] = _verdicts(article)
    rows = rows[~rows["deleted"]]
    return rows[np.lexsort((rows["row"], rows["unit"]))]


def _verdicts(rows: np.ndarray) -> list[int]:
    """Returns the verdict on each row of one article, in order of version, edition and place."""
    reasons, deleted, body, version, without_main = (
        rows[name].tolist() for name in ("reason", "deleted", "body", "version", "poor")
    )
    newest = {key: index for index, key in enumerate(zip(body, version, strict=True))}
    versions = [number for is_body, number in newest if number and not is_body]
    alive = [number for number in versions if not deleted[newest[False, number]]]
    citation = newest[False, max(alive)] if alive else None
    inside, full_text = newest.get((False, 0)), newest.get((True, 0))
    withdrawn = bool(versions) and citation is None

    abstract = citation
    if inside is not None and not withdrawn:
        # PubMed has its title only, beside other abstracts, or nothing.
        poor = citation is None or without_main[citation] or reasons[citation] == _WITHOUT_TEXT
        if poor and (citation is None or reasons[inside] != _WITHOUT_TEXT):
            abstract = inside
    # The citation has other abstracts, also where its main one is PMC's.
    current = {index for index in (citation, abstract, full_text) if index is not None}

    verdicts = []
    for index, reason in enumerate(reasons):
        if index in current:
            verdicts.append(reason)
        elif withdrawn:
            verdicts.append(_DELETED)
        else:
            verdicts.append(_IN_PUBMED if index == inside else _SUPERSEDED)
    spread = [verdicts[index] for index in current if verdicts[index] in _SPREAD]
    if citation is not None and verdicts[citation] != _LANGUAGE:
        # PubMed says in which language an article is; a full text may not.
        spread = [verdict for verdict in spread if verdict != _LANGUAGE]
    if withdrawn:
        spread.append(_DELETED)
    for index in current:
        verdicts[index] = verdicts[index] or min(spread, default=0)
    return verdicts


def newest_versions(group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Decides which versions are the newest for the articles of one partition, a pipeline's step.

    Args:
      group: the number of the partition, and `ROW`s of its articles as bytes.

    Yields:
      Pairs of the number of a unit, and its `ROW`s with their verdicts as bytes: "reason" is an
      index of `VERDICTS`, 0 for a text that is kept.
    """
    rows = newest(np.frombuffer(b"".join(group[1]), ROW))
    yield from row_groups.grouped(rows, rows["unit"])


def texts_of(rows: np.ndarray) -> np.ndarray:
    """Returns the indices, in their unit, of the texts whose version rows are given.

    Args:
      rows: `ROW` [candidates] of one unit.

    Returns:
      int64 [texts], the indices of the first candidate's texts first, then those of the second, and
      so on.
    """
    counts = rows["texts"].astype(np.int64)
    return ragged.ranges(rows["first"].astype(np.int64), counts)
