"""Fine-tuned models of `transformers`, in and out, against what `transformers` computes."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from safetensors.numpy import load_file, save_file
from scipy.special import softmax

from tfbio import convert
from tfbio.base.cli import UserError
from tfbio.export import saved_model
from tfbio.runs import finetuner, finetuning, predict
from tfbio.task_types import tasks
from tfbio.task_types.classification import Classification
from tfbio.task_types.inference import make_model
from tfbio.task_types.types import FinetuningConfig
from tfbio.text import vocabularies
from tfbio.weights import checkpoints, fine_tuned

WORDS = "the a of in and is not works cell drug il - 2 . ( ) , ##s ##ed protein binds give it"
VOCABULARY = [*vocabularies.SPECIAL_TOKENS, *WORDS.split()]
SHAPE = {
    "vocab_size": len(VOCABULARY) + 3,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
# What the classes of a family need besides.
FAMILIES = {
    "Bert": {},
    "Electra": {"embedding_size": 12},
    # Padding is token 0 in the vocabulary above.
    "Roberta": {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-3,
    },
    "Albert": {"embedding_size": 12},
}
TAGS = ["B-Drug", "O", "I-Drug", "B-Gene", "I-Gene"]
HEADS = {
    "ForTokenClassification": {"labels": TAGS},
    "ForSequenceClassification": {
        "labels": ["no", "yes", "maybe"],
        "problem_type": "multi_label_classification",
    },
    "ForQuestionAnswering": {},
}


def make(folder, architecture, labels=(), **settings):
    """A model with random weights, none of them 0 or 1, saved as a user does."""
    import torch
    import transformers

    torch.manual_seed(5)
    family = architecture.partition("For")[0].removesuffix("Model")
    if labels:
        settings["id2label"] = dict(enumerate(labels))
        settings["label2id"] = {label: number for number, label in enumerate(labels)}
    shape = SHAPE | FAMILIES[family] | settings
    task_type = getattr(transformers, architecture)
    model = task_type(getattr(transformers, f"{family}Config")(**shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    Path(folder, "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return model.eval()


def load(folder):
    """As a user does; no weight may be missing, left over, or of another shape."""
    import transformers

    architecture = json.loads(Path(folder, "config.json").read_text())["architectures"][0]
    model, found = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(found.values()), found
    return model.eval()


def batch(family=""):
    """Ids, mask and segments, int64 [3, 12], of rows of three lengths."""
    rng = np.random.default_rng(0)
    mask = (np.arange(12) < np.array([[12], [7], [10]])).astype(np.int64)
    ids = rng.integers(5, SHAPE["vocab_size"], mask.shape) * mask
    ids[:, 0] = 2
    segments = rng.integers(0, FAMILIES.get(family, {}).get("type_vocab_size", 2), mask.shape)
    return ids, mask, segments * mask


def their_logits(model, ids, mask, segments):
    """[tokens without padding, outputs] or [texts, outputs]."""
    import torch

    with torch.no_grad():
        found = model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
        )
    if "start_logits" in found:
        return np.stack([found.start_logits, found.end_logits], axis=-1)[mask == 1]
    logits = found.logits.numpy()
    return logits[mask == 1] if logits.ndim == 3 else logits


def our_logits(model, ids, mask, segments):
    rows, length = ids.shape
    arrays = {
        "input_ids": ids,
        "segment_ids": segments,
        "document_ids": mask * np.arange(1, rows + 1)[:, None],
        "position_ids": mask * np.arange(length),
        "first": np.arange(rows) * length,
    }
    found = model({name: tf.constant(x, tf.int32) for name, x in arrays.items()}).numpy()
    return found[mask.reshape(-1) == 1] if model.of_tokens else found


# --- In and out again ----------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_comes_back_as_it_was(family, head, tmp_path):
    before, trial = make(tmp_path / "a", family + head, **HEADS[head]), tmp_path / "trial"
    convert.to_tfbio(str(tmp_path / "a"), str(trial))
    expected = their_logits(before, *batch(family))
    assert np.abs(expected).max() > 0.1
    for folder in (trial, trial / "trial_0"):
        ours = our_logits(fine_tuned.read(str(folder)).model, *batch(family))
        np.testing.assert_allclose(ours, expected, atol=1e-5)

    # By way of a trial, and at once.
    for source, target in ((trial / "trial_0", tmp_path / "b"), (tmp_path / "a", tmp_path / "c")):
        convert.to_hugging_face(str(source), str(target))
        tensors, again = (load_file(x / "model.safetensors") for x in (tmp_path / "a", target))
        assert tensors.keys() == again.keys()
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(again[name], tensor, err_msg=name)
        after = load(target)
        np.testing.assert_array_equal(their_logits(after, *batch(family)), expected)
        one, other = before.config.to_dict(), after.config.to_dict()
        differing = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
        # Two that `transformers` does not look at (any more).
        more = {"null_threshold", "position_embedding_type"}
        assert differing <= {"_name_or_path", "transformers_version", *more}


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
    known = fine_tuned.read(str(tmp_path / "a")).settings["trained_on"]
    assert (known["task_type"], known["labels"]) == (task_type, labels)
    convert.to_hugging_face(str(tmp_path / "a"), str(tmp_path / "b"))
    after = load(tmp_path / "b").config
    assert [*after.id2label.values()] == labels
    assert problem_type in (None, after.problem_type)


def test_labels_without_names_are_those_of_transformers(tmp_path):
    make(tmp_path, "BertForSequenceClassification")
    assert "id2label" not in json.loads((tmp_path / "config.json").read_text())
    known = fine_tuned.read(str(tmp_path)).settings["trained_on"]
    assert (known["task_type"], known["labels"]) == ("classification", ["LABEL_0", "LABEL_1"])


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
            convert.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
        assert not (tmp_path / "b").exists()
        return
    convert.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
    settings = json.loads((tmp_path / "b" / "config.json").read_text())
    assert settings["trained_on"]["labels"] == tags and settings["tagging"]["scheme"] == scheme
    convert.to_hugging_face(str(tmp_path / "b"), str(tmp_path / "c"))
    assert [*load(tmp_path / "c").config.id2label.values()] == labels


def test_what_cannot_come_in_is_named(tmp_path):
    def refused(words, source):
        with pytest.raises(UserError, match=words):
            convert.to_tfbio(str(source), str(tmp_path / "new"))
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


def test_electras_head_for_answers_does_not_go_out(make_trial, tmp_path):
    trial, _ = make_trial("question_answering", [], {"pairs": False}, head="electra")
    with pytest.raises(UserError, match="head electra, .*: no class of `transformers` has"):
        convert.to_hugging_face(trial, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_logits_that_differ_are_refused(tmp_path, monkeypatch):
    """Of the head, too, and by little."""
    make(tmp_path / "a", "BertForSequenceClassification", ["a", "b", "c"])
    true_write = fine_tuned.write_hugging_face
    for name in ("bert.pooler.dense.bias", "classifier.bias", "bert.embeddings.LayerNorm.bias"):

        def wrong(folder, tuned, name=name):
            true_write(folder, tuned)
            path = Path(folder, "model.safetensors")
            tensors = load_file(path)
            save_file(tensors | {name: tensors[name] + 1e-4}, path)

        monkeypatch.setattr(fine_tuned, "write_hugging_face", wrong)
        with pytest.raises(convert.ConversionError, match="gives other outputs, by"):
            convert.to_hugging_face(str(tmp_path / "a"), str(tmp_path / "b"))
        assert not (tmp_path / "b").exists()


# --- The layer on [CLS] --------------------------------------------------------------------------


LABELLED = "text\tlabel\nIt works .\tyes\nIt is not in the cell .\tno\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "init, text_head, architecture",
    [
        ("BertModel", "tanh", "BertForSequenceClassification"),
        ("BertModel", "gelu", "ElectraForSequenceClassification"),
        ("BertModel", "linear", "ElectraForSequenceClassification"),
        ("ElectraForPreTraining", "gelu", "ElectraForSequenceClassification"),
        ("ElectraForPreTraining", "tanh", None),
    ],
)
def test_what_is_trained_here_computes_the_same_there(init, text_head, architecture, cpu, tmp_path):
    make(tmp_path / "init", init)
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(LABELLED)
    finetuning.finetune(
        FinetuningConfig(
            sequence_length=16,
            train_batch_size=2,
            num_trials=1,
            learning_rate=1e-2,
            classification=Classification.Settings(text_head=text_head),
        ),
        task=tasks.find("classification", str(tmp_path)),
        data_dir=str(tmp_path),
        init_checkpoint=str(tmp_path / "init"),
        output_dir=str(tmp_path / "out"),
        strategy=cpu,
    )
    trial, folder = str(tmp_path / "out" / "trial_0"), str(tmp_path / "converted")
    if architecture is None:
        with pytest.raises(UserError, match="text_head tanh, .* an encoder of electra: no class"):
            convert.to_hugging_face(trial, folder)
        return
    convert.to_hugging_face(trial, folder)
    theirs, ours = load(folder), fine_tuned.read(trial).model
    assert type(theirs).__name__ == architecture
    logits = our_logits(ours, *batch())
    np.testing.assert_allclose(their_logits(theirs, *batch()), logits, atol=1e-5)
    assert theirs.config.id2label == {0: "no", 1: "yes"}
    if text_head == "tanh":  # trained, from what was there
        start = load_file(tmp_path / "init" / "model.safetensors")["pooler.dense.weight"].T
        moved = np.abs(ours.pooler.kernel - start)
        assert 1e-3 < moved.mean() < 0.1 < np.abs(start).mean()


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
        convert.to_tfbio(folder, str(tmp_path / "b"))
        places.append(str(tmp_path / "b" / "trial_0"))
    settings = FinetuningConfig(sequence_length=16)
    shape = checkpoints.read_encoder_config(folder)
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


# --- New text ------------------------------------------------------------------------------------


def signatures(folder):
    """Those of the SavedModel that is made of the folder as it is."""
    return tf.saved_model.load(saved_model.write(str(folder), f"{folder}_serving")).signatures


def predict_both(folder, inputs, output, cpu):
    """With the folder as it is, and with a run that was made of it: the same."""
    convert.to_tfbio(str(folder), f"{folder}_converted")
    found = []
    for model in (f"{folder}_converted", folder):
        predict.predict(str(model), [str(inputs)], str(output), strategy=cpu, overwrite=True)
        found.append(output.read_text())
    assert found[0] == found[1]


def test_entities_are_those_of_their_logits(cpu, tmp_path):
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = make(tmp_path / "a", "BertForTokenClassification", TAGS)
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

    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "a" / "vocab.txt"))
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
    (tmp_path / "2.tsv").write_text(f"text\tpair\n{texts[2]}\t{pairs[2]}\n")
    output = tmp_path / "found.jsonl"
    predict_both(tmp_path / "a", tmp_path / "*.tsv", output, cpu)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "a" / "vocab.txt"))
    serve = signatures(tmp_path / "a")
    for record, text, pair in zip(records, texts, pairs, strict=True):
        with torch.no_grad():
            logits = theirs(**tokenizer(text, pair or None, return_tensors="pt")).logits[0]
        expected = dict(zip(labels, torch.softmax(logits, -1).tolist(), strict=True))
        assert record["probabilities"] == pytest.approx(expected, abs=1e-5)
        assert record["label"] == labels[int(logits.argmax())]
        if pair:
            served = serve["pairs"](text=tf.constant([text]), text_pair=tf.constant([pair]))
        else:
            served = serve["serving_default"](text=tf.constant([text]))
        assert served["label"].numpy()[0].decode() == record["label"]
        np.testing.assert_allclose(served["probabilities"][0], [*expected.values()], atol=1e-5)


@pytest.mark.parametrize("threshold", [-100.0, 100.0], ids=["none", "all"])
def test_answers_are_those_of_their_logits(threshold, cpu, tmp_path):
    import torch
    import transformers

    theirs = make(tmp_path / "a", "RobertaForQuestionAnswering")
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
    if threshold < 0:
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
    convert.to_tfbio(str(tmp_path / "a"), str(tmp_path / "model"))
    (tmp_path / "a.txt").write_text("Give IL-2 and a drug in the cell.")
    output = tmp_path / "found.jsonl"
    arguments = ([str(tmp_path / "a.txt")], str(output))
    predict.predict(str(tmp_path / "model"), *arguments, strategy=cpu)
    entities = json.loads(output.read_text())["entities"]
    assert entities and {entity["type"] for entity in entities} == {"Entity"}


def test_fine_tuning_goes_on(cpu, tmp_path):
    """From a trial that was made of a model of `transformers`, whose encoder is the start."""
    make(tmp_path / "a", "BertForQuestionAnswering")
    convert.to_tfbio(str(tmp_path / "a"), str(tmp_path / "b"))
    trial = str(tmp_path / "b" / "trial_0")
    shape = checkpoints.read_encoder_config(trial)
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
    assert tuned.settings[task_type] == settings[task_type] | portable
    before = fine_tuned._make(settings)
    fine_tuned.restore(trial, before)
    kernel = before.head.kernel.numpy()
    expected = {"multilabel": kernel[:, 1::2], "regression": 4.0 * kernel}.get(task_type, kernel)
    np.testing.assert_array_equal(tuned.model.head.kernel, expected)
    segments = before.encoder.embeddings.segment.numpy()
    rows = segments[::-1] if task_type == "tagging" else segments
    np.testing.assert_array_equal(tuned.model.encoder.embeddings.segment, rows)
