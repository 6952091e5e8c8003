"""Reads the sentences of the Hallmarks of Cancer (HoC) in the forms of BLURB and of BLUE."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tfbio.base import storage
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.tables import read_rows, stands_in
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.task_file_errors import mistake
from tfbio.formats.task_files import not_empty

HEADER = ("labels", "sentence", "index")


def read(path: str) -> list[LabelledText]:
    """Reads an HoC file in BLURB's or BLUE's form: tab-separated labels, sentence and index.

    The header names these columns. The labels are `0_0,1_1,...`, 1 behind the number of each that
    holds; the index is `PMID_sN`.

    Args:
      path: the file.

    Returns:
      A list of at least one `LabelledText`: its label is a tuple of the `HALLMARKS` that hold, its
      id the index, and its document the PMID.

    Raises:
      TaskFileError: the file cannot be read or is empty, its header is another, or a line has other
        columns or no sentence.
    """
    digits = re.compile(",".join(f"{i}_[01]" for i in range(len(HALLMARKS))))
    examples = []
    for number, cells in read_rows(path, 3, HEADER):
        flags, text, name = cells
        document, mark, _ = name.rpartition("_s")
        if not digits.fullmatch(flags) or not mark:
            fit = [i for i, cell in enumerate(cells) if i and digits.fullmatch(cell)]
            wanted = f"labels 0_0,1_0 to {len(HALLMARKS) - 1}_0 (or _1), a sentence and PMID_sN"
            raise mistake((path, number), f"expected {wanted}{stands_in('label', fit)}")
        if not text.strip():
            raise mistake((path, number), "expected a text in column 2, found none")
        marked = zip(HALLMARKS, flags.split(","), strict=True)
        held = tuple(x for x, flag in marked if flag[-1] == "1")
        where = (path, number)
        examples.append(LabelledText(name, text, held, document=document, where=where))
    return not_empty(path, examples)


def label_cell(held: Collection[str]) -> str:
    """Returns the cell of labels in an HoC file, `0_0,1_1,...` (str), for some of the `HALLMARKS`.

    Args:
      held: the names of the hallmarks that hold.
    """
    return ",".join(f"{i}_{int(name in held)}" for i, name in enumerate(HALLMARKS))


def write(path: str, sentences: Sequence[LabelledText], predicted: Sequence[Sequence[str]]) -> None:
    """Writes a prediction file of HoC in the form of the corpus's files, which `hoc.read` reads.

    Args:
      path: the path of the file.
      sentences, predicted: the texts with `PMID_sN` as id, and the predicted hallmarks of each.

    Raises:
      ValueError: the lengths differ.
      OSError: the file cannot be written.
    """
    rows = [(label_cell(own), x.text, x.id) for x, own in zip(sentences, predicted, strict=True)]
    storage.write_text(path, "".join("\t".join(row) + "\n" for row in (HEADER, *rows)))
