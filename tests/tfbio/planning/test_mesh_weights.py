"""Tests the parts of a model on each device, against a model's variables and hand counts."""

import collections
import dataclasses
import re

import numpy as np
import pytest

from tests.tfbio.objectives.test_objective_cost import SHAPE, WIDE, settings
from tfbio.base.device_flags import MeshShape
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import objective_cost
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.planning import mesh_weights

MEGATRON = dataclasses.replace(WIDE, layer_norm_first=True, vocab_size=301)
PAIRS = {"objective": "mlm", "sentence_pair_head": True, "sentence_pair_loss": True}
OPTIONS = {
    "megatron": {**PAIRS, "encoder": MEGATRON},
    "bert": {"objective": "mlm", "encoder": WIDE},
    "albert": {**PAIRS, "encoder": dataclasses.replace(SHAPE, share_layers=True)},
}
# Shoeybi et al. (2019), section 3, figures 3 and 6: of the first product of attention and of the
# feed-forward network the columns, of the second the rows, and the words.
DIVIDED = {
    "attention/query_key_value/kernel": -1,
    "attention/query_key_value/bias": -1,
    "attention/output/kernel": 0,
    "intermediate/kernel": -1,
    "intermediate/bias": -1,
    "output/kernel": 0,
    "word_embeddings": 0,
    "generator_predictions/output_bias": 0,
}


def variables(config):
    """Returns how many variables of each name and shape a model has."""
    model = MaskedLanguageModel(config)
    named = (
        (re.sub(r"^(encoder|layer_\d+|embeddings)/", "", each.name.split(":")[0]), each.shape)
        for each in model.trainable_variables
    )
    return collections.Counter((name, tuple(shape)) for name, shape in named)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_weights_are_those_of_the_model(name):
    config = settings(**OPTIONS[name])
    counted = {(each.name, each.shape): each.number for each in mesh_weights.weights(config)}
    assert counted == variables(config)
    total = sum(count * int(np.prod(shape)) for (_, shape), count in counted.items())
    assert total == objective_cost.parameters(config).all


@pytest.mark.parametrize("data, model", [(1, 1), (1, 2), (2, 2), (4, 1), (3, 2)])
def test_the_numbers_of_a_device_are_the_largest_part_of_each_variable(data, model):
    """NumPy divides arrays of the variables' shapes; the rows of words are padded before."""
    config = settings(**OPTIONS["megatron"])
    parameters = slots = 0
    for (name, shape), count in variables(config).items():
        array = np.zeros(shape, bool)
        axis = DIVIDED.get(name)
        if "query_key_value" in name:
            array = array.reshape(*shape[:-1], 3, -1)
        if axis is not None:
            axis %= array.ndim
            array = np.array_split(array, model, axis)[0]
        average = array
        for other in range(array.ndim):
            if other != axis and array.shape[other] % data == 0:
                average = np.split(array, data, other)[0]
                break
        parameters += count * array.size
        slots += count * 2 * average.size
    assert mesh_weights.numbers(config, MeshShape(data, model)) == (parameters, slots)


def test_biomegatron_345m_on_eight_devices():
    """Counted by hand; 30,522 words become 30,528, of which each device has 3,816."""
    size, layers, words = 1024, 24, 3816
    encoder = EncoderConfig(
        embedding_size=size,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=16,
        intermediate_size=4 * size,
        layer_norm_first=True,
    )
    config = settings(**PAIRS | {"encoder": encoder})
    # Four products of attention and eight of the feed-forward network, with three and four biases;
    # whole on each device: the other two biases, and two LayerNorms.
    layer = 12 * size * size // 8 + 7 * size // 8 + 2 * size + 4 * size
    whole = (512 + 2) * size + 2 * size  # positions and segments, and the last LayerNorm
    whole += size * size + size + 2 * size  # the head of words: a product and a LayerNorm
    whole += size * size + size + 2 * size + 2  # the head of pairs: two products
    parameters = layers * layer + words * size + words + whole
    counted = mesh_weights.numbers(config, MeshShape(1, 8))
    assert counted == (parameters, 2 * parameters)
