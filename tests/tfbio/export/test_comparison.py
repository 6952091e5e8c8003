"""The difference of two models' outputs, which a conversion is checked by."""

import dataclasses

import numpy as np
import pytest

from tfbio.export import comparison
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig

SHAPE = EncoderConfig(
    vocab_size=50,
    embedding_size=16,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
)
ELECTRA = PretrainingConfig(encoder=SHAPE, sequence_length=12, generator_hidden_fraction=0.5)
MLM = dataclasses.replace(ELECTRA, objective="mlm", sentence_pair_head=True)


def last_weights(model):
    """Returns one variable of each head."""
    if isinstance(model, Electra):
        return [model.discriminator_output.bias, model.generator_head.output_bias]
    return [model.head.output_bias, model.sentence_pair_head.classifier.bias]


@pytest.mark.parametrize(
    ("model_class", "config"), [(Electra, ELECTRA), (MaskedLanguageModel, MLM)]
)
@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("change", [0.25, np.nan])
def test_a_difference_in_any_head_counts(model_class, config, head, change):
    one, other = model_class(config), model_class(config)
    for variable, value in zip(one.variables, other.variables, strict=True):
        variable.assign(value)
    assert comparison.pretraining_difference(one, other) == 0
    bias = last_weights(one)[head]
    bias.assign(bias + change)
    difference = comparison.pretraining_difference(one, other)
    assert difference == pytest.approx(change, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("of_tokens", [False, True])
def test_a_difference_of_logits_counts(of_tokens):
    one, other = (TaskModel(SHAPE, HeadConfig(3, of_tokens)) for _ in range(2))
    for variable, value in zip(one.variables, other.variables, strict=True):
        variable.assign(value)
    assert comparison.fine_tuned_difference(one, other) == 0
    one.head.bias.assign([0.0, -0.5, 0.0])
    assert comparison.fine_tuned_difference(one, other) == pytest.approx(0.5, abs=1e-5)
