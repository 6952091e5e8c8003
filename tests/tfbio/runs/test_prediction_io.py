"""Standard input, and inputs that are refused before TensorFlow is imported."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tfbio
from tests.run_files import write_settings
from tfbio.base.errors import UserError
from tfbio.runs import predict, prediction_io
from tfbio.task_types import types
from tfbio.task_types.trained_on import TrainedOn


def test_standard_input_is_a_text_or_pubtator(make_trial, cpu, tmp_path, pipe, monkeypatch):
    known = {"words": "punctuation", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known)
    text = "\ufeffThe cells of patients.\r\n\r\nResults \u03b1 were better.\n"
    (tmp_path / "stdin.txt").write_bytes(text.encode())
    (tmp_path / "b.pubtator").write_text("7|t|Cells of mice.\n7|a|\n\n8|t|Results.\n8|a|Better.\n")
    found = {}
    for name in ("stdin.txt", "b.pubtator"):
        inputs = {"file": [str(tmp_path / name)], "piped": ["-"]}
        inputs["both"] = [str(tmp_path / "b.pubtator"), "-", "-"]
        for way, own in inputs.items():
            pipe((tmp_path / name).read_bytes())
            predict.predict(trial, own, str(tmp_path / "new"), strategy=cpu, overwrite=True)
            found[name, way] = (tmp_path / "new").read_text().splitlines()
        assert found[name, "piped"] == found[name, "file"]
    assert found["stdin.txt", "both"] == found["stdin.txt", "file"] + found["b.pubtator", "file"]
    record = json.loads(found["stdin.txt", "piped"][0])
    assert (record["id"], record["text"]) == ("stdin", text[1:]) and record["entities"]

    # brat's files may be written where the command runs.
    monkeypatch.chdir(tmp_path)
    os.remove("stdin.txt")
    pipe(text.encode())
    predict.predict(trial, ["-"], ".", strategy=cpu, form="brat", overwrite=True)
    assert (tmp_path / "stdin.txt").read_bytes().decode() == text[1:]
    assert len((tmp_path / "stdin.ann").read_text().splitlines()) == len(record["entities"])


def test_standard_input_is_a_table(make_trial, cpu, tmp_path, pipe):
    trial, _ = make_trial("classification", ["no", "yes"], {"pairs": True})
    table = "text\tpair\tid\nThe cells\tof mice\t1\nResults\twere better\t2\n"
    (tmp_path / "a.tsv").write_text(table)
    for source in (str(tmp_path / "a.tsv"), "-"):
        pipe(table.encode())
        predict.predict(trial, [source], str(tmp_path / source[-1]), strategy=cpu)
    assert (tmp_path / "-").read_text() == (tmp_path / "v").read_text()
    assert [json.loads(x)["id"] for x in (tmp_path / "v").read_text().splitlines()] == ["1", "2"]
    pipe(b"text\nA\n")
    with pytest.raises(UserError, match=r"\(standard input\), line 2: one text. This model"):
        predict.predict(trial, ["-"], str(tmp_path / "b"), strategy=cpu)


PREDICT_WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
from tfbio.base import cli
import run_finetuning
cli.run(run_finetuning.main)
"""


@pytest.mark.parametrize(
    "data, arguments, words",
    [
        (b"", "", "--input=-: standard input is empty"),
        (None, "", "--input=-: standard input is closed"),
        (b"one\ntw\xff\n", "", "(standard input), line 2: this is not text in UTF-8"),
        (b"\x1f\x8b\x08", "", "(standard input) cannot be read"),
        (b"<?xml version='1.0'?><article/>", "", "--input=-: this is XML or JSON"),
        (b' [{"id": 1}]', "", "--input=-: this is XML or JSON"),
        (b"1|t|A\nB\n", "", "(standard input), line 2: expected PMID"),
        (b"A.", "--input=none.txt", "--input: none.txt does not exist"),
        (b"A.", "--output=-", "--output=-: give a file"),
        (b"A.", "--output=a.jsonl.gz", "it would not be compressed. Give --output_dir and --gzip"),
        (b"A.", "--format=brat --output=a.txt", "a.txt is there already"),
    ],
)
def test_standard_input_is_checked_without_tensorflow(
    tmp_path, fails_in_one_sentence, data, arguments, words
):
    (tmp_path / "model").mkdir()
    write_settings(tmp_path / "model", task_type="tagging")
    (tmp_path / "a.txt").touch()
    program = [sys.executable, "-c", PREDICT_WITHOUT_TENSORFLOW, "--mode=predict", "--model=model"]
    output = [] if "--output" in arguments else ["--output=new"]
    done = subprocess.run(
        [*program, "--input=-", *output, *arguments.split()],
        input=data or b"",
        preexec_fn=(lambda: os.close(0)) if data is None else None,
        env={**os.environ, "PYTHONPATH": str(Path(tfbio.__file__).parent.parent)},
        cwd=tmp_path,
        capture_output=True,
    )
    done.stderr = done.stderr.decode()
    assert words in fails_in_one_sentence(done)
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "model"]


