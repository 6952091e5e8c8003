"""One text a row gives the logits that packed rows give."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import row_logits
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel

SHAPE = EncoderConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
)
HEADS = {
    "tokens": HeadConfig(3, of_tokens=True),
    "tokens, lstm": HeadConfig(3, of_tokens=True, token_layer="lstm"),
    "mean, mlp": HeadConfig(3, of_tokens=False, pooling="mean", text_layer="mlp"),
    "first, lstm": HeadConfig(3, of_tokens=False, token_layer="lstm"),
    "first, gelu": HeadConfig(3, of_tokens=False, text_layer="gelu"),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_logits_are_those_of_packed_rows(name):
    model = TaskModel(SHAPE, HEADS[name])
    rng = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign_add(rng.normal(0, 0.3, variable.shape))
    lengths = np.array([10, 4, 7])
    mask = (np.arange(10) < lengths[:, None]).astype(np.int32)
    ids, segments = mask * rng.integers(1, 50, mask.shape), mask * rng.integers(0, 2, mask.shape)
    arguments = [tf.constant(values, tf.int32) for values in (ids, mask, segments)]
    found = row_logits.compute(model, *arguments).numpy()
    # The same texts end to end in one row.
    packed = {
        "input_ids": ids[mask == 1],
        "segment_ids": segments[mask == 1],
        "position_ids": np.concatenate([np.arange(length) for length in lengths]),
        "document_ids": np.repeat([1, 2, 3], lengths),
    }
    batch = {name: tf.constant(values[None], tf.int32) for name, values in packed.items()}
    expected = model(batch | {"first": tf.constant([0, 10, 14])}).numpy()
    found = found[mask == 1] if found.ndim == 3 else found
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 0.1
