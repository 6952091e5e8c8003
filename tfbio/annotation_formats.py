"""Documents to annotate, and documents with their entities, in the formats in use.

- Plain text: a document a file; empty lines part its passages. Standard input ("-") is plain text,
  or PubTator, and what it holds without an id of its own is called "stdin".
- PubMed XML: title and abstract, with the labels of its sections.
- PMC's full texts (JATS), one or a set of them or a package, as `data_prep.pmc` reads them: title,
  abstract and body, the title of each section where it begins. Captions and the rows of tables
  stand behind the paragraph that their figure or table interrupts.
- BioC (Comeau et al., 2013), XML and JSON; the JSON may be a collection, a document, or either in
  lists and objects, as PubMed's and PubTator's services return it.
- PubTator (Wei et al., 2013): `PMID|t|title`, `PMID|a|abstract`, annotations below.
- brat's standoff format (Stenetorp et al., 2012), and JSON lines: for output only.

JSON lines have the score of an entity as "score", BioC as an infon of that name; PubTator and brat
have no place for it.

Offsets count Unicode characters of a document's text, from 0; an end is that of the next character.
A byte-order mark is no part of the text, a Windows line end is two characters of it. Passages that
are read one by one are joined by a line feed, as PubTator counts title and abstract; BioC's by one
for every character that their offsets leave.

Annotations of an input are not kept: an output has only what was predicted.

Several documents may have one id, as two of NCBI disease's have. All are written, with that id; in
brat, where an id is the name of files, the files of the second are ID_2.txt and ID_2.ann.
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

from data_prep import bioc, markup, pmc, pubmed
from tfbio import storage, task_files
from tfbio.cli import UserError
from tfbio.entities import Entity

ENDINGS = (".txt", ".pubtator", ".xml", ".nxml", ".tar", ".tgz", ".json")
FORMATS = ("jsonl", "bioc", "pubtator", "brat")

_PUBTATOR_TEXT = re.compile(r"([^|\s]+)\|([ta])\|(.*)", re.DOTALL)
# Of a file, in bytes and without its ending; Linux takes 255.
_LONGEST_NAME = 250
# Characters that may be missing between the passages of a small file of BioC.
_LEAST_ROOM = 1_000_000
# What standard input would otherwise take for a plain text.
_XML_OR_JSON = re.compile(r"\s*(<\?xml|<!DOCTYPE|\{\s*\"|\[\s*\{)")
_EMPTY_LINES = re.compile(r"\n[ \t\r]*\n\s*")
# What a line of PubTator or brat cannot hold: tabs, and whatever a reader may take for its end.
_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")


class FormatError(UserError):
    """An input that is not as its format says, or a text that an output cannot hold."""


class Passage(NamedTuple):
    """A part of a document's text, never empty, and what it is, or "" if that is not known.

    Of PubMed's and PMC's it is "title", "abstract", "heading" (the title of a section),
    "paragraph", "caption" or "table" (the cells of a row); of BioC what the file says.
    """

    start: int
    end: int
    kind: str


@dataclasses.dataclass(frozen=True)
class Document:
    """A text, and its passages in their order, which do not overlap."""

    id: str
    text: str
    passages: tuple[Passage, ...]


Annotated = Iterable[tuple[Document, Sequence[Entity]]]


# --- Reading -------------------------------------------------------------------------------------


def find_files(inputs: Sequence[str], endings: Sequence[str] = ENDINGS) -> list[str]:
    """The files that files, folders and globs stand for, sorted; of folders those with an ending.

    "-" stands for `task_files.STDIN`.

    Raises:
      UserError: there is none, or one that is named has another ending.
    """
    files: set[str] = set()
    for item in inputs:
        if item == "-":
            files.add(task_files.STDIN)
            continue
        if os.path.isdir(item):
            found = storage.find(os.path.join(glob.escape(item), "**", "*"))
        else:
            found = [item] if os.path.lexists(item) else storage.find(item)
        paths = [x for x in found if _ending(x) in endings and not os.path.isdir(x)]
        if not paths:
            wanted = f"{', '.join(endings)} (or one of these with .gz)"
            raise UserError(
                f"--input: {item} {'gives' if found else 'does not exist; expected'} "
                f"{'no file that ends in' if found else 'files that end in'} {wanted}."
            )
        files.update(paths)
    return sorted(files)


def _ending(path: str) -> str:
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def read(path: str, left_out: list[str] | None = None) -> Iterator[Document]:
    """The documents of a file, by its ending; a `.txt` that begins like PubTator is PubTator's.

    Args:
      path: the file.
      left_out: where a sentence is added for each article of a set or package that cannot be read.

    Raises:
      FormatError: the file is not as its format says.
      TaskFileError: a file of text cannot be read.
    """
    ending = _ending(path)
    if ending in (".xml", ".nxml", ".tar", ".tgz"):
        try:
            yield from _read_xml(path, [] if left_out is None else left_out)
        except markup.BadFile as error:
            raise FormatError(f"{path}: {error}") from error
    elif ending == ".json":
        yield from _read_bioc_json(path)
    else:
        text = task_files.read_text(path)
        if path == task_files.STDIN and _XML_OR_JSON.match(text):
            raise FormatError(
                "--input=-: this is XML or JSON, and standard input is read as plain text or "
                "PubTator: give it as a file."
            )
        if ending == ".pubtator" or _PUBTATOR_TEXT.match(text.lstrip()):
            yield from _read_pubtator(path, text)
        else:
            name = os.path.basename(path)
            name = name[: name.lower().rindex(ending)] if ending else "stdin"
            edges = [0, *(edge for m in _EMPTY_LINES.finditer(text) for edge in m.span())]
            spans = zip(edges[::2], [*edges[1::2], len(text)], strict=True)
            passages = tuple(Passage(a, b, "") for a, b in spans if a < b)
            yield Document(name, text, passages)


def _joined(name: str, parts: Iterable[tuple[int, str, str]]) -> Document:
    """A document of (start, kind, text) each.

    Raises:
      ValueError: a part begins before the end of the one before.
    """
    pieces, passages, end = [], [], 0
    for start, kind, part in parts:
        if start < end:
            raise ValueError(f"that at {start} begins before the end of the one before")
        if part:
            pieces += ["\n" * (start - end), part]
            end = start + len(part)
            passages.append(Passage(start, end, kind))
    return Document(name, "".join(pieces), tuple(passages))


def _read_pubtator(path: str, text: str) -> Iterator[Document]:
    name, parts = "", []

    def mistake(number: int, message: str) -> FormatError:
        return FormatError(f"{path}, line {number}: {message}.")

    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        match = _PUBTATOR_TEXT.fullmatch(line)
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
    return _joined(name, [(0, "title", title), (len(title) + 1, "abstract", abstract)])


def _read_xml(path: str, left_out: list[str]) -> Iterator[Document]:
    if pmc.is_archive(path):
        yield from _read_full_texts(path, left_out)
        return
    if bioc.is_bioc(path):
        yield from _read_bioc(path, bioc.read_documents(path), storage.size(path))
        return
    with markup.faults(), markup.open_file(path) as stream:
        root = markup.first_element(stream)
    if root.tag in pubmed.ROOTS:
        for citation in pubmed.read_citations(path):
            if not (citation.deleted or citation.book):
                sections = (
                    f"{x.label}: {x.text}" if x.label else x.text for x in citation.sections
                )
                parts = [("title", citation.title), *(("abstract", text) for text in sections)]
                yield _one_below_the_other(citation.pmid, parts)
    elif etree.QName(root).localname in pmc.ROOTS:
        yield from _read_full_texts(path, left_out)
    else:
        raise markup.BadFile(
            f"its root is <{str(root.tag)[:80]}>, not one of PubMed's ({pubmed.ROOTS[0]}), PMC's "
            f"({pmc.ROOTS[0]}) or BioC's (collection)."
        )


def _read_full_texts(path: str, left_out: list[str]) -> Iterator[Document]:
    for article in pmc.read_articles(path):
        if isinstance(article, pmc.FullText):
            yield _of_full_text(article)
        elif article.name == markup.printable(os.path.basename(path)):  # there is no other in it
            raise markup.BadFile(article.sentence)
        else:
            left_out.append(f"{path}, {article.name}: {article.sentence}")


def _of_full_text(article: pmc.FullText) -> Document:
    parts = [("title", article.title)]
    for paragraphs, kind in ((article.abstract, "abstract"), (article.body, pmc.PARAGRAPH)):
        around: list[str] = []
        for paragraph in paragraphs:
            titles = paragraph.section.split(" > ") if paragraph.section else []
            new = titles[len(os.path.commonprefix([around, titles])) :]
            parts += [("heading", title) for title in new]
            own = kind if paragraph.kind == pmc.PARAGRAPH else paragraph.kind
            parts.append((own, paragraph.text))
            around = titles
    return _one_below_the_other(article.pmcid or article.pmid or article.doi or article.name, parts)


def _one_below_the_other(name: str, parts: Iterable[tuple[str, str]]) -> Document:
    """A document of (kind, text) each."""
    placed, start = [], 0
    for kind, text in parts:
        placed.append((start, kind, text))
        start += len(text) + 1
    return _joined(name, placed)


def _read_bioc_json(path: str) -> Iterator[Document]:
    def documents(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and "passages" in value:
            yield value
        elif isinstance(value, (dict, list)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from documents(part)

    text = task_files.read_text(path)
    try:
        found = list(documents(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({error}).") from None
    if not found:
        raise FormatError(f"{path} holds no document of BioC: none of its objects has passages.")
    yield from _read_bioc(path, found, len(text))


def _read_bioc(path: str, documents: Iterable[dict[str, Any]], size: int) -> Iterator[Document]:
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
        return _joined(name, parts)
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
    """Writes documents with their entities.

    Args:
      path: a file, which appears when it is complete; for "brat" a folder. In one that is there
        already all files then take the place of those of an earlier run: each .txt with its .ann.
      form: one of `FORMATS`. "bioc" is JSON if the path ends in .json, else XML.
      annotated: each document and its entities in the order of their starts.

    Raises:
      FormatError: the format cannot hold a text or an id.
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
    """The first line of a text is the title; further line ends, and tabs, become blanks."""
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
    """ID.txt with the text as it is, and ID.ann; an entity on two lines has two parts."""
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
