"""A fine-tuned model on new text finds what the fine-tuning run found in the same words."""

import contextlib
import gzip
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import bioc
import bioc.brat
import bioc.pubtator
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from sklearn.metrics import f1_score

import tfbio.runs.predictor
from data_prep import documents
from data_prep.sentences import splitters
from tests import reference
from tfbio.base.cli import UserError
from tfbio.formats import task_files
from tfbio.formats.annotation_formats import Document, Passage
from tfbio.reporting import results
from tfbio.runs import finetuning, predict, prediction_inputs
from tfbio.runs.predictor import Predictor, words_of
from tfbio.task_types import packing, predictions, tasks
from tfbio.task_types.classification import Classification
from tfbio.task_types.tagging import Tagging
from tfbio.task_types.types import FinetuningConfig
from tfbio.training import progress

SETTINGS = FinetuningConfig(
    sequence_length=48, max_train_examples=64, num_train_epochs=1.0, num_trials=1
)


@pytest.fixture(scope="module")
def splitter():
    return splitters.load("biosenter")


@pytest.fixture(scope="module")
def fine_tuned(pretrained, cpu, tmp_path_factory):
    """Fine-tunes into a new folder."""

    def run(name, data_dir, **changes):
        folder = str(tmp_path_factory.mktemp(name) / "out")
        finetuning.finetune(
            FinetuningConfig(**{**vars(SETTINGS), **changes}),
            task=tasks.find(name, str(data_dir)),
            data_dir=str(data_dir),
            init_checkpoint=pretrained,
            output_dir=folder,
            strategy=cpu,
        )
        return folder

    return run


# --- Words and their places --------------------------------------------------------------------


def test_sentences_and_words_keep_their_places(splitter):
    text = (
        "\ufeff A \U0001d6fc-b.\r\n\tThe e\u0301nd of it.  Two words. Two words.\n\n\u00a0 \nX\x0b."
    )
    half = text.index("\n\n")
    documents = [
        Document("none", "", ()),
        Document("odd", text, (Passage(0, half, ""), Passage(half + 2, len(text), ""))),
        Document("blank", " \n ", (Passage(0, 3, ""),)),
        Document("nul", "A\0B. C \0 D.", (Passage(0, 11, ""),)),
    ]
    for rule in ("punctuation", "blanks"):
        read = list(words_of(documents, splitter, rule))
        last = (0, 0)
        for number, sentence, places in read:
            for word, (start, end) in zip(sentence.words, places, strict=True):
                assert documents[number].text[start:end] == word
                assert (number, start) >= last
                last = (number, end)
        for number, document in enumerate(documents):
            found = "".join("".join(x.words) for n, x, _ in read if n == number)
            assert found == "".join(document.text.split())
    assert {number for number, *_ in read} == {1, 3}
    assert len([x for n, x, _ in read if n == 1]) >= 4


def test_the_tags_of_blurb_on_raw_text_are_the_mentions_of_ncbi(splitter):
    """Tags from one file, and text and offsets from another; sentences and words are ours."""
    folder = reference.corpus("ncbi_disease")
    documents = list(prediction_inputs.read(str(folder / "pubtator" / "NCBIdisease_Test.PubTator")))
    raw = {"".join(document.text.split()): document for document in documents}
    tags, letters, own = {}, "", []
    for sentence in task_files.read_tagged_words(str(folder / "blurb" / "test.tsv")):
        letters += "".join(sentence.words)
        own += sentence.tags
        if letters in raw:
            tags[raw[letters].id] = own
            letters, own = "", []
    assert len(tags) == 100
    gold = set()
    for line in (folder / "pubtator" / "NCBIdisease_Test.PubTator").read_text().split("\n"):
        cells = line.split("\t")
        if len(cells) > 4:
            gold.add((cells[0], int(cells[1]), int(cells[2]), cells[3]))
    found, count = set(), 0
    for number, sentence, places in words_of(documents, splitter, "punctuation"):
        document = documents[number]
        own, rest = tags[document.id][: len(places)], tags[document.id][len(places) :]
        tags[document.id] = rest
        count += len(sentence.words)
        for task_type, start, end, _ in predictions.entities(own, places, "Disease"):
            assert task_type == "Disease"
            found.add((document.id, start, end, document.text[start:end]))
    assert count == 24497 and not any(tags.values())
    assert len(gold) == 960 and found == gold


