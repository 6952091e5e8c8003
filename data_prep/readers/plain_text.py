"""Reads plain text: a document is a block of lines, and an empty line ends it.

BERT's and ELECTRA's code read their corpora in this form. Each line is a paragraph: the sentence
splitter finds the sentences in it, and joins no two lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from data_prep.readers import text_lines
from tfbio.formats import safe_xml
from tfbio.formats.safe_xml import BadFile


def read_documents(path: str | os.PathLike) -> Iterator[tuple[str, ...]]:
    """Reads a file of plain text in UTF-8, and yields its documents in order.

    Memory does not grow with the file.

    Args:
      path: the file, compressed with gzip or bzip2 or not.

    Yields:
      The paragraphs of each document, a tuple of str. There is one at least, and each has a
      character that is seen.

    Raises:
      BadFile: the file is no text in UTF-8, cut short, or without text, or a document in it has
        more than 20 MB. The documents before the fault have been yielded: whoever reads on must
        discard them.
    """
    count = 0
    with safe_xml.faults(), text_lines.open_file(path) as stream:
        for block in _blocks(text_lines.LimitedLines(stream, "a document")):
            if paragraphs := text_lines.clean_all(block):
                count += 1
                yield paragraphs
    if not count:
        raise BadFile("it holds no text.")


def _blocks(lines: text_lines.LimitedLines) -> Iterator[list[str]]:
    """Yields the lines of each block; lines of white space end a block, too."""
    block: list[str] = []
    for number, line in enumerate(text_lines.decoded(lines), start=1):
        if "\0" in line:
            raise BadFile(f"line {number:,} has a byte 0, which text has not.")
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
            lines.renew()
    if block:
        yield block
