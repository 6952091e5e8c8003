"""Files of Megatron-LM and NeMo with a model of `transformers`, whose outputs they must give."""

import argparse
import json
import os
import re

import numpy as np
import pytest
import torch

from tests.hugging_face import compute, padded_batch, save_model, small_model
from tests.megatron import flat_state, write_megatron, write_nemo
from tfbio.base.errors import UserError
from tfbio.export import conversion_of_megatron
from tfbio.weights import megatron_checkpoint


@pytest.fixture
def peer(tmp_path):
    """A model whose heads are not of 64, with a vocabulary of fewer tokens than rows."""
    model = small_model("MegatronBertForPreTraining")
    save_model(model, tmp_path)
    lines = (tmp_path / "vocab.txt").read_text().splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(lines[:-7]) + "\n")
    os.remove(tmp_path / "config.json")
    return model


@pytest.mark.parametrize(
    ("write", "version"),
    [
        (write_megatron, 0),
        (write_megatron, 1),
        (write_megatron, 2),
        (write_nemo, 0),
        (write_nemo, 2),
    ],
)
def test_transformers_computes_the_same_with_the_converted_model(write, version, peer, tmp_path):
    import transformers

    path, target = write(tmp_path, peer, version), tmp_path / "converted"
    assert megatron_checkpoint.is_one(str(path))
    conversion_of_megatron.to_hugging_face(str(path), str(target))
    theirs, found = transformers.AutoModelForPreTraining.from_pretrained(
        target, output_loading_info=True
    )
    assert type(theirs) is type(peer) and not any(found.values()), found
    if path.suffix == ".nemo":  # in half precision
        peer.half().float()
    batch = padded_batch(peer)
    expected = compute(peer, batch)
    for name, values in compute(theirs.eval(), batch).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5)
    settings = json.loads((target / "config.json").read_text())
    for name in ("layer_norm_eps", "hidden_act", "vocab_size", "num_attention_heads"):
        assert settings[name] == getattr(peer.config, name)
    assert len((target / "vocab.txt").read_text().splitlines()) == peer.config.vocab_size - 7
    # Nothing is left beside it.
    assert not [x for x in tmp_path.iterdir() if x.name.startswith("tmp") or "unfin" in x.name]


