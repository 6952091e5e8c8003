"""Tests which weights of another run a run may start from."""

import dataclasses
import json

import pytest

from tests.run_files import write_pretraining_settings
from tests.tfbio.weights.conftest import SHAPE
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights import checkpoint_settings, same_model


def test_the_run_must_have_the_model_of_the_settings(saved):
    _, folder = saved
    settings = json.loads((folder / "config.json").read_text())
    same_model.require_same_model(str(folder), settings)
    assert checkpoint_settings.read_settings(str(folder))["encoder"] == dataclasses.asdict(SHAPE)
    # As large in another notation.
    same_model.require_same_model(str(folder), {**settings, "generator_hidden_fraction": 0.501})
    for name, changes in (
        ("encoder", {"encoder": {**settings["encoder"], "hidden_act": "gelu_new"}}),
        ("encoder", {"encoder": {**settings["encoder"], "layer_norm_eps": 1e-5}}),
        ("generator", {"generator_hidden_fraction": 1.0}),
        ("generator", {"generator_num_attention_heads": 2}),
    ):
        with pytest.raises(CheckpointError, match=f"ask for: its {name} is "):
            same_model.require_same_model(str(folder), {**settings, **changes})


def test_a_classifier_of_pairs_cannot_begin_with_a_model_without_one(tmp_path):
    plain = PretrainingConfig(objective="mlm", encoder=SHAPE, sequence_length=8)
    with_pairs = dataclasses.replace(plain, sentence_pair_head=True, sentence_pair_loss=True)
    settings = {}
    for name, config in (("plain", plain), ("pairs", with_pairs)):
        (tmp_path / name).mkdir()
        write_pretraining_settings(tmp_path / name, config)
        settings[name] = json.loads((tmp_path / name / "config.json").read_text())
    with pytest.raises(CheckpointError, match="plain holds no classifier of sentence pairs: start"):
        same_model.require_same_model(str(tmp_path / "plain"), settings["pairs"])
    same_model.require_same_model(str(tmp_path / "pairs"), settings["pairs"])
    same_model.require_same_model(str(tmp_path / "pairs"), settings["plain"])
