"""Documents to annotate, and documents with their entities, in the formats in use.

- Plain text: a document a file; empty lines part its passages. Standard input ("-") is plain text,
  or PubTator, and what it holds without an id of its own is called "stdin".
- BioC (Comeau et al., 2013), XML and JSON; the JSON may be a collection, a document, or either in
  lists and objects, as PubMed's and PubTator's services return it.
- PubTator (Wei et al., 2013): `PMID|t|title`, `PMID|a|abstract`, annotations below.
- brat's standoff format (Stenetorp et al., 2012), and JSON lines: for output only. JSON lines have
  an entity's score as "score", BioC as an infon of that name; the others have no place for it.

`prediction_inputs` reads PubMed's and PMC's XML besides, and tells a file's format. Annotations of
an input are not kept: an output has only what was predicted. Offsets count Unicode characters of a
document's text, from 0; an end is that of the next character. A byte-order mark is no part of the
text, a Windows line end is two characters of it. Passages that are read one by one are joined by a
line feed, as PubTator counts title and abstract; BioC's by one for every character that their
offsets leave. Several documents may have one id, as two of NCBI disease's have: all are written, in
brat as ID.txt, ID_2.txt and so on, each with its .ann.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import json
import os
import re
import shutil
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lxml import etree
from lxml.builder import E

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.formats.entities import Entity
from tfbio.formats.text_files import read_text

FORMATS = ("jsonl", "bioc", "pubtator", "brat")

PUBTATOR_TEXT = re.compile(r"([^|\s]+)\|([ta])\|(.*)", re.DOTALL)
# Of a file, in bytes and without its ending; Linux takes 255.
_LONGEST_NAME = 250
# Characters that may be missing between the passages of a small file of BioC.
_LEAST_ROOM = 1_000_000
# Tabs, and the characters that a reader may take for a line's end: PubTator and brat have blanks.
_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")


class FormatError(UserError):
    """An error of an input that is not as its format says, or a text that an output cannot hold."""


class Passage(NamedTuple):
    """A part of a document's text, never empty.

    Attributes:
      start: its first character in the document's text.
      end: the character behind its last.
      kind: "" if that is not known; of PubMed's and PMC's "title", "abstract", "heading" (the title
        of a section), "paragraph", "caption" or "table" (the cells of a row); of BioC what the file
        says.
    """

    start: int
    end: int
    kind: str


@dataclasses.dataclass(frozen=True)
class Document:
    """The text of a document.

    Attributes:
      id: the document's id.
      text: its whole text.
      passages: its passages in their order, which do not overlap.
    """

    id: str
    text: str
    passages: tuple[Passage, ...]


Annotated = Iterable[tuple[Document, Sequence[Entity]]]


# --- Reading -------------------------------------------------------------------------------------


def joined(name: str, parts: Iterable[tuple[int, str, str]]) -> Document:
    """Makes a `Document` of its passages, with line feeds between them up to each offset.

    Args:
      name: the document's id.
      parts: for each passage its first character in the document, its kind as in `Passage`, and its
        text; one without text is left out.

    Raises:
      ValueError: a part begins before the end of the one before.
    """
    texts, passages, end = [], [], 0
    for start, kind, part in parts:
        if start < end:
            raise ValueError(f"that at {start} begins before the end of the one before")
        if part:
            texts += ["\n" * (start - end), part]
            end = start + len(part)
            passages.append(Passage(start, end, kind))
    return Document(name, "".join(texts), tuple(passages))


def read_pubtator(path: str, text: str) -> Iterator[Document]:
    """Yields a `Document` for each title and abstract of a PubTator file, without annotations.

    Args:
      path: the name of the file in messages.
      text: the content of the file.

    Raises:
      FormatError: a line is not of this format, or there is no document.
    """
    name, parts = "", []

    def mistake(number: int, message: str) -> FormatError:
        return FormatError(f"{path}, line {number}: {message}.")

    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        match = PUBTATOR_TEXT.fullmatch(line)
        if match and match[2] == "t":
            if parts:
                yield _titled(name, *parts)
            name, parts = match[1], [match[3]]
        elif match:
            if match[1] != name or len(parts) != 1:
                raise mistake(number, f"expected {match[1]}|t| and a title before this abstract")
            parts.append(match[3])
        elif line.strip() and not (parts and line.startswith(f"{name}\t")):
            message = "expected PMID|t|title, PMID|a|abstract or an annotation of this document"
            raise mistake(number, f"{message}, found {line!r:.60}")
    if not parts:
        raise FormatError(f"{path} holds no document: expected PMID|t|title.")
    yield _titled(name, *parts)


def _titled(name: str, title: str, abstract: str = "") -> Document:
    return joined(name, [(0, "title", title), (len(title) + 1, "abstract", abstract)])


def read_bioc_json(path: str) -> Iterator[Document]:
    """Yields a `Document` for each document of BioC in a JSON file, wherever it stands there.

    Raises:
      FormatError: it is no JSON, has no document, or a document is not as BioC says.
      TaskFileError: it cannot be read.
    """

    def documents(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and "passages" in value:
            yield value
        elif isinstance(value, (dict, list)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from documents(part)

    text = read_text(path)
    try:
        read = list(documents(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({error}).") from None
    if not read:
        raise FormatError(f"{path} holds no document of BioC: none of its objects has passages.")
    yield from read_bioc(path, read, len(text))


def read_bioc(path: str, documents: Iterable[dict[str, Any]], size: int) -> Iterator[Document]:
    """Yields a `Document` for each document of BioC, without annotations.

    Args:
      path: the name of the file in messages.
      documents: as BioC's JSON has them.
      size: characters or bytes of the file: its passages may leave no more than that between them.

    Raises:
      FormatError: a document has no id, or a passage no text and offset that fit.
    """
    # What offsets leave between passages is filled, and so must not be more than files have.
    room = max(_LEAST_ROOM, size)
    for document in documents:
        made = _of_bioc(path, document, room)
        room -= len(made.text) - sum(passage.end - passage.start for passage in made.passages)
        yield made


def _of_bioc(path: str, document: dict[str, Any], room: int) -> Document:
    name, parts = str(document.get("id") or ""), []
    if not name:
        raise FormatError(f"{path}: a document has no id: give each one.")
    try:
        for passage in document["passages"]:
            kind = (passage.get("infons") or {}).get("type") or ""
            # The text of a passage that is divided stands in its sentences.
            for part in [passage] if passage.get("text") else passage.get("sentences") or []:
                # Half of a pair of surrogates, which JSON can hold, is no character.
                text = re.sub("[\ud800-\udfff]", "\ufffd", part.get("text") or "")
                parts.append((_offset(part["offset"]), kind, text))
        end = 0
        for start, _, text in parts:
            room -= max(0, start - end) if text else 0
            end = max(end, start + len(text))
            if room < 0:
                raise ValueError(f"{start} is much further from the passage before than files go")
        return joined(name, parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = "expected passages with a text and an offset, which is that in the document"
        raise FormatError(f"{path}, document {name}: {message} ({error}).") from error


def _offset(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,12}\s*", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"the offset {value!r:.40} is no whole number")


# --- Writing -------------------------------------------------------------------------------------


def write(path: str, form: str, annotated: Annotated) -> None:
    """Writes documents with their entities, and returns nothing.

    Args:
      path: a file, which appears when it is complete; for "brat" a folder. In one that is there
        already all files then take the place of those of an earlier run: each .txt with its .ann.
      form: "jsonl", "bioc" (JSON if the path ends in .json, else XML), "pubtator" or "brat".
      annotated: each document and its entities in the order of their starts.

    Raises:
      FormatError: the format cannot hold a text or an id.
      OSError: the path cannot be written.
    """
    if form == "brat":
        _write_brat(path, annotated)
    elif form == "bioc" and not path.endswith(".json"):
        _write_bioc_xml(path, annotated)
    else:
        lines = {"jsonl": _jsonl, "bioc": _bioc_json, "pubtator": _pubtator}[form](annotated)
        with storage.written_whole(path) as stream:
            stream.writelines(line.encode() for line in lines)


def _jsonl(annotated: Annotated) -> Iterator[str]:
    for document, entities in annotated:
        record = {
            "id": document.id,
            "text": document.text,
            "entities": [
                {**entity.as_dict(), "text": document.text[entity.start : entity.end]}
                for entity in entities
            ],
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _pubtator(annotated: Annotated) -> Iterator[str]:
    """Yields lines; a text's first line is the title, other line ends and tabs become blanks."""
    for document, entities in annotated:
        name = re.sub(r"[|\s]", "_", document.id)
        # Not where a title would end in a blank, which some readers strip.
        feed = re.search(r"(?<!\s)\n", document.text)
        end = feed.start() if feed else len(document.text)
        title, abstract = document.text[:end], document.text[end + 1 :]
        yield f"{name}|t|{title.translate(_BREAKS)}\n{name}|a|{abstract.translate(_BREAKS)}\n"
        for kind, start, end, _ in entities:
            mention = document.text[start:end].translate(_BREAKS)
            # "-": no identifier.
            yield f"{name}\t{start}\t{end}\t{mention}\t{kind}\t-\n"
        yield "\n"


