"""MedNLI on invented pairs in the layout of the release, which credentialed users get."""

import json
import zipfile

import pytest

from data_prep.corpora import mednli, released_files
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import task_table


def pair(id_, label="entailment", **more):
    record = {"pairID": id_, "gold_label": label, "sentence1": "Pt has\tfever."}
    record |= {"sentence2": "The patient is febrile.", "sentence1_parse": "(ROOT ...)"}
    return record | more


def release(folder, **lines):
    """Writes the archive; lines: split -> its pairs."""
    with zipfile.ZipFile(folder / "mednli-1.0.0.zip", "w") as archive:
        for split, pairs in lines.items():
            text = "".join(f"{json.dumps(x)}\n" for x in pairs)
            archive.writestr(f"mednli-1.0.0/mli_{split}_v1.jsonl", text)


ALL = [pair("a"), pair("b", "neutral"), pair("c", "contradiction")]


def test_pairs_as_blue_has_them(command, tmp_path):
    release(tmp_path, train=ALL, dev=ALL[:1], test=ALL[1:])
    done = command("corpora.mednli", f"--input={tmp_path}", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "train: 1 contradiction, 1 entailment, 1 neutral",
        "dev: 1 entailment",
        "test: 1 contradiction, 1 neutral",
    ]
    assert (tmp_path / "out" / "dev.tsv").read_text() == (
        "index\tsentence1\tsentence2\tlabel\n"
        "a\tPt has fever.\tThe patient is febrile.\tentailment\n"
    )
    examples = task_table.TASKS["mednli"].examples(str(tmp_path / "out"))
    first, second = "Pt has fever.", "The patient is febrile."
    assert examples["test"] == [
        LabelledText("b", first, "neutral", second),
        LabelledText("c", first, "contradiction", second),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pair("d", "maybe"), r"mli_dev_v1\.jsonl, line 2: expected a pairID"),
        (pair("d", sentence2=None), r"mli_dev_v1\.jsonl, line 2: expected a pairID"),
        (pair(7), r"mli_dev_v1\.jsonl, line 2: expected a pairID"),
        ([], r"mli_dev_v1\.jsonl, line 2: expected a pairID"),
    ],
)
def test_a_pair_that_does_not_fit_is_named(wrong, message, tmp_path):
    release(tmp_path, train=ALL, dev=[ALL[0], wrong], test=ALL)
    with pytest.raises(released_files.CorpusError, match=message):
        mednli.read_examples(tmp_path)


def test_what_is_no_json_or_missing_is_named(tmp_path):
    release(tmp_path, train=ALL, test=ALL)
    with pytest.raises(released_files.CorpusError, match=r"does not hold mli_dev_v1\.jsonl"):
        mednli.read_examples(tmp_path)
    (tmp_path / "mli_dev_v1.jsonl").write_text(json.dumps(ALL[0]) + "\n\n")
    with pytest.raises(released_files.CorpusError, match=r"mli_dev_v1\.jsonl, line 2 is not JSON"):
        mednli.read_examples(tmp_path)
