"""Reads the sentence pairs of ClinicalSTS (MedSTS) in BLUE's form."""

from __future__ import annotations

from tfbio.formats.tables import read_table
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.task_file_errors import mistake
from tfbio.formats.text_files import read_lines


def read(path: str) -> list[LabelledText]:
    """Reads a ClinicalSTS (MedSTS) file in BLUE's form: sentence pairs, each with a score.

    Its columns are tab-separated: below a header, the id first, two texts and the score last.

    Args:
      path: the file.

    Returns:
      A list of at least one `LabelledText`, with both texts and as its label a float from 0 to 5.

    Raises:
      TaskFileError: the file cannot be read, the columns are others, or a score is not within 0 and
        5.
    """
    header = read_lines(path)[0].split("\t")
    if len(header) < 4 or "score" in header[:-1]:
        message = "expected a header with an id first and two sentences and their score last"
        raise mistake((path, 1), f"{message}, found {', '.join(header)!r:.200}")
    columns = ["id", *[""] * (len(header) - 4), "text", "pair", "score"]
    return read_table(path, columns, header, score_range=(0.0, 5.0))