class Code:
    """Makes a folder as it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("form", ["pt", "nemo"])
def test_code_in_a_pickle_is_refused_and_does_not_run(form, peer, tmp_path):
    made = str(tmp_path / "made")
    if form == "pt":
        path = tmp_path / "model_optim_rng.pt"
        torch.save({"model": {"language_model": Code(made)}}, path)
    else:
        path = write_nemo(tmp_path, peer, 2, {"model.lm_head.bias": Code(made)})
    # It names a file that is still there.
    said = rf"^{re.escape(str(path))}.* other things than tensors, which could be code and are "
    said += r"not read \(\w+\.mkdir\): get it again"
    with pytest.raises(UserError, match=said):
        conversion_of_megatron.to_hugging_face(str(path), str(tmp_path / "converted"))
    assert not os.path.exists(made) and not (tmp_path / "converted").exists()


# Of another model, or of a part of one.
OTHER_SETTINGS = {
    "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 2,
    "model_parallel_size": 2,
    "apply_residual_connection_post_layernorm": True,
    "transformer_block_type": "post_ln",
    "position_embedding_type": "rope",
    "normalization": "rmsnorm",
    "activation": "swiglu",
}


def test_other_models_and_parts_of_one_are_refused(peer, tmp_path):
    vocabulary = (tmp_path / "vocab.txt").read_bytes()

    def refused(words, path):
        with pytest.raises(UserError, match=words):
            conversion_of_megatron.to_hugging_face(str(path), str(tmp_path / "converted"))
        assert not (tmp_path / "converted").exists()
        (tmp_path / "vocab.txt").write_bytes(vocabulary)

    def megatron(state):
        path = tmp_path / "model_optim_rng.pt"
        torch.save(state, path)
        return path

    state = flat_state(peer, 2)
    qkv = "language_model.transformer.layers.1.attention.query_key_value.weight"
    refused("has no model: give", megatron({"weights": {}}))
    refused("lacks language_model.embedding.word_emb", megatron({"model": {"lm_head": {}}}))
    half = {**state, qkv: state[qkv][:36].clone()}
    refused(r"shape \(36, 24\), a part of a model", megatron({"model": half}))
    rotary = {**state, "language_model.rotary.weight": torch.ones([2])}
    refused("has language_model.rotary.weight, which a BERT", megatron({"model": rotary}))
    lacking = {name: x for name, x in state.items() if name != "lm_head.dense.bias"}
    refused("lacks cls.predictions.transform.dense.bias", megatron({"model": lacking}))
    settings = argparse.Namespace(num_attention_heads=5)
    refused("num_attention_heads = 5: it must be", megatron({"model": state, "args": settings}))
    for name, value in OTHER_SETTINGS.items():
        settings = argparse.Namespace(**{name: value})
        refused(f"has {name} = {value}: only", megatron({"model": state, "args": settings}))

    refused(
        "transformer_block_type = post_ln: only pre_ln can",
        write_nemo(tmp_path, peer, 2, settings={"transformer_block_type": "post_ln"}),
    )
    path = write_nemo(tmp_path, peer, 2, settings={"tokenizer": {"vocab_file": "nemo:x"}})
    refused("has 0 files x, not a single one", path)
    path.write_bytes(path.read_bytes()[:-2000])
    refused("BioMegatron.nemo is damaged or not complete", path)
    bomb = write_nemo(tmp_path, peer, 2, {"zeros": torch.zeros([10**7])})
    refused("would unpack to more than .* bytes", bomb)


@pytest.mark.parametrize("epsilon", ["layernorm_epsilon", "norm_epsilon"])
def test_the_numbers_of_the_model_are_kept(epsilon, peer, tmp_path):
    numbers = {epsilon: 1e-3, "hidden_dropout": 0, "attention_dropout": 0.05}
    settings = argparse.Namespace(num_attention_heads=4, init_method_std=0.03, **numbers)
    path = tmp_path / "model_optim_rng.pt"
    torch.save({"model": flat_state(peer, 2), "args": settings}, path)
    conversion_of_megatron.to_hugging_face(str(path), str(tmp_path / "converted"))
    found = json.loads((tmp_path / "converted" / "config.json").read_text())
    assert (found["hidden_dropout_prob"], found["attention_probs_dropout_prob"]) == (0.0, 0.05)
    assert (found["layer_norm_eps"], found["initializer_range"]) == (1e-3, 0.03)
    setattr(settings, epsilon, "1e-5")
    torch.save({"model": flat_state(peer, 2), "args": settings}, path)
    with pytest.raises(UserError, match=f"has a {epsilon} that is no number such as 1e-05"):
        conversion_of_megatron.to_hugging_face(str(path), str(tmp_path / "other"))


def test_later_versions_join_as_version_2_does():
    joined = np.arange(24.0, dtype=np.float32).reshape(12, 2)
    found = [megatron_checkpoint._split(joined, 2, version) for version in (0, 2.0, 3.0)]
    np.testing.assert_array_equal(found[2], found[1])
    assert not np.array_equal(found[2], found[0])


@pytest.mark.parametrize("openai", [True, False])
def test_heads_and_activation_of_a_file_that_does_not_say(openai, tmp_path):
    model = small_model("MegatronBertForPreTraining", hidden_size=128, num_attention_heads=2)
    save_model(model, tmp_path)
    os.remove(tmp_path / "config.json")
    path, settings = tmp_path / "model_optim_rng.pt", argparse.Namespace(openai_gelu=openai)
    content = {"model": flat_state(model, 2), "checkpoint_version": 2.0, "args": settings}
    torch.save(content, path)
    conversion_of_megatron.to_hugging_face(str(path), str(tmp_path / "converted"))
    found = json.loads((tmp_path / "converted" / "config.json").read_text())
    assert found["num_attention_heads"] == 2 and found["layer_norm_eps"] == 1e-5
    assert found["hidden_act"] == ("gelu_new" if openai else "gelu")
