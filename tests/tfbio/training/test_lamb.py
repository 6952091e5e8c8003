"""LAMB against its paper's formulas, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.training.gradients import apply_clipped
from tfbio.training.lamb import Lamb
from tfbio.training.optimization import WarmupLinearDecay

SHAPES = {"dense/kernel": [4, 3], "dense/bias": [3], "LayerNorm/gamma": [3]}


@pytest.fixture
def variables():
    random = np.random.default_rng(0)
    return [
        tf.Variable(random.normal(size=shape).astype(np.float32), name=name)
        for name, shape in SHAPES.items()
    ]


def test_updates_are_those_of_the_paper(variables):
    """You et al. (2020), algorithm 2, with phi(z) = z; float64."""
    random = np.random.default_rng(1)
    rate, decay, epsilon = WarmupLinearDecay(0.02, 10, 4), 0.1, 1e-3
    optimizer = Lamb(rate, beta_1=0.8, beta_2=0.9, epsilon=epsilon, weight_decay_rate=decay)
    expected = [variable.numpy().astype(np.float64) for variable in variables]
    m = [np.zeros_like(value) for value in expected]
    v = [np.zeros_like(value) for value in expected]
    for t in range(1, 6):
        gradients = [random.normal(size=value.shape).astype(np.float32) for value in expected]
        apply_clipped(optimizer, [tf.constant(g) for g in gradients], variables, max_norm=1e9)
        eta = 0.02 * (1 - t / 10) * min(1, t / 4)
        for i, g in enumerate(gradients):
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.9 * v[i] + 0.1 * np.square(g, dtype=np.float64)
            r = m[i] / (1 - 0.8**t) / (np.sqrt(v[i] / (1 - 0.9**t)) + epsilon)
            ratio = 1.0
            if i == 0:  # biases and LayerNorms neither decay nor are scaled
                r = r + decay * expected[i]
                ratio = np.sqrt((expected[i] ** 2).sum()) / np.sqrt((r**2).sum())
            expected[i] = expected[i] - eta * ratio * r
        for variable, value in zip(variables, expected, strict=True):
            np.testing.assert_allclose(variable, value, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_not_finite_changes_nothing(variables):
    start = [variable.numpy() for variable in variables]
    good = [np.full(shape, 0.1, np.float32) for shape in SHAPES.values()]
    bad = [good[0], np.array([0.1, np.inf, np.nan], np.float32), good[2]]
    ends = []
    # The bias correction counts skipped steps, so the good ones are the same in all.
    for gradients in ([None, good, None, None, good], [bad, good, bad, bad, good]):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        optimizer = Lamb(0.1, weight_decay_rate=0.01)
        for each in gradients:
            if each is None:
                optimizer._create_all_weights(variables)
                optimizer.iterations.assign_add(1)
                continue
            before = [variable.numpy() for variable in variables]
            norm = apply_clipped(optimizer, [tf.constant(g) for g in each], variables, 1.0)
            assert bool(tf.math.is_finite(norm)) == (each is good)
            for variable, value in zip(variables, before, strict=True):
                assert (variable.numpy() == value).all() == (each is bad)
        assert optimizer.iterations == len(gradients)
        slots = [optimizer.get_slot(variable, name) for variable in variables for name in "mv"]
        ends.append([value.numpy() for value in (*variables, *slots)])
    for one, two in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, two)
