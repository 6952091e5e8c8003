"""Reads the ids and the texts of benchmarks, for `exclusion.py`.

The content of a file decides how it is read. Ids are taken only where the file says plainly that
they are PMIDs: the first column of a table may hold any number, and an article that is missed there
is matched by its text. PMIDs are:

*   all numbers of a file that holds nothing else, but for a name before them (also `PMID:123`,
    `PMC123`, `123.txt`), and of a JSON list of nothing else, numbers or strings;
*   `123|t|`, `123|a|` (PubTator); `-DOCSTART- (123)` (EBM-PICO; JNLPBA's, without parentheses, are
    other numbers); `123.T1.T2` in a line's first column (ChemProt); `123_s0` in the last (HoC);
*   in a table with commas or tabs whose first line names the columns, those named `pmid` and the
    like;
*   in JSON, a key whose value has `CONTEXTS` or is yes, no or maybe (PubMedQA), the values of
    `pmid`, and addresses of PubMed pages (BioASQ).

Every other text of a file is one that articles must not contain: each sentence of files with one
token a line, each column of other lines, each string and list of tokens of JSON, each text of XML.
Parquet is read as JSON with an object for each row.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lxml import etree

from data_prep.readers import folders
from tfbio.base import errors
from tfbio.formats import bigbio, safe_xml, text_files
from tfbio.formats.annotated_documents import FormatError

# The largest file that is unpacked; benchmarks are a hundred times smaller.
_LARGEST = 1 << 30

# What a damaged archive raises; `zipfile` raises RuntimeError where one asks for a password.
_UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    RuntimeError,
)

_PMID = re.compile(r"[0-9]{1,8}")
_LISTED_ID = re.compile(
    r"(?:pmid:)?(?:\w+/)*([0-9]{1,8})(?:\.txt|\.n?xml)?|(?:pmcid:)?PMC([0-9]{1,9})", re.I
)
_LINE_ID = re.compile(
    r"([0-9]{1,8})\|[at]\||([0-9]{1,8})\.T\d+\.T\d+\t|[^\n]*\t([0-9]{1,8})_s\d+\s*$"
)
_ITEM = re.compile(r"[^\s,;]+")
_DOCUMENT = "-DOCSTART-"
# The beginnings of files that are no text, though they may have no zero bytes: PDF and bzip2.
_NO_TEXT = re.compile(rb"%PDF|BZh[1-9]1AY&SY")
_DOCUMENT_ID = re.compile(r"-DOCSTART- \(([0-9]{1,8})\)")
_TAG = re.compile(r"[BILOUES](-\S.*)?")
_PAGE = re.compile(
    r"https?://(?:www\.)?(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/([0-9]{1,8})/?"
)
_BRACKET = re.compile(r"-[LR][RSC]B-")
# What the first line of a table calls its columns of ids, that of a list its ids, and that of a
# table with commas its columns.
_ID_COLUMNS = {"pmid", "pmids", "pubmed_id", "pubmedid", "pmcid", "pmcids"}
_LIST_NAMES = {*_ID_COLUMNS, "id", "ids"}
_COLUMNS = {
    *("text", "sentence", "sentence1", "sentence2", "abstract", "title", "question", "context"),
    *("premise", "hypothesis", "pmid", "pubmed_id", "pmcid"),
}


def read(data: bytes) -> tuple[set[str], set[str]]:
    """Reads the ids and the texts in one file of a benchmark, whose content decides how it is read.

    Args:
      data: the file's content: a list of ids, PubTator, tagged tokens, a table, JSON or XML.

    Returns:
      A pair of sets of strings: the ids, such as "123" for a PMID and "PMC123"; and the texts, such
      as sentences, columns of a table, or strings of JSON. Either may be empty.

    Raises:
      RecursionError: its JSON is nested too deep.
    """
    text = data.decode("utf-8-sig", errors="replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as old spreadsheets end lines
    beginning = text.lstrip()[:1]
    if beginning in ("{", "[") and (values := _json_values(text)):
        return _read_json(values)
    if beginning == "<" and (texts := _xml_texts(data)) is not None:
        return set(), texts
    if (listed := _listed_ids(text.strip())) is not None:
        return listed, set()
    if (rows := _csv_rows(text) or _tsv_rows(text)) is not None:
        return _read_table(rows)
    lines = text_files.split_lines(text)
    return _read_tokens(lines) if _has_tags(lines) else _read_lines(lines)


def members(path: str) -> Iterator[tuple[str, bytes | None]]:
    """Yields the name and content of every file in a benchmark's file, folder or archive.

    Archives (gzip, zip, tar) are unpacked in memory, also inside each other. Folders behind links
    are read, too.

    Args:
      path: the path of the file, folder or archive.

    Yields:
      A pair for each file: its path, with "/" and the member's name added for one in an archive;
      and its content as bytes, for Parquet as JSON lines. The content is None for what is no text:
      PDFs, bzip2's and other files with zero bytes in them, and links that lead nowhere.

    Raises:
      UserError: the path does not exist, a folder cannot be listed, or a file cannot be read or is
        larger than 1 GiB. For Parquet: pyarrow is not installed.
    """
    if not os.path.exists(path):
        raise errors.UserError(f"--exclude: {path} does not exist.")
    try:
        inside = sorted(map(Path, folders.files_in(path))) if os.path.isdir(path) else [Path(path)]
    except OSError as error:
        raise errors.UserError(
            f"--exclude: {error.filename} cannot be listed: {error.strerror}."
        ) from error
    for file in inside:
        try:
            if not file.is_file():
                yield str(file), None
                continue
            with open(file, "rb") as stream:
                yield from _unpacked(str(file), _read_all(stream, str(file)))
        except _UNREADABLE as error:
            reason = getattr(error, "strerror", None) or error
            raise errors.UserError(f"--exclude: {file} cannot be read ({reason}).") from error


def _unpacked(name: str, data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yields a file's name and content, or those of the files in it, in memory only."""
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
            for member in archive:
                if member.isfile() and (content := archive.extractfile(member)) is not None:
                    inner = f"{name}/{member.name}"
                    yield from _unpacked(inner, _read_all(content, inner))
    elif data.startswith(b"PAR1") and b"\0" in data:  # PAR1 is a gene, too
        yield name, _json_lines(data, name)
    else:
        yield name, None if b"\0" in data or _NO_TEXT.match(data) else data