def _bioc(document: Document, entities: Sequence[Entity]) -> dict[str, Any]:
    numbers = itertools.count(1)
    passages = [
        {
            "infons": {"type": passage.kind} if passage.kind else {},
            "offset": passage.start,
            "text": document.text[passage.start : passage.end],
            "sentences": [],
            "annotations": [
                {
                    "id": f"T{next(numbers)}",
                    # An infon is a string (BioC.dtd).
                    "infons": {"type": kind} | ({} if score is None else {"score": str(score)}),
                    "locations": [{"offset": start, "length": end - start}],
                    "text": document.text[start:end],
                }
                for kind, start, end, score in entities
                if passage.start <= start < passage.end
            ],
            "relations": [],
        }
        # A document has a passage at least (BioC.dtd).
        for passage in document.passages or [Passage(0, 0, "")]
    ]
    return {"id": document.id, "infons": {}, "passages": passages, "relations": []}


def _bioc_json(annotated: Annotated) -> Iterator[str]:
    yield '{"source": "tfbio", "date": "", "key": "", "infons": {}, "documents": ['
    separator = "\n"
    for document, entities in annotated:
        yield separator + json.dumps(_bioc(document, entities), ensure_ascii=False)
        separator = ",\n"
    yield "\n]}\n"


def _write_bioc_xml(path: str, annotated: Annotated) -> None:
    with storage.written_whole(path) as stream, etree.xmlfile(stream, encoding="utf-8") as file:
        file.write_declaration()
        file.write_doctype('<!DOCTYPE collection SYSTEM "BioC.dtd">')
        with file.element("collection"):
            file.write(E.source("tfbio"), E.date(), E.key())
            for document, entities in annotated:
                try:
                    passages = map(_bioc_element, _bioc(document, entities)["passages"])
                    file.write(E.document(E.id(document.id), *passages))
                except ValueError:
                    raise FormatError(
                        f"document {document.id} has a control character, which XML cannot hold: "
                        "give an --output that ends in .json, or --format=jsonl."
                    ) from None


