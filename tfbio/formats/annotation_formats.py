"""Documents to annotate, and documents with their entities, in the formats in use.

- Plain text: a document a file; empty lines part its passages. Standard input ("-") is plain text,
  or PubTator, and what it holds without an id of its own is called "stdin".
- BioC (Comeau et al., 2013), XML and JSON; the JSON may be a collection, a document, or either in
  lists and objects, as PubMed's and PubTator's services return it.
- PubTator (Wei et al., 2013): `PMID|t|title`, `PMID|a|abstract`, annotations below.
- BigBio's schema "kb" (Fries et al., 2022): Parquet, JSON, or for output JSON lines.
- brat's standoff format (Stenetorp et al., 2012), JSON lines, and a page of HTML to look at: for
  output only. JSON lines have an entity's score as "score", BioC as an infon of that name, the page
  on hover; the others have no place for it.

`document_formats` reads PubMed's and PMC's XML besides, and tells a file's format. Annotations of
an input are not kept: an output has only what was predicted. Offsets count Unicode characters of a
document's text, from 0; an end is that of the next character. A byte-order mark is no part of the
text, a Windows line end is two characters of it. Passages that are read one by one are joined by a
line feed, as PubTator counts title and abstract; BioC's by one for every character that their
offsets leave. Several documents may have one id, as two of NCBI disease's have: all are written, in
brat as ID.txt, ID_2.txt and so on, each with its .ann.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

from tfbio.base import storage
from tfbio.formats import bigbio, bioc, brat, html_page, pubtator
from tfbio.formats.annotated_documents import Annotated

# The level of compression that the command gzip has.
_LEVEL = 6

FORMATS = ("jsonl", "bioc", "pubtator", "brat", "html", "bigbio")


def write(path: str, form: str, annotated: Annotated, compress: bool = False) -> None:
    """Writes documents with their entities in one of the annotation formats, and returns nothing.

    A line of "jsonl" is an object with "id", "text" and "entities", a list of objects with "type",
    "start", "end", "text" and, if it is known, "score".

    Args:
      path: a file, which appears when it is complete; for "brat" a folder. In one that is there
        already all files then take the place of those of an earlier run: each .txt with its .ann.
      form: one of `FORMATS`; "bioc" is JSON if the path ends in .json, else XML; "bigbio" is
        Parquet or JSON if the path ends in .parquet or .json, else JSON lines.
      annotated: each document and its entities in the order of their starts.
      compress: True to compress with gzip; for "jsonl", "pubtator" and "bioc" as JSON.

    Raises:
      FormatError: an id is too long for a file's name in brat, or a new text would replace one
        without annotations there; Parquet, and pyarrow is not installed.
      OSError: the path cannot be written.
      KeyError: `form` is another str.
    """
    if form == "brat":
        brat.write(path, annotated)
    elif form == "html":
        html_page.write(path, annotated)
    elif form == "bigbio":
        bigbio.write(path, "kb", bigbio.kb_rows(annotated))
    elif form == "bioc" and not path.endswith(".json"):
        bioc.write_xml(path, annotated)
    else:
        lines = {"jsonl": _jsonl, "bioc": bioc.json_lines, "pubtator": pubtator.lines}[form](
            annotated
        )
        encoded = (line.encode() for line in lines)
        with storage.written_whole(path) as stream:
            if compress:
                # Without name and time: the same lines are always the same bytes.
                with gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as compressed:
                    compressed.writelines(encoded)
            else:
                stream.writelines(encoded)


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
