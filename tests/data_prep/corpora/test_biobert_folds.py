"""GAD and EU-ADR in BioBERT's folds; of GAD's first BLURB made its files."""

import gzip

import pytest

from data_prep.corpora import biobert_folds, corpus_splits, released_files
from tests import reference
from tfbio.task_types import task_table


def release(folder, fold, train, test):
    (folder / str(fold)).mkdir()
    (folder / str(fold) / "train.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in train))
    lines = "".join(f"{i}\t{x}\t{y}\n" for i, (x, y) in enumerate(test))
    (folder / str(fold) / "test.tsv").write_text("index\tsentence\tlabel\n" + lines)


def test_blurbs_gad_byte_for_byte(command, tmp_path):
    """Puts the fold together from BLURB's files: its training lines, then development's."""
    blurb = reference.corpus("gad/blurb")
    published = {
        "train": gzip.decompress((blurb / "train.tsv.gz").read_bytes()).decode(),
        "dev": (blurb / "dev.tsv").read_text(encoding="utf-8"),
        "test": (blurb / "test.tsv").read_text(encoding="utf-8"),
    }
    rows = {
        split: [line.split("\t")[1:] for line in text.removesuffix("\n").split("\n")[1:]]
        for split, text in published.items()
    }
    release(tmp_path, 1, rows["train"] + rows["dev"], rows["test"])
    flags = (f"--input={tmp_path}", "--dev_size=535", f"--output={tmp_path}/out")
    done = command("corpora.biobert_folds", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2] == "test: 253 '0', 281 '1'"
    for split, text in published.items():
        assert (tmp_path / "out" / f"{split}.tsv").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["gad", "euadr"])
def test_a_ninth_is_for_development(name, tmp_path):
    rows = [(f"@GENE$ {i} @DISEASE$", str(i % 2)) for i in range(20)]
    release(tmp_path, 1, rows[:2], rows[:2])
    release(tmp_path, 10, rows[:18], rows[18:])
    corpus_splits.write(tmp_path / "out", biobert_folds.read_examples(tmp_path, 10), False)
    examples = task_table.TASKS[name].examples(str(tmp_path / "out"))
    result = [(x.text, x.label) for split in corpus_splits.SPLITS for x in examples[split]]
    assert result == rows and [len(x) for x in examples.values()] == [16, 2, 2]


def test_what_does_not_fit_is_named(tmp_path):
    rows = [("A", "1"), ("B", "0")] * 9
    release(tmp_path, 1, [("A", "x"), *rows], rows)
    with pytest.raises(
        released_files.CorpusError, match="row 0 of train: expected the label 0 or 1"
    ):
        biobert_folds.read_examples(tmp_path, 1)
    release(tmp_path, 2, rows[:3], rows)
    with pytest.raises(released_files.CorpusError, match="has 3 lines, of which 0 cannot be"):
        biobert_folds.read_examples(tmp_path, 2)
    release(tmp_path, 3, rows, rows)
    (tmp_path / "3" / "test.tsv").write_text("A\t1\t0\n")
    with pytest.raises(released_files.CorpusError, match=r"test\.tsv, line 1: expected the header"):
        biobert_folds.read_examples(tmp_path, 3)
    (tmp_path / "3" / "test.tsv").unlink()
    with pytest.raises(released_files.CorpusError, match=r"lacks 3/train\.tsv or 3/test\.tsv"):
        biobert_folds.read_examples(tmp_path, 3)
