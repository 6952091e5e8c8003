"""ONNX models give in onnxruntime what `transformers` and tfbio give."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tokenizers

import tfbio
from data_prep.sentences import splitters
from tests import fine_tuned as hugging_face
from tests import forked
from tests.conftest import ROOT
from tfbio.base.errors import UserError
from tfbio.export import comparison, onnx_model
from tfbio.text import hugging_face_tokenizer, tokenization

PAGE = ROOT / "docs" / "checkpoints.md"
# For each architecture: the labels, the inputs, and the outputs with their dimensions.
BOTH = ["input_ids", "attention_mask"]
ALL = [*BOTH, "token_type_ids"]
LOGITS = {"logits": ["batch", 3]}
OF_TRANSFORMERS = {
    "BertForTokenClassification": (hugging_face.TAGS, ALL, {"logits": ["batch", "tokens", 5]}),
    "MegatronBertForSequenceClassification": (["a", "b", "c"], ALL, LOGITS),
    "AlbertForSequenceClassification": (["a", "b", "c"], ALL, LOGITS),
    "ElectraForSequenceClassification": (["a", "b", "c"], ALL, LOGITS),
    "RobertaForQuestionAnswering": (
        (),
        BOTH,
        {"start_logits": ["batch", "tokens"], "end_logits": ["batch", "tokens"]},
    ),
}


def read(folder):
    """Returns the session, the tokenizer with padding, and the content of `config.json`."""
    session = onnxruntime.InferenceSession(str(Path(folder, "model.onnx")))
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
    tokenizer.enable_padding()
    return session, tokenizer, json.loads(Path(folder, "config.json").read_text())


def run(session, tokenizer, inputs):
    """Returns the outputs for texts or pairs, and their mask."""
    rows = tokenizer.encode_batch(inputs)
    given = {
        "input_ids": [row.ids for row in rows],
        "attention_mask": [row.attention_mask for row in rows],
        "token_type_ids": [row.type_ids for row in rows],
    }
    arrays = {x.name: np.array(given[x.name]) for x in session.get_inputs()}
    return session.run(None, arrays), arrays["attention_mask"]


def assert_plain(path):
    """Checks that all numbers are float32 or indices, and the version of the operations."""
    model = onnx.load(path)
    types = {onnx.TensorProto.DataType.Name(x.data_type) for x in model.graph.initializer}
    assert "FLOAT" in types and types <= {"FLOAT", "INT32", "INT64", "BOOL"}
    assert not [x.op_type for x in model.graph.node if re.search("Quant|Integer", x.op_type)]
    versions = {x.domain: x.version for x in model.opset_import}
    said = {x.key: x.value for x in model.metadata_props}
    assert versions[""] == 15
    assert said == {"opset": "15", "dtype": "float32", "tfbio_version": tfbio.__version__}


@pytest.mark.parametrize("architecture", OF_TRANSFORMERS)
def test_the_outputs_are_those_of_transformers(architecture, tmp_path):
    labels, inputs, outputs = OF_TRANSFORMERS[architecture]
    theirs = hugging_face.make(tmp_path / "theirs", architecture, labels)
    hugging_face.make_cased(tmp_path / "theirs")
    path = onnx_model.write(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert_plain(path)
    assert hugging_face_tokenizer.read_lower_case(tmp_path / "ours") is False
    session, _, config = read(tmp_path / "ours")
    assert {x.name: x.shape for x in session.get_inputs()} == dict.fromkeys(
        inputs, ["batch", "tokens"]
    )
    assert {x.name: x.shape for x in session.get_outputs()} == outputs
    assert config.get("id2label", {}) == {str(n): label for n, label in enumerate(labels)}
    rng = np.random.default_rng(0)
    for lengths in ([38, 3, 20], [7, 7], [2]):
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        ids = mask * rng.integers(1, hugging_face.SHAPE["vocab_size"], mask.shape)
        segments = mask * rng.integers(0, 2 if inputs == ALL else 1, mask.shape)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        found = session.run(None, {name: given[name] for name in inputs})
        found = found[0] if len(found) == 1 else np.stack(found, axis=-1)
        expected = hugging_face.their_logits(theirs, ids, mask, segments)
        found = found[mask == 1] if found.ndim == 3 else found
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_the_command_writes_an_encoder(shallow_encoder, sentences, tmp_path):
    done = forked.run(
        [sys.executable, "-m", "tfbio.convert", f"--from={shallow_encoder}", "--format=onnx"]
        + [f"--to={tmp_path}/onnx"],
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"{tmp_path}/onnx/model.onnx: onnxruntime runs it; tokenizer.json and config.json are "
        "beside it.\n"
    )
    session, tokenizer, config = read(tmp_path / "onnx")
    assert config["model_type"] == "electra" and "id2label" not in config
    assert [x.name for x in session.get_outputs()] == ["last_hidden_state"]
    chosen = sorted(sentences[:200], key=len)[:-40:3]
    vectors = tfbio.load(shallow_encoder).embed(chosen, pooling="tokens")
    (hidden,), mask = run(session, tokenizer, chosen)
    assert mask.sum(axis=1).tolist() == [len(x) for x in vectors]
    np.testing.assert_allclose(hidden[mask == 1], np.concatenate(vectors), rtol=0, atol=1e-4)


def test_an_encoder_of_text_as_it_is_lower_cases_none(tmp_path):
    hugging_face.make(tmp_path / "theirs", "BertModel", num_hidden_layers=1)
    hugging_face.make_cased(tmp_path / "theirs")
    onnx_model.write(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert hugging_face_tokenizer.read_lower_case(tmp_path / "ours") is False


def assert_client_finds_the_entities(model, sentences, monkeypatch, tmp_path):
    """Runs the client of the manual on out/onnx, against a model of `tfbio.load`."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    (client,) = re.findall(r"```python\n(import json\n.*?)```", text, re.DOTALL)
    names = {}
    exec(client, names)
    splitter, tokenizer = splitters.load("biosenter"), names["tokenizer"]
    chosen = [own[0] for own in splitter(sentences[:150]) if len(own) == 1]
    chosen.append("Aspirin \ufffd 5 mg of imatinib.")  # of the second word BERT leaves nothing
    chosen.append("Fluad\u00ae 5\u00b12")
    # Longer ones are seen in windows.
    chosen = [x for x in chosen if len(tokenizer.encode(x).ids) <= 64]
    ties, found = [], 0
    for sentence, expected in zip(chosen, model(chosen), strict=True):
        own = [tuple(x.values()) for x in names["entities"](sentence)]
        if own == [(x.start, x.end, x.label) for x in expected]:
            found += len(own)
            continue
        (logits,), _ = run(names["session"], tokenizer, [sentence])
        best = np.sort(logits, axis=-1)
        ties += [sentence] * (np.diff(best[..., -2:]) < 1e-4).any()
        assert ties and ties[-1] == sentence, (own, expected)
    assert len(chosen) > 100 and found > 100 and len(ties) <= 1


