"""MedSTS and ClinicalSTS on invented pairs: the organisers' three columns."""

import pytest

from data_prep.corpora import clinical_sts, released_files
from tfbio.task_types import task_table


def release(folder, train, test="One.\tTwo.\t2\n"):
    (folder / "clinicalSTS.train.txt").write_text(train)
    (folder / "clinicalSTS.test.gs.txt").write_text(test)


def test_a_tenth_is_for_development(command, tmp_path):
    train = "".join(f"The pt {i}.\tPatient {i}.\t{i % 6}\n" for i in range(29))
    # A pair that is there twice, the other way round.
    release(tmp_path, train + "Patient 3.\tThe pt 3.\t3.0\n")
    done = command("corpora.clinical_sts", f"--input={tmp_path}", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    examples = task_table.TASKS["clinical_sts"].examples(str(tmp_path / "out"))
    sizes = {split: len(result) for split, result in examples.items()}
    assert sizes == {"train": 27, "dev": 3, "test": 1}
    assert done.stdout.splitlines() == [f"{split}: {n} pairs" for split, n in sizes.items()]
    result = {
        x.id: (x.text, x.pair, x.label) for split in ("train", "dev") for x in examples[split]
    }
    assert result["8"] == ("The pt 7.", "Patient 7.", 1.0) and len(result) == 30
    dev = {frozenset((x.text, x.pair)) for x in examples["dev"]}
    assert not dev & {frozenset((x.text, x.pair)) for x in examples["train"]}


def test_development_as_in_table_1_of_bioelectras_paper(command, tmp_path):
    """ClinicalSTS' 1,641 and 412 pairs become 1,312, 329 and 412, also where some are repeated."""
    rows = [
        f"The pt has {i} invented pains.\tPatient: pains, {i}.\t{i % 11 / 2}" for i in range(1600)
    ]
    rows += [f"{pair}\t{first}\t4.5" for first, pair, _ in (x.split("\t") for x in rows[:41])]
    test = "".join(f"Of the test, {i}.\tTest {i}.\t3.0\n" for i in range(412))
    (tmp_path / "in").mkdir()
    release(tmp_path / "in", "".join(f"{row}\n" for row in rows), test)
    given = [f"--input={tmp_path}/in", f"--output={tmp_path}/out", "--dev_fraction=0.2"]
    done = command("corpora.clinical_sts", *given)
    assert done.stdout.splitlines() == ["train: 1,312 pairs", "dev: 329 pairs", "test: 412 pairs"]
    examples = task_table.TASKS["clinical_sts"].examples(str(tmp_path / "out"))
    assert {split: len(rows) for split, rows in examples.items()} == {
        "train": 1312,
        "dev": 329,
        "test": 412,
    }
    held = {x.id for x in examples["dev"]}
    assert held.isdisjoint(x.id for x in examples["train"])
    # The same pair is not on both sides.
    assert not [i for i in range(41) if (str(i + 1) in held) != (str(1601 + i) in held)]
    assert len(clinical_sts.read_examples(tmp_path / "in")["dev"]) == 1 + 165


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ("0", 2, "--dev_fraction=0.0: expected a number above 0 and below 1, as in 0.2."),
        ("1", 2, "--dev_fraction=1.0: expected a number above 0 and below 1, as in 0.2."),
        ("-0.2", 2, "--dev_fraction=-0.2: expected a number above 0 and below 1, as in 0.2."),
        ("20%", 2, "--dev_fraction=20%: expected a number."),
        ("0.9", 1, "--dev_fraction=0.9 leaves nothing for training: give another, and the whole"),
    ],
)
def test_a_fraction_that_leaves_a_part_empty_is_refused(command, tmp_path, asked, code, message):
    release(tmp_path, "".join(f"The pt {i}.\tPatient {i}.\t{i}\n" for i in range(5)))
    given = [f"--input={tmp_path}", f"--output={tmp_path}/out", f"--dev_fraction={asked}"]
    done = command("corpora.clinical_sts", *given)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error: {message}") and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


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
    with pytest.raises(released_files.CorpusError, match=message):
        clinical_sts.read_examples(tmp_path)


def test_two_files_for_training_are_named(tmp_path):
    release(tmp_path, "A\tB\t1\n")
    (tmp_path / "train2.txt").write_text("A\tB\t1\n")
    with pytest.raises(released_files.CorpusError, match=r"train2\.txt may both be for train"):
        clinical_sts.read_examples(tmp_path)
