"""Hallmarks of Cancer: BLURB's files, byte for byte, and abstracts made up to be awkward."""

import gzip

import pytest

from data_prep.corpora import corpus_splits, hoc, released_files
from tests import reference


def test_the_published_files_byte_for_byte(command, tmp_path):
    data = reference.corpus("hoc")
    flags = (f"--input={data}/original", f"--index={data}/blurb/index", f"--output={tmp_path}")
    done = command("corpora.blurb", "hoc", *flags)
    assert done.returncode == 0, done.stderr
    assert "test: 155 activating invasion and metastasis, 21 avoiding" in done.stdout
    counts = {}
    for split in corpus_splits.SPLITS:
        made = (tmp_path / f"{split}.tsv").read_bytes()
        assert made == gzip.decompress((data / f"blurb/{split}.tsv.gz").read_bytes())
        ids = [line.rpartition(b"\t")[2] for line in made.splitlines()[1:]]
        counts[split] = len({id_.partition(b"_")[0] for id_ in ids}), len(ids)
    # Table 1 of the BioELECTRA paper: 1,295, 186 and 371 abstracts.
    assert counts == {"train": (1295, 12119), "dev": (186, 1798), "test": (371, 3547)}


def abstract(labels, sentences):
    files = (
        released_files.File("labels/7.txt", labels.encode()),
        released_files.File("text/7.txt", sentences),
    )
    return list(hoc.read_abstract("7", *files, []))


def coded(*there):
    return ",".join(f"{i}_{int(i in there)}" for i in range(10))


def test_labels_of_each_sentence():
    labels = (
        "< < NULL < Resisting cell death--Apoptosis AND  resisting cell death AND Sustaining "
        "proliferative signaling--Growth--more < Avoiding immune destruction < NULL "
    )
    assert abstract(labels, b"  One .\nTwo .\nThree .\n\n") == [
        (coded(), "One .", "7_s0"),
        (coded(), "Two .", "7_s1"),
        (coded(7, 8), "Three .", "7_s2"),
        (coded(1), "", "7_s3"),  # an empty line keeps its number; labels too many are ignored
    ]
    assert hoc.labels_of((coded(7, 9), "", "")) == [hoc.HALLMARKS[7], hoc.HALLMARKS[9]]
    assert hoc.labels_of(hoc.HEADER) == []


def test_what_does_not_fit_is_named():
    with pytest.raises(
        released_files.CorpusError, match=r"labels/7\.txt labels 1 of the 2 sentences"
    ):
        abstract("< NULL ", b"One .\nTwo .\n")
    with pytest.raises(released_files.CorpusError, match=r"labels/7\.txt has the label 'growing'"):
        abstract("< Growing--fast ", b"One .\n")


@pytest.mark.parametrize("lacking", ["labels", "text"])
def test_an_abstract_that_is_not_there_is_named(lacking, command, fails_in_one_sentence, tmp_path):
    for folder in ("labels", "text"):
        (tmp_path / folder).mkdir()
        for pmid in (1, 2):
            (tmp_path / folder / f"{pmid}.txt").write_text("< NULL ")
    (tmp_path / lacking / "2.txt").unlink()
    for split, content in {"train": "1.txt", "dev": "1.txt", "test": "1.txt,2.txt"}.items():
        (tmp_path / f"{split}_pmid.tsv").write_text(content)
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.blurb", "hoc", *flags))
    assert "test_pmid.tsv" in said and "lists 2.txt" in said
    assert not (tmp_path / "out").exists()


def test_what_is_in_no_split_is_told(tmp_path):
    for pmid, labels in {"1": "< NULL < NULL ", "2": "< NULL ", "3": "< NULL ", "4": "< "}.items():
        for folder, text in {"labels": labels, "text": "One .\n"}.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{pmid}.txt").write_text(text)
    for split, pmid in zip(corpus_splits.SPLITS, "123", strict=True):
        (tmp_path / f"{split}_pmid.tsv").write_text(f"{pmid}.txt")
    left = []
    hoc.read_examples(tmp_path, tmp_path, left)
    assert [(x[0], x[2]) for x in left] == [("1_s1", "no_sentence"), ("4", "not_listed")]
