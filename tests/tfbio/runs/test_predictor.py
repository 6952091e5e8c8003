"""Compares what a model predicts for new text with its own logits and the corpora's files."""

import contextlib
import io
import itertools
import json
import re

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfbio.runs.predictor
from tests import reference
from tfbio.formats import squad, tagged_words
from tfbio.formats.annotated_documents import Document, Passage
from tfbio.runs import document_formats, predict
from tfbio.runs.predictor import Predictor, words_of
from tfbio.task_types import packing, prediction_files
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.training import progress_bar


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
    for rule in ("symbols", "punctuation", "blanks"):
        read = list(words_of(documents, splitter, rule))
        last = (0, 0)
        for number, sentence, places in read:
            for word, (start, end) in zip(sentence.words, places, strict=True):
                assert documents[number].text[start:end] == word
                assert (number, start) >= last, word
                last = (number, end)
        for number, document in enumerate(documents):
            found = "".join("".join(x.words) for n, x, _ in read if n == number)
            assert found == "".join(document.text.split()), number
    assert {number for number, *_ in read} == {1, 3}
    assert len([x for n, x, _ in read if n == 1]) >= 4


def test_the_tags_of_blurb_on_raw_text_are_the_mentions_of_ncbi(splitter):
    """Tags from one file, and text and offsets from another; sentences and words are ours."""
    folder = reference.corpus("ncbi_disease")
    documents = list(document_formats.read(str(folder / "pubtator" / "NCBIdisease_Test.PubTator")))
    raw = {"".join(document.text.split()): document for document in documents}
    tags, letters, own = {}, "", []
    for sentence in tagged_words.read(str(folder / "blurb" / "test.tsv")):
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
    for number, sentence, places in words_of(documents, splitter, "symbols"):
        document = documents[number]
        own, rest = tags[document.id][: len(places)], tags[document.id][len(places) :]
        tags[document.id] = rest
        count += len(sentence.words)
        for task_type, start, end, _ in prediction_files.entities(own, places, "Disease"):
            assert task_type == "Disease", number
            found.add((document.id, start, end, document.text[start:end]))
    assert count == 24497 and not any(tags.values())
    assert len(gold) == 960 and found == gold


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
        expected = prediction_files.entities([labels[i] for i in best], places, "Entity", shares)
        assert [x[:3] for x in found] == [x[:3] for x in expected], text
        assert [x.score for x in found] == pytest.approx([x.score for x in expected], abs=1e-5), (
            text
        )
        count += len(found)
    assert count


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
    questions = squad.read(str(source))
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
    questions = squad.read(str(source))
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


def test_long_texts_are_annotated_in_several_batches(make_trial, cpu, tmp_path, monkeypatch):
    """They give the same entities; without a terminal each batch shows how far it is."""
    known = {"words": "blanks", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known)
    texts = ["the cells of patients", "", "a study of the effects.\n\nresults were better"] * 3
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    inputs = [str(tmp_path / "*.txt")]
    predict.predict(trial, inputs, str(tmp_path / "a"), strategy=cpu)
    monkeypatch.setattr(tfbio.runs.predictor, "_AT_ONCE", 50)
    monkeypatch.setattr(progress_bar, "SHOW_EVERY", 0.0)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        predict.predict(trial, inputs, str(tmp_path / "b"), strategy=lambda: cpu)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    *lines, steps, counts, end = said.getvalue().splitlines()
    shown = [re.match(r"prediction \| (\d)/9 documents", line) for line in lines]
    done = [int(match[1]) for match in shown if match]
    assert done == sorted(done) and set(done) > {0, 3, 9} and len(set(done)) > 3
    assert re.fullmatch(
        r"prediction \| 9/9 documents \| [\d,.]+ documents/s \| 0:00:00 left", lines[-1]
    )
    assert re.match(r"seconds by step: reading \d+\.\d \(", steps)
    found = [len(json.loads(x)["entities"]) for x in (tmp_path / "a").read_text().splitlines()]
    assert counts == f"9 document(s), {sum(found)} entities: {sum(found)} x" and sum(found)
    read = re.escape(f"9 file(s) read; see {tmp_path / 'b'} (")
    assert re.fullmatch(rf"{read}\d+ s\)", end)


@pytest.mark.parametrize(
    "divided",
    [
        {"gradient_clip_groups": 3, "loss_reduction": "sum"},
        {"run": FinetuningRun(gradient_accumulation_steps=5)},
    ],
)
def test_how_training_was_divided_does_not_decide_where_a_model_predicts(
    divided, make_trial, two_devices, tmp_path
):
    """Its batch, its groups and its parts go with neither two devices nor fixed shapes."""
    common = {"train_batch_size": 15, **divided}
    known = {"words": "blanks", "entity_type": "Entity"}
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], known, common=common)
    text, found = tmp_path / "a.txt", tmp_path / "found"
    text.write_text("the cells of patients")
    fixed = ["run.fixed_shapes=always"]
    predict.predict(trial, [str(text)], str(found), strategy=two_devices, overrides=fixed)
    assert json.loads(found.read_text())["text"] == "the cells of patients"