@pytest.mark.parametrize(
    ("labels", "scheme", "rule"),
    [
        (["O", "B-Drug", "I-Drug", "B-Gene", "I-Gene"], "BIO", "symbols"),
        (["O", "B-Drug", "I-Drug", "B-Gene", "I-Gene"], "BIOUL", "punctuation"),
        (["O", "B", "I"], "BIO", "punctuation"),
        (["O", "B", "I"], "BIOUL", "symbols"),
    ],
)
def test_the_client_of_the_manual_finds_the_entities(
    labels, scheme, rule, make_trial, sentences, tmp_path, monkeypatch
):
    words = {"words": rule}
    common = {"sequence_length": 64}
    trial, _ = make_trial("tagging", labels, words, common=common, scheme=scheme)
    onnx_model.write(trial, str(tmp_path / "out" / "onnx"))
    assert_client_finds_the_entities(tfbio.load(trial), sentences, monkeypatch, tmp_path)


def test_the_client_of_the_manual_finds_the_entities_of_a_roberta(
    vocabulary_of_kind, sentences, tmp_path, monkeypatch
):
    folder, vocabulary = tmp_path / "theirs", vocabulary_of_kind["byte_bpe"]
    own = tokenization.load_tokenizer(vocabulary)
    hugging_face.make(
        folder,
        "RobertaForTokenClassification",
        hugging_face.TAGS,
        vocab_size=own.vocab_size,
        pad_token_id=own.pad_id,
        max_position_embeddings=80,
    )
    (folder / "vocab.txt").unlink()
    hugging_face_tokenizer.write(folder, vocabulary, False, 1, 64, of_words=True)
    onnx_model.write(str(folder), str(tmp_path / "out" / "onnx"))
    assert_client_finds_the_entities(tfbio.load(folder), sentences, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("task_type", "pairs", "changes"),
    [
        ("classification", True, {"pooling": "mean", "text_head": "mlp", "mlp_layers": 2}),
        ("multilabel", False, {"text_head": "lstm"}),
    ],
)
def test_texts_and_pairs_have_the_probabilities_of_the_api(
    task_type, pairs, changes, make_trial, sentences, tmp_path
):
    trial, _ = make_trial(task_type, ["a", "b", "c"], {"pairs": pairs}, **changes)
    onnx_model.write(trial, str(tmp_path / "onnx"))
    session, tokenizer, config = read(tmp_path / "onnx")
    short = [x for x in sentences if len(x) < 60][:40]
    inputs = list(zip(short[:20], short[20:], strict=True)) if pairs else short
    (logits,), _ = run(session, tokenizer, inputs)
    expected = tfbio.load(trial)(inputs)
    odds = np.exp(logits)
    found = odds / (1 + odds) if task_type == "multilabel" else odds / odds.sum(1, keepdims=True)
    names = [config["id2label"][str(number)] for number in range(3)]
    expected = [[x.probabilities[name] for name in names] for x in expected]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert np.std(found, axis=0).max() > 1e-2


