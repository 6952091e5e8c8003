"""Names the folder of BLURB's files of each task, for `reference.corpus`.

EBM-PICO's has no training file.
"""

import gzip
from itertools import islice
from pathlib import Path

FOLDERS = {
    "bc5cdr_chem": "bc5cdr_chem/blurb",
    "bc5cdr_disease": "bc5cdr_disease/blurb",
    "ncbi_disease": "ncbi_disease/blurb",
    "bc2gm": "bc2gm/blurb",
    "jnlpba": "jnlpba/blurb",
    "ebm_pico": "ebm_pico/blurb",
    "chemprot": "chemprot/blurb",
    "ddi": "ddi2013/blurb",
    "gad": "gad/blurb",
    "biosses": "biosses/blurb",
    "hoc": "hoc/blurb",
}


def first_lines(source, target, count, whole_sentences=False):
    """Writes the first lines of a file.

    Args:
      source: its path, which may end in .gz.
      target: the path of the new file, which is not compressed.
      count: how many lines.
      whole_sentences: True to end with the last whole sentence, after which a line is empty.
    """
    opened = gzip.open if str(source).endswith(".gz") else open
    with opened(source, "rt", encoding="utf-8") as file:
        lines = list(islice(file, count))
    while whole_sentences and lines[-1].strip():
        lines.pop()
    Path(target).write_text("".join(lines), encoding="utf-8")