def _json_lines(data: bytes, name: str) -> bytes:
    """Returns the rows of a file of Parquet as JSON lines; values that JSON has not become null."""
    try:
        rows = bigbio.parquet_rows(io.BytesIO(data), name)
    except FormatError as error:
        raise errors.UserError(f"--exclude: {error}") from error
    return "\n".join(json.dumps(row, default=lambda value: None) for row in rows).encode()


def _read_all(stream: IO[bytes] | gzip.GzipFile, name: str) -> bytes:
    # In parts: to read so much at once takes the memory for it, however small the file is.
    parts, size = [], 0
    while size <= _LARGEST and (part := stream.read(1 << 20)):
        parts.append(part)
        size += len(part)
    if size > _LARGEST:
        raise errors.UserError(
            f"--exclude: {name} is larger than 1 GiB: give a benchmark's own files."
        )
    return b"".join(parts)


def _listed_ids(text: str) -> set[str] | None:
    """Returns the ids of a text of nothing but ids; None if it has anything else."""
    if not text or text[0] in ",;" or text[-1] in ",;":
        return None
    ids: set[str] = set()
    for number, item in enumerate(_ITEM.finditer(text)):  # most files end it at the first
        if number == 0 and item[0].lower() in _LIST_NAMES:
            continue
        if (match := _LISTED_ID.fullmatch(item[0])) is None:
            return None
        ids.add(match[1] or f"PMC{match[2]}")
    return ids or None


def _has_tags(lines: Sequence[str]) -> bool:
    """Returns True for lines of one token each, with a tag such as B, I-PAR or O at the end."""
    rows = [_cells(line) for line in lines[:2000] if line.strip() and _DOCUMENT not in line]
    tagged = sum(len(row) > 1 and bool(_TAG.fullmatch(row[-1])) for row in rows)
    return bool(rows) and tagged >= 0.95 * len(rows)


def _cells(line: str) -> list[str]:
    """Returns the columns of a line of a token and its tag: a type may have blanks behind a tab."""
    line = line.strip()
    return line.split("\t") if "\t" in line else line.split()


def _json_values(text: str) -> list:
    """Parses a text as JSON, or as one JSON value a line; returns [] if it is neither."""
    with contextlib.suppress(ValueError):
        return [json.loads(text)]
    with contextlib.suppress(ValueError):
        return [json.loads(line) for line in text_files.split_lines(text) if line.strip()]
    return []


def _xml_texts(data: bytes) -> set[str] | None:
    """Returns the texts of a file of XML, and its attributes named "text"; None if it is no XML."""
    try:
        parser = etree.XMLParser(**safe_xml.SAFE)
        root = etree.parse(safe_xml.Entities(io.BytesIO(data)), parser).getroot()
    except etree.XMLSyntaxError:
        return None
    elements = list(root.iter(etree.Element))
    texts = {part or "" for e in elements for part in (e.text, e.tail, e.get("text"))}
    # Markup inside a sentence, such as <i>, and the runs of Word's paragraphs, cut it into pieces.
    texts.update("".join(e.itertext()) for e in elements if _is_one_text(e))
    return texts