def _bioc_element(passage: dict[str, Any]) -> etree._Element:
    def infons(part: dict[str, Any]) -> list[etree._Element]:
        return [E.infon(value, key=key) for key, value in part["infons"].items()]

    annotations = [
        E.annotation(
            *infons(part),
            *(E.location(**{k: str(n) for k, n in at.items()}) for at in part["locations"]),
            E.text(part["text"]),
            id=part["id"],
        )
        for part in passage["annotations"]
    ]
    offset, text = E.offset(str(passage["offset"])), E.text(passage["text"])
    return E.passage(*infons(passage), offset, text, *annotations)


def _write_brat(folder: str, annotated: Annotated) -> None:
    """Writes ID.txt with the text as it is, and ID.ann; an entity on two lines has two parts."""
    # All files are complete before the folder appears, or the first one of an earlier run goes.
    new = f"{os.path.abspath(folder)}.{uuid.uuid4().hex}.tmp"
    os.makedirs(new)
    try:
        _write_brat_files(new, annotated)
        if not os.path.lexists(folder):
            os.rename(new, folder)
            return
        # Every text of brat's has annotations: one that has none is no file of an earlier run.
        for old in glob.glob(os.path.join(glob.escape(folder), "*.txt")):
            annotations = f"{old[: -len('.txt')]}.ann"
            if os.path.lexists(annotations):
                os.remove(old)
                os.remove(annotations)
        for name in os.listdir(new):
            os.replace(os.path.join(new, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write_brat_files(folder: str, annotated: Annotated) -> None:
    taken: set[str] = set()
    for document, entities in annotated:
        lines = []
        for number, (kind, start, end, _) in enumerate(entities, start=1):
            mention = document.text[start:end]
            parts = [part.span() for part in re.finditer(r"[^\r\n]+", mention)]
            places = ";".join(f"{start + a} {start + b}" for a, b in parts)
            words = " ".join(mention[a:b].translate(_BREAKS) for a, b in parts)
            lines.append(f"T{number}\t{re.sub('[^A-Za-z0-9_-]', '_', kind)} {places}\t{words}\n")
        quoted = urllib.parse.quote(document.id, safe=" ")
        # A document whose id another one had has its number in the name of its files.
        names = itertools.chain([quoted], (f"{quoted}_{n}" for n in itertools.count(2)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        if len(name) > _LONGEST_NAME:
            raise FormatError(
                f"--format=brat: the id {document.id:.60} is too long for the name of a file: give "
                "another --format."
            )
        for ending, text in ((".txt", document.text), (".ann", "".join(lines))):
            path = os.path.join(folder, name + ending)
            with storage.naming(path), open(path, "xb") as stream:
                stream.write(text.encode())
