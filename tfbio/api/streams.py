"""Checks what a model is called with in Python, and computes it in batches."""

from __future__ import annotations

import os
import reprlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import tqdm

from tfbio.base import batched
from tfbio.base.errors import UserError
from tfbio.formats import annotation_formats
from tfbio.formats.annotated_documents import Document

# Held by whoever loads or computes: models share the sentence splitter and the last tokenizer.
LOCK = threading.RLock()


def each(inputs: Any, compute: Callable, batch_size: int, show_progress: bool) -> Any:
    """Computes one result, a list, or a generator, as there is one input, a length, or neither."""
    if isinstance(inputs, (str, tuple, Document)):
        (result,) = _stream([inputs], compute, 1, show_progress)
        return result
    # The names of columns and of keys would pass for texts.
    of_names = hasattr(inputs, "columns") or isinstance(inputs, Mapping)
    if of_names or not isinstance(inputs, Iterable):
        raise TypeError(f"expected a text, or several in a list or a column, not {shown(inputs)}.")
    if batch_size < 1:
        raise UserError(f"batch_size={batch_size}: it must be at least 1.")
    results = _stream(inputs, compute, batch_size, show_progress)
    return list(results) if isinstance(inputs, Sized) else results


def _stream(
    inputs: Iterable, compute: Callable, batch_size: int, show_progress: bool
) -> Iterator[Any]:
    """Yields the result for each input; reads a batch of inputs when the first one is asked for."""
    total = len(inputs) if isinstance(inputs, Sized) else None
    with tqdm.tqdm(total=total, disable=not show_progress, unit=" texts") as bar:
        for batch in batched.by_number(inputs, batch_size):
            with LOCK:
                results = compute(batch)
            bar.update(len(batch))
            yield from results


def document_of(item: Any, name: str = "") -> Document:
    """Returns a document as it is, and a text as a document."""
    from tfbio.runs import document_formats

    return item if isinstance(item, Document) else document_formats.of_text(name, text_of(item))


def text_of(item: Any) -> str:
    """Returns the text of an input.

    Raises:
      TypeError: it is no text and no document.
      UserError: it has half of a character, which no vocabulary has.
    """
    text = item.text if isinstance(item, Document) else item
    if not isinstance(text, str):
        raise TypeError(f"expected a text, not {shown(item)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start} of {shown(text)} is a lone surrogate: read the text with the"
            " right encoding, or replace it."
        ) from error
    return text


def two_texts(item: Any) -> tuple[str, str]:
    """Returns a pair of texts; a TypeError if it is none."""
    if not isinstance(item, tuple) or len(item) != 2:
        raise TypeError(f"expected a tuple of two texts, not {shown(item)}.")
    return text_of(item[0]), text_of(item[1])


def check_output(path: str, form: str, overwrite: bool) -> None:
    """Checks where a model's entities are to be written, and in which format.

    Args:
      path: a file; for "brat" a folder.
      form: one of `annotation_formats.FORMATS`.
      overwrite: True if a folder for "brat" may have texts and annotations, which are then lost.

    Raises:
      UserError: there is no such format, the path ends in .gz, or the folder has such files.
    """
    if form not in annotation_formats.FORMATS:
        formats = ", ".join(annotation_formats.FORMATS)
        raise UserError(f'format="{form}": it must be one of {formats}.')
    if path.endswith(".gz"):
        raise UserError(f"{path} would not be compressed: give a name without .gz.")
    if form == "brat" and not overwrite and os.path.isdir(path):
        there = sorted(name for name in os.listdir(path) if name.endswith((".txt", ".ann")))
        if there:
            raise UserError(
                f"{os.path.join(path, there[0])} is there already, perhaps annotated by hand, and "
                'format="brat" removes the pairs of .txt and .ann in its folder: give another '
                "folder, or overwrite=True."
            )


def shown(item: Any) -> str:
    """Returns the type of an input and how it begins, for messages."""
    return f"{type(item).__name__} {reprlib.repr(item)}"
