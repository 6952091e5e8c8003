"""A fine-tuned model on new text finds what the fine-tuning run found in the same words."""

import gzip
import json
import os
import shutil
from pathlib import Path

import bioc
import pytest
from sklearn.metrics import f1_score

import tfbio
from tests import reference
from tests.blurb_files import FOLDERS, first_lines
from tfbio.base import storage
from tfbio.base.errors import UserError
from tfbio.formats import tagged_words
from tfbio.reporting import results
from tfbio.runs import finetuning, predict
from tfbio.task_types import task_table
from tfbio.task_types.classification import Classification
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.tagging import Tagging

SETTINGS = FinetuningConfig(
    sequence_length=48, max_train_examples=64, num_train_epochs=1.0, num_trials=1
)


@pytest.fixture(scope="module")
def fine_tuned(shallow_encoder, cpu, tmp_path_factory):
    """Fine-tunes into a new folder."""

    def run(name, data_dir, **changes):
        folder = str(tmp_path_factory.mktemp(name) / "out")
        finetuning.finetune(
            finetuning.Run(
                FinetuningConfig(**{**vars(SETTINGS), **changes}),
                task=task_table.find(name, str(data_dir)),
                data_dir=str(data_dir),
                init_checkpoint=shallow_encoder,
                output_dir=folder,
                strategy=cpu,
            )
        )
        return folder

    return run