# --- The whole way -----------------------------------------------------------------------------


@pytest.mark.slow
def test_entities_of_new_text_are_those_of_the_run(fine_tuned, cpu, tmp_path, splitter, capsys):
    """Each sentence of the test set as a document: what `test_entities.jsonl` has."""
    blurb = reference.corpus("ncbi_disease/blurb")
    folder = fine_tuned(
        "ncbi_disease",
        blurb,
        max_train_examples=0,
        num_train_epochs=1.0,
        learning_rate=3e-3,
        layerwise_lr_decay=1.0,
        num_trials=2,
    )
    with open(os.path.join(folder, "trial_0", "scores.json")) as file:
        scores = json.load(file)
    gold = task_files.read_tagged_words(str(blurb / "test.tsv"))
    with open(os.path.join(folder, "trial_0", "test_entities.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert [record["text"] for record in records] == [" ".join(x.words) for x in gold]
    assert sum(len(record["gold"]) for record in records) == 960
    right = sum(x in record["gold"] for record in records for x in record["predicted"])
    assert right / 960 == pytest.approx(scores["test"]["recall"]) and right > 20

    texts = [record["text"] for record in records]
    whole = [len(parts) == 1 for parts in splitter(texts)]
    assert sum(whole) > 900
    documents = [
        {"id": record["id"], "passages": [{"offset": 0, "text": record["text"]}]}
        for record in records
    ]
    (tmp_path / "in.json").write_text(json.dumps(documents))
    predict.predict(
        os.path.join(folder, "trial_0"),
        [str(tmp_path / "in.json")],
        str(tmp_path / "out.jsonl"),
        strategy=cpu,
    )
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    for record, line, same in zip(records, lines, whole, strict=True):
        found = json.loads(line)
        assert found["id"] == record["id"] and found["text"] == record["text"]
        if same:
            expected = [
                {**x, "text": record["text"][x["start"] : x["end"]]} for x in record["predicted"]
            ]
            assert all(0 < x.pop("score") <= 1 for x in found["entities"])
            assert found["entities"] == expected
            assert {x["type"] for x in expected} <= {"Disease"}

    # Every form has the same entities; the best trial is taken.
    raw = [str(reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator"))]
    capsys.readouterr()
    for form, name in (("jsonl", "a"), ("bioc", "b.xml"), ("pubtator", "c"), ("brat", "d")):
        predict.predict(folder, raw, str(tmp_path / name), strategy=cpu, form=form)
    dev = {}
    for seed in (0, 1):
        with open(os.path.join(folder, f"trial_{seed}", "scores.json")) as file:
            dev[seed] = json.load(file)["dev"]["f1"]
    best = max(dev, key=dev.get)
    assert (
        f"trial_{best}: the best dev f1 of 2 trial(s), {dev[best]:.4f}" in capsys.readouterr().out
    )
    expected = set()
    for line in (tmp_path / "a").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        expected |= {(record["id"], x["start"], x["end"], x["text"]) for x in record["entities"]}
    assert len(expected) > 50
    collection = bioc.loads((tmp_path / "b.xml").read_text(encoding="utf-8"))
    assert expected == {
        (document.id, x.total_span.offset, x.total_span.end, x.text)
        for document in collection.documents
        for passage in document.passages
        for x in passage.annotations
    }
    rows = [line.split("\t") for line in (tmp_path / "c").read_text().split("\n") if "\t" in line]
    assert expected == {(row[0], int(row[1]), int(row[2]), row[3]) for row in rows}
    assert {row[4] for row in rows} == {"Disease"}
    assert expected == {
        (path.stem, int(places.split()[1]), int(places.split()[2]), words)
        for path in (tmp_path / "d").glob("*.ann")
        for _, places, words in (x.split("\t") for x in path.read_text().splitlines())
    }
    with pytest.raises(UserError, match="is there already.*--overwrite"):
        predict.predict(folder, raw, str(tmp_path / "a"), strategy=cpu)

    # What holds no sentence gives none, and does not stop the rest.
    (tmp_path / "texts").mkdir()
    for name, text in {"empty": "", "blank": "\r\n\r\n", "one": "Breast cancer.\r\n"}.items():
        (tmp_path / "texts" / f"{name}.txt").write_bytes(text.encode())
    # Texts are not lost where they lie in the folder that is to be written.
    texts = tmp_path / "texts"
    before = {path.name: path.read_bytes() for path in texts.iterdir()}
    brat = {"form": "brat", "overwrite": True, "strategy": cpu}
    with pytest.raises(UserError, match="holds the input .*give another folder"):
        predict.predict(folder, [str(texts)], str(texts), **brat)
    assert before == {path.name: path.read_bytes() for path in texts.iterdir()}
    again = shutil.copy(raw[0], str(tmp_path / "again.PubTator"))
    capsys.readouterr()
    predict.predict(folder, [*raw, again], str(tmp_path / "d"), **brat)
    assert len(list((tmp_path / "d").glob("*_2.ann"))) == 100
    said = capsys.readouterr().out
    assert f"200 document(s), {2 * len(expected):,} entities: {2 * len(expected):,} Disease" in said
    assert "100 document(s) have the id of one before (9949209, " in said
    for wanted, number in (("*", 3), ("[be]*", 2)):
        output = tmp_path / f"{number}.jsonl"
        predict.predict(folder, [str(tmp_path / "texts" / wanted)], str(output), strategy=cpu)
        assert len(output.read_text().splitlines()) == number


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sentence_roles", "biosses", "hoc"])
def test_labels_of_new_texts_are_those_of_the_run(roles_folder, fine_tuned, cpu, tmp_path, name):
    data = roles_folder if name == "sentence_roles" else reference.corpus(f"{name}/blurb")
    # Long enough that not all texts get one label; most of HoC's sentences have none.
    epochs = 1.0 if name == "hoc" else 30.0
    longer = {"num_train_epochs": epochs, "max_train_examples": 128, "layerwise_lr_decay": 1.0}
    folder = fine_tuned(name, data, learning_rate=3e-3, **longer)
    examples = tasks.TASKS[name].examples(str(data))["test"]
    pairs = name == "biosses"
    rows = [["number", "Text", "pair", "id"] if pairs else ["text", "other", "id"]]
    for x in examples:
        rows.append(["", x.text, x.pair, x.id] if pairs else [x.text, "", x.id])
    table = tmp_path / "new.tsv"
    table.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    predict.predict(folder, [str(table)], str(tmp_path / "out.jsonl"), strategy=cpu)
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["id"] for record in records] == [x.id for x in examples]
    with open(os.path.join(folder, "trial_0", "test_predictions.tsv"), encoding="utf-8") as file:
        predicted = [line.split("\t")[2] for line in list(file)[1:]]
    outputs = {tuple(record.get("probabilities", {}).values()) for record in records}
    assert len(set(predicted)) > 1 or len(outputs) > 10
    labels = tasks.TASKS[name].labels
    for record, label in zip(records, predicted, strict=True):
        if name == "biosses":
            assert record["label"] == pytest.approx(float(label), abs=1e-4)
            assert "probabilities" not in record
            continue
        shares = record["probabilities"]
        assert tuple(shares) == labels
        if name == "hoc":
            assert "|".join(record["label"]) == label
            assert record["label"] == [one for one in labels if shares[one] > 0.5]
        else:
            assert record["label"] == label and shares[label] == max(shares.values())
            assert sum(shares.values()) == pytest.approx(1, abs=1e-5)

    remedy = "give tab-separated tables .*the columns, " + ("text and pair" if pairs else "text ")
    (tmp_path / "a.txt").write_text("A text.")
    (tmp_path / "a.tsv").write_text("text\tpair\nA\tB\n" if not pairs else "text\nA\n")
    for wrong in ("a.txt", "a.tsv"):
        with pytest.raises(UserError, match=remedy):
            predict.predict(
                folder, [str(tmp_path / wrong)], str(tmp_path / "no.jsonl"), strategy=cpu
            )
    with pytest.raises(UserError, match="--format=brat is for entities"):
        predict.predict(folder, [str(table)], str(tmp_path / "no"), strategy=cpu, form="brat")
    assert not list(tmp_path.glob("no*"))


@pytest.mark.parametrize("head", ["linear", "crf"])
def test_the_score_of_an_entity_is_of_the_models_logits(head, make_trial, cpu, splitter, tmp_path):
    """The logits of one sentence by itself, and with a CRF all sequences of its tags."""
    labels = ["O", "B-x", "I-x"]
    known = {"words": "blanks", "entity_type": "Entity"}
    trial, settings = make_trial("tagging", labels, known, head=head)
    texts = ["the cells of patients", "a study of the effects", "results were better"]
    predictor = Predictor(trial, settings, cpu)
    count = 0
    for text in texts:
        document = Document("1", text, (Passage(0, len(text), ""),))
        ((_, found),) = predictor.annotate([document])
        ((_, sentence, places),) = words_of([document], splitter, "blanks")
        features = predictor.task_type.features([sentence], predictor.tokenizer, 48)
        (part,) = packing.Packer(features, 1, 1, 0, len(features.input_ids[0])).batch(np.array([0]))
        batch = {name: tf.constant(array) for name, array in part.arrays.items()}
        logits = predictor.inference.model(batch)
        logits, transitions = logits if head == "crf" else (logits, np.zeros((3, 3)))
        own, moves = logits.numpy()[features.words[0]], np.array(transitions)
        sequences = [*itertools.product(range(3), repeat=len(own))]
        each = scipy.special.softmax(
            [
                sum(own[i, tag] for i, tag in enumerate(tags))
                + sum(moves[pair] for pair in itertools.pairwise(tags))
                for tags in sequences
            ]
        )
        best = sequences[int(each.argmax())]
        shares = [
            sum(p for p, tags in zip(each, sequences, strict=True) if tags[i] == best[i])
            for i in range(len(own))
        ]
        expected = predictions.entities([labels[i] for i in best], places, "Entity", shares)
        assert [x[:3] for x in found] == [x[:3] for x in expected]
        assert [x.score for x in found] == pytest.approx([x.score for x in expected], abs=1e-5)
        count += len(found)
    assert count


@pytest.mark.parametrize("name", ["6605965a.nxml", "package.tar.gz"])
def test_full_texts_of_pmc_are_annotated(make_trial, cpu, tmp_path, capsys, name):
    """In each form the text and the offsets fit, as the packages of the formats read them."""
    known = {"words": "punctuation", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known)
    (source,) = (x for x in documents.shipped_files(".nxml") if x.endswith("6605965a.nxml"))
    if name != "6605965a.nxml":
        (tmp_path / "bad.nxml").write_text("<article/>")
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            archive.add(tmp_path / "bad.nxml", "bad.nxml")
            archive.add(source, "good.nxml")
        source = str(tmp_path / name)
    (expected,) = prediction_inputs.read(source)
    for form, output in (("jsonl", "a"), ("bioc", "b.xml"), ("pubtator", "c"), ("brat", "d")):
        predict.predict(trial, [source], str(tmp_path / output), strategy=cpu, form=form)
    said = capsys.readouterr().out
    left_out = f"left out: {source}, bad.nxml: it has no <front>"
    assert said.count(left_out) == 4 * (name != "6605965a.nxml")

    record = json.loads((tmp_path / "a").read_text())
    assert (record["id"], record["text"]) == ("PMC2994229", expected.text)
    found = [(x["start"], x["end"], x["text"]) for x in record["entities"]]
    assert len(found) > 50 and found[-1][0] > 10_000
    assert all(expected.text[start:end] == mention for start, end, mention in found)

    (document,) = bioc.loads((tmp_path / "b.xml").read_text(encoding="utf-8")).documents
    assert document.id == "PMC2994229"
    kinds = {passage.infons["type"] for passage in document.passages}
    assert kinds == {"title", "abstract", "heading", "paragraph", "caption", "table"}
    for passage in document.passages:
        end = passage.offset + len(passage.text)
        assert passage.text == expected.text[passage.offset : end]
    spans = [(x.total_span, x.text) for p in document.passages for x in p.annotations]
    assert [(span.offset, span.end, mention) for span, mention in spans] == found

    (document,) = bioc.pubtator.loads((tmp_path / "c").read_text().rstrip("\n"))
    title, _, rest = expected.text.partition("\n")
    assert document.text == f"{title}\n{rest.replace(chr(10), ' ')}"
    assert [(x.start, x.end, x.text) for x in document.annotations] == found

    text = (tmp_path / "d" / "PMC2994229.txt").read_bytes().decode()
    assert text == expected.text
    with open(tmp_path / "d" / "PMC2994229.ann", encoding="utf-8", newline="\n") as file:
        read = bioc.brat.loads(text, file.read())
    spans = [(part.begin, part.end, x.text) for x in read.entities for part in x.locations]
    assert spans == found


@pytest.fixture
def pipe(monkeypatch):
    """Makes some bytes the standard input."""
    return lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


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
        (b"A.", "--format=brat --output=a.txt", "a.txt is there already"),
    ],
)
def test_standard_input_is_checked_without_tensorflow(
    tmp_path, fails_in_one_sentence, data, arguments, words
):
    (tmp_path / "model").mkdir()
    known = {"trained_on": {"task_type": "tagging", "new_text": "documents"}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(known))
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
    known = {"trained_on": {"task_type": "tagging", "new_text": "documents"}}
    (tmp_path / "config.json").write_text(json.dumps(known))
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


def test_answers_as_json_lines_have_their_probability(make_trial, cpu, tmp_path, pipe):
    """Among the 20 best of all spans of a short context, one by one."""
    trial, settings = make_trial("question_answering", [], {"pairs": False}, 1e9)
    paragraph = {"context": "The cells of the mice.", "qas": []}
    for name in ("What", "Why"):
        paragraph["qas"].append({"id": name, "question": name, "answers": []})
    source = tmp_path / "in.json"
    source.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))

    output = tmp_path / "a.jsonl"
    predict.predict(trial, [str(source)], str(output), strategy=cpu)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [x["id"] for x in lines] == ["What", "Why"]
    pipe(source.read_bytes())
    predict.predict(trial, ["-"], str(tmp_path / "b.jsonl"), strategy=cpu)
    assert (tmp_path / "b.jsonl").read_text() == output.read_text()
    predictor = Predictor(trial, settings, cpu)
    questions = task_files.read_squad(str(source))
    features = predictor.task_type.features(questions, predictor.tokenizer, 48)
    outputs = predictor.inference.predict(features)
    for line, logits, offsets in zip(lines, outputs, features.offsets, strict=True):
        assert len(logits) <= 20
        own = logits[-1 - len(offsets) : -1]
        pairs = itertools.combinations_with_replacement(range(len(offsets)), 2)
        spans = sorted(((own[a, 0] + own[b, 1], a, b) for a, b in pairs), reverse=True)[:20]
        score, first, last = spans[0]
        assert line["answer"] == paragraph["context"][offsets[first][0] : offsets[last][1]]
        share = scipy.special.softmax([x[0] for x in spans])[0]
        assert line["probability"] == pytest.approx(share, abs=1e-5)
        assert line["null_odds"] == pytest.approx(logits[0].sum() - score, abs=1e-4)


