"""The settings of TensorFlow 1 checkpoints, and those that are refused."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import FOLDER, recorded_config
from tests.tensorflow1 import copy_recording
from tfbio.base import config
from tfbio.base.errors import UserError
from tfbio.export import conversion
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import electra
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    checkpoint_weights,
    hugging_face_settings,
    tensorflow1_checkpoint,
    tensorflow1_settings,
    tensorflow1_weights,
)
from tfbio.weights.tensorflow1_checkpoint import TensorFlow1Error


def test_an_electra_is_known_by_its_tensors(tmp_path):
    folder = str(copy_recording(tmp_path / "electra", 0, 4))
    expected = recorded_config()
    found = checkpoint_settings.pretraining_config(checkpoint_settings.read_settings(folder))
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    assert dataclasses.replace(found.encoder, **no_dropout) == expected.encoder
    assert dataclasses.replace(found.generator, **no_dropout) == expected.generator
    assert tensorflow1_settings.read_generator(folder) == found.generator
    assert checkpoint_source.newest_weights(folder) == f"{folder}/model.ckpt-4"
    model, other = electra.Electra(found), electra.Electra(found)
    checkpoint_weights.restore_model(folder, model)
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), other)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    # Of generator and discriminator, as `transformers` loads them, with the same outputs.
    conversion.to_hugging_face(f"{folder}/model.ckpt-0", str(tmp_path / "converted"))
    assert hugging_face_settings.read_generator(str(tmp_path / "converted")).hidden_size == 24


def test_the_newest_checkpoint_is_that_of_the_last_step(tmp_path):
    """And not of the last name: 10 comes after 4."""
    folder = copy_recording(tmp_path / "electra", 4)
    for path in FOLDER.glob("model.ckpt-4.*"):
        shutil.copy(path, folder / path.name.replace("-4.", "-10."))
    assert checkpoint_source.newest_weights(str(folder)) == f"{folder}/model.ckpt-10"


def test_a_run_of_a_cased_checkpoint_reads_text_as_it_is(tmp_path):
    folder = copy_recording(tmp_path / "electra", 4)
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(re.sub("(?m)^[a-z]", lambda x: x[0].upper(), text))
    settings = config.build(PretrainingConfig, tensorflow1_settings.read_run(str(folder)), "x")
    conversion.to_tfbio_with_optimizer(str(folder), str(tmp_path / "run"), settings)
    assert checkpoint_settings.read_settings(str(tmp_path / "run"))["lower_case"] is False


def test_what_cannot_be_known_is_asked_for(tmp_path, bert):
    folder = copy_recording(tmp_path / "electra", 4, heads=0)
    with pytest.raises(TensorFlow1Error, match="48 is no multiple of 64: put a bert_config.json"):
        checkpoint_settings.read_settings(str(folder))
    for path in FOLDER.glob("model.ckpt-4.*"):
        shutil.copy(path, folder / path.name.replace("model", "other"))
    with pytest.raises(TensorFlow1Error, match=r"several checkpoints, model.ckpt and other.ckpt:"):
        checkpoint_settings.read_settings(str(folder))
    _, folder = bert
    for broken in ('{"num_attention_heads": 4', "[]", ""):
        (folder / "bert_config.json").write_text(broken)
        with pytest.raises(TensorFlow1Error, match="bert_config.json is no JSON object: mend it"):
            checkpoint_settings.read_settings(str(folder))
    (folder / "bert_config.json").write_text('{"num_attention_heads": 3}')
    assert checkpoint_settings.read_settings(str(folder))["encoder"]["num_attention_heads"] == 3
    (folder / "bert_config.json").write_text('{"hidden_size": 24, "hidden_act": "relu"}')
    with pytest.raises(TensorFlow1Error, match='has hidden_act = "relu": only "gelu" and'):
        checkpoint_settings.read_settings(str(folder))
    (folder / "vocab.txt").unlink()
    (folder / "bert_config.json").write_text('{"hidden_size": 24, "num_attention_heads": 4}')
    with pytest.raises(UserError, match=r"bert has no vocab.txt,"):
        checkpoint_settings.read_settings(str(folder))
    # Without the step there is nothing to go on with exactly.
    assert not tensorflow1_checkpoint.has_state(str(folder))
    assert tensorflow1_checkpoint.has_state(str(tmp_path / "electra" / "model.ckpt-4"))
    # What TensorFlow 2 wrote is another's.
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "ckpt-1"))
    assert (
        tensorflow1_checkpoint.find(str(tmp_path)) is None
        and tensorflow1_checkpoint.find(str(tmp_path / "x")) is None
    )


def test_settings_of_another_model_are_refused(tmp_path):
    folder = copy_recording(tmp_path / "electra", 4)
    wanted = recorded_config()
    other = dataclasses.replace(wanted.encoder, num_attention_heads=6)
    settings = dataclasses.replace(wanted, encoder=other)
    with pytest.raises(TensorFlow1Error, match="encoder.num_attention_heads = 4, not 6: give"):
        conversion.to_tfbio_with_optimizer(str(folder), str(tmp_path / "run"), settings)


def test_a_run_with_another_optimizer_does_not_go_on(tmp_path, monkeypatch):
    """It is refused before any weight is read."""
    folder = copy_recording(tmp_path / "electra", 4)
    settings = dataclasses.replace(recorded_config(), optimizer="lamb")
    monkeypatch.setattr(tensorflow1_weights, "load", None)
    with pytest.raises(TensorFlow1Error, match="averages of Adam.*: give --set optimizer=adamw"):
        conversion.to_tfbio_with_optimizer(str(folder), str(tmp_path / "run"), settings)
    assert not (tmp_path / "run").exists()


def test_attention_heads_that_no_file_tells_are_said(tmp_path, capsys):
    """No tensor's shape depends on them, so another number computes something else."""
    folder = copy_recording(tmp_path / "electra", 4)
    encoder = recorded_config().encoder
    for stated in folder.glob("*.json"):
        stated.unlink()
    tensorflow1_settings.require_encoder(str(folder), encoder)
    said = f"does not tell how many attention heads it has: {encoder.num_attention_heads}, by"
    assert said in capsys.readouterr().out


def test_an_albert_without_its_settings_is_refused(albert):
    _, folder = albert
    path = folder / "albert_config.json"
    stated = json.loads(path.read_text())
    for change in ({"hidden_act": "relu"}, {"num_hidden_groups": 2}, {"inner_group_num": 2}):
        path.write_text(json.dumps(stated | change))
        (name,) = change
        with pytest.raises(TensorFlow1Error, match=f"has {name} = "):
            checkpoint_settings.read_settings(str(folder))
    path.unlink()
    with pytest.raises(TensorFlow1Error, match=r"how often its one layer is used: put its albert_"):
        checkpoint_settings.read_settings(str(folder))


def test_a_model_with_layer_normalization_first_is_none_of_tensorflow_1(bert):
    _, folder = bert
    shape = tensorflow1_settings.read_settings(str(folder))["encoder"]
    tensorflow1_settings.require_encoder(str(folder), EncoderConfig(**shape))
    first = EncoderConfig(**shape | {"layer_norm_first": True})
    with pytest.raises(UserError, match="with encoder.layer_norm_first = False, not True"):
        tensorflow1_settings.require_encoder(str(folder), first)
