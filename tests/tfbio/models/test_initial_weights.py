"""Initial weights are the same, whenever they are drawn."""

import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.models import initial_weights
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig

SHAPE = EncoderConfig(
    vocab_size=30,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)


def encoder_and_head():
    """Makes an encoder with a head of Keras', always with the same seed."""
    keras.utils.set_random_seed(4)
    encoder, head = Encoder(SHAPE), keras.layers.Dense(5, name="head")
    head.build([None, 8])
    return encoder, head


def assert_same(one, other):
    for mine, its in zip(one.variables, other.variables, strict=True):
        assert mine.name == its.name
        np.testing.assert_array_equal(its, mine, err_msg=mine.name)


def test_weights_that_are_drawn_meanwhile_are_those_that_are_drawn_at_once():
    at_once = encoder_and_head()
    caller, others = threading.get_ident(), set()

    class Watched(keras.initializers.TruncatedNormal):
        def __call__(self, *arguments, **named):
            others.add(threading.get_ident() != caller)
            return super().__call__(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.initializers, "TruncatedNormal", Watched)
        with initial_weights.drawn_meanwhile() as drawing:
            meanwhile = encoder_and_head()
        drawing.finish()
        drawing.finish()  # does no harm
    assert others == {True}
    for one, other in zip(at_once, meanwhile, strict=True):
        assert_same(one, other)


def test_what_is_made_after_restored_weights_is_drawn_as_without_them():
    at_once, head = encoder_and_head()
    with initial_weights.restored_weights():
        zeros, same_head = encoder_and_head()
    assert_same(head, same_head)
    # But for LayerNorm's scales, which are not drawn.
    weights = zip(at_once.variables, zeros.variables, strict=True)
    weights = [pair for pair in weights if "gamma" not in pair[0].name]
    assert sum(tf.reduce_any(drawn != 0).numpy() for drawn, _ in weights) == 12
    for _, zero in weights:
        assert not tf.reduce_any(zero != 0), zero.name


def test_weights_that_another_thread_restores_are_drawn_here():
    at_once, _ = encoder_and_head()
    begun, ended = threading.Event(), threading.Event()

    def restore():
        with initial_weights.restored_weights():
            begun.set()
            ended.wait(60)

    other = threading.Thread(target=restore)
    other.start()
    assert begun.wait(60)
    meanwhile, _ = encoder_and_head()
    ended.set()
    other.join()
    assert_same(at_once, meanwhile)


def test_a_weight_that_cannot_be_drawn_is_told():
    def fail(*_):
        raise MemoryError("no memory for it")

    with initial_weights.drawn_meanwhile() as drawing:
        encoder = Encoder(SHAPE)
        drawing.draw(encoder.variables[0], fail)
    with pytest.raises(MemoryError, match="no memory for it"):
        drawing.finish()
