"""Tests which weights of another run a run may start from."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tests import hugging_face
from tests.run_files import write_pretraining_settings
from tests.tfbio.weights.conftest import SHAPE
from tfbio.base.config import load
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights import checkpoint_settings, checkpoint_weights, same_model

HPARAMS = Path(__file__).parents[3] / "hparams"


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
        with pytest.raises(CheckpointError, match=f"ask for: its {name} has [a-z_]*="):
            same_model.require_same_model(str(folder), {**settings, **changes})
    cased = {**settings, "lower_case": not settings["lower_case"]}
    said = r"its lower_case is (True|False), not .*: make examples with --(no)?lower_case\."
    with pytest.raises(CheckpointError, match=said):
        same_model.require_same_model(str(folder), cased)


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


def test_pretraining_cannot_begin_with_a_fine_tuned_model(saved, make_trial):
    settings = json.loads((saved[1] / "config.json").read_text())
    trial, _ = make_trial("tagging", ["O", "B-Chemical", "I-Chemical"], {})
    with pytest.raises(CheckpointError, match="trial_0 holds a fine-tuned model.* pretrained mod"):
        same_model.require_same_model(trial, settings)


# Recipes that continue a published model: its class, and of its settings those that are not the
# defaults of `transformers` (bert-base-uncased, google/electra-base-discriminator, roberta-base,
# and NVIDIA's file as tfbio.convert writes it).
PUBLISHED = {
    "pubmedbert_from_bert": ("BertForPreTraining", {}),
    "bioelectra_from_electra": ("ElectraForPreTraining", {"embedding_size": 24}),
    "biolm_base_pm": ("RobertaForMaskedLM", {"layer_norm_eps": 1e-5}),
    "biomegatron_345m_cased_from_megatron": (
        "MegatronBertForPreTraining",
        {"layer_norm_eps": 1e-5},
    ),
}
# As in `transformers`, where no setting above says otherwise.
DEFAULTS = {"layer_norm_eps": 1e-12}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_continues_the_published_model(name, tmp_path):
    """At a small size: every weight comes in, those of all heads and of a generator too."""
    architecture, settings = PUBLISHED[name]
    model = hugging_face.small_model(architecture, **DEFAULTS | settings)
    hugging_face.save_model(model, tmp_path)
    config = load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    positions = model.config.max_position_embeddings
    small = {**hugging_face.SHAPE, "embedding_size": 24, "max_position_embeddings": positions}
    small["num_hidden_layers"] = model.config.num_hidden_layers
    config = dataclasses.replace(
        config,
        encoder=dataclasses.replace(config.encoder, **small),
        sequence_length=8,
        final_sequence_length=16 if config.final_sequence_length else 0,
    )
    if config.has_generator:
        # A third of the discriminator: 12 layers of 256 and 4 heads of 64 in the published one.
        sizes = {"hidden_size": 8, "intermediate_size": 32, "num_attention_heads": 1}
        made = {**DEFAULTS, **settings, **sizes}
        generator = hugging_face.small_model("ElectraForMaskedLM", **made)
        generator.electra.embeddings.load_state_dict(model.electra.embeddings.state_dict())
        (tmp_path / "generator").mkdir()
        hugging_face.save_model(generator, tmp_path / "generator")
    (tmp_path / "run").mkdir()
    digest = vocabularies.sha256_of(vocabularies.find_vocabulary(str(tmp_path)))
    known = {"vocab_sha256": digest, "lower_case": False}
    write_pretraining_settings(tmp_path / "run", config, **known)
    written = json.loads((tmp_path / "run" / "config.json").read_text())
    same_model.require_same_model(str(tmp_path), written)

    ours = Electra(config) if config.has_generator else MaskedLanguageModel(config)
    before = [variable.numpy() for variable in ours.trainable_variables]
    checkpoint_weights.restore_model(str(tmp_path), ours)
    words = model.base_model.embeddings.word_embeddings.weight.detach().numpy()
    np.testing.assert_array_equal(ours.encoder.embeddings.word, words)
    kept = [
        variable.name
        for variable, value in zip(ours.trainable_variables, before, strict=True)
        if np.array_equal(variable, value)
    ]
    assert len(before) > 40 and not kept
