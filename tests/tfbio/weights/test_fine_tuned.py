"""Fine-tuned models of `transformers`: their settings, their labels and their predictions."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from safetensors.numpy import load_file
from scipy.special import softmax

from tests.fine_tuned import TAGS, load, make, make_cased, their_logits
from tests.run_files import write_settings
from tfbio.base.errors import UserError
from tfbio.export import conversion, saved_model
from tfbio.runs import finetuner, predict
from tfbio.task_types.classification import Classification
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.inference import make_model
from tfbio.weights import checkpoint_settings, checkpoint_source, fine_tuned


@pytest.mark.parametrize(
    "labels, problem_type, task_type",
    [
        (["score"], None, "regression"),
        (["score"], "regression", "regression"),
        (["only"], "multi_label_classification", "multilabel"),
        (["a", "b"], None, "classification"),
        (["a", "b"], "single_label_classification", "classification"),
        (["a", "b"], "multi_label_classification", "multilabel"),
    ],
)
def test_what_was_learnt_is_told_by_config_json(labels, problem_type, task_type, tmp_path):
    architecture = "BertForSequenceClassification"
    make(tmp_path / "a", architecture, labels, problem_type=problem_type)
    known = fine_tuned.read(str(tmp_path / "a")).settings.trained_on
    assert (known.task_type, known.labels) == (task_type, labels)
    conversion.to_hugging_face(str(tmp_path / "a"), str(tmp_path / "b"))
    after = load(tmp_path / "b").config
    assert [*after.id2label.values()] == labels
    assert problem_type in (None, after.problem_type)


def test_weights_whose_path_tensorflow_takes_for_a_pattern_are_named(
    make_trial, tmp_path, monkeypatch
):
    trial, _ = make_trial("classification", ["no", "yes"], {"pairs": False})
    run = shutil.move(Path(trial).parent, tmp_path / "run[v2]")
    with pytest.raises(UserError, match=r"run\[v2\]/trial_0/model: TensorFlow takes .*: rename"):
        fine_tuned.read(f"{run}/trial_0")
    # TensorFlow does not see the name of the current folder.
    monkeypatch.chdir(run)
    assert fine_tuned.read("trial_0").settings.trained_on.labels == ["no", "yes"]


def test_a_link_to_a_trial_has_the_settings_of_the_trials_run(make_trial, tmp_path):
    """And not those of another run that the link lies in."""
    trial, settings = make_trial("classification", ["no", "yes"], {"pairs": False})
    link = tmp_path / "other" / "best"
    link.parent.mkdir()
    write_settings(link.parent, task_type="tagging", labels=["O"])
    link.symlink_to(trial)
    assert predict.facts_of(str(link)) == settings.trained_on
    assert fine_tuned.find_trial(str(link)) == trial
    assert fine_tuned.read_settings(str(link)).trained_on == settings.trained_on
    assert checkpoint_source.run_of(str(link)) == str(Path(trial).parent)
    assert fine_tuned.read(str(link)).settings.trained_on.labels == ["no", "yes"]


def test_labels_without_names_are_those_of_transformers(tmp_path):
    make(tmp_path, "BertForSequenceClassification")
    assert "id2label" not in json.loads((tmp_path / "config.json").read_text())
    known = fine_tuned.read(str(tmp_path)).settings.trained_on
    assert (known.task_type, known.labels) == ("classification", ["LABEL_0", "LABEL_1"])


@pytest.mark.parametrize(
    "labels, scheme, tags",
    [
        (["O", "B", "I"], "BIO", ["O", "B", "I"]),
        (["I-x-y", "O"], "BIO", ["I-x-y", "O"]),
        (["O", "B-x", "I-x", "U-x", "L-x"], "BIOUL", ["O", "B-x", "I-x"]),
        (["LABEL_0", "LABEL_1"], None, None),
        (["B-x", "I-x"], None, None),  # no O
        (["O", "B-x", "I-x", "S-x", "E-x"], None, None),
    ],
)
def test_tags_of_other_schemes_are_refused(labels, scheme, tags, tmp_path):
    make(tmp_path / "a", "ElectraForTokenClassification", labels)
    if scheme is None:
        with pytest.raises(UserError, match=f"the labels {', '.join(labels)}: tagging takes O"):
            conversion.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
        assert not (tmp_path / "b").exists()
        return
    conversion.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
    settings = json.loads((tmp_path / "b" / "config.json").read_text())
    assert settings["trained_on"]["labels"] == tags and settings["tagging"]["scheme"] == scheme
    conversion.to_hugging_face(str(tmp_path / "b"), str(tmp_path / "c"))
    assert [*load(tmp_path / "c").config.id2label.values()] == labels


@pytest.mark.parametrize(("said", "expected"), [(20, 20), (10**30, 64), (None, 64)])
def test_a_model_from_elsewhere_sees_as_many_tokens_as_its_tokenizer_says(said, expected, tmp_path):
    make(tmp_path / "a", "BertForTokenClassification", ["O", "B", "I"])
    longest = checkpoint_settings.read_encoder_config(str(tmp_path / "a")).max_sequence_length
    path = tmp_path / "a" / "tokenizer_config.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | {"model_max_length": said}))
    found = fine_tuned.read_settings(str(tmp_path / "a")).sequence_length
    assert found == min(longest, expected)


def test_what_cannot_come_in_is_named(tmp_path):
    def refused(words, source):
        with pytest.raises(UserError, match=words):
            conversion.to_tfbio(str(source), str(tmp_path / "new"))
        assert not (tmp_path / "new").exists()

    make(tmp_path / "alone", "BertModel")
    refused("has no head of pretraining: .* or one that was fine-tuned", tmp_path / "alone")
    make(tmp_path / "a", "BertForSequenceClassification", ["a", "b", "c"])
    settings = json.loads((tmp_path / "a" / "config.json").read_text())
    wrong = {"problem_type": "ranking"}
    (tmp_path / "a" / "config.json").write_text(json.dumps(settings | wrong))
    refused("problem_type = ranking: only single_label_classification", tmp_path / "a")
    wrong = {"id2label": {"0": "a", "1": "b"}}
    (tmp_path / "a" / "config.json").write_text(json.dumps(settings | wrong))
    refused(r"classifier\.weight has shape \(3, 24\), the model's is \(2, 24\)", tmp_path / "a")
    wrong = {"architectures": ["BertForMultipleChoice"]}
    (tmp_path / "a" / "config.json").write_text(json.dumps(settings | wrong))
    refused("has no head of pretraining: .* or one that was fine-tuned", tmp_path / "a")


@pytest.mark.parametrize(
    "architecture, name",
    [
        ("BertModel", "pooler.dense"),
        ("BertForSequenceClassification", "bert.pooler.dense"),
        ("BertForMaskedLM", None),
        ("ElectraForSequenceClassification", None),  # gelu's
    ],
)
def test_berts_pooler_is_the_start_where_there_is_one(architecture, name, cpu, tmp_path):
    make(tmp_path / "a", architecture)
    folder, places = str(tmp_path / "a"), [str(tmp_path / "a")]
    if architecture.endswith("SequenceClassification"):
        conversion.to_tfbio(folder, str(tmp_path / "b"))
        places.append(str(tmp_path / "b" / "trial_0"))
    settings = FinetuningConfig(sequence_length=16)
    shape = checkpoint_settings.read_encoder_config(folder)
    task_type = Classification("ab", Classification.Settings(text_head="tanh"))
    made = finetuner.Finetuner(settings, shape, task_type, 0, 4, cpu)
    for place in places:
        made.initialize(3, place)
        if name is None:
            keras.utils.set_random_seed(3)
            fresh = make_model(made.encoder_config, made.task_type, made.config)
            expected = fresh.pooler.get_weights()
            # BERT's initialisation.
            assert 0.015 < np.std(expected[0]) < 0.025 and not expected[1].any()
        else:
            tensors = load_file(tmp_path / "a" / "model.safetensors")
            expected = tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]
        for one, other in zip(made.model.pooler.get_weights(), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def signatures(folder):
    """Those of the SavedModel that is made of the folder as it is."""
    return tf.saved_model.load(saved_model.write(str(folder), f"{folder}_serving")).signatures


def predict_both(folder, inputs, output, cpu):
    """With the folder as it is, and with a run that was made of it: the same."""
    conversion.to_tfbio(str(folder), f"{folder}_converted")
    found = []
    for model in (f"{folder}_converted", folder):
        predict.predict(str(model), [str(inputs)], str(output), strategy=cpu, overwrite=True)
        found.append(output.read_text())
    assert found[0] == found[1]


def test_entities_are_those_of_their_logits(cpu, tmp_path):
    """They are those of a model that reads capital letters as they are."""
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = make(tmp_path / "a", "BertForTokenClassification", TAGS)
    make_cased(tmp_path / "a")
    documents = [
        "Give IL-2 and a drug.",
        "The protein (of a cell) binds IL-2, not drugs.",
        "It works in cells and is not a protein of the cell.",
    ]
    for number, text in enumerate(documents):
        (tmp_path / f"{number}.txt").write_text(text)
    output = tmp_path / "found.jsonl"
    predict_both(tmp_path / "a", tmp_path / "*.txt", output, cpu)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [record["text"] for record in records] == documents

    import transformers

    vocabulary = str(tmp_path / "a" / "vocab.txt")
    tokenizer = transformers.BertTokenizerFast(vocabulary, do_lower_case=False)
    count = 0
    for record in records:
        words = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(record["text"])
        encoded = tokenizer([word for word, _ in words], is_split_into_words=True)
        ids = np.array([encoded["input_ids"]])
        logits = their_logits(theirs, ids, np.ones_like(ids), np.zeros_like(ids))
        own = encoded.word_ids()
        firsts = [own.index(number) for number in range(len(words))]
        tags = [TAGS[best] for best in logits.argmax(axis=-1)[firsts]]
        shares = softmax(logits, axis=-1).max(axis=-1)[firsts]
        expected = [
            {
                "type": task_type,
                "start": words[first][1][0],
                "end": words[last][1][1],
                "score": pytest.approx(shares[first : last + 1].prod(), abs=1e-5),
            }
            for task_type, first, last in get_entities(tags)
        ]
        found = [{key: x[key] for key in x if key != "text"} for x in record["entities"]]
        assert found == expected
        count += len(found)
    assert count > 5

    served = signatures(tmp_path / "a")["serving_default"](text=tf.constant(documents))
    for row, record in enumerate(records):
        assert served["entity_count"][row] == len(record["entities"])
        for place, entity in enumerate(record["entities"]):
            assert served["entity_type"][row, place].numpy().decode() == entity["type"]
            for end in ("start", "end"):
                assert served[f"entity_{end}"][row, place] == entity[end]


def test_labels_are_those_of_their_logits(cpu, tmp_path):
    """Of texts and of pairs: which of both the model learnt is not known."""
    import torch
    import transformers

    labels = ["no", "yes", "maybe"]
    theirs = make(tmp_path / "a", "ElectraForSequenceClassification", labels)
    texts = ["it works", "the drug binds", "a cell is in it"]
    pairs = ["", "", "it is not a drug"]
    (tmp_path / "1.tsv").write_text("".join(f"{x}\n" for x in ("text", *texts[:2])))
    (tmp_path / "2.tsv").write_text(f"id\ttext\tpair\nlast\t{texts[2]}\t{pairs[2]}\n")
    output = tmp_path / "found.jsonl"
    predict_both(tmp_path / "a", tmp_path / "*.tsv", output, cpu)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "a" / "vocab.txt"))
    serve = signatures(tmp_path / "a")
    for record, text, pair in zip(records, texts, pairs, strict=True):
        with torch.no_grad():
            logits = theirs(**tokenizer(text, pair or None, return_tensors="pt")).logits[0]
        expected = dict(zip(labels, torch.softmax(logits, -1).tolist(), strict=True))
        assert record["probabilities"] == pytest.approx(expected, abs=1e-5), text
        assert record["label"] == labels[int(logits.argmax())], text
        if pair:
            served = serve["pairs"](text=tf.constant([text]), text_pair=tf.constant([pair]))
        else:
            served = serve["serving_default"](text=tf.constant([text]))
        assert served["label"].numpy()[0].decode() == record["label"], text
        np.testing.assert_allclose(served["probabilities"][0], [*expected.values()], atol=1e-5)


@pytest.mark.parametrize("threshold", [-100.0, 100.0, None], ids=["none", "all", "default"])
def test_answers_are_those_of_their_logits(threshold, cpu, tmp_path):
    import torch
    import transformers

    theirs = make(tmp_path / "a", "RobertaForQuestionAnswering")
    if threshold is not None:
        path = tmp_path / "a" / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"null_threshold": threshold}))
    context, questions = "the drug binds in a cell", ("a drug", "is it in the cell", "works")
    asked = [{"id": text, "question": text} for text in questions]
    paragraph = {"context": context, "qas": asked}
    (tmp_path / "asked.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    output = tmp_path / "found.json"
    predict_both(tmp_path / "a", tmp_path / "asked.json", output, cpu)
    found = json.loads(output.read_text())
    assert list(found) == list(questions)
    served = signatures(tmp_path / "a")["serving_default"](
        question=tf.constant(questions), context=tf.constant([context] * len(questions))
    )
    assert [answer.decode() for answer in served["answer"].numpy()] == [*found.values()]
    if threshold == -100:
        assert set(found.values()) == {""}
        return
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "a" / "vocab.txt"))
    for question, answer in found.items():
        encoded = tokenizer(question, context, return_offsets_mapping=True)
        ids = torch.tensor([encoded["input_ids"]])
        with torch.no_grad():
            logits = theirs(ids)
        first = encoded.sequence_ids().index(1)
        scores = {
            (a, b): float(logits.start_logits[0, a] + logits.end_logits[0, b])
            for a in range(first, ids.shape[1] - 1)
            for b in range(a, ids.shape[1] - 1)
        }
        start, end = max(scores, key=scores.get)
        places = encoded["offset_mapping"]
        assert answer == context[places[start][0] : places[end][1]]


def test_a_model_without_such_a_head_cannot_be_used(cpu, tmp_path):
    make(tmp_path / "a", "BertModel")
    with pytest.raises(UserError, match="a holds no fine-tuned model: give one of a class ...For"):
        predict.predict(str(tmp_path / "a"), ["a.txt"], str(tmp_path / "b"), strategy=cpu)


def test_tags_without_a_type_are_entities(cpu, tmp_path):
    make(tmp_path / "a", "BertForTokenClassification", ["B", "I", "O"])
    conversion.to_tfbio(str(tmp_path / "a"), str(tmp_path / "model"))
    (tmp_path / "a.txt").write_text("Give IL-2 and a drug in the cell.")
    output = tmp_path / "found.jsonl"
    arguments = ([str(tmp_path / "a.txt")], str(output))
    predict.predict(str(tmp_path / "model"), *arguments, strategy=cpu)
    entities = json.loads(output.read_text())["entities"]
    assert entities and {entity["type"] for entity in entities} == {"Entity"}


def test_fine_tuning_goes_on(cpu, tmp_path):
    """From a trial that was made of a model of `transformers`, whose encoder is the start."""
    make(tmp_path / "a", "BertForQuestionAnswering")
    conversion.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
    trial = str(tmp_path / "b" / "trial_0")
    shape = checkpoint_settings.read_encoder_config(trial)
    settings = dataclasses.replace(FinetuningConfig(), sequence_length=16)
    made = finetuner.Finetuner(settings, shape, Classification("ab"), 0, 4, cpu)
    made.initialize(0, trial)
    expected = fine_tuned.read(str(tmp_path / "a")).model.encoder.get_weights()
    for one, other in zip(made.model.encoder.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "task_type, given, portable",
    [
        ("tagging", {"segment": 1, "early_cut": True}, {"segment": 0, "early_cut": True}),
        ("multilabel", {"absent_outputs": True}, {"absent_outputs": False}),
        ("regression", {"scale": 4.0}, {"scale": 1.0}),
    ],
)
def test_weights_hold_what_other_programs_have_no_setting_for(
    task_type, given, portable, make_trial
):
    labels = [] if task_type == "regression" else ["O", "B", "I"]
    trial, settings = make_trial(task_type, labels, {"pairs": False}, **given)
    tuned = fine_tuned.read(trial)
    expected = dataclasses.replace(getattr(settings, task_type), **portable)
    assert getattr(tuned.settings, task_type) == expected
    before = fine_tuned._make(settings)
    fine_tuned.restore(trial, before)
    kernel = before.head.kernel.numpy()
    expected = {"multilabel": kernel[:, 1::2], "regression": 4.0 * kernel}.get(task_type, kernel)
    np.testing.assert_array_equal(tuned.model.head.kernel, expected)
    segments = before.encoder.embeddings.segment.numpy()
    rows = segments[::-1] if task_type == "tagging" else segments
    np.testing.assert_array_equal(tuned.model.encoder.embeddings.segment, rows)


def test_a_wrong_setting_for_new_text_is_blamed_on_its_flag(make_trial):
    _, settings = make_trial("tagging", ["O", "B", "I"], {})
    changed = fine_tuned.config_for_new_text(settings, ["run.eval_batch_size=3"])
    assert changed.run.eval_batch_size == 3 and settings.run.eval_batch_size != 3
    assert changed.tagging == settings.tagging
    with pytest.raises(UserError, match="^--set: unknown setting 'learning_rat'"):
        fine_tuned.config_for_new_text(settings, ["learning_rat=1"])


def test_labels_are_in_the_order_of_their_numbers(tmp_path):
    make(tmp_path, "BertForSequenceClassification", ["a", "b", "c"])
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    names = dict(reversed(settings["id2label"].items()))
    path.write_text(json.dumps(settings | {"id2label": names}))
    assert fine_tuned.read_settings(str(tmp_path)).trained_on.labels == ["a", "b", "c"]


@pytest.mark.parametrize(
    "task_type, given, layer",
    [
        ("regression", {"scale": 4.0, "text_head": "mlp", "mlp_layers": 1}, "mlp"),
        ("tagging", {"segment": 1, "head": "crf"}, "transitions"),
    ],
)
def test_what_stands_beside_the_head_is_copied_too(task_type, given, layer, make_trial):
    labels = ["O", "B", "I"] if task_type == "tagging" else []
    trial, settings = make_trial(task_type, labels, {"pairs": False}, **given)
    before = fine_tuned._make(settings)
    fine_tuned.restore(trial, before)
    expected, found = getattr(before, layer), getattr(fine_tuned.read(trial).model, layer)
    if layer == "mlp":
        expected, found = expected.get_weights(), found.get_weights()
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
