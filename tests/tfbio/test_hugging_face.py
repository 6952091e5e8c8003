"""Encoders that Hugging Face's `transformers` saved, against what `transformers` computes."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfbio import checkpoints, encoder, hugging_face
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


@pytest.mark.parametrize("name", ["bert", "bert with a head", "electra"])
def test_gives_what_transformers_gives(name, tmp_path):
    import torch
    import transformers

    model = make(transformers, name)
    model.save_pretrained(tmp_path)
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
    assert checkpoints.read_settings(str(tmp_path))["lower_case"] is True
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert checkpoints.read_settings(str(tmp_path))["lower_case"] is False


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
    model.save_pretrained(tmp_path)
    config = checkpoints.read_encoder_config(str(tmp_path))
    ours = encoder.Encoder(config)
    before = [variable.numpy() for variable in ours.variables]

    settings = json.loads((tmp_path / "config.json").read_text())
    for changes, words in (
        ({"num_hidden_layers": 3}, r"lacks encoder\.layer\.2\.attention\.self\.query\.weight"),
        ({"intermediate_size": 40}, r"intermediate\.dense\.weight has shape \(48, 24\)"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        larger = encoder.Encoder(checkpoints.read_encoder_config(str(tmp_path)))
        with pytest.raises(HuggingFaceError, match=words):
            checkpoints.restore_encoder(str(tmp_path), larger)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(HuggingFaceError, match=r"model\.safetensors is missing: .*save_pretrained"):
        hugging_face.restore_encoder(str(tmp_path), ours)
    for variable, value in zip(ours.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)
