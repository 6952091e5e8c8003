"""The settings of models of `transformers`, and those that are refused."""

import json

import pytest

from tests.hugging_face import SHAPE
from tfbio.text.hugging_face_tokenizer import TokenizerError
from tfbio.weights import checkpoint_settings, hugging_face_settings
from tfbio.weights.hugging_face_settings import HuggingFaceError


def test_whether_text_is_lower_cased_is_the_tokenizers(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SHAPE}))
    with pytest.raises(TokenizerError, match=r"has no vocab\.txt, .* save_pretrained"):
        checkpoint_settings.read_settings(str(tmp_path))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[CLS]\nthe\n##s\n", encoding="utf-8")
    assert checkpoint_settings.read_settings(str(tmp_path))["lower_case"] is True
    (tmp_path / "vocab.txt").write_text("[PAD]\n[CLS]\nThe\n##s\n", encoding="utf-8")
    assert checkpoint_settings.read_settings(str(tmp_path))["lower_case"] is False


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"model_type": "xlnet"}, 'model_type = "xlnet": give a model of .* bert, electra'),
        (
            {"model_type": "bert", "hidden_act": "relu"},
            'hidden_act = "relu": only "gelu" and "gelu_new"',
        ),
        (
            {"model_type": "bert", "position_embedding_type": "relative_key"},
            'position_embedding_type = "relative_key": only "absolute" can',
        ),
        ({"model_type": "bert", "is_decoder": True}, "is_decoder = true: only false"),
        ({"model_type": "roberta", "add_cross_attention": True}, "add_cross_attention = true"),
        ({"model_type": "roberta", "pad_token_id": None}, "pad_token_id = null"),
        ({"model_type": "albert"}, "lacks embedding_size"),
        (
            {"model_type": "albert", "embedding_size": 12, "num_hidden_groups": 2},
            "num_hidden_groups = 2: only 1",
        ),
        (
            {"model_type": "albert", "embedding_size": 12, "inner_group_num": 2},
            "inner_group_num = 2: only 1",
        ),
        ({"model_type": "bert", "num_attention_heads": 5}, "must be a multiple of"),
    ],
)
def test_another_architecture_is_refused(settings, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**SHAPE, **settings}))
    with pytest.raises(HuggingFaceError, match=words):
        checkpoint_settings.read_settings(str(tmp_path))


@pytest.mark.parametrize("family", hugging_face_settings.FAMILIES)
def test_what_config_json_leaves_out_is_as_in_transformers(family, tmp_path):
    """Its own `save_pretrained` writes all, but a file that somebody has written may not."""
    import transformers

    sizes = SHAPE | ({"embedding_size": 12} if family in ("albert", "electra") else {})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, **sizes}))
    found = hugging_face_settings.read_shape(str(tmp_path))
    theirs = transformers.CONFIG_MAPPING[family](**sizes)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "hidden_act"):
        assert getattr(found, name) == getattr(theirs, name), name
    for name in ("layer_norm_eps", "initializer_range", "type_vocab_size"):
        assert getattr(found, name) == getattr(theirs, name), name
