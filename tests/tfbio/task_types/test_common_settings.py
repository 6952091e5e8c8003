"""Settings of all fine-tuning: BioELECTRA's defaults, and mistakes that are named."""

import json

import pytest

from tfbio.base.config import ConfigError, load
from tfbio.task_types.finetuning_config import FinetuningConfig


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
        ({"loss_reduction": "max"}, 'loss_reduction must be mean or sum, not "max"'),
        ({"regression": {"scale": 0.0}}, "regression.scale must be above 0, not 0.0"),
        ({"tagging": {"segment": -1}}, "tagging.segment must be at least 0, not -1"),
    ],
)
def test_mistakes_in_the_authors_settings_are_named(settings, said):
    with pytest.raises(ConfigError, match=said):
        load(FinetuningConfig, json.dumps(settings))
