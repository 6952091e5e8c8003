"""Checkpoints of a small model."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.base.cli import UserError
from tfbio.training.checkpointing import Checkpointer
from tfbio.training.optimization import Adam


@pytest.fixture
def make():
    """A layer and its optimizer, with all their variables."""

    def pair():
        layer = keras.layers.Dense(2)
        layer.build([None, 3])
        optimizer = Adam(0.1)
        optimizer._create_all_weights(layer.trainable_variables)
        return layer, optimizer

    return pair


def step(layer, optimizer):
    gradients = [tf.ones_like(variable) for variable in layer.trainable_variables]
    optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))


def test_what_was_saved_is_restored(make, tmp_path):
    layer, optimizer = make()
    saves = Checkpointer(layer, optimizer, str(tmp_path), keep=2)
    for _ in range(3):
        step(layer, optimizer)
        saves.save()
    saves.save()  # is saved already
    names = sorted(path.name for path in tmp_path.glob("ckpt-*.index"))
    assert names == ["ckpt-2.index", "ckpt-3.index"]
    other = make()
    Checkpointer(*other, str(tmp_path), keep=2, writes=False).restore(str(tmp_path / "ckpt-3"))
    pairs = zip(
        [*layer.variables, *optimizer.variables()],
        [*other[0].variables, *other[1].variables()],
        strict=True,
    )
    for one, two in pairs:
        np.testing.assert_array_equal(one, two)


def test_who_does_not_write_saves_nothing(make, tmp_path):
    Checkpointer(*make(), str(tmp_path), keep=1, writes=False).save()
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_are_not_saved(make, tmp_path):
    layer, optimizer = make()
    layer.bias.assign([np.nan, 0.0])
    with pytest.raises(UserError, match="bias:0 is not finite at step 0: nothing of it is saved"):
        Checkpointer(layer, optimizer, str(tmp_path), keep=1).save()
    assert not list(tmp_path.iterdir())
