"""Settings of all fine-tuning: BioELECTRA's defaults, and mistakes that are named."""

import json

import pytest

from tfbio.base.config import ConfigError, load
from tfbio.models.encoder_config import EncoderConfig
from tfbio.task_types import types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.inference import make_model

SHAPE = EncoderConfig(11, 8, 8, 1, 2, 16, 8, 2)


def test_fine_tuning_defaults_are_bioelectras():
    settings = FinetuningConfig()
    assert (settings.learning_rate, settings.train_batch_size) == (2e-4, 32)
    assert (settings.num_train_epochs, settings.num_trials) == (5.0, 5)
    assert (settings.layerwise_lr_decay, settings.layerwise_lr_exponent) == (0.8, "bioelectra")
    assert (settings.warmup_proportion, settings.weight_decay_rate) == (0.1, 0.0)
    assert (settings.hidden_dropout_prob, settings.attention_probs_dropout_prob) == (0.1, 0.1)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"gradient_clip_groups": 3, "loss_reduction": "sum"}, "must divide train_batch_size 32"),
        ({"gradient_clip_groups": 8}, "goes with loss_reduction = sum"),
        (
            {
                "gradient_clip_groups": 8,
                "loss_reduction": "sum",
                "run": {"gradient_accumulation_steps": 2},
            },
            "gradient_clip_groups .*: leave run.gradient_accumulation_steps at 1",
        ),
        ({"seed": 2**31 - 1, "num_trials": 2}, "seed, 2147483648, must be below"),
        ({"loss_reduction": "max"}, 'loss_reduction must be mean or sum, not "max"'),
        ({"regression": {"scale": 0.0}}, "regression.scale must be above 0, not 0.0"),
        ({"tagging": {"segment": -1}}, "tagging.segment must be at least 0, not -1"),
    ],
)
def test_mistakes_in_the_authors_settings_are_named(settings, said):
    with pytest.raises(ConfigError, match=said):
        load(FinetuningConfig, json.dumps(settings))


@pytest.mark.parametrize("own, expected", [(0, 0.25), (0.5, 0.5)])
def test_the_head_may_have_a_dropout_of_its_own(own, expected):
    settings = FinetuningConfig(
        head_dropout_prob=own, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.3
    )
    model = make_model(SHAPE, types.make("tagging", ("O", "B", "I"), settings), settings)
    assert model.head_config.dropout_prob == expected
    assert model.encoder.config.hidden_dropout_prob == 0.25
    assert model.encoder.config.attention_probs_dropout_prob == 0.3


@pytest.mark.parametrize(
    "task_type, changes, said",
    [
        ("tagging", {"dropout": False}, "tagging.dropout = false is for none: give one of the two"),
        ("question_answering", {"head": "electra"}, "head electra has none: leave it at 0"),
    ],
)
def test_a_dropout_of_a_head_without_dropout_is_refused(task_type, changes, said):
    group = {task_type: types.TYPES[task_type].Settings(**changes)}
    types.make(task_type, ("O", "B", "I"), FinetuningConfig(**group))
    with pytest.raises(ConfigError, match=f"^head_dropout_prob .*{said}"):
        types.make(task_type, ("O", "B", "I"), FinetuningConfig(**group, head_dropout_prob=0.5))
