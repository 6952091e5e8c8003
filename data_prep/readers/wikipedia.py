"""Reads the pages of Wikipedia that WikiExtractor writes with --json: a JSON object a line.

An object has `id`, `url`, `title` and `text`, in which each line is a paragraph
(github.com/attardi/wikiextractor, `Extractor.write_output`, and `extract` since version 3). The
versions before 3 write the title into the text, as its first line, too; here it is the title alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from data_prep.readers import text_lines
from data_prep.readers.problem import Problem
from tfbio.formats import safe_xml
from tfbio.formats.safe_xml import BadFile

# The names that WikiExtractor gives, with or without -c; gzip is what many use in place of bzip2.
_NAME = re.compile(r"wiki_[0-9]{2,}(\.bz2|\.gz)?")


class Page(NamedTuple):
    """A page of Wikipedia.

    Attributes:
      id: Wikipedia's number for it, such as "12"; "" if the file gives none.
      url: its address, such as "https://en.wikipedia.org/wiki?curid=12"; "" if there is none.
      title: its title.
      paragraphs: its paragraphs, without empty ones; none for a redirection.
    """

    id: str
    url: str
    title: str
    paragraphs: tuple[str, ...]


def is_name(name: str) -> bool:
    """Returns True for the names of WikiExtractor's files: `wiki_00`, `wiki_00.bz2`, `.gz`.

    Args:
      name: the name without its folder.
    """
    return _NAME.fullmatch(name) is not None


def is_beginning(head: bytes) -> bool:
    """Returns True if a file begins as WikiExtractor's do: with an object that has a title.

    Args:
      head: the file's first bytes, from `text_lines.head`.
    """
    return head.lstrip()[:1] == b"{" and all(name in head for name in (b'"id"', b'"title"'))


def read_pages(path: str | os.PathLike) -> Iterator[Page | Problem]:
    """Reads a file of WikiExtractor's, and yields its pages in order.

    Memory does not grow with the file.

    Args:
      path: the file, compressed with bzip2 or gzip or not.

    Yields:
      A `Page` for each line, or a `Problem` for a line that is no page.

    Raises:
      BadFile: the file, or the rest of it, cannot be read, or it holds no page. The pages before
        the fault have been yielded: whoever reads on must discard them.
    """
    pages = 0
    with safe_xml.faults(), text_lines.open_file(path) as stream:
        lines = text_lines.LimitedLines(stream, "a page")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            lines.renew()
            # Later on it is one bad line.
            if not pages and not line.lstrip().startswith(b"{"):
                raise BadFile(
                    f"line {number:,} is no JSON object: make the file with WikiExtractor's --json."
                )
            item = _page(line, f"line {number}")
            pages += isinstance(item, Page)
            yield item
    if not pages:
        raise BadFile("it holds no page that could be read.")


def _page(line: bytes, name: str) -> Page | Problem:
    """Reads the page of a line; returns a `Problem` of this name if it is none."""
    try:
        fields = json.loads(line)
    except UnicodeDecodeError:
        return Problem(name, "it is not text in UTF-8.")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Problem(name, "it is not a whole JSON object.")
    values = [fields.get(key, "") for key in ("id", "url", "title", "text")]
    if "text" not in fields or not all(isinstance(value, str | int) for value in values):
        return Problem(name, "it is no page: id, url, title and text must be texts.")
    id_, url, title, text = map(str, values)
    title = text_lines.clean(title)
    paragraphs = text_lines.clean_all(text.split("\n"))
    if paragraphs[:1] == (title,):
        paragraphs = paragraphs[1:]
    return Page(text_lines.clean(id_), text_lines.clean(url), title, paragraphs)
