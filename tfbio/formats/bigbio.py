"""Reads and writes data sets in BigBio's schemas (Fries et al., 2022), as Parquet and as JSON.

The schemas are those of `bigbiohub.py`, which stands beside each of BigBio's data sets
(<https://github.com/bigscience-workshop/biomedical>): "kb" has documents with entities and
relations, "text" texts with labels, "pairs" pairs of texts with a label, "te" premises and
hypotheses, and "qa" questions with answers. A file is .parquet, .jsonl with an object a line, or
.json with a list of objects or, too, with an object a line; the last two may be compressed with
gzip. Parquet needs the package pyarrow, which comes with the extra `data`.

A mention of "kb" is a list of texts with a list of offsets, several if it is discontinuous.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import IO, Any

from tfbio.base import extras, storage
from tfbio.formats.annotated_documents import Annotated, Document, Entity, FormatError, Passage
from tfbio.formats.text_files import read_text, without_halves

Row = dict[str, Any]

_NORMALIZED = [{"db_name": str, "db_id": str}]
_MENTION = {"text": [str], "offsets": [[int]]}
# Of each schema the fields and their types: a list has one element, which stands for all.
SCHEMAS: dict[str, Row] = {
    "kb": {
        "id": str,
        "document_id": str,
        "passages": [{"id": str, "type": str, **_MENTION}],
        "entities": [{"id": str, "type": str, **_MENTION, "normalized": _NORMALIZED}],
        "events": [
            {
                "id": str,
                "type": str,
                "trigger": _MENTION,
                "arguments": [{"role": str, "ref_id": str}],
            }
        ],
        "coreferences": [{"id": str, "entity_ids": [str]}],
        "relations": [
            {"id": str, "type": str, "arg1_id": str, "arg2_id": str, "normalized": _NORMALIZED}
        ],
    },
    "text": {"id": str, "document_id": str, "text": str, "labels": [str]},
    "pairs": {"id": str, "document_id": str, "text_1": str, "text_2": str, "label": str},
    "qa": {
        "id": str,
        "question_id": str,
        "document_id": str,
        "question": str,
        "type": str,
        "choices": [str],
        "context": str,
        "answer": [str],
    },
    "te": {"id": str, "premise": str, "hypothesis": str, "label": str},
}
# A text that may not be null.
_NEEDED = {"id", "text", "text_1", "text_2", "premise", "hypothesis", "question"}

# The first two fields, or the first one of those that `jq -S` sorts; BioC's documents have none but
# "id".
_KB_BEGINS = re.compile(
    r'\s*\[?\s*\{\s*("id"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?"(document_id|coreferences)"\s*:'
)
DISCONTINUOUS, WITHOUT_PLACE = "discontinuous", "without_a_place"


def is_parquet(path: str | os.PathLike) -> bool:
    """Returns True if the name of a file ends as one of Parquet does, in .parquet."""
    return os.fspath(path).lower().endswith(".parquet")


def is_kb(path: str | os.PathLike) -> bool:
    """Returns True if a file of JSON begins as a list in the schema "kb" does, not as BioC.

    Raises:
      TaskFileError: it cannot be read.
    """
    return bool(_KB_BEGINS.match(read_text(os.fspath(path))))


def read(path: str | os.PathLike, schema: str) -> list[Row]:
    """Reads the rows of a file in one of BigBio's schemas, and checks their fields.

    Args:
      path: a file that ends in .parquet, .jsonl or .json; the last two may end in .gz, too.
      schema: a key of `SCHEMAS`.

    Returns:
      A list of dicts with all fields of the schema and no others. A list that is missing or null is
      empty; the text of a passage is a list of str, also where a file has a str.

    Raises:
      FormatError: the file is not as its name says, or a field is missing or of another type; the
        message names the row and the field. For Parquet: pyarrow is not installed.
      TaskFileError: the file cannot be read.
    """
    name = os.fspath(path)
    if name.lower().endswith(".parquet.gz"):
        raise FormatError(f"{name}: Parquet is compressed inside, not read from a .gz: unpack it.")
    rows = parquet_rows(name, name) if is_parquet(path) else _of_json(name)
    spec = SCHEMAS[schema]
    return [_checked(row, spec, f"{name}, row {n}", "") for n, row in enumerate(rows, start=1)]


def _of_json(path: str) -> Iterator[Any]:
    """Yields the objects of a file of JSON, a list, or of JSON lines, which may be called .json."""
    text = read_text(path)
    if path.lower().removesuffix(".gz").endswith(".jsonl"):
        yield from _of_json_lines(path, text)
        return
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        # Hugging Face's `Dataset.to_json` writes lines, whatever the name.
        if getattr(error, "msg", "") != "Extra data":
            raise _no_json(path, error) from None
        yield from _of_json_lines(path, text)
    else:
        yield from rows if isinstance(rows, list) else [rows]


def _of_json_lines(path: str, text: str) -> Iterator[Any]:
    """Yields the objects of JSON lines."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _no_json(f"{path}, line {number}", error) from None


