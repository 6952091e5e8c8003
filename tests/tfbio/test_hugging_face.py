"""Encoders that Hugging Face's `transformers` saved, against what `transformers` computes."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfbio import checkpoints, encoder, hugging_face
from tfbio.cli import UserError
from tfbio.hugging_face import HuggingFaceError

SHAPE = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
}


def make(transformers, name):
    import torch

    torch.manual_seed(3)
    if name == "bert":
        model = transformers.BertModel(transformers.BertConfig(**SHAPE))
    elif name == "bert with a head":
        model = transformers.BertForTokenClassification(transformers.BertConfig(**SHAPE))
    else:
        config = transformers.ElectraConfig(**SHAPE, embedding_size=12)
        model = transformers.ElectraForPreTraining(config)
    with torch.no_grad():
        for parameter in model.parameters():  # no zero biases, no unit scales
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


def save(model, folder):
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["bert", "bert with a head", "electra"])
def test_gives_what_transformers_gives(name, tmp_path):
    import torch
    import transformers

    model = make(transformers, name)
    save(model, tmp_path)
    ours = encoder.Encoder(checkpoints.read_encoder_config(str(tmp_path)))
    checkpoints.restore_encoder(str(tmp_path), ours)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 60, [3, 9])
    mask = np.array([[1] * 9, [1] * 5 + [0] * 4, [1] * 9])
    segments = rng.integers(0, 2, [3, 9])
    inner = getattr(model, model.base_model_prefix, model)
    with torch.no_grad():
        expected = inner(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
        ).last_hidden_state.numpy()
    found = ours(*(tf.constant(x, tf.int32) for x in (ids, mask, segments))).numpy()
    np.testing.assert_allclose(found[mask == 1], expected[mask == 1], atol=1e-5)


def test_whether_text_is_lower_cased_is_the_tokenizers(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SHAPE}))
    with pytest.raises(HuggingFaceError, match=r"vocab\.txt is missing"):
        checkpoints.read_settings(str(tmp_path))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[CLS]\nthe\n##s\n", encoding="utf-8")
    assert checkpoints.read_settings(str(tmp_path))["lower_case"] is True
    (tmp_path / "vocab.txt").write_text("[PAD]\n[CLS]\nThe\n##s\n", encoding="utf-8")
    assert checkpoints.read_settings(str(tmp_path))["lower_case"] is False
    tokenizer = tmp_path / "tokenizer_config.json"
    tokenizer.write_text('{"do_lower_case": true, "strip_accents": null}')
    assert checkpoints.read_settings(str(tmp_path))["lower_case"] is True
    tokenizer.write_text('{"do_lower_case": true, "strip_accents": false}')
    with pytest.raises(HuggingFaceError, match="strip_accents = False"):
        checkpoints.read_settings(str(tmp_path))


def test_names_of_old_checkpoints_are_known(tmp_path):
    import transformers
    from safetensors.numpy import load_file, save_file

    save(make(transformers, "bert"), tmp_path)
    shape = checkpoints.read_encoder_config(str(tmp_path))
    new, old = encoder.Encoder(shape), encoder.Encoder(shape)
    checkpoints.restore_encoder(str(tmp_path), new)
    path = tmp_path / "model.safetensors"
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("m.bias", "m.beta"): tensor
        for name, tensor in load_file(path).items()
    }
    assert "embeddings.LayerNorm.beta" in renamed
    save_file(renamed, path)
    checkpoints.restore_encoder(str(tmp_path), old)
    for one, other in zip(new.variables, old.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"model_type": "roberta"}, "a model of type roberta"),
        ({"model_type": "bert", "hidden_act": "relu"}, "hidden_act = relu: only gelu"),
        ({"model_type": "bert", "layer_norm_eps": 1e-5}, "layer_norm_eps = 1e-05"),
    ],
)
def test_another_architecture_is_refused(settings, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**SHAPE, **settings}))
    with pytest.raises(HuggingFaceError, match=words):
        checkpoints.read_settings(str(tmp_path))


def test_missing_weights_are_named(tmp_path):
    import transformers

    model = make(transformers, "bert")
    save(model, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    for changes, words in (
        ({"num_hidden_layers": 3}, r"lacks encoder\.layer\.2\.attention\.self\.query\.weight"),
        ({"intermediate_size": 40}, r"intermediate\.dense\.weight has shape \(48, 24\)"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        other = encoder.Encoder(checkpoints.read_encoder_config(str(tmp_path)))
        before = [variable.numpy() for variable in other.variables]
        with pytest.raises(HuggingFaceError, match=words):
            checkpoints.restore_encoder(str(tmp_path), other)
        for variable, value in zip(other.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"model\.safetensors cannot be read"):
        hugging_face.restore_encoder(str(tmp_path), other)
    path.unlink()
    with pytest.raises(UserError, match=r"model\.safetensors is missing: .*save_pretrained"):
        hugging_face.restore_encoder(str(tmp_path), other)
