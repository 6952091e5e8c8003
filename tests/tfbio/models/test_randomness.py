"""The draws are what they say, and XLA draws the same."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfbio.models import randomness

SEED = tf.constant([3, 4])


def test_uniform_is_uniform():
    draw = randomness.uniform([200, 300], SEED).numpy()
    assert draw.min() >= 0.0 and draw.max() < 1.0
    assert stats.kstest(draw.ravel(), "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(draw, randomness.uniform([200, 300], SEED))
    assert (draw != randomness.uniform([200, 300], SEED + 1).numpy()).mean() > 0.99


@pytest.mark.parametrize("shape", [[3, 5], [4, 6]])
def test_each_element_has_8_bits_of_the_draw(shape):
    count = np.prod(shape)
    bits = tf.random.stateless_uniform(
        [(count + 3) // 4], SEED, None, None, tf.uint32, alg="philox"
    )
    kept = bits.numpy().view("u1")[:count].reshape(shape) >= 128  # the lowest eight first
    output = randomness.dropout(tf.ones(shape), 0.5, SEED)
    np.testing.assert_array_equal(output, np.where(kept, 2.0, 0.0))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_bits_are_those_of_tensorflow(jit_compile):
    def of_tensorflow(seed):
        return tf.random.stateless_uniform([9], seed, None, None, tf.uint32, alg="philox")

    draw = tf.function(lambda seed: randomness._bits([9], seed), jit_compile=jit_compile)
    ends = [0, 1, -1, 2**31 - 1, -(2**31), 123_456]
    for seed in ([first, second] for first in ends for second in ends):
        np.testing.assert_array_equal(draw(tf.constant(seed)), of_tensorflow(seed), str(seed))


def test_a_dropout_has_few_operations():
    """It had 64 with `tf.random.stateless_uniform`, and a step took seconds more to trace."""
    dropout = tf.function(lambda inputs, seed: randomness.dropout(inputs, 0.1, seed))
    graph = dropout.get_concrete_function(tf.TensorSpec([4, 8]), tf.TensorSpec([2], tf.int32)).graph
    assert len(graph.get_operations()) < 30


@pytest.mark.parametrize("rate, share", [(0.1, 26 / 256), (0.5, 0.5), (0.01, 655 / 65536)])
def test_dropout_keeps_the_mean_and_drops_the_share(rate, share):
    inputs = tf.ones([401, 499])  # an odd number of elements
    output = randomness.dropout(inputs, rate, SEED).numpy()
    kept = output != 0.0
    # Four standard deviations of a share.
    assert abs(1.0 - kept.mean() - share) < 4 * np.sqrt(share * (1 - share) / kept.size)
    np.testing.assert_allclose(output[kept], 1 / (1 - share), rtol=1e-6)
    np.testing.assert_array_equal(randomness.dropout(inputs, rate, None), inputs)
    np.testing.assert_array_equal(randomness.dropout(inputs, 0.0, SEED), inputs)


def test_no_element_of_a_mask_tells_of_its_neighbours():
    mask, _ = randomness.dropout_mask(tf.TensorShape([300, 512]), tf.float32, 0.1, SEED)
    dropped = 1.0 - mask.numpy()
    for axis, distance in ((0, 1), (1, 1), (1, 2), (1, 3), (1, 4)):
        pairs = np.delete(dropped, range(distance), axis) * np.delete(
            dropped, range(-distance, 0), axis
        )
        both = (26 / 256) ** 2
        assert abs(pairs.mean() - both) < 4.5 * np.sqrt(both / pairs.size), (axis, distance)


def test_in_float64_dropout_has_the_rate_itself():
    _, scale = randomness.dropout_mask(tf.TensorShape([4]), tf.float64, 0.1, SEED)
    assert scale == pytest.approx(1 / 0.9, rel=1e-5)


def test_nearly_all_can_be_dropped():
    _, scale = randomness.dropout_mask(tf.TensorShape([4]), tf.float32, 0.999, SEED)
    assert scale == pytest.approx(1000, rel=0.02)


def test_the_gradient_passes_where_the_value_did():
    inputs = tf.constant(np.linspace(1.0, 2.0, 1000, dtype=np.float32))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = randomness.dropout(inputs, 0.3, SEED)
    gradient = tape.gradient(output, inputs)
    np.testing.assert_allclose(gradient * inputs, output, rtol=1e-6)


@pytest.mark.parametrize("seed", [[3, 4], [-1245250765, 3], [2**31 - 1, -(2**31)]])
def test_xla_draws_the_same(seed):
    def draw():
        first, second = randomness.split(randomness.fold_in(seed, tf.constant(7, tf.int64)), 2)
        dropped = randomness.dropout(tf.ones([64, 33]), 0.1, second)
        return first, second, randomness.uniform([64, 33], first), dropped

    plain, compiled = tf.function(draw)(), tf.function(draw, jit_compile=True)()
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(one, other)


def test_replicas_take_their_rows_of_one_draw_and_drop_apart(two_devices):
    whole = randomness.uniform([8, 3], SEED).numpy()
    parts = two_devices.run(lambda: randomness.global_uniform([4, 3], SEED))
    parts = two_devices.experimental_local_results(parts)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    dropped = two_devices.run(lambda: randomness.dropout(tf.ones([1000]), 0.5, SEED))
    first, second = two_devices.experimental_local_results(dropped)
    assert (first.numpy() != second.numpy()).any()


def test_hashed_bits_look_random():
    """Every bit is as often 1 as 0, and says nothing of its neighbours, nor of another key's."""
    one = randomness.hashed_bits(tf.TensorShape([64, 8, 128]), *tf.constant([7, 9], tf.uint32))
    bits = (one.numpy()[..., np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1
    n = bits[..., 0].size
    # The mean of n fair bits is within 5 standard deviations of 1/2.
    assert np.abs(bits.reshape(-1, 32).mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(n)
    high = one.numpy() >= 2**31
    for axis in range(3):
        neighbours = np.delete(high, 0, axis) == np.delete(high, -1, axis)
        assert abs(neighbours.mean() - 0.5) < 5 * 0.5 / np.sqrt(neighbours.size)
    for key in ([8, 9], [7, 10]):
        other = randomness.hashed_bits(one.shape, *tf.constant(key, tf.uint32)).numpy() >= 2**31
        assert abs((high == other).mean() - 0.5) < 5 * 0.5 / np.sqrt(n), key
    assert stats.kstest(one.numpy().ravel() / 2**32, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("compiled", [False, True])
def test_a_tpus_dropout_drops_its_share_and_scales_the_rest(for_tpu, compiled):
    for_tpu()
    run = tf.function(lambda seed: randomness.dropout(tf.ones([500, 400]), 0.1, seed))
    run = tf.function(run, jit_compile=compiled)
    dropped = run(SEED).numpy()
    assert abs((dropped == 0).mean() - 0.1) < 5 * np.sqrt(0.09 / dropped.size)
    np.testing.assert_allclose(dropped[dropped > 0], 1 / 0.9, rtol=1e-4)
    np.testing.assert_array_equal(run(SEED), dropped)
    assert (run(SEED + 1).numpy() != dropped).mean() > 0.1


def test_each_replica_of_a_tpu_drops_others(for_tpu, two_devices):
    for_tpu()
    drops = two_devices.run(lambda: randomness.dropout(tf.ones([100, 50]), 0.5, SEED))
    one, two = two_devices.experimental_local_results(drops)
    assert 0.4 < (one.numpy() != two.numpy()).mean() < 0.6


def test_normal_numbers_are_normal_and_independent():
    from scipy import stats

    first, second = (
        randomness.global_normal([40, 50, 10], own).numpy() for own in randomness.split([5, -6], 2)
    )
    for values in (first, second):
        assert stats.kstest(values.ravel(), "norm").pvalue > 0.01
    pairs = {
        "other seeds": (first, second),
        "other rows": (first[1:], first[:-1]),
        "other numbers of a token": (first[..., 1:], first[..., :-1]),
    }
    for name, (one, other) in pairs.items():
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 0.01, name


def test_xla_draws_the_same_normal_numbers_to_rounding():
    def draw():
        return randomness.global_normal([4, 33], tf.constant([-7, 2**31 - 1]))

    plain, compiled = tf.function(draw)(), tf.function(draw, jit_compile=True)()
    np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-6)