def _no_json(place: str, error: Exception) -> FormatError:
    """Returns the error of a file or line that is not JSON."""
    return FormatError(f"{place}: this is not JSON ({error}).")


def parquet_rows(source: str | IO[bytes], name: str) -> list[Row]:
    """Reads the rows of a file of Parquet, in any schema.

    Args:
      source: its path, or its content as a stream.
      name: its name in errors.

    Returns:
      A list of dicts, with the values of the columns as Python's objects.

    Raises:
      FormatError: it is no file of Parquet, or pyarrow is not installed.
    """
    parquet = _pyarrow().parquet
    try:
        return parquet.read_table(source).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors are these
        reason = str(error).partition("\n")[0]
        raise FormatError(f"{name} is no file of Parquet ({reason:.100}).") from None


def _pyarrow() -> ModuleType:
    """Returns the module pyarrow, with its `parquet`.

    Raises:
      FormatError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise FormatError(extras.not_installed("pyarrow")) from None
    return pyarrow


def _checked(value: Any, spec: Any, where: str, field: str) -> Any:
    """Returns a value with the fields of a spec alone; raises FormatError if it is of another type.

    Args:
      value: the value.
      spec: a type, a list with the spec of its elements, or a dict of specs.
      where: the file and the row, for messages.
      field: the path of the field, such as "entities.text"; "" for the row.
    """
    place = f"{where}, {field}" if field else where
    if isinstance(spec, list):
        if isinstance(value, str) and field == "passages.text":
            value = [value]
        if value is None:
            return []
        if not isinstance(value, list):
            raise FormatError(f"{place}: expected a list, found {value!r:.60}.")
        return [_checked(x, spec[0], where, field) for x in value]
    if isinstance(spec, dict):
        if not isinstance(value, dict):
            raise FormatError(f"{place}: expected an object, found {value!r:.60}.")
        return {
            name: _checked(value.get(name), of, where, f"{field}.{name}".strip("."))
            for name, of in spec.items()
        }
    if value is None and spec is str and field.rpartition(".")[2] not in _NEEDED:
        return None
    if not isinstance(value, spec) or isinstance(value, bool):
        wanted = "a text" if spec is str else "a whole number"
        raise FormatError(f"{place}: expected {wanted}, found {value!r:.60}.")
    return without_halves(value) if isinstance(value, str) else value


def write(path: str | os.PathLike, schema: str, rows: Iterable[Row]) -> None:
    """Writes rows in one of BigBio's schemas, and returns nothing.

    Args:
      path: the file, which appears when it is complete: .parquet, .json, or JSON lines otherwise.
      schema: a key of `SCHEMAS`.
      rows: dicts with the fields of the schema, as `read` returns them.

    Raises:
      FormatError: a field is missing or of another type. For Parquet: pyarrow is not installed.
      OSError: the file cannot be written.
    """
    name = os.fspath(path)
    spec = SCHEMAS[schema]
    checked = (_checked(row, spec, name, "") for row in rows)
    if is_parquet(path):
        pyarrow = _pyarrow()
        fields = pyarrow.schema([(field, _arrow_type(of, pyarrow)) for field, of in spec.items()])
        table = pyarrow.Table.from_pylist(list(checked), schema=fields)
        with storage.written_whole(name) as stream:
            pyarrow.parquet.write_table(table, stream)
        return
    lines = (json.dumps(row, ensure_ascii=False) for row in checked)
    with storage.written_whole(name) as stream:
        if name.endswith(".json"):
            stream.write(("[\n" + ",\n".join(lines) + "\n]\n").encode())
        else:
            stream.writelines(f"{line}\n".encode() for line in lines)


def _arrow_type(spec: Any, pyarrow: Any) -> Any:
    """Returns the type of a field in Parquet, as BigBio's features have it."""
    if isinstance(spec, list):
        return pyarrow.list_(_arrow_type(spec[0], pyarrow))
    if isinstance(spec, dict):
        return pyarrow.struct([(name, _arrow_type(of, pyarrow)) for name, of in spec.items()])
    return pyarrow.string() if spec is str else pyarrow.int32()