def test_answers_of_electras_head(make_trial, cpu, tmp_path):
    """The beam is as wide as the context, so that all its spans are seen, one by one."""
    changes = {"head": "electra", "beam_size": 16, "n_best_size": 5, "max_answer_length": 3}
    trial, settings = make_trial("question_answering", [], {"pairs": False}, 1e9, **changes)
    paragraph = {"context": "The cells of the mice.", "qas": []}
    for name in ("What", "Why"):
        paragraph["qas"].append({"id": name, "question": name, "answers": []})
    source, output = tmp_path / "in.json", tmp_path / "a.jsonl"
    source.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    predict.predict(trial, [str(source)], str(output), strategy=cpu)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [x["id"] for x in lines] == ["What", "Why"]
    predictor = Predictor(trial, settings, cpu)
    questions = task_files.read_squad(str(source))
    features = predictor.task_type.features(questions, predictor.tokenizer, 48)
    outputs = predictor.inference.predict(features)
    for line, own, offsets in zip(lines, outputs, features.offsets, strict=True):
        assert own.shape == (len(own), 18) and len(own) <= 16
        order = np.argsort(-own[:, 0], kind="stable").tolist()
        starts = scipy.special.log_softmax(own[:, 0].astype(float))
        first = len(own) - 1 - len(offsets)
        spans = sorted(
            (
                (starts[a] + own[b, 2 + order.index(a)], a - first, b - first)
                for a in range(first, len(own) - 1)
                for b in range(a, min(a + 3, len(own) - 1))
            ),
            reverse=True,
        )[:5]
        _, start, end = spans[0]
        assert line["answer"] == paragraph["context"][offsets[start][0] : offsets[end][1]]
        share = scipy.special.softmax([x[0] for x in spans])[0]
        assert line["probability"] == pytest.approx(share, abs=1e-5)
        assert line["null_odds"] == pytest.approx(own[0, 1], abs=1e-5)


