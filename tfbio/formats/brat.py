"""Writes documents with entities in brat's standoff format (Stenetorp et al., 2012)."""

from __future__ import annotations

import glob
import itertools
import os
import re
import urllib.parse

from tfbio.base import storage
from tfbio.formats.annotated_documents import BREAKS, Annotated, FormatError

# Of a file, in bytes and without its ending; Linux takes 255.
_LONGEST_NAME = 250


def write(folder: str, annotated: Annotated) -> None:
    """Writes documents with entities into a folder for brat, ID.txt and ID.ann for each.

    Returns nothing. ID.txt has the text as it is. An entity on two lines has two parts in ID.ann.

    Args:
      folder: the folder, which appears when it is complete. In one that is there already, the files
        then take the place of those of an earlier run: each .txt with its .ann.
      annotated: each document and its entities in the order of their starts.

    Raises:
      FormatError: an id is too long for the name of a file.
      OSError: the folder or a file in it cannot be written.
    """
    # All files are complete before the folder appears, or the first one of an earlier run goes.
    with storage.temporary_folder(folder) as new:
        _write_files(new, annotated)
        if not os.path.lexists(folder):
            os.rename(new, folder)
            return
        # Every text of brat's has annotations: one that has none is no file of an earlier run.
        for name in (name for name in os.listdir(new) if name.endswith(".txt")):
            own = os.path.join(folder, name)
            if os.path.lexists(own) and not os.path.lexists(f"{own[: -len('.txt')]}.ann"):
                raise FormatError(
                    f"--format=brat: {own} is a text without annotations, in whose place a new one "
                    "would come: give another --output."
                )
        for old in glob.glob(os.path.join(glob.escape(folder), "*.txt")):
            annotations = f"{old[: -len('.txt')]}.ann"
            if os.path.lexists(annotations):
                os.remove(old)
                os.remove(annotations)
        for name in os.listdir(new):
            os.replace(os.path.join(new, name), os.path.join(folder, name))


def _write_files(folder: str, annotated: Annotated) -> None:
    taken: set[str] = set()
    for document, entities in annotated:
        lines = []
        for number, (kind, start, end, _) in enumerate(entities, start=1):
            mention = document.text[start:end]
            parts = [part.span() for part in re.finditer(r"[^\r\n]+", mention)]
            places = ";".join(f"{start + a} {start + b}" for a, b in parts)
            words = " ".join(mention[a:b].translate(BREAKS) for a, b in parts)
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
