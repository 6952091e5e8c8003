"""BIOSSES: BLURB's pairs in documents of Word made here, and documents made up to be wrong."""

import csv
import zipfile
from xml.sax.saxutils import escape

import pytest

from data_prep.corpora import biosses, corpus_splits, released_files
from tests import reference
from tfbio.task_types import task_table

SCHEMA = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def document(path, rows):
    """Writes a document of Word with a table; each cell has its text in two runs."""
    cells = [
        "".join(
            f"<w:tc><w:p><w:r><w:t>{escape(cell[:3])}</w:t></w:r>"
            f"<w:r><w:t>{escape(cell[3:])}</w:t></w:r></w:p></w:tc>"
            for cell in row
        )
        for row in rows
    ]
    table = "".join(f"<w:tr>{row}</w:tr>" for row in cells)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{SCHEMA}"><w:body><w:tbl>{table}</w:tbl></w:body></w:document>',
        )


def release(folder, pairs=None, scores=None):
    """Writes a release; by default the pairs are numbers, and so are their scores."""
    pairs = pairs or [(str(i), f"Text {i}", f"Pair {i}") for i in range(1, 101)]
    scores = scores or [(str(i), *"01234") for i in range(1, 101)]
    document(folder / "Annotation-Pairs.docx", [("", "Sentence 1", "Sentence 2"), *pairs])
    document(folder / "Annotator-Scores.docx", [("Pair", *"ABCDE"), *scores])


def test_blurbs_pairs_and_scores(tmp_path):
    """A mean of five whole numbers is one of 21: any five with that mean stand for it."""
    published = {}
    for split in corpus_splits.SPLITS:
        with open(reference.corpus(f"biosses/blurb/{split}.tsv"), encoding="utf-8") as stream:
            cells = csv.reader(stream, "excel-tab", quoting=csv.QUOTE_NONE)
            published[split] = [tuple(row) for row in cells]
    rows = sorted((row for x in published.values() for row in x[1:]), key=lambda row: int(row[0]))
    scores = []
    for number, _, _, mean in rows:
        total = round(float(mean) * 5)
        scores.append((number, *(str(total // 5 + (i < total % 5)) for i in range(5))))
    release(tmp_path, [row[:3] for row in rows], scores)
    made = biosses.read_examples(tmp_path)
    assert made["dev"] == published["dev"] and made["test"] == published["test"]
    # BLURB's training set is in an order of its own.
    assert sorted(made["train"]) == sorted(published["train"])


def test_the_task_reads_the_files(tmp_path):
    release(tmp_path)
    corpus_splits.write(tmp_path / "out", biosses.read_examples(tmp_path), False)
    examples = task_table.TASKS["biosses"].examples(str(tmp_path / "out"))
    assert {split: len(x) for split, x in examples.items()} == {"train": 64, "dev": 16, "test": 20}
    first = examples["dev"][0]
    assert (first.text, first.pair, float(first.label)) == ("Text 88", "Pair 88", 2.0)


def test_what_does_not_fit_is_named(tmp_path):
    release(tmp_path, scores=[(str(i), *"01237") for i in range(1, 101)])
    with pytest.raises(released_files.CorpusError, match="pair 1: expected scores from 0 to 4"):
        biosses.read_examples(tmp_path)
    release(tmp_path, scores=[(str(i), *"01234") for i in range(1, 100)])
    with pytest.raises(released_files.CorpusError, match="a row of the number 100 and 5 "):
        biosses.read_examples(tmp_path)
    (tmp_path / "Annotator-Scores.docx").write_text("x")
    with pytest.raises(released_files.CorpusError, match="is no document of Word"):
        biosses.read_examples(tmp_path)
    (tmp_path / "Annotator-Scores.docx").unlink()
    with pytest.raises(released_files.CorpusError, match=r"lacks Annotator-Scores\.docx: unpack"):
        biosses.read_examples(tmp_path)