@pytest.mark.slow
def test_answers_to_new_questions_are_those_of_the_run(fine_tuned, cpu, tmp_path):
    source = reference.corpus("squad/cs224n_half_dev-v2.0.json.gz")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    for split, article in (("train", 0), ("dev", 1), ("test", 2)):
        paragraphs = articles[article]["paragraphs"][:3]
        if split == "dev":  # where all have an answer, one is always given
            for paragraph in paragraphs:
                paragraph["qas"] = [x for x in paragraph["qas"] if x["answers"]]
        text = json.dumps({"data": [{"paragraphs": paragraphs}]})
        (tmp_path / f"{split}.json").write_text(text, encoding="utf-8")
    folder = fine_tuned("qa", tmp_path, sequence_length=64)
    output, test = tmp_path / "answers.json", str(tmp_path / "test.json")
    predict.predict(folder, [test], str(output), strategy=cpu)
    written = Path(folder, "trial_0", "test_predictions.json")
    found = json.loads(output.read_text())
    assert found == json.loads(written.read_text()) and len(set(found.values())) > 10
    # With the trial's threshold.
    scores = Path(folder, "trial_0", "scores.json")
    scores.write_text(json.dumps({**json.loads(scores.read_text()), "null_threshold": -1e9}))
    predict.predict(folder, [test], str(output), strategy=cpu, overwrite=True)
    assert set(json.loads(output.read_text()).values()) == {""}
    with pytest.raises(UserError, match="--format=brat is for entities"):
        predict.predict(folder, [test], str(tmp_path / "no"), strategy=cpu, form="brat")
    shutil.copy(test, tmp_path / "again.json")
    with pytest.raises(UserError, match="2 questions have the id"):
        again = [test, str(tmp_path / "again.json")]
        predict.predict(folder, again, str(tmp_path / "no"), strategy=cpu)
    with pytest.raises(UserError, match="sequence_length 65 is more than the 64 positions"):
        longer = {"overrides": ["sequence_length=65"], "strategy": cpu}
        predict.predict(folder, [test], str(tmp_path / "no"), **longer)