def beginning_of(name, folder, *splits):
    """Makes a folder with BLURB's files of a task, and of some splits the first lines alone."""
    folder.mkdir()
    for path in reference.corpus(FOLDERS[name]).iterdir():
        own = path.name.partition(".")[0]
        if own in splits:
            first_lines(
                path,
                folder / f"{own}.tsv",
                600 if name == "hoc" else 3000,
                whole_sentences=name != "hoc",
            )
        elif path.is_file():
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.slow
def test_entities_of_new_text_are_those_of_the_run(fine_tuned, cpu, tmp_path, splitter, capsys):
    """Each sentence of the test set as a document: what `test_entities.jsonl` has."""
    blurb = reference.corpus("ncbi_disease/blurb")
    folder = fine_tuned(
        "ncbi_disease",
        beginning_of("ncbi_disease", tmp_path / "data", "dev"),
        max_train_examples=2000,
        num_train_epochs=1.0,
        learning_rate=3e-3,
        layerwise_lr_decay=1.0,
        num_trials=2,
    )
    with open(os.path.join(folder, "trial_0", "scores.json")) as file:
        scores = json.load(file)
    gold = tagged_words.read(str(blurb / "test.tsv"))
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
            assert not [x for x in found["entities"] if not (0 < x.pop("score") <= 1)]
            assert found["entities"] == expected
            assert {x["type"] for x in expected} <= {"Disease"}

    # Every form has the same entities; the best trial is taken.
    raw = [str(reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator"))]
    capsys.readouterr()
    for form, name in (("jsonl", "a"), ("bioc", "b.xml"), ("pubtator", "c")):
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
    predict.predict(folder, [str(tmp_path / "texts" / "*")], str(tmp_path / "d"), **brat)
    assert len(list((tmp_path / "d").glob("*.ann"))) == 3
    again = shutil.copy(raw[0], str(tmp_path / "again.PubTator"))
    capsys.readouterr()
    predict.predict(folder, [*raw, again], str(tmp_path / "d"), **brat)
    in_each = {}
    for path in (tmp_path / "d").glob("*.ann"):
        own, _, copy = path.stem.partition("_")
        for line in path.read_text().splitlines():
            _, places, words = line.split("\t")
            _, start, end = places.split()
            in_each.setdefault(copy, set()).add((own, int(start), int(end), words))
    assert in_each == {"": expected, "2": expected}
    assert len(list((tmp_path / "d").glob("*_2.ann"))) == 100
    said = capsys.readouterr().out
    assert f"200 document(s), {2 * len(expected):,} entities: {2 * len(expected):,} Disease" in said
    assert "100 document(s) have the id of one before (9949209, " in said
    output = tmp_path / "blank.jsonl"
    predict.predict(folder, [str(tmp_path / "texts" / "[be]*")], str(output), strategy=cpu)
    assert len(output.read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sentence_roles", "biosses", "hoc"])
def test_labels_of_new_texts_are_those_of_the_run(roles_folder, fine_tuned, cpu, tmp_path, name):
    data = roles_folder if name == "sentence_roles" else reference.corpus(f"{name}/blurb")
    if name == "hoc":  # a large one
        data = beginning_of("hoc", tmp_path / "data", "dev", "test")
    # Long enough that not all texts get one label; most of HoC's sentences have none.
    epochs = 1.0 if name == "hoc" else 10.0
    longer = {"num_train_epochs": epochs, "max_train_examples": 128, "layerwise_lr_decay": 1.0}
    folder = fine_tuned(name, data, learning_rate=3e-3, **longer)
    examples = task_table.TASKS[name].examples(str(data))["test"]
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
    labels = task_table.TASKS[name].labels
    for record, label in zip(records, predicted, strict=True):
        if name == "biosses":
            assert record["label"] == pytest.approx(float(label), abs=1e-4)
            assert "probabilities" not in record, label
            continue
        shares = record["probabilities"]
        assert tuple(shares) == labels, label
        if name == "hoc":
            assert "|".join(record["label"]) == label
            assert record["label"] == [one for one in labels if shares[one] > 0.5], label
        else:
            assert record["label"] == label and shares[label] == max(shares.values())
            assert sum(shares.values()) == pytest.approx(1, abs=1e-5), label

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
    calibration = {"calibration": {"null_threshold": -1e9}}
    scores.write_text(json.dumps(json.loads(scores.read_text()) | calibration))
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
    assert [each.label for each in tfbio.load(folder)(texts)] == found
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
        "pairs": None,
    }
    (tmp_path / "a.txt").write_text("Give IL-2 to T-cells.")
    predict.predict(folder, [str(tmp_path / "a.txt")], str(tmp_path / "a.jsonl"), strategy=cpu)
    entities = json.loads((tmp_path / "a.jsonl").read_text())["entities"]
    assert not [x for x in entities if not (0.5 < x.pop("score") <= 1)]
    assert entities == [
        {"type": "Protein", "start": 5, "end": 9, "text": "IL-2"},
        {"type": "Cell type", "start": 13, "end": 20, "text": "T-cells"},
    ]

    del settings["trained_on"]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(settings, file)
    with pytest.raises(UserError, match="config.json is not of a fine-tuning run: give the"):
        predict.predict(folder, [str(tmp_path / "a.txt")], str(tmp_path / "b"), strategy=cpu)


def test_a_folder_without_a_model_is_named(cpu, tmp_path):
    with pytest.raises(UserError, match="holds no trial of a fine-tuned model"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path / "b"), strategy=cpu)
    with pytest.raises(UserError, match="the folder of .*none/b does not exist"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path / "none" / "b"), strategy=cpu)
    with pytest.raises(UserError, match="--format=jsonl writes a file, which this is not"):
        predict.predict(str(tmp_path), ["a.txt"], str(tmp_path), strategy=cpu, overwrite=True)
    (tmp_path / "trial_0").mkdir()
    (tmp_path / "trial_0" / "model.index").touch()
    with pytest.raises(UserError, match=r"there is no .*config\.json: give the --output_dir"):
        predict.predict(str(tmp_path / "trial_0"), ["a.txt"], str(tmp_path / "b"), strategy=cpu)


def test_a_file_that_another_process_has_just_written_stays(cpu, tmp_path, monkeypatch):
    """It ends between the first look for the file and the lock."""
    output, take = tmp_path / "found.jsonl", storage._take

    def take_later(lock):
        output.write_text("theirs")
        return take(lock)

    monkeypatch.setattr(storage, "_take", take_later)
    with pytest.raises(UserError, match="found.jsonl is there already: give another --output"):
        predict.predict(str(tmp_path), ["a.txt"], str(output), strategy=cpu)
    assert output.read_text() == "theirs"