def documents(
    rows: Iterable[Row], counts: Counter[str] | None = None, path: str | os.PathLike = ""
) -> Iterator[tuple[Document, list[Entity]]]:
    """Makes documents with their entities of rows in the schema "kb".

    A document's text has its passages at their offsets, and blanks between them, as BigBio joins
    them. A mention in several parts is counted and left out: an `Entity` has one part, and the
    words between the parts of such a mention are not of it.

    Args:
      rows: rows of the schema "kb", as `read` returns them.
      counts: changed in place: the numbers of the mentions that are left out, by `DISCONTINUOUS`
        and `WITHOUT_PLACE` (it has no offsets), are added.
      path: the file of the rows, for errors.

    Yields:
      A `Document` and the list of its `Entity`, in the order of their starts; the document's id is
      the row's "document_id", or its "id" where that is null.

    Raises:
      FormatError: passages overlap or are not as long as their offsets say, or `text[start:end]` is
        not a mention's text; the message names the file, the document and the mention.
    """
    counts = Counter() if counts is None else counts
    where = f"{os.fspath(path)}, " if path else ""
    for row in rows:
        document = _document(row, where)
        entities = []
        for mention in row["entities"]:
            place = f"{where}document {document.id}, mention {mention['id']}"
            parts = _parts(mention, place)
            for start, end, text in parts:
                if not 0 <= start < end or document.text[start:end] != text:
                    found = document.text[start:end] if 0 <= start < end else ""
                    raise FormatError(
                        f"{place}: the document has {found!r:.60} at {start} to {end}, not "
                        f"{text!r:.60}."
                    )
            if len(parts) == 1:
                ((start, end, _),) = parts
                entities.append(Entity(mention["type"] or "", start, end))
            else:
                counts[DISCONTINUOUS if parts else WITHOUT_PLACE] += 1
        yield document, sorted(entities, key=lambda entity: (entity.start, entity.end))


def texts(rows: Iterable[Row], path: str | os.PathLike = "") -> Iterator[Document]:
    """Makes documents of rows in the schema "kb", as `documents` does, but without their entities.

    So it does not matter if these are wrong.

    Args:
      rows: rows of the schema "kb", as `read` returns them.
      path: the file of the rows, for errors.

    Yields:
      A `Document` for each row.

    Raises:
      FormatError: passages overlap or are not as long as their offsets say.
    """
    where = f"{os.fspath(path)}, " if path else ""
    for row in rows:
        yield _document(row, where)


def _parts(mention: Row, place: str) -> list[tuple[int, int, str]]:
    """Returns the offsets and the text of each part of a passage or a mention."""
    texts, offsets = mention["text"], mention["offsets"]
    if len(texts) != len(offsets) or any(len(pair) != 2 for pair in offsets):
        raise FormatError(f"{place}: expected a start and an end for each of its texts.")
    return [(start, end, text) for (start, end), text in zip(offsets, texts, strict=True)]


def _document(row: Row, where: str) -> Document:
    """Returns the document of a row, without its entities; `where` begins errors."""
    name = row["document_id"] or row["id"]
    text, passages = "", []
    for passage in row["passages"]:
        place = f"{where}document {name}, passage {passage['id']}"
        for start, end, part in _parts(passage, place):
            gap = start - len(text)
            # A gap is filled, and so must not be more than files have.
            if not 0 <= gap <= len(part) + 1000 or end - start != len(part):
                raise FormatError(
                    f"{place}: its offsets are {start} to {end}, but it has {len(part)} characters "
                    f"behind the {len(text)} before it."
                )
            text += " " * gap + part
            if part:
                passages.append(Passage(start, end, passage["type"] or ""))
    return Document(name, text, tuple(passages))


def kb_rows(annotated: Annotated) -> Iterator[Row]:
    """Makes rows in the schema "kb" of documents with their entities, such as predictions.

    A document's text is " ".join of its passages' texts, as BigBio's tests have it: blanks stand
    for what is in no passage, all but one at the end of the passage before, and passages that touch
    are one. So offsets are those of the document.

    Args:
      annotated: each document and its entities in the order of their starts.

    Yields:
      A row for each document, with ids that are unique, also in several files of documents with
      different ids: ID-1, ID-2 and so on, with -P1 behind it for passages and -T1 for entities.
    """
    for number, (document, entities) in enumerate(annotated, start=1):
        text, name = _with_blanks(document), f"{document.id}-{number}"
        yield {
            "id": name,
            "document_id": document.id,
            "passages": [
                {"id": f"{name}-P{n}", "type": x.kind, **_mention(text, x)}
                for n, x in enumerate(_one_blank_apart(document.passages), start=1)
            ],
            "entities": [
                {"id": f"{name}-T{n}", "type": x.type, "normalized": [], **_mention(text, x)}
                for n, x in enumerate(entities, start=1)
            ],
            "events": [],
            "coreferences": [],
            "relations": [],
        }


def _with_blanks(document: Document) -> str:
    """Returns the text of a document, with blanks for all that is in no passage."""
    text = ""
    for start, end, _ in document.passages:
        text += " " * (start - len(text)) + document.text[start:end]
    return text + " " * (len(document.text) - len(text))


def _one_blank_apart(passages: Iterable[Passage]) -> list[Passage]:
    """Returns passages from 0 on, each one character behind the one before, which cover others."""
    found: list[Passage] = []
    for start, end, kind in passages:
        if found and found[-1].end == start:
            start, _, kind = found.pop()
        if found:
            found[-1] = found[-1]._replace(end=start - 1)
        found.append(Passage(start if found else 0, end, kind))
    return found


def _mention(text: str, part: Passage | Entity) -> Row:
    return {"text": [text[part.start : part.end]], "offsets": [[part.start, part.end]]}
