"""MedSTS and ClinicalSTS on invented pairs: the organisers' three columns."""

import pytest

from data_prep.corpora import clinical_sts, corpus
from tfbio import tasks


def release(folder, train, test="One.\tTwo.\t2\n"):
    (folder / "clinicalSTS.train.txt").write_text(train)
    (folder / "clinicalSTS.test.gs.txt").write_text(test)


def test_a_tenth_is_for_development(command, tmp_path):
    train = "".join(f"The pt {i}.\tPatient {i}.\t{i % 6}\n" for i in range(29))
    # A pair that is there twice, the other way round.
    release(tmp_path, train + "Patient 3.\tThe pt 3.\t3.0\n")
    done = command("corpora.clinical_sts", f"--input={tmp_path}", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    examples = tasks.TASKS["clinical_sts"].examples(str(tmp_path / "out"))
    sizes = {split: len(found) for split, found in examples.items()}
    assert sizes["train"] + sizes["dev"] == 30 and sizes["dev"] in (3, 4) and sizes["test"] == 1
    assert done.stdout.splitlines() == [f"{split}: {n} pairs" for split, n in sizes.items()]
    found = {x.id: (x.text, x.pair, x.label) for split in ("train", "dev") for x in examples[split]}
    assert found["8"] == ("The pt 7.", "Patient 7.", 1.0) and len(found) == 30
    dev = {frozenset((x.text, x.pair)) for x in examples["dev"]}
    assert not dev & {frozenset((x.text, x.pair)) for x in examples["train"]}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("A\tB\t1\nA\tB\n", r"train\.txt, line 2: expected 3 tab-separated columns, found 2"),
        ("A\tB\t1\nA\tB\t5.5\n", r"train\.txt, line 2: expected .* from 0 to 5, found '5.5'"),
        ("A\tB\tnan\n", r"line 1: .* found 'nan'"),
        ("4\tA\tB\n", r"line 1: .* found 'B'"),
        ("A\t \t1\n", r"line 1: expected two sentences"),
    ],
)
def test_a_line_that_does_not_fit_is_named(train, message, tmp_path):
    release(tmp_path, train)
    with pytest.raises(corpus.CorpusError, match=message):
        clinical_sts.read_instances(tmp_path)


def test_two_files_for_training_are_named(tmp_path):
    release(tmp_path, "A\tB\t1\n")
    (tmp_path / "train2.txt").write_text("A\tB\t1\n")
    with pytest.raises(corpus.CorpusError, match=r"train2\.txt may both be for train"):
        clinical_sts.read_instances(tmp_path)