@pytest.mark.parametrize(
    ("task_type", "known", "changes", "said"),
    [
        ("tagging", {}, {"head": "crf"}, "has a CRF, whose tags are the best sequence"),
        ("question_answering", {}, {"head": "electra"}, "has head electra, whose ends depend"),
        ("classification", {"markers": True}, {}, "has the entities of a relation to see"),
    ],
)
def test_what_cannot_be_written_is_refused(task_type, known, changes, said, make_trial, tmp_path):
    labels = {"tagging": ["O", "B", "I"], "classification": ["a", "b"]}.get(task_type, [])
    trial, _ = make_trial(task_type, labels, known, **changes)
    with pytest.raises(onnx_model.OnnxError, match=said):
        onnx_model.write(trial, str(tmp_path / "onnx"))
    assert not (tmp_path / "onnx").exists()


def test_other_outputs_are_not_kept(make_trial, tmp_path, monkeypatch):
    trial, _ = make_trial("classification", ["a", "b"], {"pairs": False})
    true_difference = comparison.onnx_difference

    def difference(session, model):
        """Compares with a model whose outputs have changed."""
        model.head.bias.assign([0.0, 1e-3])
        return true_difference(session, model)

    monkeypatch.setattr(comparison, "onnx_difference", difference)
    with pytest.raises(onnx_model.OnnxError, match="gives other outputs as ONNX, by 0.001"):
        onnx_model.write(trial, str(tmp_path / "onnx"))
    assert not list(tmp_path.glob("onnx*"))


def test_more_weights_than_a_file_holds_are_refused(
    shallow_encoder, small_shape, tmp_path, monkeypatch
):
    of_words = 4 * small_shape.vocab_size * small_shape.embedding_size
    monkeypatch.setattr(onnx_model, "_MOST_BYTES", of_words)
    with pytest.raises(onnx_model.OnnxError, match="bytes of weights, and a file of ONNX holds 2 "):
        onnx_model.write(shallow_encoder, str(tmp_path / "onnx"))
    assert not list(tmp_path.glob("onnx*"))


def test_what_is_not_installed_is_named(shallow_encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(UserError, match=r"tf2onnx is not installed: `pip install 'tfbio\[onnx\]'`"):
        onnx_model.write(shallow_encoder, str(tmp_path / "onnx"))