@pytest.mark.slow
def test_relations_are_seen_as_in_training(fine_tuned, cpu, tmp_path):
    """Without their markers, through the mentions that these were about."""
    texts = [
        f"[S1] {drug} [E1] {verb} [S2] {gene} [E2]."
        for drug in "abc"
        for gene in "xyz"
        for verb in ("inhibits", "meets")
    ]
    labels = ["inhibits" if "inhibits" in text else "no_relation" for text in texts]
    rows = map("\t".join, zip(texts, labels, strict=True))
    table = "\n".join(["text\tlabel", *rows]) + "\n"
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(table)
    settings = {
        "classification": Classification.Settings(pooling="mention", entity_markers=False),
        "train_batch_size": 6,
    }
    folder = fine_tuned("relation", tmp_path, **settings, num_train_epochs=4.0)
    predict.predict(folder, [str(tmp_path / "test.tsv")], str(tmp_path / "out"), strategy=cpu)
    found = [json.loads(line)["label"] for line in (tmp_path / "out").read_text().splitlines()]
    lines = Path(folder, "trial_0", "test_predictions.tsv").read_text().splitlines()[1:]
    assert found == [line.split("\t")[2] for line in lines] and len(found) == 18
    assert set(found) == {"inhibits", "no_relation"}
    # The report has the score that the run has, without the data.
    (run,) = results.find(folder)
    counts = [[x == "inhibits" for x in own] for own in (labels, found)]
    assert run.metric == "f1" and run.values()[0] == pytest.approx(f1_score(*counts))