def _is_one_text(element: etree._Element) -> bool:
    """Returns True for an element that has elements between its words, or is a paragraph."""
    around = (element.text, *(inner.tail for inner in element))
    is_mixed = len(element) and any((part or "").strip() for part in around)
    return is_mixed or etree.QName(element).localname == "p"


def _read_tokens(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    sentence: list[str] = []
    for line in (*lines, ""):
        if line.startswith(_DOCUMENT):
            ids |= set(_DOCUMENT_ID.findall(line))
        elif line.strip():
            sentence.append(_cells(line)[0])
        elif sentence:
            texts.add(_joined(sentence))
            sentence = []
    return ids, texts


def _joined(tokens: Iterable[str]) -> str:
    """Returns a sentence of its tokens, without the Penn treebank's names for brackets."""
    return _BRACKET.sub(" ", " ".join(tokens))


def _are_tokens(values: list) -> bool:
    """Returns True for strings of one word each, or none, that are neither tags nor addresses."""
    words = all(isinstance(value, str) and len(value.split()) < 2 for value in values)
    return words and not all(_TAG.fullmatch(x) for x in values) and "://" not in "".join(values)


def _read_lines(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    for line in lines:
        if match := _LINE_ID.match(line):
            ids.add(match[1] or match[2] or match[3])
        texts.update(line[match.end() :].split("\t") if match and match[1] else line.split("\t"))
    return ids, texts


def _csv_rows(text: str) -> list[list[str]] | None:
    """Parses a table with commas whose first line names the columns; returns None if it is none."""
    first, _, rest = text.partition("\n")
    names = [_plain(name) for name in first.split(",")]
    if len(names) < 2 or "\t" in first or not rest or not _COLUMNS & set(names):
        return None
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error:
        return None
    return rows if {len(row) for row in rows} == {len(names)} else None


def _tsv_rows(text: str) -> list[list[str]] | None:
    """Parses a table with tabs whose first line names a column of ids; None if it is none."""
    names = text.partition("\n")[0].split("\t")
    if len(names) < 2 or not _ID_COLUMNS & set(map(_plain, names)):
        return None
    return [line.split("\t") for line in text_files.split_lines(text) if line.strip()]


def _plain(name: str) -> str:
    """Returns the name of a column without quotes and in lower case."""
    return name.strip().strip('"').lower()


def _read_table(rows: list[list[str]]) -> tuple[set[str], set[str]]:
    ids, texts = set(), set()
    of_ids = {place for place, name in enumerate(rows[0]) if _plain(name) in _ID_COLUMNS}
    for row in rows[1:]:
        # Rows of a table with tabs may lack cells, or have more.
        for place, cell in enumerate(row):
            if place in of_ids and (match := _LISTED_ID.fullmatch(cell.strip().strip('"'))):
                ids.add(match[1] or f"PMC{match[2]}")
            texts.add(cell)
    return ids, texts


def _read_json(values: list) -> tuple[set[str], set[str]]:
    listed = values[0] if len(values) == 1 and isinstance(values[0], list) else []
    if listed and all(type(number) is int and _PMID.fullmatch(str(number)) for number in listed):
        return set(map(str, listed)), set()
    if all(isinstance(item, str) for item in listed) and (written := _listed_ids(" ".join(listed))):
        return written, set()
    ids: set[str] = set()
    texts: set[str] = set()
    while values:
        value = values.pop()
        if isinstance(value, str):
            page = _PAGE.fullmatch(value)
            ids.update(page.groups() if page else ())
            texts.add(value)
        elif isinstance(value, list):
            values += value
            if _are_tokens(value):
                texts.add(_joined(value))
        elif isinstance(value, dict):
            for key, inner in value.items():
                values.append(inner)
                ids |= _ids_of_json(key, inner)
    return ids, texts


def _ids_of_json(key: str, value: Any) -> set[str]:
    """Returns the PMIDs that a key of a JSON object, or its value, says that it has."""
    named = []
    if value in ("yes", "no", "maybe") or (isinstance(value, dict) and "CONTEXTS" in value):
        named = [key]
    elif key.lower() in ("pmid", "pmids", "pubmed_id"):
        named = value if isinstance(value, list) else [value]
    return {item for item in map(str, named) if _PMID.fullmatch(item)}
