"""The weights of a pretraining run, restored."""

import dataclasses

import numpy as np
import pytest

from tests.tfbio.weights.conftest import SHAPE
from tfbio.models.encoder import Encoder
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_weights,
)


def test_the_discriminators_weights_come_back(saved):
    model, folder = saved
    assert checkpoint_settings.read_encoder_config(str(folder)) == SHAPE
    encoder = Encoder(SHAPE)
    checkpoint_weights.restore_encoder(str(folder), encoder)
    for mine, original in zip(encoder.variables, model.encoder.variables, strict=True):
        np.testing.assert_array_equal(mine, original)


@pytest.mark.parametrize("field", ["hidden_size", "vocab_size", "num_hidden_layers"])
def test_a_checkpoint_of_another_shape_is_refused(saved, field):
    _, folder = saved
    other = dataclasses.replace(SHAPE, **{field: 2 * getattr(SHAPE, field)})
    with pytest.raises(CheckpointError, match=f"ckpt-30 does not fit.*{field}="):
        checkpoint_weights.restore_encoder(str(folder), Encoder(other))


def test_a_damaged_checkpoint_is_refused_by_its_prefix(saved):
    model, folder = saved
    path = folder / "ckpt-30.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="ckpt-30 is damaged or not complete"):
        checkpoint_weights.restore_model(str(folder / "ckpt-30"), model)
