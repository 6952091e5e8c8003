"""The parts of a batch; that training comes out the same is in test_pretrainer.py."""

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from tfbio.base.device_flags import MeshShape
from tfbio.models import randomness
from tfbio.objectives import accumulation
from tfbio.objectives.masking import MaskedBatch
from tfbio.training.mesh import Mesh

SEED = tf.constant([1, 2])


def parts_of(count):
    one = tf.constant(1.0)
    return [accumulation.Part(tf.constant(index), count, one, one, count) for index in range(count)]


def test_parts_draw_what_the_whole_draws():
    whole = randomness.global_uniform([12, 5], SEED)
    rows = [part.uniform([4, 5], SEED) for part in parts_of(3)]
    np.testing.assert_array_equal(tf.concat(rows, 0), whole)


def test_replicas_and_parts_draw_what_the_whole_draws(two_devices):
    whole = randomness.global_uniform([12, 5], SEED)
    rows = two_devices.run(lambda: tf.concat([p.uniform([2, 5], SEED) for p in parts_of(3)], 0))
    rows = two_devices.experimental_local_results(rows)
    np.testing.assert_array_equal(tf.concat(rows, 0), whole)


def test_normal_numbers_of_replicas_and_parts_are_those_of_the_whole(two_devices):
    whole = randomness.global_normal([12, 5, 3], SEED)
    rows = two_devices.run(lambda: tf.concat([p.normal([2, 5, 3], SEED) for p in parts_of(3)], 0))
    rows = two_devices.experimental_local_results(rows)
    # The last few numbers of an array have another kernel, whose logarithm rounds otherwise.
    np.testing.assert_allclose(tf.concat(rows, 0), whole, rtol=1e-6, atol=1e-6)


def test_every_part_drops_out_others():
    seeds = {tuple(part.dropout_seed(SEED).numpy()) for part in parts_of(4)}
    assert len(seeds) == 4
    (whole,) = parts_of(1)
    np.testing.assert_array_equal(whole.dropout_seed(SEED), SEED)


def test_every_example_is_in_one_part():
    rng = np.random.default_rng(0)
    values = rng.normal(size=[6, 3]).astype(np.float32)
    mask = rng.integers(0, 2, [6, 3]).astype(np.int32)
    weight = tf.Variable(2.0)
    batch = {"values": tf.constant(values), "input_mask": tf.constant(mask)}
    zeros = tf.zeros([6, 2], tf.int32)
    masked = MaskedBatch(zeros, zeros, zeros, tf.ones([6, 2]))

    def gradients_of(batch, masked, part):
        with tf.GradientTape() as tape:
            used = weight * batch["values"] * tf.cast(batch["input_mask"], tf.float32)
            loss = tf.reduce_sum(used) / part.tokens
        assert masked.ids.shape == [6 // part.parts, 2]
        return [tape.gradient(loss, weight)]

    for parts in [(1, 1), (2, 1), (6, 1), (1, 3), (2, 3), (3, 2)]:
        parts = accumulation.Parts(*parts)
        gradient = accumulation.sum_over_parts(gradients_of, batch, masked, [weight], parts)
        np.testing.assert_allclose(gradient[0], values[mask == 1].mean(), rtol=1e-5)


def test_devices_that_divide_the_batch_divide_each_part_of_it():
    """Rows 0 and 2 are on the first device and 4 and 6 on the second, and so in the other part."""
    mesh = Mesh(MeshShape(2, 1))
    values = np.arange(24, dtype=np.float32).reshape(8, 3)
    weight = tf.Variable(tf.zeros([4, 3]))
    zeros = tf.zeros([8, 2], tf.int32)
    batch = {"values": tf.constant(values), "input_mask": tf.ones([8, 3], tf.int32)}
    masked = MaskedBatch(zeros, zeros, zeros, tf.ones([8, 2]))

    @tf.function(autograph=False)
    def sums(batch, masked):
        def own_rows(batch, masked, part):
            # So that the order counts.
            return [batch["values"] * tf.cast(part.index + 1, tf.float32)]

        parts = accumulation.Parts(rounds=2, at_once=1)
        return accumulation.sum_over_parts(own_rows, batch, masked, [weight], parts)[0]

    with mesh.tracing():
        summed = sums(*tf.nest.map_structure(mesh.put_rows, (batch, masked)))
    on_devices = [part.numpy() for part in dtensor.unpack(summed)]
    np.testing.assert_array_equal(np.concatenate(on_devices), values[::2] + 2 * values[1::2])
