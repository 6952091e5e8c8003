"""Small models for the tests of weights: a pretraining run, a BERT, an ALBERT."""

import json
import shutil

import pytest
import tensorflow as tf

from tests import hugging_face
from tests.run_files import write_pretraining_settings
from tests.tensorflow1 import (
    ALBERT_LAYER,
    ALBERT_REST,
    hugging_face_bert,
    save_original,
)
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.electra import Electra
from tfbio.objectives.pretraining_config import PretrainingConfig

SHAPE = EncoderConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
)


SETTINGS = PretrainingConfig(encoder=SHAPE, sequence_length=12, generator_hidden_fraction=0.5)


@pytest.fixture
def saved(tmp_path):
    """A model, and the folder it was saved in as the trainer saves it."""
    model = Electra(SETTINGS)
    tf.train.Checkpoint(model=model).write(str(tmp_path / "ckpt-30"))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-30"\n')
    write_pretraining_settings(tmp_path, SETTINGS)
    return model, tmp_path


@pytest.fixture
def bert(tmp_path):
    """A BERT of Hugging Face's, and a folder as google-research/bert releases them."""
    model, folder = hugging_face_bert(hugging_face.SHAPE), tmp_path / "bert"
    folder.mkdir()
    save_original(model, folder / "bert_model.ckpt")
    (folder / "bert_config.json").write_text(
        json.dumps({**hugging_face.SHAPE, "hidden_act": "gelu"})
    )
    (folder / "vocab.txt").write_text("[PAD]\nthe\n")
    return model, folder


@pytest.fixture
def albert(tmp_path, vocabulary_of_kind):
    """A small model of `transformers`, and its weights in a folder as Google released them."""
    import torch
    import transformers

    shape = {
        "vocab_size": 1500,
        "embedding_size": 12,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
    }
    torch.manual_seed(0)
    model = transformers.AlbertForPreTraining(transformers.AlbertConfig(**shape)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    original = "bert/encoder/transformer/group_0/inner_group_0/"
    names = {layer + a: original + b for a, b in ALBERT_LAYER.items()} | ALBERT_REST
    named = {"cls/predictions/output_bias": model.predictions.bias.detach().numpy()}
    for theirs, name in names.items():
        module = model.get_submodule(theirs)
        weight = module.weight.detach().numpy()
        if "embeddings/" in name and "LayerNorm" not in name:
            named[name] = weight
            continue
        bias = module.bias.detach().numpy()
        if name == "cls/seq_relationship":
            named |= {f"{name}/output_weights": weight, f"{name}/output_bias": bias}
        elif "LayerNorm" in name:
            named |= {f"{name}/gamma": weight, f"{name}/beta": bias}
        else:
            named |= {f"{name}/kernel": weight.T, f"{name}/bias": bias}
    folder = tmp_path / "albert"
    folder.mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-best"),
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=list(named.values()),
    )
    # It calls the form with tanh gelu.
    (folder / "albert_config.json").write_text(json.dumps({**shape, "hidden_act": "gelu"}))
    shutil.copy(vocabulary_of_kind["albert"], folder / "30k-clean.model")
    return model, folder
