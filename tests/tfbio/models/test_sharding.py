"""Tests how weights are divided, and which encoders can be."""

import pytest

from tfbio.base.errors import UsageError
from tfbio.models import sharding
from tfbio.models.encoder_config import EncoderConfig


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("layer_0/attention/query_key_value/kernel", 2),
        ("layer_11/attention/query_key_value/bias", 1),
        ("attention/output/kernel", 0),
        ("attention/output/bias", None),
        ("layer_0/intermediate/kernel", 1),
        ("intermediate/bias", 0),
        ("output/kernel", 0),
        ("output/bias", None),
        ("attention/output/LayerNorm/gamma", None),
        ("word_embeddings", 0),
        ("position_embeddings", None),
        ("generator_predictions/output_bias", 0),
        ("generator_predictions/dense/kernel", None),
        ("pooler/kernel", None),
    ],
)
def test_columns_of_the_first_product_and_rows_of_the_second(name, axis):
    assert sharding.divided_axis(name) == axis


def test_query_key_and_value_have_an_axis_of_their_own():
    assert sharding.shape_on_mesh("attention/query_key_value/kernel", [8, 24]) == [8, 3, 8]
    assert sharding.shape_on_mesh("attention/query_key_value/bias", [24]) == [3, 8]
    assert sharding.shape_on_mesh("attention/output/kernel", [8, 8]) == [8, 8]


@pytest.mark.parametrize(("words", "parts", "padded"), [(30522, 4, 30524), (8192, 8, 8192)])
def test_words_are_padded_to_a_multiple_of_the_devices(words, parts, padded):
    assert sharding.padded_words(words, parts) == padded


def test_an_encoder_that_does_not_divide_is_refused():
    encoder = EncoderConfig(num_attention_heads=12, hidden_size=768, intermediate_size=3072)
    sharding.check(encoder, 4)
    with pytest.raises(UsageError, match=r"num_attention_heads 12 .* 8 devices .* DATAx4"):
        sharding.check(encoder, 8)
    narrow = EncoderConfig(num_attention_heads=12, hidden_size=768, intermediate_size=30)
    with pytest.raises(UsageError, match=r"intermediate_size 30 .* give DATAx2"):
        sharding.check(narrow, 4)