def test_a_terminal_is_told_what_to_type(tmp_path):
    write_settings(tmp_path, task_type="tagging")
    ours, theirs = os.openpty()
    os.write(ours, b"1|t|A\nB\n\x04")
    done = subprocess.run(
        [sys.executable, "-c", PREDICT_WITHOUT_TENSORFLOW, "--mode=predict"]
        + [f"--model={tmp_path}", "--input=-", f"--output={tmp_path / 'new'}"],
        stdin=theirs,
        env={**os.environ, "PYTHONPATH": str(Path(tfbio.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    told, mistake = done.stderr.splitlines()
    assert told == "Type the input here, and end it with Ctrl-D on an empty line."
    assert mistake.startswith("error: (standard input), line 2: expected PMID")


# Whoever imports TensorFlow gets an error here.
WITHOUT_TENSORFLOW = """
import json, sys
sys.modules["tensorflow"] = None
sys.argv = ["run_finetuning.py"]
from absl import flags
from tfbio.base import errors
import run_finetuning
said = []
for arguments in json.load(sys.stdin):
    flags.FLAGS.unparse_flags()
    for name in ("input", "output", "model", "format", "overwrite"):
        flags.FLAGS[name].unparse()
    flags.FLAGS(["run_finetuning.py", "--mode=predict", *arguments])
    try:
        run_finetuning.main(["run_finetuning.py"])
    except errors.UserError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_inputs_output_and_format_are_checked_without_tensorflow(tmp_path):
    for name, text in {
        "a.txt": "A text.",
        "a.tsv": "text\nA\n",
        "bad.pubtator": "1|t|A\nB\n",
    }.items():
        (tmp_path / name).write_text(text)
    for task_type in ("tagging", "question_answering", "regression", "multilabel"):
        (tmp_path / task_type).mkdir()
        new_text = types.TYPES[task_type].new_text
        known = TrainedOn(task_type, [], new_text, pairs=task_type == "regression")
        write_settings(tmp_path / task_type, trained_on=known)
    (tmp_path / "theirs").mkdir()
    theirs = {"model_type": "bert", "architectures": ["BertForTokenClassification"]}
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(theirs))
    before = sorted(os.listdir(tmp_path))
    cases = {
        "tagging --input=none.txt": "--input: none.txt does not exist",
        "theirs --input=a.tsv": "--input: a.tsv gives no file that ends in .txt",
        "tagging/trial_0 --input=a.txt": "--model=tagging/trial_0 holds no trial of a fine-tuned",
        "tagging --input=bad.pubtator": "bad.pubtator, line 2: expected PMID",
        "tagging --input=a.txt --output=no/b": "--output: the folder of no/b does not exist",
        "tagging --input=a.txt --output=a.txt": "a.txt is there already: give another",
        "tagging --input=a.txt --output=a.txt --overwrite": "--output=a.txt is an input",
        "tagging --input=. --output=. --format=brat --overwrite": "--output=. holds the input",
        "question_answering --input=a.txt": "--input: a.txt gives no file that ends in .json",
        "regression --input=a.tsv": "a.tsv, line 2: one text. This model labels whole texts",
        "multilabel --input=a.tsv --format=brat": "--format=brat is for entities",
        "regression --input=a.tsv --format=html": "--format=html is for entities",
    }
    arguments = [f"--output=new --model={case}".split() for case in cases]
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW],
        input=json.dumps(arguments),
        env={**os.environ, "PYTHONPATH": str(Path(tfbio.__file__).parent.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    said = json.loads(found.stdout) if not found.returncode else found.stderr
    assert len(said) == len(cases), said
    for (case, words), message in zip(cases.items(), said, strict=True):
        assert words in message, case
        assert len(message) <= 300 and "\n" not in message
    assert sorted(os.listdir(tmp_path)) == before


def test_annotations_below_an_input_folder_are_no_input(tmp_path, capsys):
    """Unless they are named, as with --output_dir."""
    done = tmp_path / "diseases"
    done.mkdir()
    (done / "manifest.json").write_text(json.dumps({"kind": "annotations"}))
    for folder in (tmp_path, done):
        (folder / "a.txt").write_text("A text.")
    read = prediction_io.Documents.read
    new = read(None, [str(tmp_path)], str(tmp_path / "new.jsonl"), "jsonl")
    assert (new.files, new.total) == ([str(tmp_path / "a.txt")], 1)
    assert f"left out: the files in {done}, which are annotations" in capsys.readouterr().out
    named = read(None, [str(done)], str(tmp_path / "new.jsonl"), "jsonl")
    assert named.files == [str(done / "a.txt")]


@pytest.mark.parametrize("header", ["text", "text\tid"])
def test_texts_of_two_tables_have_different_ids(tmp_path, header):
    """Without a column id both tables have the numbers of their lines, which is told."""
    has_id = "id" in header

    def read(*ids):
        for number, own in enumerate(ids):
            line = f"A text.\t{own}" if has_id else "A text."
            (tmp_path / f"{number}.tsv").write_text(f"{header}\n{line}\n")
        known = TrainedOn("multilabel", [], "texts", pairs=False)
        output = str(tmp_path / "new.jsonl")
        return prediction_io.Texts.read(known, [str(tmp_path)], output, "jsonl")

    two = tmp_path / "1.tsv"
    with pytest.raises(UserError) as raised:
        read("2", "2")
    assert str(raised.value) == (
        f"{two}, line 2: 0.tsv also has a text with the id 2: give each text an id of its own in a "
        "column id, or predict for one file at a time."
    )
    if has_id:
        assert [text.id for text in read("2", "3").items] == ["2", "3"]


def test_texts_are_counted_by_each_of_their_labels(make_trial, cpu, tmp_path, capsys):
    trial, _ = make_trial("multilabel", [*"abcdef"], {"pairs": False})
    texts = ["the cells", "a study of the effects", "results were better", "of patients"] * 3
    (tmp_path / "a.tsv").write_text("\n".join(["text", *texts]) + "\n")
    predict.predict(trial, [str(tmp_path / "a.tsv")], str(tmp_path / "b"), strategy=cpu)
    found = [json.loads(line)["label"] for line in (tmp_path / "b").read_text().splitlines()]
    counts = Counter(label for own in found for label in own)
    said = ", ".join(f"{n} {label}" for label, n in counts.most_common())
    assert f"12 text(s): {said}\n" in capsys.readouterr().out and len(counts) > 1