@pytest.mark.slow
def test_the_types_of_own_data_are_known_without_it(fine_tuned, cpu, tmp_path, capsys):
    data = tmp_path / "data"
    data.mkdir()
    lines = ["Give\tO", "IL-2\tB-Protein", "to\tO", "T-cells\tB-Cell type", ".\tO", ""] * 8
    for split in ("train", "dev", "test"):
        (data / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    # With another head and scheme, which the settings tell.
    changes = {"num_train_epochs": 150.0, "learning_rate": 5e-3, "layerwise_lr_decay": 1.0}
    changes |= {"tagging": Tagging.Settings(head="crf", scheme="BIOUL")}
    folder = fine_tuned("ner", data, train_batch_size=8, **changes)
    shutil.rmtree(data)
    with open(os.path.join(folder, "config.json")) as file:
        settings = json.load(file)
    assert settings["trained_on"] == {
        "task_type": "tagging",
        "new_text": "documents",
        "labels": ["O", "B-Cell type", "I-Cell type", "B-Protein", "I-Protein"],
        "entity_type": "Entity",
        "words": "blanks",
        "markers": False,
    }
    (tmp_path / "a.txt").write_text("Give IL-2 to T-cells.")
    predict.predict(folder, [str(tmp_path / "a.txt")], str(tmp_path / "a.jsonl"), strategy=cpu)
    entities = json.loads((tmp_path / "a.jsonl").read_text())["entities"]
    assert all(0.5 < x.pop("score") <= 1 for x in entities)
    assert entities == [
        {"type": "Protein", "start": 5, "end": 9, "text": "IL-2"},
        {"type": "Cell type", "start": 13, "end": 20, "text": "T-cells"},
    ]

    del settings["trained_on"]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(settings, file)
    with pytest.raises(UserError, match="has no trained_on: expected the config.json"):
        predict.predict(folder, [str(tmp_path / "a.txt")], str(tmp_path / "b"), strategy=cpu)


def test_long_texts_are_annotated_in_several_batches(make_trial, cpu, tmp_path, monkeypatch):
    """With the same entities; and each batch shows how far it is where there is no terminal."""
    known = {"words": "blanks", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known)
    texts = ["the cells of patients", "", "a study of the effects.\n\nresults were better"] * 3
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    inputs = [str(tmp_path / "*.txt")]
    predict.predict(trial, inputs, str(tmp_path / "a"), strategy=cpu)
    monkeypatch.setattr(tfbio.runs.predictor, "_AT_ONCE", 50)
    monkeypatch.setattr(progress, "SHOW_EVERY", 0.0)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        predict.predict(trial, inputs, str(tmp_path / "b"), strategy=lambda: cpu)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    *lines, counts, end = said.getvalue().splitlines()
    shown = [re.match(r"prediction \| (\d)/9 documents", line) for line in lines]
    done = [int(match[1]) for match in shown if match]
    assert done == sorted(done) and set(done) > {0, 3, 9} and len(set(done)) > 3
    assert re.fullmatch(
        r"prediction \| 9/9 documents \| [\d,.]+ documents/s \| 0:00:00 left", lines[-1]
    )
    found = [len(json.loads(x)["entities"]) for x in (tmp_path / "a").read_text().splitlines()]
    assert counts == f"9 document(s), {sum(found)} entities: {sum(found)} x" and sum(found)
    assert end == f"9 file(s) read; see {tmp_path / 'b'}"


# Whoever imports TensorFlow gets an error here.
WITHOUT_TENSORFLOW = """
import json, sys
sys.modules["tensorflow"] = None
sys.argv = ["run_finetuning.py"]
from absl import flags
from tfbio.base import cli
import run_finetuning
said = []
for arguments in json.load(sys.stdin):
    flags.FLAGS.unparse_flags()
    for name in ("input", "output", "model", "format", "overwrite"):
        flags.FLAGS[name].unparse()
    flags.FLAGS(["run_finetuning.py", "--mode=predict", *arguments])
    try:
        run_finetuning.main(["run_finetuning.py"])
    except cli.UserError as error:
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
    forms = {"tagging": "documents", "question_answering": "questions"}
    for task_type in ("tagging", "question_answering", "regression", "multilabel"):
        (tmp_path / task_type).mkdir()
        known = {"new_text": forms.get(task_type, "texts"), "pairs": task_type == "regression"}
        (tmp_path / task_type / "config.json").write_text(json.dumps({"trained_on": known}))
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


def test_a_folder_without_a_model_is_named(cpu, tmp_path):
    with pytest.raises(UserError, match="holds no trial of a fine-tuned model"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path / "b"), strategy=cpu)
    with pytest.raises(UserError, match="the folder of .*none/b does not exist"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path / "none" / "b"), strategy=cpu)
    with pytest.raises(UserError, match="--format=jsonl writes a file, which this is not"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path), strategy=cpu, overwrite=True)
    (tmp_path / "trial_0").mkdir()
    (tmp_path / "trial_0" / "model.index").touch()
    with pytest.raises(UserError, match=r"config\.json, which run_finetuning\.py wrote"):
        predict.predict(str(tmp_path / "trial_0"), ["a.txt"], str(tmp_path / "b"), strategy=cpu)
